"""Text columns: recognising and parsing the numbers, flags and dates in them."""

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
"""Possible formats for the shape of a date: Y is four digits, D one or two. With points, the day is first."""
TIME_FORMATS = {
    "": "",
    " D:D": " %H:%M",
    " D:D:D": " %H:%M:%S",
    " D:D AM": " %I:%M %p",
    " D:D:D AM": " %I:%M:%S %p",
}
MONTH = r"(jan|feb|m[aä]r|apr|ma[iy]|jun|jul|aug|sep|o[ck]t|nov|de[cz])[a-z]*\.?"
UNKNOWN_DATE = (
    rf"([a-z]{{2,9}},?\s+)?(\d{{1,2}}\.?[\s/-]*{MONTH}|{MONTH}[\s/-]*\d{{1,2}})[\s,/-]+(\d{{4}}|\d\d)([\sT,].*)?"
    r"|([0-3]?\d[./-][0-3]?\d[./-]\d{4}|\d{4}[./][0-3]?\d[./][0-3]?\d)([\sT,]+\d{1,2}:\d\d.*)?"
)
UNIT = r"([$€£¥%]|EUR|USD|GBP|CHF)"
UNKNOWN_NUMBER = (
    rf"{UNIT}\s*[+-]?\d[\d.,]*|[+-]?\d[\d.,]*\s*{UNIT}"
    rf"|({UNIT}\s*)?[+-]?\d{{1,3}}(['’]\d{{3}})+([.,]\d+)?(\s*{UNIT})?"
    rf"|({UNIT}\s*)?[+-]?\d{{1,3}}(\s\d{{3}})*[.,]\d+(\s*{UNIT})?"
)
"""Dates and numbers in formats that are not recognised; case is ignored."""
MAX_CLASS_VALUES = 10
"""Whole numbers, or numbers with a unit, with at most this many values are classes or categories."""
FLAGS = {"true": True, "false": False}
MIN_PARSED_FRACTION = 0.9
"""If this share of a text column is numbers or dates, the rest must be errors."""


def is_text(column: pd.Series) -> bool:
    """Return whether a column has strings and missing values only."""
    return bool(require_pandas().api.types.infer_dtype(column, skipna=True) == "string")


def is_plain_numbers(column: pd.Series) -> bool:
    """Return whether a column is text that pandas parses as numbers."""
    if not is_text(column):
        return False
    try:
        require_pandas().to_numeric(column)
    except (ValueError, TypeError):
        return False
    return True


def plain_text(column: pd.Series) -> pd.Series:
    """Return a text column as Python strings, with None for missing values; any other column unchanged."""
    if not is_text(column):
        return column
    column = column.astype(object)
    return column.where(column.notna() & ~column.str.strip().isin(MISSING), None)


def check_formats(date_format: str | None = None, decimal: str | None = None) -> None:
    """Raise an error for parameters that are not a date format or not a decimal mark."""
    if decimal not in (None, *DECIMALS):
        raise TableError(f'decimal must be "." or ",", got {decimal!r}.')
    if date_format is not None:
        try:
            require_pandas().to_datetime(["x"], format=date_format, errors="coerce")
        except ValueError as error:
            raise TableError(
                f'"{date_format}" is not a valid date format such as %d.%m.%Y: {error}.'
            ) from error


def infer_decimal(column: pd.Series, decimal: str | None = None) -> str | None:
    """Return the decimal mark of the numbers in a column from `plain_text`, or None if it has other text.

    It is "" if the numbers have no marks, or points that must be decimal marks. With "." or ",", the other
    one may separate thousands. If all numbers are like 1.250, it is ".". The parameter is the decimal mark
    of ambiguous numbers, such as 1,250.
    """
    column = column.dropna()
    numbers = {mark: _parse_as(column, mark) for mark in DECIMALS}
    fits = {mark: bool(numbers[mark].notna().all()) for mark in DECIMALS}
    if not any(fits.values()):
        best = max(numbers.values(), key=lambda values: values.notna().sum())
        # Few values, such as 1, 2, 3, 4 and 5+, are categories.
        if best.notna().mean() >= MIN_PARSED_FRACTION and column.nunique() > MAX_CLASS_VALUES:
            raise _mostly(column, best, "numbers")
        return None
    if decimal and fits[decimal]:
        return decimal
    has_comma, has_point = _contains(column, ","), _contains(column, ".")
    if all(fits.values()) and (has_comma.any() or (has_point.any() and not has_point.all())):
        raise _ambiguous(column[has_comma | has_point])
    if fits["."]:
        return "." if has_comma.any() or (fits[","] and has_point.any()) else ""
    return ","


def has_marks(column: pd.Series) -> bool:
    """Return whether a column is text with points or commas."""
    return is_text(column) and bool((_contains(column, ".") | _contains(column, ",")).any())


def fits_decimal(column: pd.Series, decimal: str) -> bool:
    """Return whether a column is whole numbers, or text that is numbers with this decimal mark."""
    column = plain_text(column).dropna()
    if not is_text(column):
        return bool(require_pandas().api.types.is_integer_dtype(column))
    return bool(_parse_as(column, decimal).notna().all())


def check_points(column: pd.Series) -> None:
    """Raise an error for numbers such as 1.250 in a table that has decimal commas elsewhere."""
    if has_marks(column) and fits_decimal(column, ","):
        column = plain_text(column).dropna()
        raise _ambiguous(column[_contains(column, ".")])


def parse_numbers(column: pd.Series, decimal: str = "") -> pd.Series:
    """Return the numbers or flags in a column from `plain_text`, with missing values for other text.

    The decimal mark is as from `infer_decimal`; with "", numbers with commas are parsed if unambiguous.
    """
    if decimal != ",":
        try:
            return require_pandas().to_numeric(column)
        except (ValueError, TypeError):
            pass  # not all are plain numbers
    flags = column.str.strip().str.lower().map(FLAGS)
    if bool(flags.notna().any()) and bool((flags.notna() == column.notna()).all()):
        return flags.astype("boolean")
    numbers = _parse_as(column, decimal or ".")
    others = numbers if decimal else _parse_as(column, ",")
    if bool(_contains(column, ",").any() or (numbers.isna() & others.notna()).any()):
        ambiguous = (numbers != others) & numbers.notna() & others.notna()
        numbers = numbers.where(numbers.notna(), others).mask(ambiguous)
    if bool(flags.notna().any()):
        numbers = numbers.where(numbers.notna(), flags.astype("boolean").astype("Float64"))
    return numbers


def infer_date_format(column: pd.Series, date_format: str | None = None) -> str | None:
    """Return the format of the dates in a column from `plain_text`, or None if it has other text.

    It is "" for ISO 8601, which is tried first, and then the given format of `datetime.strptime`.
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
    dates = {form: parse_dates(column, form) for form in (*first, *likely)}
    fitting = [form for form in dates if dates[form].notna().all()]
    if not fitting:
        best = max(dates, key=lambda form: dates[form].notna().sum())
        is_date = require_pandas().DataFrame(dates).notna().any(axis=1)
        if is_date.mean() >= MIN_PARSED_FRACTION:
            raise _mostly(column, dates[best], f"dates in the format {best or 'ISO 8601'}")
        return None
    if fitting[0] not in first and len(fitting) > 1:
        raise TableError(
            f'the column "{column.name}" has dates such as {column.iloc[0].strip()}, which may be '
            f"{' or '.join(fitting)}: name the format by --date-format (date_format= in Python)."
        )
    return fitting[0]


def parse_dates(column: pd.Series, date_format: str = "") -> pd.Series:
    """Return the dates in a column from `plain_text` as timestamps in UTC, with NaT for other text.

    Dates may have the given format or, in any case, ISO 8601.
    """
    pandas = require_pandas()
    iso = column.where(column.str.fullmatch(ISO_DATE, na=False).astype(bool), None)
    dates = pandas.to_datetime(iso, utc=True, errors="coerce", format="ISO8601")
    if date_format:
        others = pandas.to_datetime(column.str.strip(), utc=True, errors="coerce", format=date_format)
        dates = dates.where(dates.notna(), others)
    return dates


def check_unrecognised(column: pd.Series) -> None:
    """Raise an error for a column of strings that look like dates or numbers in an unknown format."""
    values = column.dropna().str.strip().drop_duplicates()
    for what, pattern, advice in (
        ("dates", UNKNOWN_DATE, "name their format by --date-format (date_format= in Python)"),
        ("numbers", UNKNOWN_NUMBER, "write them as plain numbers, such as 1250.5"),
    ):
        alike = values.str.fullmatch(f"(?i:{pattern})").astype(bool)
        if alike.mean() >= MIN_PARSED_FRACTION and (what == "dates" or len(values) > MAX_CLASS_VALUES):
            raise TableError(
                f'the column "{column.name}" has values such as "{values[alike].iloc[0]}", which look like '
                f"{what} in an unknown format: {advice}."
            )


def _parse_as(column: pd.Series, decimal: str) -> pd.Series:
    """Return the numbers in a text column with this decimal mark, and NaN for other text."""
    group = "." if decimal == "," else ","
    grouped = rf"\s*[+-]?[1-9]\d{{0,2}}(\{group}\d{{3}})+(\{decimal}\d*)?([eE][+-]?\d+)?\s*"
    has_group = _contains(column, group)
    text = column.where(~has_group | column.str.fullmatch(grouped, na=False).astype(bool), None)
    if decimal == "," or bool(has_group.any()):
        text = text.str.replace(group, "", regex=False).str.replace(decimal, ".", regex=False)
    return require_pandas().to_numeric(text, errors="coerce")


def _contains(column: pd.Series, mark: str) -> pd.Series:
    return column.str.contains(mark, regex=False, na=False).astype(bool)


def _ambiguous(column: pd.Series) -> TableError:
    return TableError(
        f'the column "{column.name}" has numbers such as {column.iloc[0].strip()}, in which the '
        "comma or point may separate thousands or decimals: "
        "name the decimal mark by --decimal (decimal= in Python)."
    )


def _mostly(column: pd.Series, values: pd.Series, what: str) -> TableError:
    other = values.isna()
    first = other.idxmax()
    return TableError(
        f'the column "{column.name}" is {what} except for {int(other.sum()):,} of {len(column):,} values, '
        f'the first of them "{column[first]}" in row {first + 1:,}: fix or remove these values.'
    )
