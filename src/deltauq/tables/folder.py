"""The model folder: metadata in JSON, fitted parts in the skops format, and no code that loading runs."""

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
from sklearn.ensemble import RandomForestRegressor

from deltauq._version import __version__
from deltauq.calibration import ConformalClassifier, Difficulty
from deltauq.core import Anchors
from deltauq.estimators import AnchoredClassifier, AnchoredRegressor, StackedClassifier, StackedRegressor
from deltauq.tables.errors import ModelFolderError, VersionWarning, require_pandas, require_skops
from deltauq.tables.metadata import check_metadata
from deltauq.tables.model import Fitted, TableModel
from deltauq.tables.preprocessing import names_with_means
from deltauq.tables.risk import ColumnRanges, RiskScale
from deltauq.tables.schema import CATEGORY, CLASSIFICATION, REGRESSION, Column, Schema
from deltauq.tables.tree_validation import check_estimators, check_trees
from deltauq.utils.filesystem import set_default_permissions
from deltauq.utils.formatting import first_line

FORMAT = "deltauq.table/7"
METADATA_FILE, FITTED_FILE, SKOPS_SCHEMA = "metadata.json", "model.skops", "schema.json"
FILES = {METADATA_FILE, FITTED_FILE}
MAX_BYTES = {METADATA_FILE: 64 * 2**20, FITTED_FILE: 4 * 2**30}
"""The metadata may have about two million categories, which are read in a second."""
MAX_SCHEMA_BYTES = 128 * 2**20
"""The description of all parts takes some kilobytes for each tree."""
MAX_ENTRIES = 200_000
"""Entries of an archive: several for each tree."""
BLOCK = 2**20
MAX_UNPACKED, MAX_RATIO = 256 * 2**20, 50
"""An archive may unpack to at most this many bytes, or times its size; arrays rarely shrink tenfold."""
PLAIN_FIELDS = ("coverage", "target", "task", "labels", "origin", "target_format", "report")
"""Attributes of a model that are stored as they are."""
PACKAGES = ("numpy", "scikit-learn", "skops")
TRUSTED = (
    "deltauq.core.anchors.Anchors",
    "deltauq.core.encoding.Difference",
    "deltauq.core.encoding.Full",
    "deltauq.core.target.DifferenceTarget",
    "deltauq.core.target.ValueTarget",
    "deltauq.estimators.classifier.AnchoredClassifier",
    "deltauq.calibration.conformal.ConformalClassifier",
    "deltauq.calibration.difficulty.Difficulty",
    "deltauq.estimators.regressor.AnchoredRegressor",
    "deltauq.estimators.smooth.GaussianKernels",
    "deltauq.estimators.smooth.SmoothPipeline",
    "deltauq.estimators.stacked_classifier.StackedClassifier",
    "deltauq.estimators.stacked_regressor.StackedRegressor",
    "deltauq.tables.preprocessing.UnitScaler",
    "deltauq.tables.risk.ColumnRanges",
    "numpy.dtype",
    "sklearn.ensemble._hist_gradient_boosting.predictor.TreePredictor",
    "sklearn.metrics._dist_metrics.EuclideanDistance64",
    "sklearn.model_selection._split.KFold",
    "sklearn.neighbors._ball_tree.BallTree",
    "sklearn.neighbors._kd_tree.KDTree",
    "sklearn.neural_network._stochastic_optimizers.AdamOptimizer",
    "sklearn.tree._tree.Tree",
    "sklearn.utils._bunch.Bunch",
)
"""Types that a folder may contain in addition to those that skops trusts."""


def save(model: TableModel, folder: str | PathLike[str]) -> None:
    """Write a model to a folder, which appears under its name only when it is complete.

    Parameters
    ----------
    model : TableModel
    folder : path
        A new or empty folder, or one that contains a model, which is replaced.
    """
    folder = Path(folder)
    check_free(folder)
    fitted = _pack(model)
    files = {FITTED_FILE: fitted, METADATA_FILE: _metadata_json(model, fitted).encode()}
    for name, content in files.items():
        if len(content) > MAX_BYTES[name]:
            raise ModelFolderError(
                f"cannot write {folder}: its {name} would be larger than {MAX_BYTES[name]:,} bytes."
            )
    place = folder.resolve()  # keeps a link
    if place.exists() and not any(place.iterdir()):
        # An empty folder may be a volume or a working directory: it is not replaced. Metadata are written
        # last, since a folder without them is not a model.
        for name, content in files.items():
            (place / name).write_bytes(content)
    else:
        _replace(place, files)


def _replace(place: Path, files: dict[str, bytes]) -> None:
    """Write a new folder and move it to the place of the old one, which is restored if that fails."""
    part = Path(tempfile.mkdtemp(prefix=f".{place.name}.", suffix=".part", dir=place.parent))
    aside = part.with_suffix(".old")
    try:
        for name, content in files.items():
            (part / name).write_bytes(content)
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
    """Raise an error for a folder that cannot be written, or that contains anything but a model."""
    parent, reason = folder.resolve().parent, None
    if not parent.is_dir():
        reason = f"{parent} is not a folder"
    elif folder.exists() and not folder.is_dir():
        reason = "it is a file"
    elif not os.access(parent, os.W_OK) or (folder.exists() and not os.access(folder, os.W_OK)):
        reason = "permission denied"
    elif folder.exists() and (others := sorted({entry.name for entry in folder.iterdir()} - FILES)):
        reason = f"the folder is not empty ({others[0]})"
    if reason:
        raise ModelFolderError(f"cannot write {folder}: {reason}.")


def load(folder: str | PathLike[str], trust: Iterable[str] = ()) -> TableModel:
    """Load a model from its folder; hashes are checked before any object is built.

    Parameters
    ----------
    folder : path
    trust : iterable of str
        Full names of additional types to build, such as "mypackage.MyModel" for a base estimator of your own.
        Building them runs code of their package, so name only types that you know.

    Returns
    -------
    model : TableModel
    """
    folder = Path(folder)
    metadata = read_metadata(folder)
    packed = _read(folder / FITTED_FILE)
    if hashlib.sha256(packed).hexdigest() != metadata["files"].get(FITTED_FILE):
        raise _altered(folder / FITTED_FILE)
    parts = _build(folder, packed, trust)
    theirs, ours = str(metadata["versions"].get("scikit-learn")), version("scikit-learn")
    if theirs.split(".")[:2] != ours.split(".")[:2]:
        warnings.warn(
            f"{folder} was fitted with scikit-learn {theirs}, and this is {ours}: refit it with this.",
            VersionWarning,
            stacklevel=2,
        )
    model = _assemble(metadata, parts)
    try:
        _check_parts(parts, model.schema, model.task)
        _try_out(model)
    except Exception as error:  # altered parts may fail anywhere in scikit-learn
        raise _no_model(folder, error) from error
    return model


def read_metadata(folder: Path) -> dict[str, Any]:
    """Return the metadata of a model folder, checked against their hash, without loading the model."""
    if not folder.is_dir():
        raise ModelFolderError(f"there is no model folder {folder}.")
    path = folder / METADATA_FILE
    if not path.exists():
        raise ModelFolderError(f"{folder} is not a model folder: it has no {METADATA_FILE}.")
    others = {entry.name for entry in folder.iterdir() if not entry.name.startswith(".")} - FILES
    if others:
        listed = ", ".join(sorted(others)[:5])
        raise ModelFolderError(f"{folder} contains files that are not part of a model: {listed}.")
    content = _read(path)
    try:
        metadata = json.loads(content)
        digest = metadata_digest(metadata) if isinstance(metadata, dict) else ""
    except (ValueError, RecursionError) as error:
        raise ModelFolderError(f"{path} is not JSON: {error}.") from error
    if not isinstance(metadata, dict) or not isinstance(metadata.get("format"), str):
        raise ModelFolderError(f"{path} does not contain its format.")
    if metadata["format"] != FORMAT:
        raise ModelFolderError(
            f"{folder} has the format {metadata['format'][:60]!r}, unknown to deltauq {__version__}, "
            f"which reads {FORMAT}: fit the model again, or use the deltauq that wrote it."
        )
    if metadata.get("sha256") != digest:
        raise _altered(path)
    try:
        check_metadata(metadata)
    except ValueError as error:
        raise _no_model(folder, error) from error
    return metadata


def metadata_digest(metadata: dict[str, Any]) -> str:
    """Return the SHA-256 of all metadata except the hash itself."""
    rest = {name: value for name, value in metadata.items() if name != "sha256"}
    return hashlib.sha256(json.dumps(rest, sort_keys=True).encode()).hexdigest()


def _metadata_json(model: TableModel, fitted: bytes) -> str:
    metadata: dict[str, Any] = {
        "format": FORMAT,
        **{name: getattr(model, name) for name in PLAIN_FIELDS},
        "schema": [asdict(column) for column in model.schema.columns],
        "risk": model.risk.limits,
        "versions": {
            "deltauq": __version__,
            "python": platform.python_version(),
            **{name: version(name) for name in PACKAGES},
        },
        "files": {FITTED_FILE: hashlib.sha256(fitted).hexdigest()},
    }
    metadata = json.loads(json.dumps(metadata))  # with lists instead of tuples, as it is read
    return json.dumps({**metadata, "sha256": metadata_digest(metadata)}, indent=1, ensure_ascii=False)


def _assemble(metadata: dict[str, Any], parts: dict[str, Any]) -> TableModel:
    """Return the model of checked metadata."""
    columns = ({**column, "categories": tuple(column["categories"])} for column in metadata["schema"])
    schema = Schema(tuple(Column(**column) for column in columns))
    attributes: dict[str, Any] = {name: metadata[name] for name in PLAIN_FIELDS}
    risk = RiskScale({name: (float(low), float(high)) for name, (low, high) in metadata["risk"].items()})
    return TableModel(schema=schema, fitted=Fitted(**parts), risk=risk, **attributes)


def _read(path: Path) -> bytes:
    largest = MAX_BYTES[path.name]
    try:
        if path.exists() and not path.is_file():
            raise ModelFolderError(f"{path} is not a regular file.")
        if (size := path.stat().st_size) > largest:
            raise ModelFolderError(f"{path} has {size:,} bytes; the limit is {largest:,}.")
        return path.read_bytes()
    except OSError as error:
        raise ModelFolderError(f"cannot read {path}: {error.strerror or error}.") from error


def _altered(path: Path) -> ModelFolderError:
    return ModelFolderError(f"{path} was altered after it was written: its hash does not match.")


def _no_model(folder: Path, error: Exception) -> ModelFolderError:
    reason = (str(error) or type(error).__name__).rstrip(".")
    return ModelFolderError(f"{folder} does not contain a valid model: {reason}.")


def _pack(model: TableModel) -> bytes:
    """Return the fitted parts as an archive that `_unpack` accepts."""
    skops, fitted = require_skops(), vars(model.fitted)
    packed = skops.dumps(fitted, compression=zipfile.ZIP_DEFLATED)
    try:
        _check_archive(packed)
    except ModelFolderError:  # constant arrays shrink a thousandfold
        packed = skops.dumps(fitted)
        _check_archive(packed)
    return packed


def _check_archive(packed: bytes) -> None:
    """Raise an error for an archive that claims to be too large."""
    largest = max(MAX_UNPACKED, MAX_RATIO * len(packed))
    with zipfile.ZipFile(io.BytesIO(packed)) as archive:
        entries = archive.infolist()
    if len({entry.filename for entry in entries}) < len(entries) or len(entries) > MAX_ENTRIES:
        raise ModelFolderError(f"its {len(entries):,} entries are too many, or share a name")
    if sum(entry.file_size for entry in entries) > largest:
        raise ModelFolderError(f"it unpacks to more than {largest:,} bytes")
    if any(entry.filename == SKOPS_SCHEMA and entry.file_size > MAX_SCHEMA_BYTES for entry in entries):
        raise ModelFolderError(f"its {SKOPS_SCHEMA} has more than {MAX_SCHEMA_BYTES:,} bytes")
    if any(entry.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED) for entry in entries):
        raise ModelFolderError("its compression is not supported")


def _unpack(packed: bytes) -> bytes:
    """Return an archive without compression, unless it is too large.

    An entry is read up to the size that it declares, even if it contains more.
    """
    _check_archive(packed)
    unpacked = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(packed)) as archive, zipfile.ZipFile(unpacked, "w") as plain:
        for entry in archive.infolist():
            with archive.open(entry) as source, plain.open(entry.filename, "w", force_zip64=True) as target:
                shutil.copyfileobj(source, target, BLOCK)
    return unpacked.getvalue()


def _build(folder: Path, packed: bytes, trust: Iterable[str]) -> dict[str, Any]:
    """Return the parts in a skops file, if every type in it is trusted."""
    skops, path = require_skops(), folder / FITTED_FILE
    trusted = {*TRUSTED, *trust}
    try:
        unpacked = _unpack(packed)
        untrusted = sorted(set(skops.get_untrusted_types(data=unpacked)) - trusted)
        parts = None if untrusted else skops.loads(unpacked, trusted=sorted(trusted))
    except Exception as error:  # a damaged file may raise any error in skops
        raise ModelFolderError(f"{path} cannot be read: {first_line(error)}.") from error
    if untrusted:
        raise ModelFolderError(
            f"{path} has types that are not trusted: {', '.join(untrusted[:5])}; if you know the origin of "
            "the folder, pass each name to --trust."
        )
    if not isinstance(parts, dict) or parts.keys() != Fitted.__dataclass_fields__.keys():
        raise ModelFolderError(f"{path} does not contain the parts of a model.")
    return parts


def _check_parts(parts: dict[str, Any], schema: Schema, task: str) -> None:
    """Raise an error for parts that do not fit the schema, the task or each other."""
    model, preprocessor = parts["model"], parts["preprocessor"]
    if type(model) is not {REGRESSION: StackedRegressor, CLASSIFICATION: StackedClassifier}[task]:
        raise ValueError(f"its {type(model).__name__} is not a model for {task}")
    if list(getattr(preprocessor, "feature_names_in_", ())) != schema.names:
        raise ValueError("its schema and its preprocessing have different columns")
    steps = [(step, list(names)) for name, step, names in preprocessor.transformers_ if name != "remainder"]
    kinds = [schema.number_names, schema.category_names]
    with_means = names_with_means(schema, task)
    if [names for _, names in steps] not in ([*kinds, with_means], [*kinds, []]):
        raise ValueError("its schema and its preprocessing have columns of different kinds")
    known = {column.name: {*column.categories} for column in schema.columns if column.kind == CATEGORY}
    for categories, fitted in zip(known.values(), steps[1][0].categories_ if known else (), strict=True):
        if not {*fitted} <= categories:
            raise ValueError("its schema and its preprocessing have different categories")
    if steps[2][1]:
        means = steps[2][0].steps[0][1]
        for name, fitted, values in zip(with_means, means.categories_, means.encodings_, strict=True):
            if not {*fitted} <= known[name]:
                raise ValueError("its schema and its preprocessing have different categories")
            _check_numbers("mean targets", values, (len(fitted),))
    d = int(model.n_features_in_)
    for member in model.estimators_:
        if isinstance(member, (AnchoredRegressor, AnchoredClassifier)):
            _check_anchors(member.anchors_, d, member.target_.needs_labels)
            check_trees(member.estimator_, member.encoding_.width * d)
            if hasattr(member, "center_"):
                check_trees(member.center_, d)
        else:
            check_trees(member, d)
    check_estimators(model)
    _check_weights("weights", model.weights_, len(model.estimators_))
    reference, ranges = parts["reference"], parts["ranges"]
    _check_numbers("reference rows", reference, (len(reference), d), may_be_missing=True)
    _check_type("ranges", ranges, ColumnRanges)
    for name in ("low", "high", "unit"):
        _check_numbers("ranges", getattr(ranges, name), (d,))
    if np.any(ranges.unit <= 0):
        raise ValueError("its ranges have a unit that is not positive")
    if parts["fingerprints"].dtype != np.uint64 or parts["fingerprints"].ndim != 1:
        raise ValueError("its fingerprints are not uint64 hashes")
    if task == REGRESSION:
        _check_regression(model, d)
    else:
        _check_type("conformal", model.conformal_, ConformalClassifier)
        _check_numbers("scores", model.conformal_.scores_, (model.n_scored_,))
        _check_scalars(model, ["floor_"], is_positive=True)


def _check_regression(model: StackedRegressor, d: int) -> None:
    """Raise an error for invalid parts of a model of d columns that only regression has."""
    difficulty = model.difficulty_
    _check_type("difficulty", difficulty, Difficulty)
    _check_type("forest", difficulty.forest_, RandomForestRegressor)
    # A variance of each member, and that between them.
    _check_weights("weights of variances", difficulty.weights_, len(model.estimators_) + 1)
    check_trees(difficulty.forest_, d + 2)
    _check_scalars(difficulty, ["constant_"], is_positive=True)
    _check_scalars(model, ["target_scale_"], is_positive=True)
    _check_scalars(model, ["target_mean_", "std_factor_"], is_positive=False)
    if model.std_factor_ < 0 or not difficulty.largest_ > 0:
        raise ValueError("its standard deviations are negative")
    _check_numbers("range of the target", np.asarray(model.target_range_), (2,))
    _check_numbers("scores", model.scores_, (model.n_scored_,))
    _check_numbers("sizes", model.sizes_, (model.n_scored_,))


def _check_anchors(anchors: Any, d: int, labelled: bool) -> None:
    """Raise an error unless anchors are rows of d numbers, with a target each if they are labelled."""
    _check_type("anchors", anchors, Anchors)
    _check_numbers("anchors", anchors.X, (len(anchors.X), d), may_be_missing=True)
    if labelled:
        _check_numbers("targets of anchors", anchors.y, (len(anchors.X),))


def _check_type(name: str, part: Any, expected: type) -> None:
    if type(part) is not expected:
        raise ValueError(f"its {name} part is a {type(part).__name__}, not {expected.__name__}")


def _check_numbers(name: str, values: Any, shape: tuple[int, ...], may_be_missing: bool = False) -> None:
    """Raise an error unless values are an array of this shape, of finite or possibly missing numbers."""
    if not isinstance(values, np.ndarray) or values.dtype != np.float64 or values.shape != shape:
        raise ValueError(f"its {name} are not an array of shape {shape}")
    if not np.all(np.isfinite(values) | (may_be_missing & np.isnan(values))):
        raise ValueError(f"its {name} are not finite")


def _check_weights(name: str, values: Any, n: int) -> None:
    """Raise an error unless values are n weights, none of them negative."""
    _check_numbers(name, values, (n,))
    if np.any(values < 0):
        raise ValueError(f"its {name} are negative")


def _check_scalars(part: Any, names: list[str], is_positive: bool) -> None:
    """Raise an error unless attributes of a part are finite numbers, and positive if they must be."""
    for name in names:
        value = getattr(part, name)
        if not (isinstance(value, float) and np.isfinite(value) and (value > 0 or not is_positive)):
            raise ValueError(
                f"its {name.strip('_')} is not a {'positive' if is_positive else 'finite'} number"
            )


def _try_out(model: TableModel) -> None:
    """Predict a row of missing values, so that parts that do not fit each other fail now."""
    model.check_coverage(model.coverage)
    empty = {column.name: ["" if column.kind == CATEGORY else np.nan] for column in model.schema.columns}
    columns = model.decode_dates(model.predict_columns(require_pandas().DataFrame(empty)))
    if model.task == REGRESSION and not columns["lower"][0] <= columns["upper"][0]:
        raise ValueError("its intervals have no width")
