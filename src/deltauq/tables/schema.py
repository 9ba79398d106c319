"""The columns of a training table, and reading other tables by them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from deltauq.tables.errors import TableError, did_you_mean, require_pandas
from deltauq.tables.text_parsing import (
    check_unrecognised,
    infer_date_format,
    infer_decimal,
    is_text,
    parse_dates,
    parse_numbers,
    plain_text,
)

if TYPE_CHECKING:
    import pandas as pd

REGRESSION, CLASSIFICATION = "regression", "classification"
TASKS = ("auto", REGRESSION, CLASSIFICATION)
NUMBER, DATE, DURATION, CATEGORY = "number", "date", "duration", "category"
KINDS = (NUMBER, DATE, DURATION, CATEGORY)
MAX_DISTINCT = 0.5
"""A column with more different categories than this share of its rows identifies rows, and is left out."""
NUMBER_LIKE = re.compile(r"\s*[+-]?\d[\d.,]*\s*")
DATE_LIKE = re.compile(r"\s*\d+[./ -]\w+[./ -]\d+.*")
MISSING_VALUE = "missing"
LARGEST = 1e37
"""Larger numbers, or their differences, overflow the single precision of trees."""


@dataclass(frozen=True)
class Column:
    """One column that a model is trained on."""

    name: str
    kind: str
    """Either "number", "date", "duration" or "category". Dates and durations become numbers of days."""
    origin: str = ""
    """The ISO timestamp that days are counted from; empty for other kinds than dates."""
    categories: tuple[str, ...] = field(default=(), repr=False)
    """The categories of a categorical column; "" stands for a missing value."""
    format: str = ""
    """The format of text. For numbers, the decimal mark "." or ",", or "" if the training table has none; for
    dates, a format of `datetime.strptime`, or "" for ISO 8601; else ""."""


@dataclass(frozen=True)
class Schema:
    """The columns that a model is trained on, in their order."""

    columns: tuple[Column, ...]

    @property
    def names(self) -> list[str]:
        """The names of all columns."""
        return [column.name for column in self.columns]

    @property
    def category_names(self) -> list[str]:
        """The names of the categorical columns."""
        return [column.name for column in self.columns if column.kind == CATEGORY]

    @property
    def number_names(self) -> list[str]:
        """The names of the columns that are read as numbers."""
        return [column.name for column in self.columns if column.kind != CATEGORY]

    def require_columns(self, names: list[str]) -> None:
        """Raise an error for a table without one of the columns."""
        for column in self.columns:
            if column.name not in names:
                raise TableError(
                    f'the column "{column.name}", which the model was trained on, is missing: '
                    f"{did_you_mean(column.name, names)}"
                )

    def with_formats(self, date_format: str | None, decimal: str | None) -> Schema:
        """Return a schema that reads text in the given formats instead of those of the training table."""
        formats = {DATE: date_format, NUMBER: decimal}
        columns = (
            replace(column, format=formats.get(column.kind) or column.format) for column in self.columns
        )
        return Schema(tuple(columns))

    def read(self, frame: pd.DataFrame, first_row: int = 0) -> pd.DataFrame:
        """Return the columns of a table as floats, with NaN for missing values, and strings.

        The number of rows before these, `first_row`, is for errors.
        """
        self.require_columns(list(frame.columns))
        read = {column.name: _read(column, frame[column.name], first_row) for column in self.columns}
        return require_pandas().DataFrame(read)

    def unseen_categories(self, X: pd.DataFrame) -> Iterator[tuple[str, int, str]]:
        """Yield each column with unseen categories, the number of their rows, and the first of them."""
        for column in self.columns:
            if column.kind == CATEGORY:
                unseen = ~X[column.name].isin((*column.categories, ""))
                if bool(unseen.any()):
                    yield column.name, int(unseen.sum()), str(X[column.name][unseen.idxmax()])


def unseen_note(name: str, count: int, first: str) -> str:
    """Return a note about what `Schema.unseen_categories` yields."""
    return f'{count:,} rows have unseen categories in "{name}", such as "{first}".'


def infer_schema(
    frame: pd.DataFrame, notes: list[str], date_format: str | None = None, decimal: str | None = None
) -> Schema:
    """Return the schema of a training table, and append notes about columns that are dropped."""
    columns: list[Column] = []
    dropped: list[str] = []
    for name in frame.columns:
        column = _infer_column(plain_text(frame[name]), date_format, decimal)
        if isinstance(column, Column):
            columns.append(column)
        else:
            dropped.append(f"{name} ({column})")
    if times := [column.name for column in columns if column.kind in (DATE, DURATION)]:
        notes.append(f"Dates and times were taken as numbers of days: {', '.join(times)}.")
    if dropped:
        notes.append(f"Columns left out: {', '.join(dropped)}.")
    if not columns:
        raise TableError("there are no columns left to predict from.")
    return Schema(tuple(columns))


def unusable_values(column: pd.Series) -> str:
    """Return the values of a column, as Parquet allows them, that no model supports, or an empty string."""
    try:
        column.nunique()
    except TypeError:
        return "lists or records"
    values = getattr(getattr(column, "cat", column), "categories", column)
    kind = require_pandas().api.types.infer_dtype(values, skipna=True)
    is_binary = kind == "bytes" or (kind == "mixed" and any(isinstance(value, bytes) for value in values))
    return "binary data" if is_binary else ""


def kind_of(column: pd.Series) -> str:
    """Return the kind of a column; text is a category, whatever it contains."""
    types = require_pandas().api.types
    inferred = types.infer_dtype(column, skipna=True)
    if types.is_datetime64_any_dtype(column):
        return DATE
    if inferred in ("date", "datetime") and bool((_timestamps(column).notna() == column.notna()).all()):
        return DATE
    if types.is_timedelta64_dtype(column):
        return DURATION
    # A column of missing values only fits any kind.
    is_number = types.is_numeric_dtype(column) or inferred in ("decimal", "boolean", "empty")
    return NUMBER if is_number else CATEGORY


def infer_kind(column: pd.Series, date_format: str | None, decimal: str | None) -> tuple[str, str]:
    """Return the kind of a column from `plain_text`, and the format of its text."""
    if not is_text(column):
        return kind_of(column), ""
    if parse_numbers(column).dtype == "boolean":
        return NUMBER, ""
    if (mark := infer_decimal(column, decimal)) is not None:
        return NUMBER, mark
    if (form := infer_date_format(column, date_format)) is not None:
        return DATE, form
    check_unrecognised(column)
    return CATEGORY, ""


def to_days(column: pd.Series, origin: str = "", date_format: str = "") -> pd.Series:
    """Return dates as days since an origin, by default the first date, and durations as days."""
    pandas = require_pandas()
    if not pandas.api.types.is_timedelta64_dtype(column):
        stamps = _timestamps(column, date_format)
        column = stamps - (pandas.Timestamp(origin) if origin else stamps.min())
    return column / pandas.Timedelta(days=1).as_unit("s")  # in nanoseconds, long durations would overflow


def first_timestamp(column: pd.Series, date_format: str = "") -> str:
    """Return the first date of a column as an ISO timestamp."""
    return str(_timestamps(column, date_format).min().isoformat())


def from_days(numbers: np.ndarray, origin: str) -> np.ndarray:
    """Return days since an origin, of shape (n,), as timestamps in UTC, clipped to the years 1 to 9999."""
    start = np.datetime64(require_pandas().Timestamp(origin).tz_convert(None), "ms")
    day = np.timedelta64(1, "D")
    first, last = ((np.datetime64(end) - start) / day for end in ("0001-01-01", "9999-12-31"))
    steps = np.round(np.clip(numbers, first, last) * (day / np.timedelta64(1, "ms")))
    return np.asarray(start + steps.astype("timedelta64[ms]"))


def plain_floats(column: pd.Series) -> pd.Series:
    """Return a column of numbers, decimals or flags as floats, with NaN for missing values."""
    return require_pandas().Series(
        column.to_numpy(dtype=np.float64, na_value=np.nan), index=column.index, name=column.name
    )


def format_hint(column: Column, value: str) -> str:
    """Return a hint at the option for another format, if a value looks like a number or a date."""
    if column.kind == NUMBER and NUMBER_LIKE.fullmatch(value):
        marks = {",": "with decimal commas", ".": "with decimal points"}
        known = marks.get(column.format, "if they are unambiguous")
        return f"; numbers are read {known}: --decimal names another decimal mark (decimal= in Python)"
    if column.kind == DATE and DATE_LIKE.fullmatch(value):
        known = column.format or "2024-12-31"
        return f"; dates are read as {known}: --date-format names another format (date_format= in Python)"
    return ""


def format_value(column: Column, value: Any) -> str:
    """Return a value of a column, as `Schema.read` returns it, as text in the terms of the table."""
    if column.kind == CATEGORY:
        return str(value) or MISSING_VALUE
    if value != value:
        return MISSING_VALUE
    if column.kind == DATE:
        pandas = require_pandas()
        stamp = pandas.Timestamp(column.origin) + pandas.Timedelta(days=float(value))
        return str(stamp.date().isoformat())
    number = f"{value:,.0f}" if 1e3 <= abs(value) < 1e12 else f"{value:.4g}"
    return f"{number} days" if column.kind == DURATION else number


def _infer_column(column: pd.Series, date_format: str | None, decimal: str | None) -> Column | str:
    """Return a column, or the reason to leave it out."""
    name = str(column.name)
    if unusable := unusable_values(column):
        return unusable
    if (n_values := column.nunique()) == 0:
        return "no values"
    if n_values == 1 and not column.isna().any():  # whether it is missing may tell something
        return "one value"
    kind, form = infer_kind(column, date_format, decimal)
    if kind == NUMBER and name.startswith("Unnamed:") and _read_floats(column, form).is_monotonic_increasing:
        return "row numbers"
    if kind == CATEGORY and column.nunique() > MAX_DISTINCT * len(column):
        return "categories that hardly repeat"
    if kind == DATE:
        return Column(name, kind, origin=first_timestamp(column, form), format=form)
    if kind == CATEGORY:
        return Column(name, kind, categories=tuple(sorted(_read_categories(column).unique())))
    return Column(name, kind, format=form)


def _read(column: Column, values: pd.Series, first_row: int) -> pd.Series:
    if unusable := unusable_values(values):
        raise TableError(f'the column "{column.name}" contains {unusable}, which the model does not support.')
    values = plain_text(values)
    if column.kind == CATEGORY:
        return _read_categories(values)
    if column.kind == NUMBER:
        read = _read_floats(values, column.format)
    elif column.kind == DATE:
        read = _read_dates(values, column.format, column.origin)
    else:
        read = _read_durations(values)
    for wrong, why in (
        (values.notna() & read.isna(), f"where {column.kind}s are expected"),
        (~(read.abs() <= LARGEST) & read.notna(), "which is too large"),
    ):
        if wrong.any():
            row = int(np.argmax(wrong.to_numpy(dtype=bool)))
            raise TableError(
                f'the column "{values.name}" contains "{values.iloc[row]}" in row {first_row + row + 1:,}, '
                f"{why}{format_hint(column, str(values.iloc[row]))}."
            )
    return read


def _read_categories(values: pd.Series) -> pd.Series:
    return values.astype(object).where(values.notna(), "").astype(str).astype(object)


def _read_floats(values: pd.Series, decimal: str) -> pd.Series:
    if is_text(values):
        return plain_floats(parse_numbers(values, decimal))
    return plain_floats(values) if kind_of(values) == NUMBER else _all_missing(values)


def _read_dates(values: pd.Series, date_format: str, origin: str) -> pd.Series:
    if not values.notna().any() or not (is_text(values) or kind_of(values) == DATE):
        return _all_missing(values)
    return to_days(values, origin, date_format)


def _read_durations(values: pd.Series) -> pd.Series:
    pandas = require_pandas()
    if is_text(values):
        values = pandas.to_timedelta(values, errors="coerce")
    return to_days(values) if pandas.api.types.is_timedelta64_dtype(values) else _all_missing(values)


def _all_missing(values: pd.Series) -> pd.Series:
    return require_pandas().Series(np.nan, index=values.index)


def _timestamps(column: pd.Series, date_format: str = "") -> pd.Series:
    """Return a column of dates, or of text with dates, as timestamps in UTC."""
    if is_text(column):
        stamps = parse_dates(column, date_format)
    else:
        stamps = require_pandas().to_datetime(column, utc=True, errors="coerce")
    if not bool(stamps.dt.year.dropna().between(1, 9999).all()):
        # Such as those of a damaged file, which cannot be written.
        raise TableError(f'the column "{stamps.name}" contains dates outside the years 1 to 9999.')
    return stamps
