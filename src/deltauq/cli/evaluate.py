"""`deltauq evaluate`."""

import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from deltauq.cli import options
from deltauq.cli.files import check_page, load_model, writing
from deltauq.utils.progress import counting_bar

if TYPE_CHECKING:
    from deltauq.tables import Evaluation

app = options.new_app()


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
        print(json.dumps({"file": str(file), **result.to_dict(), "page": page}))
        return
    _print_result(result)
    if page is not None:
        print(f"Page: {page}")


def _print_result(result: "Evaluation") -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console()
    for note in result.notes:
        console.print(Text(note))
    console.print(Text(result.heading(), style="bold"))
    console.print(Text(result.summary()))
    for title, table in result.tables().items():
        grid = Table(
            title=title, title_justify="left", title_style="bold", box=box.SIMPLE, padding=(0, 1, 0, 0)
        )
        for name in table.header:
            grid.add_column(Text(name))
        for row in table.rows:
            grid.add_row(*map(Text, row))  # Text: cells may contain rich markup
        console.print(grid)
        if table.caption:
            console.print(Text(table.caption))
