"""`deltauq evaluate`."""

import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from deltauq.cli import options
from deltauq.cli.files import check_page, load_model, writing
from deltauq.utils.progress import counting_bar

if TYPE_CHECKING:
    from deltauq.tables import Evaluation

N_PRINTED = 5
"""The number of slices and rows that are printed; the page and the JSON have more."""

app = typer.Typer(add_completion=False, rich_markup_mode=None)


@app.command()
def evaluate(
    model: options.ModelFolder,
    file: Annotated[Path, typer.Argument(help="Table with known targets that was not used for fitting.")],
    html: options.Html = None,
    trust: options.Trust = None,
    date_format: options.DateFormat = None,
    decimal: options.Decimal = None,
    encoding: options.Encoding = "utf-8",
    as_json: options.Json = False,
) -> None:
    """Compare predictions with known targets.

    The result has errors, empirical coverage, and the slices and rows where they are worst.
    """
    from deltauq import tables

    check_page(html)
    loaded, notes = load_model(model, trust)
    with counting_bar("rows") as tick:
        result = tables.evaluate(
            loaded, file, date_format=date_format, decimal=decimal, encoding=encoding, progress=tick
        )
    result = replace(result, notes=[*notes, *result.notes])
    if html is not None:
        with writing(html):
            result.save_html(html, f"{result.target} of {file.name}, {result.model}")
    page = None if html is None else str(html.resolve())
    if as_json:
        print(json.dumps({"file": str(file), **result.numbers(), "page": page}))
        return
    _print_result(result)
    if page is not None:
        print(f"Page: {page}")


def _print_result(result: "Evaluation") -> None:
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
    for note in result.notes:
        console.print(Text(note))
    console.print(Text(describe(result)))
    console.print(_grid(f"{result.target}, {result.model}, {result.task}", *measure_table(result)))
    console.print(_grid("Levels of risk", *risk_table(result)))
    regression = result.task == "regression"
    loss = "median |error|" if regression else "share of mistakes"
    for title, parts, share in (
        (f"Slices where the {loss} is largest", result.large_loss, not regression),
        ("Slices where the coverage is lowest", result.often_missed, True),
    ):
        if parts:
            console.print(_grid(title, *slice_table(result, parts[:N_PRINTED], share)))
    header, rows = uncertain_table(result)
    title = "The most uncertain rows, with the anchor's value in brackets"
    console.print(_grid(title, header, rows[:N_PRINTED]))


def _grid(title: str, header: list[str], rows: list[list[str]]) -> Any:
    from rich import box
    from rich.table import Table
    from rich.text import Text

    grid = Table(title=title, title_justify="left", title_style="bold", box=box.SIMPLE, padding=(0, 1, 0, 0))
    for name in header:
        grid.add_column(Text(name))
    for row in rows:
        grid.add_row(*map(Text, row))
    return grid
