"""From a table to features and targets, and from features to the numbers that a model is fitted to."""

from __future__ import annotations

import hashlib
import warnings
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import sklearn
from sklearn.base import BaseEstimator, OneToOneFeatureMixin, TransformerMixin
from sklearn.compose import make_column_transformer
from sklearn.impute import SimpleImputer
from sklearn.model_selection import KFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler, TargetEncoder
from sklearn.utils.fixes import parse_version
from sklearn.utils.validation import check_is_fitted, validate_data

from deltauq.tables.base_models import SCALE_INVARIANT, BaseModel, build_base_model
from deltauq.tables.errors import TableError, did_you_mean, require_pandas
from deltauq.tables.io import read_frame
from deltauq.tables.schema import (
    CATEGORY,
    CLASSIFICATION,
    DATE,
    NUMBER,
    REGRESSION,
    TASKS,
    Schema,
    first_timestamp,
    infer_kind,
    infer_schema,
    plain_floats,
    to_days,
    unusable_values,
)
from deltauq.tables.text_parsing import (
    DECIMALS,
    MAX_CLASS_VALUES,
    MISSING,
    check_formats,
    check_points,
    fits_decimal,
    has_marks,
    is_plain_numbers,
    is_text,
    parse_dates,
    parse_numbers,
    plain_text,
)

if TYPE_CHECKING:
    import pandas as pd

MAX_ENCODED_CATEGORIES = 20
LARGEST_CLASS = 2**63 - 1
"""Larger integers as classes are written as text."""
LARGEST_TARGET = 1e300
"""An interval around a larger target may overflow."""
MAX_FINGERPRINTS = 1_000_000
"""A model of more rows stores no fingerprints, which take eight bytes a row."""
USUAL_EXPONENTS = (-10, 60)
"""`UnitScaler` keeps columns with a standard deviation between these powers of two."""


@dataclass(frozen=True)
class TrainingTable:
    """Features and targets of a table."""

    X: pd.DataFrame
    """Numbers, with NaN for missing values, and categories as strings."""
    y: np.ndarray
    """Floats, or classes as strings."""
    task: str
    """Either regression or classification."""
    schema: Schema
    """The columns of X."""
    labels: str = "string"
    """The type of the classes in the table: "string", "int64", "float64" or "bool"."""
    origin: str = ""
    """If targets are dates, the ISO timestamp that days are counted from."""
    target_format: str = ""
    """The format of targets in text, as `Column.format`."""
    left_out: list[str] = field(default_factory=list)
    """The names of columns that nothing can be learned from."""
    notes: list[str] = field(default_factory=list)
    """Omitted rows and columns, and decisions that options can change."""


def load_table(
    source: Any,
    target: str,
    task: str = "auto",
    max_rows: int | None = None,
    random_state: int = 0,
    *,
    date_format: str | None = None,
    decimal: str | None = None,
    encoding: str = "utf-8",
) -> TrainingTable:
    """Read a table and split it into features and targets; the parameters are those of `fit`."""
    if task not in TASKS:
        raise ValueError(f"task must be one of {list(TASKS)}, got {task!r}.")
    check_formats(date_format, decimal)
    target = str(target)  # as the names of columns are
    frame, duplicates = read_frame(source, encoding)
    notes = [f"Columns that share a name were numbered: {', '.join(duplicates)}."] if duplicates else []
    if target in duplicates:
        raise TableError(f"{target} names several columns.")
    if target not in frame.columns:
        raise TableError(f'there is no column "{target}": {did_you_mean(target, frame.columns)}')
    frame = _keep_categories(frame.reset_index(drop=True))
    frame[target] = plain_text(frame[target])
    missing = int(frame[target].isna().sum())
    if missing > 0:
        notes.append(f"{missing:,} of {len(frame):,} rows were left out because {target} is missing.")
        frame = frame[frame[target].notna()]
    if len(frame) == 0:
        raise TableError(f"{target} is missing in every row." if missing else f"{source} has no rows.")
    if max_rows is not None and len(frame) > max_rows:
        notes.append(f"{max_rows:,} of {len(frame):,} rows, drawn at random (--max-rows).")
        frame = frame.sample(max_rows, random_state=random_state)
    y, task, labels, origin, target_format = _read_target(frame[target], task, notes, date_format, decimal)
    features = frame.drop(columns=target)
    schema = infer_schema(features, notes, date_format, decimal)
    formats = {target: target_format, **{column.name: column.format for column in schema.columns}}
    has_iso_dates = bool(origin and not target_format) or any(
        column.kind == DATE and not column.format for column in schema.columns
    )
    if date_format is not None and date_format not in formats.values() and not has_iso_dates:
        raise TableError(f'no column has dates in the format "{date_format}".')
    formats = _reconcile_formats(frame, formats, decimal, notes)
    target_format = formats[target]
    schema = Schema(tuple(replace(column, format=formats[column.name]) for column in schema.columns))
    if not origin and target_format not in DECIMALS:
        target_format = ""  # dates as classes stay text
    X = schema.read(features).reset_index(drop=True)
    left_out = [name for name in features.columns if name not in schema.names]
    return TrainingTable(X, y, task, schema, labels, origin, target_format, left_out, notes)


def _keep_categories(frame: pd.DataFrame) -> pd.DataFrame:
    """Return a table in which text columns of plain numbers are categories.

    In a table with typed columns, somebody stored these numbers as text on purpose. But if all columns are
    text, as in a CSV file, or a missing value such as "?" made the column text, they are numbers.
    """
    kinds = {name: require_pandas().api.types.infer_dtype(frame[name], skipna=True) for name in frame}
    if all(kind in ("string", "empty") for kind in kinds.values()):
        return frame
    texts = [
        name
        for name, kind in kinds.items()
        if kind == "string" and is_plain_numbers(frame[name]) and not frame[name].isin(MISSING).any()
    ]
    return frame.astype(dict.fromkeys(texts, "category"))


def _reconcile_formats(
    frame: pd.DataFrame, formats: dict[str, str], decimal: str | None, notes: list[str]
) -> dict[str, str]:
    """Return one decimal mark for all columns that allow it, and note formats that were inferred."""
    if "," in formats.values() and decimal is None:
        for name in formats:
            if formats[name] != ",":
                check_points(frame[name])
    for form in dict.fromkeys(formats.values()):
        names = [name for name in formats if formats[name] == form]
        if form in DECIMALS:
            if marked := [name for name in names if has_marks(frame[name])]:
                notes.append(
                    f'Numbers were read with the decimal mark "{form}": {", ".join(marked)} (--decimal).'
                )
        elif form:
            notes.append(f"Dates were read as {form}: {', '.join(names)} (--date-format).")
    for name, form in formats.items():
        if "%y" in form:
            stamps = parse_dates(plain_text(frame[name]), form)
            first, last = stamps.min().date(), stamps.max().date()
            notes.append(f"Two-digit years were read as dates from {first} to {last}: {name}.")
    marks = [mark for mark in (",", ".") if mark in formats.values()]
    if not marks:
        return formats
    # Integer columns get this format too, since later tables may use thousands separators in them.
    whole = [name for name in formats if not formats[name] and fits_decimal(frame[name], marks[0])]
    return {**formats, **dict.fromkeys(whole, marks[0])}


def _read_target(
    column: pd.Series, task: str, notes: list[str], date_format: str | None, decimal: str | None
) -> tuple[np.ndarray, str, str, str, str]:
    """Return the targets, the task, the type of classes in the table, the first date and the format."""
    if unusable := unusable_values(column):
        raise TableError(f"{column.name} contains {unusable}: there is nothing to predict in them.")
    column = plain_text(column)
    kind, form = infer_kind(column, date_format, decimal)
    if kind == NUMBER and is_text(column):
        column = parse_numbers(column, form)
    is_flag = require_pandas().api.types.infer_dtype(column, skipna=True) == "boolean"
    origin = first_timestamp(column, form) if kind == DATE else ""
    if kind not in (NUMBER, CATEGORY) and task != CLASSIFICATION:
        since = f" since {origin}" if origin else ""
        notes.append(f"{column.name} was taken as a number of days{since}.")
        column, kind, task = to_days(column, date_format=form), NUMBER, REGRESSION
    n_values = int(column.nunique())
    if n_values == 1:
        raise TableError(f"{column.name} is {column.iloc[0]} in every row: there is nothing to predict.")
    floats = plain_floats(column) if kind == NUMBER and not is_flag else None
    is_whole = floats is not None and bool(np.all(np.trunc(floats) == floats))
    if task == "auto":
        is_class = floats is None or (is_whole and n_values <= MAX_CLASS_VALUES)
        task = CLASSIFICATION if is_class else REGRESSION
        notes.append(f"{column.name} has {n_values:,} different values: {task} (--task).")
    if task == CLASSIFICATION:
        if n_values > len(column) / 2:
            raise TableError(f"{column.name} has {n_values:,} classes in {len(column):,} rows.")
        if floats is not None and is_whole and floats.abs().max() < 2**53:
            # Missing values make floats of integers; larger ones may be rounded.
            column = floats.astype("int64")
        labels = "bool" if is_flag else _label_type(column)
        return column.astype(str).to_numpy(dtype=object), task, labels, "", form
    if floats is None:
        raise TableError(
            f"{column.name} is not numeric (first value: {column.iloc[0]}), as regression needs."
        )
    y = floats.to_numpy()
    if not np.all(np.isfinite(y)):
        raise TableError(f"{column.name} has infinite values.")
    if np.abs(y).max() > LARGEST_TARGET:
        raise TableError(f"{column.name} has values beyond ±{LARGEST_TARGET:g}.")
    return y, task, "float64", origin, form


def _label_type(column: pd.Series) -> str:
    types = require_pandas().api.types
    if types.is_integer_dtype(column):
        return "int64" if int(column.max()) <= LARGEST_CLASS else "string"
    return "float64" if types.is_float_dtype(column) else "string"


def build_pipeline(name: BaseModel, table: TrainingTable) -> Any:
    """Return an unfitted pipeline of the preprocessing and a base estimator."""
    of_trees = name in SCALE_INVARIANT
    preprocessor = build_preprocessor(table.schema, table.task, scaled=not of_trees, imputed=not of_trees)
    return make_pipeline(preprocessor, build_base_model(name, table.task))


def build_preprocessor(schema: Schema, task: str, scaled: bool, imputed: bool, means: bool = True) -> Any:
    """Return an unfitted transformer of a table into numbers: imputation, one-hot encoding and scaling.

    Missing numbers remain NaN unless they are "imputed" by the median. If numbers are not standardised
    ("scaled"), `UnitScaler` rescales very small and very large ones.

    Rare categories share a column if there are many. In regression, such columns are encoded by the mean
    target of each category as well, unless "means" is false: that of a category with one row is its target.
    Those of training rows are cross-fitted: use `fit_transform`.
    """
    steps = [SimpleImputer(strategy="median", keep_empty_features=True)] if imputed else []
    numbers = make_pipeline(*steps, StandardScaler() if scaled else UnitScaler())
    categories = OneHotEncoder(
        max_categories=MAX_ENCODED_CATEGORIES, handle_unknown="infrequent_if_exist", sparse_output=False
    )
    # scikit-learn 1.9 replaced the seed by folds.
    has_folds = parse_version(sklearn.__version__) >= parse_version("1.9")
    seeded: dict[str, Any] = (
        {"cv": KFold(5, shuffle=True, random_state=0)} if has_folds else {"random_state": 0}
    )
    of_targets = make_pipeline(TargetEncoder(target_type="continuous", **seeded), StandardScaler())
    return make_column_transformer(
        (numbers, schema.number_names),
        (categories, schema.category_names),
        (of_targets, names_with_means(schema, task) if means else []),
    )


def names_with_means(schema: Schema, task: str) -> list[str]:
    """Return the names of the columns that are encoded by the mean target of each category as well."""
    return [
        column.name
        for column in schema.columns
        if task == REGRESSION and column.kind == CATEGORY and len(column.categories) > MAX_ENCODED_CATEGORIES
    ]


def encode(columns: Any, X: pd.DataFrame) -> np.ndarray:
    """Return n rows as numbers, by a fitted preprocessing."""
    with warnings.catch_warnings():
        # `Schema.unseen_categories` reports them.
        warnings.filterwarnings("ignore", "Found unknown categories", UserWarning)
        return np.asarray(columns.transform(X), dtype=np.float64)


class UnitScaler(OneToOneFeatureMixin, TransformerMixin, BaseEstimator):
    """Divide columns of very small or very large numbers by the power of two nearest to their spread.

    Trees do not depend on units in theory, but those of scikit-learn treat values within 1e-7 of each other
    as equal, and fail beyond 1e38. Dividing by a power of two does not round, so that equal differences
    between rows and anchors stay equal.

    Missing values remain NaN in columns that had some in training. In the others models do not know what they
    mean, and they are imputed by the median. In columns without any value they become zero.

    Attributes
    ----------
    scale_ : array of shape (d,)
    fill_ : array of shape (d,)
        What replaces missing values, before scaling; NaN if they remain.
    """

    def fit(self, X: Any, y: Any = None) -> UnitScaler:
        """Compute the scale of columns of shape (n, d)."""
        X = self._validate(X, reset=True)
        missing = np.isnan(X)
        self.fill_ = np.where(missing.any(axis=0), np.nan, np.median(np.nan_to_num(X), axis=0))
        self.fill_[missing.all(axis=0)] = 0.0
        X = np.where(missing, self.fill_, X)
        largest = np.nanmax(np.abs(X), axis=0)
        largest[largest == 0.0] = 1.0
        spread = np.nanstd(X / largest, axis=0)  # of numbers whose squares do not overflow
        spread[spread == 0.0] = 1.0 / largest[spread == 0.0]
        exponents = np.round(np.log2(spread) + np.log2(largest))
        usual = (exponents >= USUAL_EXPONENTS[0]) & (exponents <= USUAL_EXPONENTS[1])
        self.scale_ = np.exp2(np.where(usual, 0.0, np.clip(exponents, -1000, 1000)))
        return self

    def transform(self, X: Any) -> np.ndarray:
        """Return columns of shape (n, d), divided by their scale."""
        check_is_fitted(self)
        X = self._validate(X, reset=False)
        return np.asarray(np.where(np.isnan(X), self.fill_, X) / self.scale_)

    def _validate(self, X: Any, reset: bool) -> np.ndarray:
        X = validate_data(self, X, dtype=np.float64, ensure_all_finite="allow-nan", reset=reset)
        return np.asarray(X)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags


def row_fingerprints(X: pd.DataFrame, y: np.ndarray) -> np.ndarray:
    """Return a hash of each row and its target, which depends on 12 digits of a number at most."""
    frame = X.assign(**{"": y if y.dtype.kind == "f" else y.astype(object)})
    numbers = frame.select_dtypes(np.float64)
    mantissas, exponents = np.frexp(numbers.to_numpy() + 0.0)
    frame[numbers.columns] = np.ldexp(np.round(mantissas, 12), exponents)
    return np.asarray(require_pandas().util.hash_pandas_object(frame, index=False), dtype=np.uint64)


def table_sha256(fingerprints: np.ndarray) -> str:
    """Return one hash of all rows, in their order."""
    return hashlib.sha256(np.ascontiguousarray(fingerprints).tobytes()).hexdigest()


def duplicate_fraction(fingerprints: np.ndarray) -> float:
    """Return the share of rows that equal another row of the same table."""
    counts = np.unique(fingerprints, return_counts=True)[1]
    return float(counts[counts > 1].sum() / len(fingerprints))
