"""Columns of text: the numbers, flags and dates that are written in them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from deltauq.tables.errors import TableError, require_pandas

if TYPE_CHECKING:
    import pandas as pd

MISSING = [
    *("", "?", "NA", "N/A", "n/a", "NaN", "nan", "-nan", "-NaN", "None", "none", "NULL", "null", "<NA>"),
    *("#N/A", "#NA", "#N/A N/A", "1.#IND", "1.#QNAN", "-1.#IND", "-1.#QNAN"),
]
"""Text that stands for a missing value."""
DECIMALS = (".", ",")
ISO_DATE = r"\s*\d{4}-\d\d-\d\d([T ]\d\d:\d\d.*)?\s*"
DATE_FORMATS = {
    "D.D.Y": ("%d.%m.%Y",),
    "D/D/Y": ("%d/%m/%Y", "%m/%d/%Y"),
    "D-D-Y": ("%d-%m-%Y", "%m-%d-%Y"),
    "Y.D.D": ("%Y.%m.%d",),
    "Y/D/D": ("%Y/%m/%d",),
    "Y-D-D": ("%Y-%m-%d",),
    "D.D.D": ("%d.%m.%y",),
    "D/D/D": ("%d/%m/%y", "%m/%d/%y", "%y/%m/%d"),
    "D-D-D": ("%d-%m-%y", "%m-%d-%y", "%y-%m-%d"),
}
"""From the shape of a date to its possible formats: Y is four digits, D one or two. Points are day first."""
TIME_FORMATS = {
    "": "",
    " D:D": " %H:%M",
    " D:D:D": " %H:%M:%S",
    " D:D AM": " %I:%M %p",
    " D:D:D AM": " %I:%M:%S %p",
}
MONTH = r"(jan|feb|m[aä]r|apr|ma[iy]|jun|jul|aug|sep|o[ck]t|nov|de[cz])[a-z]*\.?"
UNREAD_DATE = (
    rf"([a-z]{{2,9}},?\s+)?(\d{{1,2}}\.?[\s/-]*{MONTH}|{MONTH}[\s/-]*\d{{1,2}})[\s,/-]+(\d{{4}}|\d\d)([\sT,].*)?"
    r"|([0-3]?\d[./-][0-3]?\d[./-]\d{4}|\d{4}[./][0-3]?\d[./][0-3]?\d)([\sT,]+\d{1,2}:\d\d.*)?"
)
UNIT = r"([$€£¥%]|EUR|USD|GBP|CHF)"
UNREAD_NUMBER = (
    rf"{UNIT}\s*[+-]?\d[\d.,]*|[+-]?\d[\d.,]*\s*{UNIT}"
    rf"|({UNIT}\s*)?[+-]?\d{{1,3}}(['’]\d{{3}})+([.,]\d+)?(\s*{UNIT})?"
    rf"|({UNIT}\s*)?[+-]?\d{{1,3}}(\s\d{{3}})*[.,]\d+(\s*{UNIT})?"
)
"""Dates and numbers in other forms than those that are recognised; case is ignored."""
FEW_VALUES = 10
"""Whole numbers, or numbers with a unit, with no more different values than this are taken for classes."""
FLAGS = {"true": True, "false": False}
MOSTLY = 0.9
"""A column of text of which so large a share, but not all, is numbers or dates is taken for a mistake."""


def is_text(column: pd.Series) -> bool:
    """Tell whether a column is made of strings and missing values."""
    return bool(require_pandas().api.types.infer_dtype(column, skipna=True) == "string")


def is_plain_numbers(column: pd.Series) -> bool:
    """Tell whether a column is text that pandas reads as numbers."""
    if not is_text(column):
        return False
    try:
        require_pandas().to_numeric(column)
    except (ValueError, TypeError):
        return False
    return True


def plain_text(column: pd.Series) -> pd.Series:
    """Return a column of text as Python strings, with None for missing values; any other column as it is.

    White space around a missing value is ignored.
    """
    if not is_text(column):
        return column
    column = column.astype(object)
    return column.where(column.notna() & ~column.str.strip().isin(MISSING), None)


def check_formats(date_format: str | None = None, decimal: str | None = None) -> None:
    """Refuse formats that mean nothing."""
    if decimal not in (None, *DECIMALS):
        raise TableError(f'decimal must be "." or ",", got {decimal!r}.')
    if date_format is not None:
        try:
            require_pandas().to_datetime(["x"], format=date_format, errors="coerce")
        except ValueError as error:
            raise TableError(f'"{date_format}" is no format of dates, such as %d.%m.%Y: {error}.') from error


def learn_decimal(column: pd.Series, decimal: str | None = None) -> str | None:
    """Return the decimal mark of the numbers in a column of text, or None if it has other text, too.

    Parameters
    ----------
    column : Series of str, with None for missing values
    decimal : {".", ","} or None
        How to read numbers that can be read in two ways, such as 1,250.

    Returns
    -------
    decimal : {"", ".", ","} or None
        With "." or ",", the other of the two may separate thousands; "" if the numbers have neither, or
        points that can only be decimal marks. Where all numbers are such as 1.250, it is ".".
    """
    column = column.dropna()
    found = {mark: _read_as(column, mark) for mark in DECIMALS}
    fits = {mark: bool(found[mark].notna().all()) for mark in DECIMALS}
    if not any(fits.values()):
        numbers = max(found.values(), key=lambda numbers: numbers.notna().sum())
        # Few values, such as 1, 2, 3, 4 and 5+, are categories.
        if numbers.notna().mean() >= MOSTLY and column.nunique() > FEW_VALUES:
            raise _unread(column, numbers, "numbers")
        return None
    if decimal and fits[decimal]:
        return decimal
    has_comma, has_point = _has(column, ","), _has(column, ".")
    if all(fits.values()) and (has_comma.any() or (has_point.any() and not has_point.all())):
        raise _ambiguous_number(column[has_comma | has_point])
    if fits["."]:
        return "." if has_comma.any() or (fits[","] and has_point.any()) else ""
    return ","


def has_marks(column: pd.Series) -> bool:
    """Tell whether a column is text with points or commas in it."""
    return is_text(column) and bool((_has(column, ".") | _has(column, ",")).any())


def fits_decimal(column: pd.Series, decimal: str) -> bool:
    """Tell whether a column is whole numbers, or text that can be read as numbers with this decimal mark."""
    column = plain_text(column).dropna()
    if not is_text(column):
        return bool(require_pandas().api.types.is_integer_dtype(column))
    return bool(_read_as(column, decimal).notna().all())


def check_points(column: pd.Series) -> None:
    """Refuse numbers such as 1.250 in a table that has decimal commas elsewhere."""
    if has_marks(column) and fits_decimal(column, ","):
        column = plain_text(column).dropna()
        raise _ambiguous_number(column[_has(column, ".")])


def read_numbers(column: pd.Series, decimal: str = "") -> pd.Series:
    """Return the numbers or flags in a column of text, with missing values for anything else.

    Parameters
    ----------
    column : Series of str, with None for missing values
    decimal : {"", ".", ","}
        As from `learn_decimal`. With "", a column with commas is read where a number can be read in one
        way only.

    Returns
    -------
    numbers : Series of int64, float64 or boolean
    """
    if decimal != ",":
        try:
            return require_pandas().to_numeric(column)
        except (ValueError, TypeError):
            pass  # not all are plain numbers
    flags = column.str.strip().str.lower().map(FLAGS)
    if bool(flags.notna().any()) and bool((flags.notna() == column.notna()).all()):
        return flags.astype("boolean")
    numbers = _read_as(column, decimal or ".")
    others = numbers if decimal else _read_as(column, ",")
    if bool(_has(column, ",").any() or (numbers.isna() & others.notna()).any()):
        ambiguous = (numbers != others) & numbers.notna() & others.notna()
        numbers = numbers.where(numbers.notna(), others).mask(ambiguous)
    if bool(flags.notna().any()):
        numbers = numbers.where(numbers.notna(), flags.astype("boolean").astype("Float64"))
    return numbers


def learn_date_format(column: pd.Series, date_format: str | None = None) -> str | None:
    """Return the format of the dates in a column of text, or None if it has other text, too.

    Parameters
    ----------
    column : Series of str, with None for missing values
    date_format : str or None
        A format of `datetime.strptime` that is tried first.

    Returns
    -------
    date_format : str or None
        "" is ISO 8601.
    """
    column = column.dropna()
    shapes = column.str.strip().drop_duplicates()
    for pattern, shape in ((r"\d{4}", "Y"), (r"\d\d?", "D"), ("(?i)[ap]m$", "AM")):
        shapes = shapes.str.replace(pattern, shape, regex=True)
    present = set(shapes)
    likely = [
        form + time_form
        for date_shape, forms in DATE_FORMATS.items()
        for time_shape, time_form in TIME_FORMATS.items()
        if date_shape + time_shape in present
        for form in forms
    ]
    first = ["", date_format] if date_format else [""]
    found = {form: read_dates(column, form) for form in (*first, *likely)}
    fitting = [form for form in found if found[form].notna().all()]
    if not fitting:
        best = max(found, key=lambda form: found[form].notna().sum())
        is_date = require_pandas().DataFrame(found).notna().any(axis=1)
        if is_date.mean() >= MOSTLY:
            raise _unread(column, found[best], f"dates in the format {best or 'ISO 8601'}")
        return None
    if fitting[0] not in first and len(fitting) > 1:
        raise TableError(
            f'the column "{column.name}" has dates such as {column.iloc[0].strip()}, which may be '
            f"{' or '.join(fitting)}: name the format by --date-format (date_format= in Python)."
        )
    return fitting[0]


def read_dates(column: pd.Series, date_format: str = "") -> pd.Series:
    """Return the dates in a column of text as timestamps in UTC, with NaT for anything else.

    Parameters
    ----------
    column : Series of str, with None for missing values
    date_format : str
        As from `learn_date_format`. Dates in ISO 8601 are read in any case.
    """
    pandas = require_pandas()
    iso = column.where(column.str.fullmatch(ISO_DATE, na=False).astype(bool), None)
    dates = pandas.to_datetime(iso, utc=True, errors="coerce", format="ISO8601")
    if date_format:
        others = pandas.to_datetime(column.str.strip(), utc=True, errors="coerce", format=date_format)
        dates = dates.where(dates.notna(), others)
    return dates


def check_unread(column: pd.Series) -> None:
    """Refuse text that looks like dates or numbers in a form that is not recognised.

    Parameters
    ----------
    column : Series of str, with None for missing values
    """
    values = column.dropna().str.strip().drop_duplicates()
    for what, pattern, advice in (
        ("dates", UNREAD_DATE, "name their format by --date-format (date_format= in Python)"),
        ("numbers", UNREAD_NUMBER, "write them as plain numbers, such as 1250.5"),
    ):
        alike = values.str.fullmatch(f"(?i:{pattern})").astype(bool)
        if alike.mean() >= MOSTLY and (what == "dates" or len(values) > FEW_VALUES):
            raise TableError(
                f'the column "{column.name}" has values such as "{values[alike].iloc[0]}", which look like '
                f"{what} in a form that is not recognised: {advice}."
            )


def _read_as(column: pd.Series, decimal: str) -> pd.Series:
    """Return the numbers in a column of text by their decimal mark, and NaN for what is none."""
    group = "." if decimal == "," else ","
    grouped = rf"\s*[+-]?[1-9]\d{{0,2}}(\{group}\d{{3}})+(\{decimal}\d*)?([eE][+-]?\d+)?\s*"
    has_group = _has(column, group)
    text = column.where(~has_group | column.str.fullmatch(grouped, na=False).astype(bool), None)
    if decimal == "," or bool(has_group.any()):
        text = text.str.replace(group, "", regex=False).str.replace(decimal, ".", regex=False)
    return require_pandas().to_numeric(text, errors="coerce")


def _has(column: pd.Series, mark: str) -> pd.Series:
    return column.str.contains(mark, regex=False, na=False).astype(bool)


def _ambiguous_number(column: pd.Series) -> TableError:
    return TableError(
        f'the column "{column.name}" has numbers such as {column.iloc[0].strip()}, where the mark may be '
        "that of thousands or of decimals: name the decimal mark by --decimal (decimal= in Python)."
    )


def _unread(column: pd.Series, read: pd.Series, what: str) -> TableError:
    unread = read.isna()
    first = unread.idxmax()
    return TableError(
        f'the column "{column.name}" is {what} but for {int(unread.sum()):,} of {len(column):,} values, '
        f'the first of them "{column[first]}" in row {first + 1:,}: fix or empty them.'
    )
