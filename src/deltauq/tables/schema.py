"""What the columns of a table are, learnt once, and how other tables are read by it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from deltauq.tables.errors import TableError, did_you_mean, require_pandas
from deltauq.tables.text_parsing import (
    check_unread,
    is_text,
    learn_date_format,
    learn_decimal,
    plain_text,
    read_dates,
    read_numbers,
)

if TYPE_CHECKING:
    import pandas as pd

REGRESSION, CLASSIFICATION = "regression", "classification"
TASKS = ("auto", REGRESSION, CLASSIFICATION)
NUMBER, DATE, DURATION, CATEGORY = "number", "date", "duration", "category"
KINDS = (NUMBER, DATE, DURATION, CATEGORY)
MANY_CATEGORIES = 0.5
"""A column of words with more different ones than this share of rows tells rows apart, not kinds."""
NUMBER_LIKE = re.compile(r"\s*[+-]?\d[\d.,]*\s*")
DATE_LIKE = re.compile(r"\s*\d+[./ -]\w+[./ -]\d+.*")
MISSING_VALUE = "missing"
LARGEST = 1e37
"""Larger numbers, or differences of them, leave the range of the single precision that trees work in."""


@dataclass(frozen=True)
class Column:
    """One column that a model is trained on.

    Attributes
    ----------
    name : str
    kind : {"number", "date", "duration", "category"}
        Dates and spans of time are taken as numbers of days.
    origin : str
        Of a date, the ISO timestamp that days are counted from.
    categories : tuple of str
        The categories of a categorical column; "" stands for a missing value.
    format : str
        How text is read: of numbers, the decimal mark "." or ",", or "" where none was seen; of dates, a
        format of `datetime.strptime`, or "" for ISO 8601; else "".
    """

    name: str
    kind: str
    origin: str = ""
    categories: tuple[str, ...] = field(default=(), repr=False)
    format: str = ""


@dataclass(frozen=True)
class Schema:
    """The columns that a model is trained on, in their order."""

    columns: tuple[Column, ...]

    @property
    def names(self) -> list[str]:
        """The names of the columns."""
        return [column.name for column in self.columns]

    @property
    def category_names(self) -> list[str]:
        """The names of the columns of words; all others become numbers."""
        return [column.name for column in self.columns if column.kind == CATEGORY]

    @property
    def number_names(self) -> list[str]:
        """The names of the columns that are numbers or become some."""
        return [column.name for column in self.columns if column.kind != CATEGORY]

    def require_columns(self, names: list[str]) -> None:
        """Refuse a table without one of the columns."""
        for column in self.columns:
            if column.name not in names:
                raise TableError(
                    f'the column "{column.name}", which the model was trained on, is missing: '
                    f"{did_you_mean(column.name, names)}"
                )

    def with_formats(self, date_format: str | None, decimal: str | None) -> Schema:
        """Return a schema that reads text in other formats than the training table had, where given."""
        formats = {DATE: date_format, NUMBER: decimal}
        columns = (
            replace(column, format=formats.get(column.kind) or column.format) for column in self.columns
        )
        return Schema(tuple(columns))

    def read(self, frame: pd.DataFrame, first_row: int = 0) -> pd.DataFrame:
        """Return the columns of a table as floats, with NaN where values are missing, and strings.

        Parameters
        ----------
        frame : DataFrame of n rows
            With further columns, or in another order.
        first_row : int
            The number of rows before these, for errors.

        Returns
        -------
        X : DataFrame of shape (n, d)
        """
        self.require_columns(list(frame.columns))
        read = {column.name: _read(column, frame[column.name], first_row) for column in self.columns}
        return require_pandas().DataFrame(read)

    def unseen_categories(self, X: pd.DataFrame) -> Iterator[tuple[str, int, str]]:
        """Yield the columns of words that were not in the training table, how many rows, and the first."""
        for column in self.columns:
            if column.kind == CATEGORY:
                new = ~X[column.name].isin((*column.categories, ""))
                if bool(new.any()):
                    yield column.name, int(new.sum()), str(X[column.name][new.idxmax()])


def unseen_note(name: str, count: int, first: str) -> str:
    """Return a note about what `Schema.unseen_categories` yields."""
    return f'{count:,} rows have unseen categories in "{name}", such as "{first}".'


def learn_schema(
    frame: pd.DataFrame, notes: list[str], date_format: str | None = None, decimal: str | None = None
) -> Schema:
    """Return what the columns of a training table are; those that can say nothing are left out.

    Parameters
    ----------
    frame : DataFrame of shape (n, d), n at least 1
    notes : list of str
        What was left out is added here.
    date_format : str or None
        The format of dates in text, tried before those that are recognised.
    decimal : {".", ","} or None
        The decimal mark of numbers in text that can be read in two ways.

    Returns
    -------
    schema : Schema
    """
    columns: list[Column] = []
    dropped: list[str] = []
    for name in frame.columns:
        column, reason = _learn(plain_text(frame[name]), date_format, decimal)
        if reason:
            dropped.append(f"{name} ({reason})")
        else:
            columns.append(column)
    if times := [column.name for column in columns if column.kind in (DATE, DURATION)]:
        notes.append(f"Dates and times were taken as numbers of days: {', '.join(times)}.")
    if dropped:
        notes.append(f"Columns left out: {', '.join(dropped)}.")
    if not columns:
        raise TableError("there are no columns left to predict from.")
    return Schema(tuple(columns))


def unusable_values(column: pd.Series) -> str:
    """Return what a column of a Parquet file may hold that no model is fitted to, or nothing."""
    try:
        column.nunique()
    except TypeError:
        return "lists or records"
    values = getattr(getattr(column, "cat", column), "categories", column)
    held = require_pandas().api.types.infer_dtype(values, skipna=True)
    is_binary = held == "bytes" or (held == "mixed" and any(isinstance(value, bytes) for value in values))
    return "binary data" if is_binary else ""


def kind_of(column: pd.Series) -> str:
    """Return what kind of column this is; text is words, whatever is written in it."""
    types = require_pandas().api.types
    written = types.infer_dtype(column, skipna=True)
    if types.is_datetime64_any_dtype(column) or (written in ("date", "datetime") and _is_date(column)):
        return DATE
    if types.is_timedelta64_dtype(column):
        return DURATION
    # pandas takes a column of gaps alone for one of any kind.
    is_number = types.is_numeric_dtype(column) or written in ("decimal", "boolean", "empty")
    return NUMBER if is_number else CATEGORY


def learn_kind(column: pd.Series, date_format: str | None, decimal: str | None) -> tuple[str, str]:
    """Return the kind of a column, and the format that its text is read by.

    Parameters
    ----------
    column : Series
        As `plain_text` returns it.
    date_format, decimal
        As for `learn_schema`.
    """
    if not is_text(column):
        return kind_of(column), ""
    if read_numbers(column).dtype == "boolean":
        return NUMBER, ""
    if (mark := learn_decimal(column, decimal)) is not None:
        return NUMBER, mark
    if (form := learn_date_format(column, date_format)) is not None:
        return DATE, form
    check_unread(column)
    return CATEGORY, ""


def days(column: pd.Series, origin: str = "", date_format: str = "") -> pd.Series:
    """Return dates as days since an origin, the first of them by default, and spans of time in days."""
    pandas = require_pandas()
    if not pandas.api.types.is_timedelta64_dtype(column):
        stamps = _stamps(column, date_format)
        column = stamps - (pandas.Timestamp(origin) if origin else stamps.min())
    return column / pandas.Timedelta(days=1).as_unit("s")  # of nanoseconds, long spans would overflow


def first_stamp(column: pd.Series, date_format: str = "") -> str:
    """Return the first of a column's dates as an ISO timestamp, which days may be counted from."""
    return str(_stamps(column, date_format).min().isoformat())


def dates(numbers: np.ndarray, origin: str) -> np.ndarray:
    """Return days since an origin, of shape (n,), as timestamps in UTC; years end at 1 and at 9999."""
    start = np.datetime64(require_pandas().Timestamp(origin).tz_convert(None), "ms")
    day = np.timedelta64(1, "D")
    first, last = ((np.datetime64(end) - start) / day for end in ("0001-01-01", "9999-12-31"))
    steps = np.round(np.clip(numbers, first, last) * (day / np.timedelta64(1, "ms")))
    return np.asarray(start + steps.astype("timedelta64[ms]"))


def plain_floats(column: pd.Series) -> pd.Series:
    """Return a column of numbers, decimals or flags as floats, with NaN where values are missing."""
    return require_pandas().Series(
        column.to_numpy(dtype=np.float64, na_value=np.nan), index=column.index, name=column.name
    )


def _learn(column: pd.Series, date_format: str | None, decimal: str | None) -> tuple[Column, str]:
    """Return what a column is, and why it is to be left out, if it is."""
    name = str(column.name)
    if unusable := unusable_values(column):
        return Column(name, NUMBER), unusable
    if column.nunique() <= 1:
        return Column(name, NUMBER), "one value"
    kind, form = learn_kind(column, date_format, decimal)
    if kind == NUMBER and name.startswith("Unnamed:") and _read_floats(column, form).is_monotonic_increasing:
        return Column(name, kind), "row numbers"
    if kind == CATEGORY and column.nunique() > MANY_CATEGORIES * len(column):
        return Column(name, kind), "words that hardly repeat"
    if kind == DATE:
        return Column(name, kind, origin=first_stamp(column, form), format=form), ""
    if kind == CATEGORY:
        return Column(name, kind, categories=tuple(sorted(_read_words(column).unique()))), ""
    return Column(name, kind, format=form), ""


def _read(column: Column, values: pd.Series, first_row: int) -> pd.Series:
    if unusable := unusable_values(values):
        raise TableError(f'the column "{column.name}" holds {unusable}, where {column.kind}s are due.')
    values = plain_text(values)
    if column.kind == CATEGORY:
        return _read_words(values)
    if column.kind == NUMBER:
        read = _read_floats(values, column.format)
    elif column.kind == DATE:
        read = _read_dates(values, column.format, column.origin)
    else:
        read = _read_spans(values)
    _refuse(values.notna() & read.isna(), values, column, f"where {column.kind}s are due", first_row)
    _refuse(~(read.abs() <= LARGEST) & read.notna(), values, column, "which is too large", first_row)
    return read


def _refuse(wrong: pd.Series, values: pd.Series, column: Column, why: str, first_row: int) -> None:
    """Refuse the first row that is wrong."""
    wrong = wrong.to_numpy(dtype=bool)
    if wrong.any():
        row = int(np.argmax(wrong))
        value = values.iloc[row]
        raise TableError(
            f'the column "{values.name}" holds "{value}" in row {first_row + row + 1:,}, {why}'
            f"{format_hint(column, str(value))}."
        )


def format_hint(column: Column, value: str) -> str:
    """Name the format that a column is read by, and the option for another, if the value looks like one."""
    if column.kind == NUMBER and NUMBER_LIKE.fullmatch(value):
        marks = {",": "with decimal commas", ".": "with decimal points"}
        known = marks.get(column.format, "where they can be read in one way")
        return f"; numbers are read {known}: --decimal names another decimal mark (decimal= in Python)"
    if column.kind == DATE and DATE_LIKE.fullmatch(value):
        known = column.format or "2024-12-31"
        return f"; dates are read as {known}: --date-format names another format (date_format= in Python)"
    return ""


def _read_words(values: pd.Series) -> pd.Series:
    return values.astype(object).where(values.notna(), "").astype(str).astype(object)


def _read_floats(values: pd.Series, decimal: str) -> pd.Series:
    if is_text(values):
        return plain_floats(read_numbers(values, decimal))
    if kind_of(values) != NUMBER:
        return require_pandas().Series(np.nan, index=values.index)
    return plain_floats(values)


def _read_dates(values: pd.Series, date_format: str, origin: str) -> pd.Series:
    if not values.notna().any() or not (is_text(values) or kind_of(values) == DATE):
        return require_pandas().Series(np.nan, index=values.index)
    return days(values, origin, date_format)


def _read_spans(values: pd.Series) -> pd.Series:
    pandas = require_pandas()
    if is_text(values):
        values = pandas.to_timedelta(values, errors="coerce")
    if not pandas.api.types.is_timedelta64_dtype(values):
        return pandas.Series(np.nan, index=values.index)
    return days(values)


def _stamps(column: pd.Series, date_format: str = "") -> pd.Series:
    """Return a column of dates, or of text with dates in it, as timestamps in UTC."""
    if is_text(column):
        return _in_calendar(read_dates(column, date_format))
    return _in_calendar(require_pandas().to_datetime(column, utc=True, errors="coerce"))


def _is_date(column: pd.Series) -> bool:
    """Tell whether all dates of a column are in the range of pandas."""
    return bool((_stamps(column).notna() == column.notna()).all())


def _in_calendar(stamps: pd.Series) -> pd.Series:
    """Refuse dates that cannot be written, such as those of a damaged file."""
    if not bool(stamps.dt.year.dropna().between(1, 9999).all()):
        raise TableError(f'the column "{stamps.name}" holds dates outside the years 1 to 9999.')
    return stamps


def format_value(column: Column, value: Any) -> str:
    """Return a value of a column, as `Schema.read` gives it, in the column's own terms.

    Parameters
    ----------
    column : Column
    value : float or str
        Dates and spans in days, "" or NaN where nothing is known.

    Returns
    -------
    text : str
    """
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
