"""The results in the terminal, in Markdown and in LaTeX."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from experiments.result_tables import PAPER_NOTE, Grid, make_grid, to_latex, to_markdown, to_rich
from experiments.summary import Account

if TYPE_CHECKING:
    from rich.console import Console

NO_TABLES = "It has no tables; `deltauq report --json` prints its figures."


def show(account: Account, console: Console) -> None:
    """Print an experiment's tables with what has to be known about them."""
    from rich.text import Text

    console.print(Text(f"{account.experiment.name}: {account.experiment.title}", style="bold underline"))
    console.print(Text(account.status()))
    console.print()
    for grid in grids(account):
        for piece in to_rich(grid, console.width):
            console.print(piece)
        notes = [PAPER_NOTE] if grid.has_paper else []
        notes += [grid.note] if grid.note else []
        if notes:
            console.print(Text(" ".join(notes), style="dim"))
        console.print()
    if not account.experiment.tables:
        console.print(Text(NO_TABLES.replace("`", "")))
    if account.experiment.notes:
        console.print(Text(account.experiment.notes.replace("`", "")))
    console.print()


def as_markdown(account: Account) -> str:
    """Return an experiment's tables in Markdown, under a heading."""
    return _text(account, f"## {account.experiment.name}: {account.experiment.title}", to_markdown)


def as_latex(account: Account) -> str:
    """Return an experiment's tables in LaTeX, under a comment."""
    return _text(account, f"% {account.experiment.name}: {account.experiment.title}", to_latex, comment="% ")


def grids(account: Account) -> list[Grid]:
    """Return an experiment's tables; those without any figure are left out."""
    summaries = account.summaries()
    made = (make_grid(view, summaries) for view in account.experiment.tables)
    return [grid for grid in made if grid.rows]


def _text(account: Account, heading: str, render: Callable[[Grid], str], comment: str = "") -> str:
    parts = [heading, f"{comment}{account.status()}"]
    if account.experiment.notes:
        parts += [f"{comment}{paragraph}" for paragraph in account.experiment.notes.split("\n\n")]
    parts += [render(grid) for grid in grids(account)]
    return "\n\n".join(parts)
