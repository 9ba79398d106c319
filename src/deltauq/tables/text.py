"""Columns of text: what is written in them as numbers, flags or dates."""

from __future__ import annotations

from typing import TYPE_CHECKING

from deltauq.tables.errors import TableError, require_pandas

if TYPE_CHECKING:
    import pandas as pd

COMMA_NUMBER = r"\s*[+-]?\d+(,\d+)?([eE][+-]?\d+)?\s*"
THOUSANDS = r"\s*[+-]?[1-9]\d{0,2},\d{3}\s*"
BELOW_THOUSAND = r"\s*[+-]?\d{1,3}\s*"
ISO_DATE = r"\s*\d{4}-\d\d-\d\d([T ]\d\d:\d\d.*)?\s*"
FLAGS = {"true": True, "false": False}
MOSTLY = 0.9
"""A column of text of which so large a share, but not all, is numbers is taken for a mistake."""


def typed(column: pd.Series, commas: bool = False) -> pd.Series:
    """Return text as numbers or flags where all of it is written so, and any other as it is.

    Parameters
    ----------
    column : Series of str, with None where values are missing
    commas : bool
        Whether numbers may have decimal commas.

    Returns
    -------
    column : Series of int64, float64, boolean or object
    """
    numbers = read_numbers(column, commas)
    given = column.notna()
    unread = given & numbers.isna()
    if not bool(given.any()):
        return column.astype("float64")
    if not bool(unread.any()):
        if commas:
            _refuse_thousands(column[given])
        return numbers
    flags = column.str.strip().str.lower().map(FLAGS)
    if bool((flags.notna() == given).all()):
        return flags.astype("boolean")
    if 1 - int(unread.sum()) / int(given.sum()) >= MOSTLY:
        first = unread.idxmax()
        raise TableError(
            f'the column "{column.name}" is numbers but for {int(unread.sum()):,} of {int(given.sum()):,} '
            f'values, the first of them "{column[first]}" in row {first + 1:,}: mend or empty them.'
        )
    return column


def _refuse_thousands(column: pd.Series) -> None:
    """Refuse commas that look like separators of thousands: with three digits behind, and not below."""
    if not is_text(column):
        return
    thousands, small = (column.str.fullmatch(pattern) for pattern in (THOUSANDS, BELOW_THOUSAND))
    if bool((thousands | small).all() and thousands.any() and small.any()):
        first = column[thousands].iloc[0].strip()
        raise TableError(
            f'the column "{column.name}" has numbers such as {first}, where the comma may separate thousands '
            "or decimals: write them without, or decimals with a point."
        )


def read_numbers(column: pd.Series, commas: bool = False) -> pd.Series:
    """Return the numbers that are written in a column of text, with NaN for what is none."""
    pandas = require_pandas()
    try:
        return pandas.to_numeric(column)
    except (ValueError, TypeError):
        pass
    if commas:
        written = column.str.fullmatch(COMMA_NUMBER, na=False).astype(bool)
        column = column.where(~written, column.str.replace(",", "."))
    return pandas.to_numeric(column, errors="coerce")


def is_text(column: pd.Series) -> bool:
    """Tell whether a column is made of strings and gaps."""
    return bool(require_pandas().api.types.infer_dtype(column, skipna=True) == "string")


def is_all(column: pd.Series, pattern: str) -> bool:
    """Tell whether a column is made of strings of one pattern, and gaps."""
    return is_text(column) and bool(column.dropna().str.fullmatch(pattern).all())
