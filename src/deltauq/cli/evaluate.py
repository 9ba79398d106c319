"""`deltauq evaluate`."""

import json
import warnings
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from deltauq.cli.complaints import check_writable, complaint_about, told_in_one_line
from deltauq.cli.reading import DecimalMark, chosen_reading, reading_options
from deltauq.utils.progress import counting_bar

if TYPE_CHECKING:
    from deltauq.tables import Evaluation

SHOWN = 5
"""Slices and rows that are printed; the page and the JSON have more."""


def register(app: Any) -> None:
    """Add the command to the app."""
    import typer

    dates, decimals, encodings = reading_options()

    @app.command()
    def evaluate(
        model: Annotated[Path, typer.Argument(help="A model folder that `deltauq fit` wrote.")],
        file: Annotated[Path, typer.Argument(help="A table with targets that the model was not fitted to.")],
        html: Annotated[Path | None, typer.Option(help="Also write a page with figures.")] = None,
        trust: Annotated[
            list[str] | None, typer.Option(help="A type of your own that the model may hold, by full name.")
        ] = None,
        date_format: Annotated[str | None, dates] = None,
        decimal: Annotated[DecimalMark | None, decimals] = None,
        encoding: Annotated[str, encodings] = "utf-8",
        as_json: Annotated[bool, typer.Option("--json", help="Print the numbers as JSON.")] = False,
    ) -> None:
        """Compare predictions with known targets: errors, coverage, and where both are worst."""
        if html is not None:
            check_writable(html)
            import_module("plotly")
        found = run_evaluate(model, file, chosen_reading(date_format, decimal, encoding), trust or [])
        if html is not None:
            with complaint_about(html):
                found.save_html(html, f"{found.target} of {file.name}, {found.model}")
        page = None if html is None else str(html.resolve())
        if as_json:
            print(json.dumps({"file": str(file), **found.numbers(), "page": page}))
            return
        show(found)
        if page is not None:
            print(f"Page: {page}")


def run_evaluate(model: Path, file: Path, words: dict[str, Any], trust: list[str]) -> "Evaluation":
    """Evaluate a model on a file, with a progress bar.

    Parameters
    ----------
    model : Path
        The model folder.
    file : Path
    words : dict
        Further arguments for `deltauq.tables.evaluate`.
    trust : list of str
        Further types that the model may hold.

    Returns
    -------
    evaluation : Evaluation
    """
    from deltauq.tables import evaluate, load

    with told_in_one_line(), counting_bar("rows") as tick:
        with warnings.catch_warnings(record=True) as warned:
            loaded = load(model, trust)
        found = evaluate(loaded, file, progress=tick, **words)
    return replace(found, notes=[*(str(warning.message) for warning in warned), *found.notes])


def show(found: "Evaluation") -> None:
    """Print an evaluation: notes, what matters most, the measures, the worst slices and rows."""
    from rich.console import Console
    from rich.text import Text

    from deltauq.tables.evaluation_page import (
        describe,
        measure_table,
        risk_table,
        slice_table,
        uncertain_table,
    )

    console = Console()
    for note in found.notes:
        console.print(Text(note))
    console.print(Text(describe(found)))
    console.print(_grid(f"{found.target}, {found.model}, {found.task}", *measure_table(found)))
    console.print(_grid("Levels of risk", *risk_table(found)))
    regression = found.task == "regression"
    loss = "median |error|" if regression else "share of mistakes"
    for title, parts, share in (
        (f"Slices where the {loss} is largest", found.large_loss, not regression),
        ("Slices where targets are missed most often", found.often_missed, True),
    ):
        if parts:
            console.print(_grid(title, *slice_table(found, parts[:SHOWN], share)))
    header, rows = uncertain_table(found)
    console.print(_grid("The most uncertain rows, with the anchor's value in brackets", header, rows[:SHOWN]))


def _grid(title: str, header: list[str], rows: list[list[str]]) -> Any:
    """Return a table for the terminal; text is shown literally."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    grid = Table(title=title, title_justify="left", title_style="bold", box=box.SIMPLE, padding=(0, 1, 0, 0))
    for name in header:
        grid.add_column(Text(name))
    for row in rows:
        grid.add_row(*map(Text, row))
    return grid
