"""The results as one HTML page."""

from __future__ import annotations

from collections.abc import Sequence

from deltauq._version import __version__
from deltauq.plots.page import Block, Details, Section, Table, render_page
from experiments.result_tables import Grid, to_html
from experiments.showing import NO_TABLES, grids
from experiments.summary import Account

LEAD = (
    "Every figure on this page comes from a line in `results/`, written when its cell was computed. Shown "
    "are the mean and the sample standard deviation over the seeds, the best of a row in bold, and below it "
    "what the paper prints, where it prints something. A click on a name in a figure's legend hides that "
    "series; a double click shows it alone."
)


def render_results(accounts: Sequence[Account]) -> str:
    """Return the page that shows the lines of several experiments."""
    sections = [Section(_title(account), _blocks(account)) for account in accounts]
    footer = f"deltauq {__version__}. Method and paper: Δ-UQ, arXiv 2110.02197."
    return render_page("deltauq: results", LEAD, sections, footer=footer, contents=True)


def _title(account: Account) -> str:
    return f"{account.experiment.name}: {account.experiment.title}"


def _blocks(account: Account) -> list[Block]:
    experiment = account.experiment
    blocks: list[Block] = [*experiment.notes.split("\n\n")] if experiment.notes else []
    blocks.append(account.status())
    if not experiment.tables and experiment.figures is None:
        blocks.append(NO_TABLES)
    if experiment.figures is not None:
        blocks.append(experiment.figures(account.lines))
    blocks += [_table(grid, index == 0) for index, grid in enumerate(grids(account))]
    blocks.append(Details("Provenance", [_provenance(account)]))
    return blocks


def _table(grid: Grid, first: bool) -> Details:
    """Return a table that is open where it comes first or has something of the paper's to compare with."""
    blocks: list[Block] = [to_html(grid)]
    if grid.note:
        blocks.append(grid.note)
    return Details(grid.title, blocks, open=first or grid.has_paper)


def _provenance(account: Account) -> Table:
    rows = [[name, "; ".join(values)] for name, values in account.provenance().items()]
    rows += [
        ["lines", str(len(account.lines))],
        ["computing time", f"{account.seconds():.0f} seconds"],
    ]
    return Table(["", "what made these figures"], rows)
