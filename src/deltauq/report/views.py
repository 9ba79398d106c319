"""How result lines become a table: which words make rows and columns, and what the paper says."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal


@dataclass(frozen=True)
class TableView:
    """One table made from result lines: a metric over two words of the cells, averaged over everything else.

    Attributes
    ----------
    title : str
    metric : str
    rows, columns : str
        Words of the cells; their values name the rows and the columns, in order of appearance.
    best : {"max", "min"} or None
        Which value of a row is set in bold.
    paper : mapping of (row, column) to float
        The paper's figure, shown beside ours. Names as they are shown, so strings.
    where : mapping
        Only cells with these values.
    mean_over : tuple of str
        Rows whose mean is added as a last row; none when empty.
    digits : int
        Significant digits.
    note : str
        Shown under the table: caveats, where ours falls short and why.
    """

    title: str
    metric: str
    rows: str
    columns: str
    best: Literal["max", "min"] | None = "max"
    paper: Mapping[tuple[str, str], float] = field(default_factory=dict)
    where: Mapping[str, Any] = field(default_factory=dict)
    mean_over: tuple[str, ...] = ()
    digits: int = 3
    note: str = ""
