"""The model folder: metadata in JSON, what was learnt in skops, and never a pickle."""

from __future__ import annotations

import hashlib
import io
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
from deltauq.tables.errors import ModelFolderError, require_pandas, require_skops
from deltauq.tables.metadata import check_metadata
from deltauq.tables.model import Fitted, RiskScale, TableModel
from deltauq.tables.schema import CATEGORY, CLASSIFICATION, REGRESSION, Column, Schema
from deltauq.tables.tree_validation import check_estimators, check_trees
from deltauq.utils.filesystem import set_default_permissions

FORMAT, FORMAT_VERSION = "deltauq.table", 3
METADATA, LEARNT, SCHEMA = "metadata.json", "model.skops", "schema.json"
FILES = {METADATA, LEARNT}
LARGEST_METADATA = 64 * 2**20
"""Bytes: room for two million categories, which are read in a second."""
LARGEST_LEARNT = 4 * 2**30
LARGEST_SCHEMA = 128 * 2**20
"""Of the description of all parts: some kilobytes for each tree."""
MOST_PARTS = 200_000
"""Entries of an archive: several for each tree."""
BLOCK = 2**20
MOST_UNPACKED, MOST_RATIO = 256 * 2**20, 50
"""An archive may unpack to so many bytes, or so many times its own size: arrays rarely shrink tenfold."""
PACKAGES = ("numpy", "scikit-learn", "skops")
TRUSTED = (
    "deltauq.core.encoding.Difference",
    "deltauq.estimators.classifier.AnchoredClassifier",
    "deltauq.estimators.regressor.AnchoredRegressor",
    "deltauq.tables.preprocessing.UnitScaler",
    "numpy.dtype",
    "sklearn.ensemble._hist_gradient_boosting.predictor.TreePredictor",
    "sklearn.metrics._dist_metrics.EuclideanDistance64",
    "sklearn.neighbors._ball_tree.BallTree",
    "sklearn.neighbors._kd_tree.KDTree",
    "sklearn.neural_network._stochastic_optimizers.AdamOptimizer",
    "sklearn.tree._tree.Tree",
    "sklearn.utils._bunch.Bunch",
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
    learnt = _pack(model)
    files = {LEARNT: learnt, METADATA: _describe(model, learnt).encode()}
    for name, largest in ((LEARNT, LARGEST_LEARNT), (METADATA, LARGEST_METADATA)):
        if len(files[name]) > largest:
            raise ModelFolderError(
                f"cannot write {folder}: its {name} would be larger than {largest:,} bytes."
            )
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
        set_default_permissions(part)
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
    learnt = _read(folder / LEARNT, LARGEST_LEARNT)
    if hashlib.sha256(learnt).hexdigest() != metadata["files"].get(LEARNT):
        raise _altered(folder / LEARNT)
    parts = _build(folder, learnt, trust)
    _warn_of_versions(folder, metadata)
    try:
        model = _assemble(metadata, parts)
        _try_out(model)
    except Exception as error:  # what was altered may fail anywhere in scikit-learn
        raise _no_model(folder, error) from error
    return model


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
        metadata = json.loads(_read(folder / METADATA, LARGEST_METADATA))
        digest = _digest(metadata) if isinstance(metadata, dict) else ""
    except ModelFolderError:
        raise
    except (ValueError, RecursionError) as error:
        raise ModelFolderError(f"{folder / METADATA} is not JSON: {error}.") from error
    if not isinstance(metadata, dict) or not isinstance(metadata.get("format"), str):
        raise ModelFolderError(f"{folder / METADATA} does not say what format it has.")
    if metadata["format"] != f"{FORMAT}/{FORMAT_VERSION}":
        raise ModelFolderError(
            f"{folder} has the format {metadata['format'][:60]!r}, unknown to deltauq {__version__}, "
            f"which reads {FORMAT}/{FORMAT_VERSION}: fit it anew, or use the deltauq that wrote it."
        )
    if metadata.get("sha256") != digest:
        raise _altered(folder / METADATA)
    try:
        check_metadata(metadata)
    except ValueError as error:
        raise _no_model(folder, error) from error
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


def _read(path: Path, largest: int) -> bytes:
    try:
        if path.exists() and not path.is_file():
            raise ModelFolderError(f"{path} is no regular file.")
        if (size := path.stat().st_size) > largest:
            raise ModelFolderError(f"{path} has {size:,} bytes, and {largest:,} are the most that are read.")
        return path.read_bytes()
    except OSError as error:
        raise ModelFolderError(f"cannot read {path}: {error.strerror or error}.") from error


def _altered(path: Path) -> ModelFolderError:
    return ModelFolderError(f"{path} was altered after it was written: its hash does not fit.")


def _no_model(folder: Path, error: Exception) -> ModelFolderError:
    said = str(error) or type(error).__name__
    return ModelFolderError(f"{folder} describes no model that can be built: {said.rstrip('.')}.")


def _pack(model: TableModel) -> bytes:
    """Return what was learnt as an archive that `_unpack` takes."""
    skops, fitted = require_skops(), vars(model.fitted)
    packed = skops.dumps(fitted, compression=zipfile.ZIP_DEFLATED)
    try:
        _check_archive(packed)
    except ValueError:  # constant arrays shrink a thousandfold
        packed = skops.dumps(fitted)
        _check_archive(packed)
    return packed


def _check_archive(packed: bytes) -> None:
    """Refuse an archive that is too large by what it says of itself."""
    most = max(MOST_UNPACKED, MOST_RATIO * len(packed))
    with zipfile.ZipFile(io.BytesIO(packed)) as archive:
        entries = archive.infolist()
    if len({entry.filename for entry in entries}) < len(entries) or len(entries) > MOST_PARTS:
        raise ModelFolderError(f"its {len(entries):,} entries are too many, or share a name")
    if sum(entry.file_size for entry in entries) > most:
        raise ModelFolderError(f"it unpacks to more than {most:,} bytes")
    if any(entry.filename == SCHEMA and entry.file_size > LARGEST_SCHEMA for entry in entries):
        raise ModelFolderError(f"its {SCHEMA} has more than {LARGEST_SCHEMA:,} bytes")
    if any(entry.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED) for entry in entries):
        raise ModelFolderError("it is compressed in a way that model folders are not")


def _unpack(packed: bytes) -> bytes:
    """Return an archive without compression, unless it is too large.

    Blocks of an entry are read up to the size that it declares, however much is behind.
    """
    _check_archive(packed)
    unpacked = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(packed)) as archive, zipfile.ZipFile(unpacked, "w") as plain:
        for entry in archive.infolist():
            with archive.open(entry) as source, plain.open(entry.filename, "w", force_zip64=True) as target:
                shutil.copyfileobj(source, target, BLOCK)
    return unpacked.getvalue()


def _build(folder: Path, learnt: bytes, trust: Iterable[str]) -> dict[str, Any]:
    """Return the parts that a skops file holds, if every type in it is trusted."""
    skops = require_skops()
    trusted = {*TRUSTED, *trust}
    try:
        learnt = _unpack(learnt)
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
    check_estimators(model)
    check_trees(model.estimator_, model.encoding_.width * d)
    if hasattr(model, "center_"):
        check_trees(model.center_, d)


def _check_columns(columns: Any, schema: Schema) -> None:
    """Refuse preprocessing of other columns than those of the schema, or of other kinds."""
    if list(getattr(columns, "feature_names_in_", ())) != schema.names:
        raise ValueError("its schema and its preprocessing have different columns")
    parts = [(part, list(names)) for name, part, names in columns.transformers_ if name != "remainder"]
    if [names for _, names in parts] != [schema.number_names, schema.category_names]:
        raise ValueError("its schema and its preprocessing have columns of different kinds")
    words = [column.categories for column in schema.columns if column.kind == CATEGORY]
    for known, fitted in zip(words, parts[1][0].categories_ if words else (), strict=True):
        if not {*fitted} <= {*known}:
            raise ValueError("its schema and its preprocessing have different categories")


def _check_scores(parts: dict[str, Any]) -> None:
    """Refuse scores and reference points of held-out rows that are no rows of numbers."""
    for name, ndim in (("scores", 1), ("reference", 2), ("reference_targets", 1)):
        values = parts[name]
        if not isinstance(values, np.ndarray) or values.dtype != np.float64 or values.ndim != ndim:
            raise ValueError(f"its {name} are no numbers")
        if not np.all(np.isfinite(values)):
            raise ValueError(f"its {name} are not finite")
    if parts["fingerprints"].dtype != np.uint64 or parts["fingerprints"].ndim != 1:
        raise ValueError("its fingerprints are no hashes")
    scores = parts["scores"]
    if not (len(scores) and scores[0] >= 0 and np.all(np.diff(scores) >= 0)):
        raise ValueError("its scores are not ascending from 0")


def _try_out(model: TableModel) -> None:
    """Predict a row of missing values: parts that do not fit each other fail now and not later."""
    empty = {column.name: ["" if column.kind == CATEGORY else np.nan] for column in model.schema.columns}
    columns = model.decode_dates(model.predict_columns(require_pandas().DataFrame(empty)))
    if model.task == REGRESSION and not columns["lower"][0] <= columns["upper"][0]:
        raise ValueError("its intervals have no width")


def _warn_of_versions(folder: Path, metadata: dict[str, Any]) -> None:
    """Warn of another minor version of scikit-learn, whose models may not mean the same here."""
    theirs, ours = str(metadata["versions"].get("scikit-learn")), version("scikit-learn")
    if theirs.split(".")[:2] != ours.split(".")[:2]:
        warnings.warn(
            f"{folder} was fitted with scikit-learn {theirs}, and this is {ours}: fit it anew to be sure.",
            UserWarning,
            stacklevel=3,
        )


def _assemble(metadata: dict[str, Any], parts: dict[str, Any]) -> TableModel:
    """Return the model, checking that metadata and parts fit each other."""
    task = metadata["task"]
    kinds = {REGRESSION: AnchoredRegressor, CLASSIFICATION: AnchoredClassifier}
    if type(parts["model"]) is not kinds[task]:
        raise ValueError(f"its {type(parts['model']).__name__} is no model for {task}")
    columns = (
        Column(**{**column, "categories": tuple(column["categories"])}) for column in metadata["schema"]
    )
    schema = Schema(tuple(columns))
    _check_columns(parts["columns"], schema)
    _check_model(parts["model"])
    _check_scores(parts)
    return TableModel(
        target=metadata["target"],
        task=task,
        schema=schema,
        coverage=float(metadata["coverage"]),
        fitted=Fitted(**parts),
        center=float(metadata["center"]),
        unit=float(metadata["unit"]),
        delta=float(metadata["delta"]),
        risk=RiskScale({name: (float(low), float(high)) for name, (low, high) in metadata["risk"].items()}),
        labels=metadata["labels"],
        origin=metadata["origin"],
        target_format=metadata["target_format"],
        report=metadata["report"],
    )
