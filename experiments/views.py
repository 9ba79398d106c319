"""How result lines become a table: summaries, the words of rows and columns, what the paper says."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal


@dataclass(frozen=True)
class Spread:
    """A metric over the seeds of one configuration.

    Attributes
    ----------
    mean : float
    std : float
        Sample standard deviation over the seeds (divided by count − 1); not a number for a single seed.
    count : int
        Seeds that gave the metric.
    """

    mean: float
    std: float
    count: int


@dataclass(frozen=True)
class Summary:
    """One configuration: all words of its cells but the seed, and every metric over the seeds.

    Attributes
    ----------
    cell : dict
    metrics : dict of str to Spread
    """

    cell: dict[str, Any]
    metrics: dict[str, Spread]


@dataclass(frozen=True)
class TableView:
    """One table made from result lines: a metric over two words of the cells, or several over one.

    Everything else is averaged over.

    Attributes
    ----------
    title : str
    metric : str or tuple of str
        Several metrics make the columns themselves.
    rows, columns : str
        Words of the cells; their values name the rows and the columns, in order of appearance.
    best : {"max", "min"} or None
        Which value of a row is set in bold.
    paper : mapping of (row, column) to float
        The paper's figure, shown beside ours. Values of the words, as strings.
    where : mapping
        Only cells with these values.
    mean_over : tuple of str
        Rows whose mean is added as a last row; none when empty.
    digits : int
        Significant digits of a row's largest value; of a column's, where the columns are metrics with
        nothing to choose between them.
    note : str
        Shown under the table: caveats, where ours falls short and why.
    labels : mapping of str to str
        Other names for values of the two words, and for the rows' word itself, where they are too terse.
    """

    title: str
    metric: str | tuple[str, ...]
    rows: str
    columns: str = ""
    best: Literal["max", "min"] | None = "max"
    paper: Mapping[tuple[str, str], float] = field(default_factory=dict)
    where: Mapping[str, Any] = field(default_factory=dict)
    mean_over: tuple[str, ...] = ()
    digits: int = 3
    note: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
