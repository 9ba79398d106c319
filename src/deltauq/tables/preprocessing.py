"""The user's table, parted into features and target, or refused in one line."""

from __future__ import annotations

import hashlib
import warnings
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import BaseEstimator, OneToOneFeatureMixin, TransformerMixin
from sklearn.compose import make_column_transformer
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.utils.validation import check_is_fitted, validate_data

from deltauq.tables.base_models import UNIT_FREE, BaseModel, build_base_model
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
    days,
    first_stamp,
    learn_kind,
    learn_schema,
    plain_floats,
    unusable_values,
)
from deltauq.tables.text_parsing import (
    DECIMALS,
    FEW_VALUES,
    MISSING,
    check_formats,
    check_points,
    fits_decimal,
    has_marks,
    is_plain_numbers,
    is_text,
    plain_text,
    read_dates,
    read_numbers,
)

if TYPE_CHECKING:
    import pandas as pd

LARGEST_CLASS = 2**63 - 1
"""Classes that are larger whole numbers are written as words."""
MAX_CATEGORIES = 20
LARGEST_TARGET = 1e300
"""An interval around anything larger may leave the range of numbers."""


@dataclass(frozen=True)
class TrainingTable:
    """A table that is ready to be learnt from.

    Attributes
    ----------
    X : DataFrame of shape (n, d)
        Numbers, with NaN where they are missing, and strings.
    y : array of shape (n,)
        Floats, or strings.
    task : {"regression", "classification"}
    schema : Schema
        What the columns of X were made from.
    labels : {"string", "int64", "float64", "bool"}
        What classes were before they became strings.
    origin : str
        Of dates as targets of a regression, the ISO timestamp that days are counted from.
    target_format : str
        How text is read as targets: as `Column.format`.
    notes : list of str
        What was left out or decided on the way.
    """

    X: pd.DataFrame
    y: np.ndarray
    task: str
    schema: Schema
    labels: str = "string"
    origin: str = ""
    target_format: str = ""
    notes: list[str] = field(default_factory=list)


def load_table(
    source: Any,
    target: str,
    task: str = "auto",
    max_rows: int | None = None,
    seed: int = 0,
    *,
    date_format: str | None = None,
    decimal: str | None = None,
    encoding: str = "utf-8",
) -> TrainingTable:
    """Read a table and part it into features and target.

    Parameters
    ----------
    source : path or data frame
        As for `deltauq.tables.fit`.
    target : str
        A column's name.
    task : {"auto", "regression", "classification"}
    max_rows : int or None
        Of more, as many are drawn at random.
    seed : int
        For that drawing.
    date_format, decimal, encoding
        As for `deltauq.tables.fit`.

    Returns
    -------
    table : TrainingTable
    """
    if task not in TASKS:
        raise ValueError(f"task must be one of {list(TASKS)}, got {task!r}.")
    check_formats(date_format, decimal)
    target = str(target)  # as the names of columns are
    frame, shared = read_frame(source, encoding)
    notes = [f"Columns that share a name were numbered: {', '.join(shared)}."] if shared else []
    _require_target(list(frame.columns), shared, target)
    frame = frame.reset_index(drop=True)
    frame = _keep_categories(frame)
    frame[target] = plain_text(frame[target])
    missing = int(frame[target].isna().sum())
    if missing > 0:
        notes.append(f"{missing:,} of {len(frame):,} rows were left out: {target} is missing there.")
        frame = frame[frame[target].notna()]
    if len(frame) == 0:
        raise TableError(f"{target} is missing in every row." if missing else f"{source} has no rows.")
    if max_rows is not None and len(frame) > max_rows:
        notes.append(f"{max_rows:,} of {len(frame):,} rows, drawn at random (--max-rows).")
        frame = frame.sample(max_rows, random_state=seed)
    y, task, labels, origin, target_format = _read_target(frame[target], task, notes, date_format, decimal)
    features = frame.drop(columns=target)
    schema = learn_schema(features, notes, date_format, decimal)
    formats = {target: target_format, **{column.name: column.format for column in schema.columns}}
    if "," in formats.values() and decimal is None:
        for name in formats:
            if formats[name] != ",":
                check_points(frame[name])
    marked = {
        name: formats[name] for name in formats if formats[name] not in DECIMALS or has_marks(frame[name])
    }
    notes += _format_notes(marked)
    marks = [mark for mark in (",", ".") if mark in formats.values()]
    if marks:
        # In later tables, the whole numbers of this one may have marks between thousands.
        whole = [name for name in formats if not formats[name] and fits_decimal(frame[name], marks[0])]
        formats.update(dict.fromkeys(whole, marks[0]))
        target_format = formats[target]
        schema = Schema(tuple(replace(column, format=formats[column.name]) for column in schema.columns))
    has_iso_dates = bool(origin and not target_format) or any(
        column.kind == DATE and not column.format for column in schema.columns
    )
    if date_format is not None and date_format not in formats.values() and not has_iso_dates:
        raise TableError(f'no column has dates in the format "{date_format}".')
    for name, form in formats.items():
        if "%y" in form:
            stamps = read_dates(plain_text(frame[name]), form)
            first, last = stamps.min().date(), stamps.max().date()
            notes.append(f"Two-digit years were read as dates from {first} to {last}: {name}.")
    if not origin and target_format not in DECIMALS:
        target_format = ""  # dates as classes stay text
    X = schema.read(features).reset_index(drop=True)
    return TrainingTable(X, y, task, schema, labels, origin, target_format, notes)


def _keep_categories(frame: pd.DataFrame) -> pd.DataFrame:
    """Return a table in which numbers that were made text on purpose are categories.

    pandas and Parquet hold numbers as numbers. Text of plain numbers is read as these only where all columns
    are text, as in a CSV file, or where a missing value such as "?" has made the column text.
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


def _format_notes(formats: dict[str, str]) -> list[str]:
    """Return how text was read where that was not certain beforehand."""
    notes = []
    for form in dict.fromkeys(formats.values()):
        names = ", ".join(name for name in formats if formats[name] == form)
        if form in DECIMALS:
            notes.append(f'Numbers were read with the decimal mark "{form}": {names} (--decimal).')
        elif form:
            notes.append(f"Dates were read as {form}: {names} (--date-format).")
    return notes


def _require_target(names: list[str], shared: list[str], target: str) -> None:
    if target in shared:
        raise TableError(f"{target} names several columns.")
    if target not in names:
        raise TableError(f'there is no column "{target}": {did_you_mean(target, names)}')


def _read_target(
    column: pd.Series, task: str, notes: list[str], date_format: str | None, decimal: str | None
) -> tuple[np.ndarray, str, str, str, str]:
    """Return the targets, the task, what classes were before they became strings, first date and format."""
    if unusable := unusable_values(column):
        raise TableError(f"{column.name} holds {unusable}: there is nothing to predict in them.")
    column = plain_text(column)
    kind, form = learn_kind(column, date_format, decimal)
    if kind == NUMBER and is_text(column):
        column = read_numbers(column, form)
    is_flag = require_pandas().api.types.infer_dtype(column, skipna=True) == "boolean"
    origin = first_stamp(column, form) if kind == DATE else ""
    if kind not in (NUMBER, CATEGORY) and task != CLASSIFICATION:
        since = f" since {origin}" if origin else ""
        notes.append(f"{column.name} was taken as a number of days{since}.")
        column, kind, task = days(column, date_format=form), NUMBER, REGRESSION
    numbers = kind == NUMBER and not is_flag
    n_values = int(column.nunique())
    if n_values == 1:
        raise TableError(f"{column.name} is {column.iloc[0]} in every row: there is nothing to predict.")
    floats = plain_floats(column) if numbers else None
    whole = floats is not None and bool(np.all(np.trunc(floats) == floats))
    if task == "auto":
        task = CLASSIFICATION if not numbers or (whole and n_values <= FEW_VALUES) else REGRESSION
        notes.append(f"{column.name} has {n_values:,} different values: {task} (--task).")
    if task == CLASSIFICATION:
        if n_values > len(column) / 2:
            raise TableError(f"{column.name} has {n_values:,} classes in {len(column):,} rows.")
        if floats is not None and whole and floats.abs().max() < 2**53:
            # Missing values have made floats of integers; larger ones may have been rounded.
            column = floats.astype("int64")
        return column.astype(str).to_numpy(dtype=object), task, _label_type(column, is_flag), "", form
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


def _label_type(column: pd.Series, is_flag: bool) -> str:
    types = require_pandas().api.types
    if is_flag:
        return "bool"
    if types.is_integer_dtype(column):
        return "int64" if int(column.max()) <= LARGEST_CLASS else "string"
    return "float64" if types.is_float_dtype(column) else "string"


def build_pipeline(word: BaseModel, table: TrainingTable) -> Any:
    """Return a pipeline of the preprocessing and the model.

    Parameters
    ----------
    word : BaseModel
    table : TrainingTable

    Returns
    -------
    pipeline : scikit-learn Pipeline, unfitted
    """
    return make_pipeline(
        build_preprocessor(table.schema, scaled=word not in UNIT_FREE), build_base_model(word, table.task)
    )


def build_preprocessor(schema: Schema, scaled: bool) -> Any:
    """Return what makes numbers of a table: gaps filled, words made columns, units removed if asked.

    Parameters
    ----------
    schema : Schema
    scaled : bool
        Standardise all columns; otherwise only numbers too small or too large for trees are brought near one.

    Returns
    -------
    columns : scikit-learn ColumnTransformer, unfitted
    """
    filled = SimpleImputer(strategy="median", keep_empty_features=True)
    numbers = make_pipeline(filled, StandardScaler() if scaled else UnitScaler())
    words = OneHotEncoder(
        max_categories=MAX_CATEGORIES, handle_unknown="infrequent_if_exist", sparse_output=False
    )
    return make_column_transformer((numbers, schema.number_names), (words, schema.category_names))


def encode(columns: Any, X: pd.DataFrame) -> np.ndarray:
    """Return n rows as the numbers that a fitted preprocessing makes of them."""
    with warnings.catch_warnings():
        # The schema reports unseen categories itself, with their number of rows.
        warnings.filterwarnings("ignore", "Found unknown categories", UserWarning)
        return np.asarray(columns.transform(X), dtype=np.float64)


USUAL = (-10, 60)
"""Powers of two between which a standard deviation is left alone."""


class UnitScaler(OneToOneFeatureMixin, TransformerMixin, BaseEstimator):
    """Divide columns of very small or very large numbers by the power of two nearest to their spread.

    Trees are said not to mind units, but scikit-learn's take values within 1e-7 of each other for the same,
    and none beyond 1e38. A power of two divides without rounding, so that equal differences of rows and
    anchors stay equal.

    Attributes
    ----------
    scale_ : array of shape (d,)
    """

    def fit(self, X: Any, y: Any = None) -> UnitScaler:
        """Look at columns of shape (n, d)."""
        X = validate_data(self, X, dtype=np.float64)
        largest = np.abs(X).max(axis=0)
        largest[largest == 0.0] = 1.0
        spread = (X / largest).std(axis=0)  # of numbers whose squares are none too large
        spread[spread == 0.0] = 1.0 / largest[spread == 0.0]
        exponents = np.round(np.log2(spread) + np.log2(largest))
        usual = (exponents >= USUAL[0]) & (exponents <= USUAL[1])
        self.scale_ = np.exp2(np.where(usual, 0.0, np.clip(exponents, -1000, 1000)))
        return self

    def transform(self, X: Any) -> np.ndarray:
        """Return columns of shape (n, d) without their units."""
        check_is_fitted(self)
        return np.asarray(validate_data(self, X, dtype=np.float64, reset=False) / self.scale_)


MAX_FINGERPRINTS = 1_000_000
"""A model of more rows keeps none: eight bytes a row."""


def row_fingerprints(X: pd.DataFrame, y: np.ndarray) -> np.ndarray:
    """Return a hash of each row, which survives numbers that a file holds with 13 digits or more.

    Parameters
    ----------
    X : DataFrame of shape (n, d)
        As the schema reads it.
    y : array of shape (n,)
        Floats, or strings.

    Returns
    -------
    fingerprints : uint64 array of shape (n,)
    """
    frame = X.assign(**{"": y if y.dtype.kind == "f" else y.astype(object)})
    numbers = frame.select_dtypes(np.float64)
    mantissas, exponents = np.frexp(numbers.to_numpy() + 0.0)
    frame[numbers.columns] = np.ldexp(np.round(mantissas, 12), exponents)
    return np.asarray(require_pandas().util.hash_pandas_object(frame, index=False), dtype=np.uint64)


def table_sha256(fingerprints: np.ndarray) -> str:
    """Return one hash of all rows, in their order."""
    return hashlib.sha256(np.ascontiguousarray(fingerprints).tobytes()).hexdigest()


def twin_share(fingerprints: np.ndarray) -> float:
    """Return the share of rows that equal another row of the same table."""
    counts = np.unique(fingerprints, return_counts=True)[1]
    return float(counts[counts > 1].sum() / len(fingerprints))
