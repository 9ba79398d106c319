"""Tables made from result lines, for the terminal, HTML pages, Markdown and LaTeX."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Literal

from deltauq.plots import Table
from experiments.display_names import DISPLAY_NAMES
from experiments.summary import Spread, Summary

if TYPE_CHECKING:
    from rich.table import Table as RichTable

ABSENT = "–"
MEAN_ROW = "mean"
GEOMETRIC_MEAN_ROW = "geometric mean"
PAPER_NOTE = "In parentheses: the paper's figure."


@dataclass(frozen=True)
class TableSpec:
    """One table made from result lines: a metric over two keys of the cells, or several metrics over one key.

    The remaining keys are averaged over.

    Attributes
    ----------
    title : str
    metric : str or tuple of str
        Several metrics are the columns themselves.
    rows, columns : str
        Keys of the cells; their values name the rows and the columns, in order of appearance.
    best : {"max", "min"} or None
        Which value of a row is set in bold.
    paper : mapping of (row, column) to float
        The paper's figures, for comparison.
    where : mapping
        Only cells with these values.
    mean_over : tuple of str
        Rows whose mean is added as a last row; none if empty.
    relative_to : str
        A column whose figures divide those of their rows. The last rows are then the geometric mean of
        these ratios, and the number of rows where a column is at least as good as this one.
    digits : int
        Significant digits of a row's largest value, or of a column's if the columns are metrics and ``best``
        is None.
    note : str
        Shown under the table.
    labels : mapping of str to str
        Names of rows, columns and of the row key, in addition to `DISPLAY_NAMES`.
    """

    title: str
    metric: str | tuple[str, ...]
    rows: str
    columns: str = ""
    best: Literal["max", "min"] | None = "max"
    paper: Mapping[tuple[str, str], float] = field(default_factory=dict)
    where: Mapping[str, Any] = field(default_factory=dict)
    mean_over: tuple[str, ...] = ()
    relative_to: str = ""
    digits: int = 3
    note: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class GridCell:
    """One figure of a table as text: ours, the paper's, and whether ours is the best of its row."""

    mean: str = ABSENT
    std: str = ""
    paper: str = ""
    best: bool = False

    @property
    def ours(self) -> str:
        """Our figure with its standard deviation, where there is one."""
        return f"{self.mean} ± {self.std}" if self.std else self.mean


@dataclass(frozen=True)
class Grid:
    """A table of figures, ready to be set in any medium.

    Attributes
    ----------
    title : str
    corner : str
        Heads the column of row names.
    columns : tuple of c str
    rows : tuple of (str, tuple of c GridCell)
    note : str
    """

    title: str
    corner: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, tuple[GridCell, ...]], ...]
    note: str = ""

    @property
    def has_paper(self) -> bool:
        """Whether any cell has a figure of the paper's."""
        return any(cell.paper for _, cells in self.rows for cell in cells)


def make_grid(spec: TableSpec, summaries: Sequence[Summary]) -> Grid:
    """Return the table of a specification.

    A cell that several configurations fall into shows the mean of their means, without a standard deviation:
    they differ by more than the seed. Rows and columns without any figure are left out.
    """
    values = _values(spec, summaries)
    if spec.relative_to:
        values = _ratios(values, spec.relative_to)
    labels = {**DISPLAY_NAMES, **spec.labels}
    rows, columns = (list(dict.fromkeys(key[axis] for key in values)) for axis in (0, 1))
    if not isinstance(spec.metric, str):
        columns = [name for name in spec.metric if name in columns]
    paper = dict(spec.paper)
    names = [labels.get(row, row) for row in rows]
    if averaged := [row for row in rows if row in spec.mean_over]:
        values |= _mean_row(averaged, columns, {key: value.mean for key, value in values.items()})
        paper |= {
            key: float(f"{value.mean:.{spec.digits}g}")
            for key, value in _mean_row(averaged, columns, paper).items()
        }
        rows, names = [*rows, MEAN_ROW], [*names, _mean_name(averaged, rows)]
    table = [[values.get((row, column)) for column in columns] for row in rows]
    grid_rows = [
        (name, _cells(of_row, [paper.get((row, column)) for column in columns], formats, spec.best))
        for row, name, of_row, formats in zip(rows, names, table, _formatters(table, spec), strict=True)
    ]
    if spec.relative_to:
        grid_rows += _comparison_rows(table, spec)
    return Grid(
        spec.title,
        labels.get(spec.rows, spec.rows),
        tuple(labels.get(column, column) for column in columns),
        tuple(grid_rows),
        spec.note,
    )


def to_html(grid: Grid) -> Table:
    """Return the table of an HTML page; the paper's figures stand on a second line."""
    rows = [
        [name, *(f"{cell.ours}\npaper {cell.paper}" if cell.paper else cell.ours for cell in cells)]
        for name, cells in grid.rows
    ]
    bold = {
        (row, column)
        for row, (_, cells) in enumerate(grid.rows)
        for column, cell in enumerate(cells, start=1)
        if cell.best
    }
    return Table([grid.corner, *grid.columns], rows, bold=frozenset(bold))


def to_markdown(grid: Grid) -> str:
    """Return the table in Markdown, its title above and its note below."""

    def text(cell: GridCell) -> str:
        ours = f"**{cell.ours}**" if cell.best else cell.ours
        return f"{ours} (paper {cell.paper})" if cell.paper else ours

    lines = [[grid.corner, *grid.columns], ["---", *["---:"] * len(grid.columns)]]
    lines += [[name, *map(text, cells)] for name, cells in grid.rows]
    table = "\n".join(f"| {' | '.join(_in_markdown(cell) for cell in line)} |" for line in lines)
    return "\n\n".join(filter(None, [f"**{grid.title}**", table, grid.note]))


def to_latex(grid: Grid) -> str:
    """Return the table in LaTeX; it needs the package booktabs."""

    def text(cell: GridCell) -> str:
        ours = escape_latex(cell.ours)
        paper = f" ({escape_latex(cell.paper)})" if cell.paper else ""
        return (f"\\textbf{{{ours}}}" if cell.best else ours) + paper

    caption = " ".join(
        escape_latex(sentence)
        for sentence in (_sentence(grid.title), PAPER_NOTE if grid.has_paper else "", grid.note)
        if sentence
    )
    head = [escape_latex(name) for name in (grid.corner, *grid.columns)]
    body = [[escape_latex(name), *map(text, cells)] for name, cells in grid.rows]
    return "\n".join(
        [
            "\\begin{table}",
            "\\centering",
            f"\\caption{{{caption}}}",
            f"\\begin{{tabular}}{{l{'r' * len(grid.columns)}}}",
            "\\toprule",
            " & ".join(head) + " \\\\",
            "\\midrule",
            *(" & ".join(line) + " \\\\" for line in body),
            "\\bottomrule",
            "\\end{tabular}",
            "\\end{table}",
        ]
    )


def to_rich(grid: Grid, width: int) -> list[RichTable]:
    """Return the table for a terminal, in as few pieces of about equally many columns as fit into its width.

    Parameters
    ----------
    width : int
        Characters in a line of the terminal.
    """
    from rich.console import Console
    from rich.measure import Measurement

    console = Console(width=10_000)
    pieces: list[RichTable] = []
    for count in range(1, max(1, len(grid.columns)) + 1):
        pieces = [_rich_table(grid, columns) for columns in _split(len(grid.columns), count)]
        widest = max(Measurement.get(console, console.options, piece).maximum for piece in pieces)
        if widest <= width:
            break
    pieces[0].title = grid.title
    return pieces


def escape_latex(text: str) -> str:
    """Return text with everything LaTeX would read as a command, or not at all, spelt out."""
    return "".join(_LATEX.get(character, character) for character in text)


def _split(n: int, count: int) -> list[range]:
    """Return 0 to n − 1 in this many pieces; the earlier ones are longer by at most one."""
    edges = [(piece * n + count - 1) // count for piece in range(count + 1)]
    return [range(start, end) for start, end in pairwise(edges)]


def _rich_table(grid: Grid, columns: range) -> RichTable:
    from rich import box
    from rich.table import Table as RichTable
    from rich.text import Text

    def text(cell: GridCell) -> Text:
        content = Text(cell.ours, style="bold" if cell.best else "")
        return content.append(f"\n({cell.paper})", style="not bold dim") if cell.paper else content

    table = RichTable(title_justify="left", title_style="bold", box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column(grid.corner)
    for column in columns:
        table.add_column(grid.columns[column], justify="right")
    for name, cells in grid.rows:
        table.add_row(name, *(text(cells[column]) for column in columns))
    return table


def _values(spec: TableSpec, summaries: Iterable[Summary]) -> dict[tuple[str, str], Spread]:
    """Return what falls into each cell of the table, by row and column."""
    spreads: dict[tuple[str, str], list[Spread]] = {}
    for summary in summaries:
        cell = summary.cell
        selected = all(cell.get(key) == value for key, value in spec.where.items())
        if selected and spec.rows in cell:
            for column, spread in _columns(spec, summary):
                spreads.setdefault((str(cell[spec.rows]), column), []).append(spread)
    return {
        key: several[0] if len(several) == 1 else _mean_of(spread.mean for spread in several)
        for key, several in spreads.items()
    }


def _columns(spec: TableSpec, summary: Summary) -> list[tuple[str, Spread]]:
    """Return the columns that a summary has a figure for: one, or one for each of several metrics."""
    if not isinstance(spec.metric, str):
        return [(name, summary.metrics[name]) for name in spec.metric if name in summary.metrics]
    if spec.columns in summary.cell and spec.metric in summary.metrics:
        return [(str(summary.cell[spec.columns]), summary.metrics[spec.metric])]
    return []


def _mean_of(values: Iterable[float]) -> Spread:
    values = list(values)
    return Spread(math.fsum(values) / len(values), math.nan, len(values))


def _mean_row(
    rows: Sequence[str], columns: Sequence[str], values: dict[tuple[str, str], float]
) -> dict[tuple[str, str], Spread]:
    """Return the mean of every column over rows; a column that lacks one of them has none."""
    return {
        (MEAN_ROW, column): _mean_of(values[row, column] for row in rows)
        for column in columns
        if all((row, column) in values for row in rows)
    }


def _ratios(values: dict[tuple[str, str], Spread], reference: str) -> dict[tuple[str, str], Spread]:
    """Divide the figures by those of the reference column; rows without one are left out."""
    divisors = {row: value.mean for (row, column), value in values.items() if column == reference}
    return {
        (row, column): Spread(value.mean / divisors[row], math.nan, value.count)
        for (row, column), value in values.items()
        if divisors.get(row)
    }


def _comparison_rows(
    ratios: list[list[Spread | None]], spec: TableSpec
) -> list[tuple[str, tuple[GridCell, ...]]]:
    """Return the geometric mean of every column of ratios, and how many of them are at least as good as 1."""
    columns = [[ratio.mean for ratio in column if ratio is not None] for column in zip(*ratios, strict=True)]
    means = [
        Spread(math.exp(math.fsum(map(math.log, column)) / len(column)), math.nan, len(column))
        if len(column) == len(ratios) and min(column) > 0.0
        else None
        for column in columns
    ]
    mean_row = _cells(means, [None] * len(means), [_formatter(means, spec.digits)] * len(means), spec.best)
    if spec.best is None:
        return [(GEOMETRIC_MEAN_ROW, mean_row)]
    counts = tuple(
        GridCell(
            f"{sum(ratio >= 1 if spec.best == 'max' else ratio <= 1 for ratio in column)} of {len(column)}"
        )
        for column in columns
    )
    reference = {**DISPLAY_NAMES, **spec.labels}.get(spec.relative_to, spec.relative_to)
    return [(GEOMETRIC_MEAN_ROW, mean_row), (f"at least as good as {reference}", counts)]


def _mean_name(averaged: Sequence[str], rows: Sequence[str]) -> str:
    return MEAN_ROW if len(averaged) == len(rows) else f"{MEAN_ROW} of {len(averaged)}"


def _cells(
    values: Sequence[Spread | None],
    paper: Sequence[float | None],
    formats: Sequence[Callable[[float], str]],
    which: str | None,
) -> tuple[GridCell, ...]:
    """Return one row as text."""
    means = [value.mean for value in values if value is not None and math.isfinite(value.mean)]
    best = _best(means, which)
    return tuple(
        GridCell(
            ABSENT if value is None else show(value.mean),
            show(value.std) if value is not None and math.isfinite(value.std) else "",
            "" if printed is None else _minus(f"{printed:.6g}"),
            value is not None and value.mean == best,
        )
        for value, printed, show in zip(values, paper, formats, strict=True)
    )


def _best(means: Sequence[float], which: str | None) -> float | None:
    """Return the best value of a row; none where there is nothing to choose from."""
    if which is None or len(means) < 2:
        return None
    return max(means) if which == "max" else min(means)


def _formatters(table: list[list[Spread | None]], spec: TableSpec) -> list[list[Callable[[float], str]]]:
    """Return what writes the figures of each row, column by column."""
    n_columns = len(table[0]) if table else 0
    # Metrics with nothing to choose between them have scales of their own.
    if n_columns > 1 and not isinstance(spec.metric, str) and spec.best is None:
        return [[_formatter(column, spec.digits) for column in zip(*table, strict=True)]] * len(table)
    return [[_formatter(row, spec.digits)] * n_columns for row in table]


def _formatter(values: Iterable[Spread | None], digits: int) -> Callable[[float], str]:
    """Return the function that writes means and deviations, all to the same decimal place."""
    numbers = [number for value in values if value is not None for number in (value.mean, value.std)]
    largest = max((abs(number) for number in numbers if math.isfinite(number)), default=0.0)
    exponent = math.floor(math.log10(largest)) if largest > 0 else 0
    if not -6 < exponent < 7:
        return lambda value: _minus(f"{value:.{digits - 1}e}")
    decimals = max(0, digits - 1 - exponent)

    def show(value: float) -> str:
        text = f"{value:.{decimals}f}"
        return text.lstrip("-") if float(text) == 0 else _minus(text)  # no "−0.00"

    return show


def _minus(text: str) -> str:
    return text.replace("-", "−", 1) if text.startswith("-") else text


def _in_markdown(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


def _sentence(text: str) -> str:
    return text if text.endswith((".", "?", "!")) else f"{text}."


_LATEX = {
    **{character: f"\\{character}" for character in "&%$#_{}"},
    "\\": "\\textbackslash{}",
    "~": "\\textasciitilde{}",
    "^": "\\textasciicircum{}",
    "±": "$\\pm$",
    "−": "$-$",
    "–": "--",
    "×": "$\\times$",
    "≤": "$\\leq$",
    "≥": "$\\geq$",
    "|": "$|$",
    "<": "$<$",
    ">": "$>$",
    "²": "$^2$",
    "₁": "$_1$",
    "₂": "$_2$",
    "σ": "$\\sigma$",
    "μ": "$\\mu$",
    "Δ": "$\\Delta$",
}
