"""The model folder: metadata in JSON, what was learnt in skops, and never a pickle."""

from __future__ import annotations

import hashlib
import json
import os
import platform
import shutil
import tempfile
import warnings
import zipfile
from collections.abc import Iterable
from dataclasses import asdict
from importlib.metadata import version
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from deltauq._version import __version__
from deltauq.estimators import AnchoredClassifier, AnchoredRegressor
from deltauq.tables.errors import ModelFolderError, require_skops
from deltauq.tables.model import Fitted, TableModel
from deltauq.tables.problem import CLASSIFICATION, REGRESSION
from deltauq.tables.rights import give_usual_rights
from deltauq.tables.risk import RiskScale
from deltauq.tables.schema import DATE, KINDS, NUMBER, Column, Schema, dates
from deltauq.tables.soundness import check_trees
from deltauq.tables.text import check_formats

FORMAT, FORMAT_VERSION = "deltauq.table", 2
METADATA, LEARNT = "metadata.json", "model.skops"
FILES = {METADATA, LEARNT}
PACKAGES = ("numpy", "scikit-learn", "skops")
TRUSTED = (
    "deltauq.core.encoding.Difference",
    "deltauq.estimators.classifier.AnchoredClassifier",
    "deltauq.estimators.regressor.AnchoredRegressor",
    "deltauq.tables.units.UnitScaler",
    "numpy.dtype",
    "sklearn.ensemble._hist_gradient_boosting.predictor.TreePredictor",
    "sklearn.metrics._dist_metrics.EuclideanDistance64",
    "sklearn.neighbors._kd_tree.KDTree",
    "sklearn.neural_network._stochastic_optimizers.AdamOptimizer",
    "sklearn.tree._tree.Tree",
)
"""What a folder may hold beyond the types that skops itself trusts."""


def save(model: TableModel, folder: str | PathLike[str]) -> None:
    """Write a model to a folder, which appears under its name only when it is whole.

    Parameters
    ----------
    model : TableModel
    folder : path
        A new or empty one, or one that holds a model, which is replaced.
    """
    folder = Path(folder)
    check_free(folder)
    learnt = require_skops().dumps(vars(model.fitted), compression=zipfile.ZIP_DEFLATED)
    files = {LEARNT: learnt, METADATA: _describe(model, learnt).encode()}
    place = folder.resolve()  # a link stays one
    if place.exists() and not any(place.iterdir()):
        # Not replaced: somebody may be in it, or it is a volume. Metadata come last: without, it is no model.
        _write(place, files)
    else:
        _swap_in(place, files)


def _write(folder: Path, files: dict[str, bytes]) -> None:
    for name, content in files.items():
        (folder / name).write_bytes(content)


def _swap_in(place: Path, files: dict[str, bytes]) -> None:
    """Write a new folder and put it in the place of the old one, which comes back if that fails."""
    part = Path(tempfile.mkdtemp(prefix=f".{place.name}.", suffix=".part", dir=place.parent))
    aside = part.with_suffix(".old")
    try:
        _write(part, files)
        give_usual_rights(part)
        if place.exists():
            os.replace(place, aside)
        os.replace(part, place)
    except BaseException:
        if aside.exists() and not place.exists():
            os.replace(aside, place)
        raise
    finally:
        shutil.rmtree(part, ignore_errors=True)
        shutil.rmtree(aside, ignore_errors=True)


def check_free(folder: Path) -> None:
    """Refuse a folder that a model cannot be written to without loss of anything but a model."""
    parent = folder.resolve().parent
    if not parent.is_dir():
        raise ModelFolderError(f"cannot write {folder}: {parent} is not a folder.")
    if folder.exists() and not folder.is_dir():
        raise ModelFolderError(f"cannot write {folder}: it is a file.")
    if not os.access(parent, os.W_OK) or (folder.exists() and not os.access(folder, os.W_OK)):
        raise ModelFolderError(f"cannot write {folder}: permission denied.")
    if folder.exists():
        others = sorted({entry.name for entry in folder.iterdir()} - FILES)
        if others:
            raise ModelFolderError(f"cannot write {folder}: it holds something else ({others[0]}).")


def load(folder: str | PathLike[str], trust: Iterable[str] = ()) -> TableModel:
    """Read a model from its folder; hashes are checked before anything is built.

    Parameters
    ----------
    folder : path
    trust : iterable of str
        Full names of further types that may be built, such as "mypackage.MyModel": of a model of your
        own. Name only what you know: building it runs code of that package.

    Returns
    -------
    model : TableModel
    """
    folder = Path(folder)
    metadata = read_metadata(folder)
    learnt = _read(folder / LEARNT)
    if hashlib.sha256(learnt).hexdigest() != metadata.get("files", {}).get(LEARNT):
        raise _altered(folder / LEARNT)
    parts = _build(folder, learnt, trust)
    _warn_of_versions(folder, metadata)
    try:
        return _assemble(metadata, parts)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise ModelFolderError(f"{folder} describes no model that can be built: {error}.") from error


def read_metadata(folder: Path) -> dict[str, Any]:
    """Return the metadata of a model folder, checked against their own hash, and nothing else of it."""
    if not folder.is_dir():
        raise ModelFolderError(f"there is no model folder {folder}.")
    strange = sorted(
        entry.name for entry in folder.iterdir() if entry.name not in FILES and not entry.name.startswith(".")
    )
    if strange and (folder / METADATA).exists():
        raise ModelFolderError(f"{folder} holds files that are no part of a model: {', '.join(strange[:5])}.")
    if not (folder / METADATA).exists():
        raise ModelFolderError(f"{folder} is no model folder: it has no {METADATA}.")
    try:
        metadata = json.loads(_read(folder / METADATA))
    except (ValueError, RecursionError) as error:
        raise ModelFolderError(f"{folder / METADATA} is not JSON: {error}.") from error
    if not isinstance(metadata, dict) or not isinstance(metadata.get("format"), str):
        raise ModelFolderError(f"{folder / METADATA} does not say what format it has.")
    if metadata["format"] != f"{FORMAT}/{FORMAT_VERSION}":
        raise ModelFolderError(
            f"{folder} has the format {metadata['format'][:60]!r}, unknown to deltauq {__version__}, "
            f"which reads {FORMAT}/{FORMAT_VERSION}: fit it anew, or use the deltauq that wrote it."
        )
    if metadata.get("sha256") != _digest(metadata):
        raise _altered(folder / METADATA)
    return metadata


def _describe(model: TableModel, learnt: bytes) -> str:
    metadata: dict[str, Any] = {
        "format": f"{FORMAT}/{FORMAT_VERSION}",
        "target": model.target,
        "task": model.task,
        "coverage": model.coverage,
        "center": model.center,
        "unit": model.unit,
        "delta": model.delta,
        "labels": model.labels,
        "origin": model.origin,
        "target_format": model.target_format,
        "schema": [asdict(column) for column in model.schema.columns],
        "risk": model.risk.limits,
        "report": model.report,
        "versions": {
            "deltauq": __version__,
            "python": platform.python_version(),
            **{name: version(name) for name in PACKAGES},
        },
        "files": {LEARNT: hashlib.sha256(learnt).hexdigest()},
    }
    # As it is read back: tuples are lists by then.
    metadata = json.loads(json.dumps(metadata))
    return json.dumps({**metadata, "sha256": _digest(metadata)}, indent=1, ensure_ascii=False)


def _digest(metadata: dict[str, Any]) -> str:
    """Return the SHA-256 of all metadata but the hash itself."""
    rest = {name: value for name, value in metadata.items() if name != "sha256"}
    return hashlib.sha256(json.dumps(rest, sort_keys=True).encode()).hexdigest()


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise ModelFolderError(f"cannot read {path}: {error.strerror or error}.") from error


def _altered(path: Path) -> ModelFolderError:
    return ModelFolderError(f"{path} was altered after it was written: its hash does not fit.")


def _build(folder: Path, learnt: bytes, trust: Iterable[str]) -> dict[str, Any]:
    """Return the parts that a skops file holds, if every type in it is trusted."""
    skops = require_skops()
    trusted = {*TRUSTED, *trust}
    try:
        asked = sorted(set(skops.get_untrusted_types(data=learnt)) - trusted)
        parts = None if asked else skops.loads(learnt, trusted=sorted(trusted))
    except Exception as error:  # a damaged file makes its reader fail in any way it likes
        said = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise ModelFolderError(f"{folder / LEARNT} cannot be read: {said[:200].rstrip('.')}.") from error
    if asked:
        raise ModelFolderError(
            f"{folder / LEARNT} asks for types that are not trusted: {', '.join(asked[:5])}; if you know "
            "where the folder comes from, trust each by its name (--trust)."
        )
    if not isinstance(parts, dict) or parts.keys() != Fitted.__dataclass_fields__.keys():
        raise ModelFolderError(f"{folder / LEARNT} does not hold the parts of a model.")
    return parts


def _check_model(model: Any) -> None:
    """Refuse a model whose anchors or trees do not fit the number of its columns."""
    d = int(model.n_features_in_)
    if np.asarray(model.anchors_).ndim != 2 or model.anchors_.shape[1] != d:
        raise ValueError("its anchors are no rows of its columns")
    check_trees(model.estimator_, model.encoding_.width * d)
    if hasattr(model, "center_"):
        check_trees(model.center_, d)


def _warn_of_versions(folder: Path, metadata: dict[str, Any]) -> None:
    """Warn of another minor version of scikit-learn, whose models may not mean the same here."""
    theirs, ours = str(metadata.get("versions", {}).get("scikit-learn")), version("scikit-learn")
    if theirs.split(".")[:2] != ours.split(".")[:2]:
        warnings.warn(
            f"{folder} was fitted with scikit-learn {theirs}, and this is {ours}: fit it anew to be sure.",
            UserWarning,
            stacklevel=3,
        )


def _check_formats(columns: Iterable[Column]) -> None:
    """Refuse columns whose format is none that text can be read by."""
    for column in columns:
        if column.format and column.kind not in (DATE, NUMBER):
            raise ValueError(f"a column of the kind {column.kind} has a format")
        if column.format:
            check_formats(**{"date_format" if column.kind == DATE else "decimal": column.format})


def _assemble(metadata: dict[str, Any], parts: dict[str, Any]) -> TableModel:
    """Return the model, checking that metadata and parts fit each other."""
    task = metadata["task"]
    kinds = {REGRESSION: AnchoredRegressor, CLASSIFICATION: AnchoredClassifier}
    columns = tuple(Column(**{**column, "words": tuple(column["words"])}) for column in metadata["schema"])
    if task not in kinds or type(parts["model"]) is not kinds[task]:
        raise ValueError(f"its {type(parts['model']).__name__} is no model for {task}")
    if not columns or any(column.kind not in KINDS for column in columns):
        raise ValueError("its schema has no columns, or some of an unknown kind")
    names = getattr(parts["columns"], "feature_names_in_", ())
    if [column.name for column in columns] != list(names):
        raise ValueError("its schema and its preprocessing have different columns")
    _check_model(parts["model"])
    for name in ("scores", "reference", "reference_targets"):
        if not isinstance(parts[name], np.ndarray) or parts[name].dtype != np.float64:
            raise ValueError(f"its {name} are no numbers")
    if parts["fingerprints"].dtype != np.uint64:
        raise ValueError("its fingerprints are no hashes")
    measures = ("std", "reverse") if task == REGRESSION else ("error_probability",)
    limits = {name: tuple(map(float, metadata["risk"][name])) for name in measures}
    risk = RiskScale({name: (moderate, high) for name, (moderate, high) in limits.items()})
    # Folders that were written before there was one predict a date in days.
    origin = str(metadata.get("origin", "")) if task == REGRESSION else ""
    if origin:
        dates(np.zeros(1), origin)
    target_format = str(metadata.get("target_format", ""))
    _check_formats([*columns, Column("", DATE if origin else NUMBER, format=target_format)])
    return TableModel(
        str(metadata["target"]),
        task,
        Schema(columns),
        float(metadata["coverage"]),
        Fitted(**parts),
        risk,
        float(metadata["center"]),
        float(metadata["unit"]),
        float(metadata["delta"]),
        str(metadata["labels"]),
        origin,
        target_format,
        dict(metadata["report"]),
    )
