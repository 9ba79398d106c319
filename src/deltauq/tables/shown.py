"""Values of a table as people read them."""

from __future__ import annotations

from typing import Any

from deltauq.tables.errors import require_pandas
from deltauq.tables.schema import DATE, SPAN, WORD, Column

MISSING = "missing"


def shown(column: Column, value: Any) -> str:
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
    if column.kind == WORD:
        return str(value) or MISSING
    if value != value:
        return MISSING
    if column.kind == DATE:
        pandas = require_pandas()
        stamp = pandas.Timestamp(column.origin) + pandas.Timedelta(days=float(value))
        return str(stamp.date().isoformat())
    number = f"{value:,.0f}" if 1e3 <= abs(value) < 1e12 else f"{value:.4g}"
    return f"{number} days" if column.kind == SPAN else number
