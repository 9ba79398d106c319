"""What the columns of a table are, learnt once, and how other tables are read by it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from deltauq.tables.errors import TableError, did_you_mean, require_pandas
from deltauq.tables.text import FLAGS, ISO_DATE, is_all, is_text, read_numbers

if TYPE_CHECKING:
    import pandas as pd

NUMBER, DATE, SPAN, WORD = "number", "date", "span", "word"
KINDS = (NUMBER, DATE, SPAN, WORD)
MANY_WORDS = 0.5
"""A column of words with more different ones than this share of rows tells rows apart, not kinds."""
LARGEST = 1e37
"""Larger numbers, or differences of them, leave the range of the single precision that trees work in."""


@dataclass(frozen=True)
class Column:
    """One column that a model is trained on.

    Attributes
    ----------
    name : str
    kind : {"number", "date", "span", "word"}
        Dates and spans of time are taken as numbers of days.
    origin : str
        Of a date, the ISO timestamp that days are counted from.
    words : tuple of str
        Those of a column of words; "" is a missing one.
    """

    name: str
    kind: str
    origin: str = ""
    words: tuple[str, ...] = ()


@dataclass(frozen=True)
class Schema:
    """The columns that a model is trained on, in their order."""

    columns: tuple[Column, ...]

    @property
    def names(self) -> list[str]:
        """The names of the columns."""
        return [column.name for column in self.columns]

    @property
    def words(self) -> list[str]:
        """The names of the columns of words; all others become numbers."""
        return [column.name for column in self.columns if column.kind == WORD]

    @property
    def numbers(self) -> list[str]:
        """The names of the columns that are numbers or become some."""
        return [column.name for column in self.columns if column.kind != WORD]

    def require_columns(self, names: list[str]) -> None:
        """Refuse a table without one of the columns."""
        for column in self.columns:
            if column.name not in names:
                raise TableError(
                    f'the column "{column.name}", which the model was trained on, is missing: '
                    f"{did_you_mean(column.name, names)}"
                )

    def read(self, frame: pd.DataFrame, commas: bool = False, first_row: int = 0) -> pd.DataFrame:
        """Return the columns of a table as floats, with NaN where values are missing, and strings.

        Parameters
        ----------
        frame : DataFrame of n rows
            With further columns, or in another order.
        commas : bool
            Whether numbers in text may have decimal commas.
        first_row : int
            The number of rows before these, for complaints.

        Returns
        -------
        X : DataFrame of shape (n, d)
        """
        self.require_columns(list(frame.columns))
        read = {column.name: _read(column, frame[column.name], commas, first_row) for column in self.columns}
        return require_pandas().DataFrame(read)

    def new_words(self, X: pd.DataFrame) -> Iterator[tuple[str, int, str]]:
        """Yield the columns of words that were not in the training table, how many rows, and the first."""
        for column in self.columns:
            if column.kind == WORD:
                new = ~X[column.name].isin((*column.words, ""))
                if bool(new.any()):
                    yield column.name, int(new.sum()), str(X[column.name][new.idxmax()])


def learn_schema(frame: pd.DataFrame, notes: list[str]) -> Schema:
    """Return what the columns of a training table are; those that can say nothing are left out.

    Parameters
    ----------
    frame : DataFrame of shape (n, d), n at least 1
    notes : list of str
        What was left out is added here.

    Returns
    -------
    schema : Schema
    """
    columns: list[Column] = []
    dropped: list[str] = []
    for name in frame.columns:
        column, reason = _learn(frame[name])
        if reason:
            dropped.append(f"{name} ({reason})")
        else:
            columns.append(column)
    if times := [column.name for column in columns if column.kind in (DATE, SPAN)]:
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
    """Return what kind of column this is."""
    types = require_pandas().api.types
    if types.is_datetime64_any_dtype(column) or _stamps(column) is not None:
        return DATE
    if types.is_timedelta64_dtype(column):
        return SPAN
    written = types.infer_dtype(column, skipna=True)
    # pandas takes a column of gaps alone for one of any kind.
    is_number = types.is_numeric_dtype(column) or written in ("decimal", "boolean", "empty")
    return NUMBER if is_number else WORD


def days(column: pd.Series, origin: str = "") -> pd.Series:
    """Return dates as days since an origin, the first of them by default, and spans of time in days."""
    pandas = require_pandas()
    if not pandas.api.types.is_timedelta64_dtype(column):
        stamps = _stamps(column)
        column = stamps - (pandas.Timestamp(origin) if origin else stamps.min())
    return column / pandas.Timedelta(days=1).as_unit("s")  # of nanoseconds, long spans would overflow


def first_stamp(column: pd.Series) -> str:
    """Return the first of a column's dates as an ISO timestamp, which days may be counted from."""
    return str(_stamps(column).min().isoformat())


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


def _learn(column: pd.Series) -> tuple[Column, str]:
    """Return what a column is, and why it is to be left out, if it is."""
    name, kind = str(column.name), NUMBER
    if unusable := unusable_values(column):
        return Column(name, kind), unusable
    kind = kind_of(column)
    if column.nunique() <= 1:
        return Column(name, kind), "one value"
    if kind == NUMBER and name.startswith("Unnamed:") and column.is_monotonic_increasing:
        return Column(name, kind), "row numbers"
    if kind == WORD and column.nunique() > MANY_WORDS * len(column):
        return Column(name, kind), "words that hardly repeat"
    if kind == DATE:
        return Column(name, kind, origin=first_stamp(column)), ""
    if kind == WORD:
        return Column(name, kind, words=tuple(sorted(_read_words(column).unique()))), ""
    return Column(name, kind), ""


def _read(column: Column, values: pd.Series, commas: bool, first_row: int) -> pd.Series:
    if unusable := unusable_values(values):
        raise TableError(f'the column "{column.name}" holds {unusable}, where {column.kind}s are due.')
    if column.kind == WORD:
        return _read_words(values)
    read = {NUMBER: _read_floats, DATE: _read_dates, SPAN: _read_spans}[column.kind](column, values, commas)
    _refuse(values.notna() & read.isna(), values, f"where {column.kind}s are due", first_row)
    _refuse(~(read.abs() <= LARGEST) & read.notna(), values, "which is too large", first_row)
    return read


def _refuse(wrong: pd.Series, values: pd.Series, why: str, first_row: int) -> None:
    """Complain of the first row that is wrong."""
    wrong = wrong.to_numpy(dtype=bool)
    if wrong.any():
        row = int(np.argmax(wrong))
        raise TableError(
            f'the column "{values.name}" holds "{values.iloc[row]}" in row {first_row + row + 1:,}, {why}.'
        )


def _read_words(values: pd.Series) -> pd.Series:
    return values.astype(object).where(values.notna(), "").astype(str).astype(object)


def _read_floats(column: Column, values: pd.Series, commas: bool) -> pd.Series:
    if is_text(values):
        numbers = read_numbers(values, commas)
        flags = values.astype(object).str.strip().str.lower().map(FLAGS)
        return plain_floats(numbers.where(numbers.notna(), flags.astype("boolean").astype("Float64")))
    if kind_of(values) != NUMBER:
        return require_pandas().Series(np.nan, index=values.index)
    return plain_floats(values)


def _read_dates(column: Column, values: pd.Series, commas: bool) -> pd.Series:
    pandas = require_pandas()
    if is_text(values):
        values = pandas.to_datetime(values, utc=True, errors="coerce", format="ISO8601")
    if not values.notna().any() or kind_of(values) != DATE:
        return pandas.Series(np.nan, index=values.index)
    return days(values, column.origin)


def _read_spans(column: Column, values: pd.Series, commas: bool) -> pd.Series:
    pandas = require_pandas()
    if is_text(values):
        values = pandas.to_timedelta(values, errors="coerce")
    if not pandas.api.types.is_timedelta64_dtype(values):
        return pandas.Series(np.nan, index=values.index)
    return days(values)


def _stamps(column: pd.Series) -> Any:
    """Return dates, or ISO dates in writing, as UTC timestamps, and None for any other column."""
    pandas = require_pandas()
    if pandas.api.types.is_datetime64_any_dtype(column):
        return _in_calendar(pandas.to_datetime(column, utc=True))
    written = is_all(column, ISO_DATE) and bool(column.notna().any())
    if not written and pandas.api.types.infer_dtype(column, skipna=True) not in ("date", "datetime"):
        return None
    stamps = pandas.to_datetime(
        column, utc=True, errors="coerce", **({"format": "ISO8601"} if written else {})
    )
    # What is no date after all, such as a 31st of June, is a word.
    return _in_calendar(stamps) if bool((stamps.notna() == column.notna()).all()) else None


def _in_calendar(stamps: pd.Series) -> pd.Series:
    """Refuse dates that cannot be written, such as those of a damaged file."""
    if not bool(stamps.dt.year.dropna().between(1, 9999).all()):
        raise TableError(f'the column "{stamps.name}" holds dates outside the years 1 to 9999.')
    return stamps
