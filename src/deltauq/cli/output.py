"""Results in the terminal, as JSON and as HTML pages."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from deltauq.cli.files import os_errors_as_input_errors

if TYPE_CHECKING:
    from deltauq.assessment.result import Result
    from deltauq.plots.page import Table

WIDE = 100
"""Terminals of this width have space between columns."""


def print_table(table: "Table", title: str = "") -> None:
    """Print a table, with its caption below it."""
    from rich import box
    from rich.console import Console
    from rich.table import Table as Grid
    from rich.text import Text

    console = Console()
    padding = (0, 1 if console.width >= WIDE else 0, 0, 0)
    grid = Grid(title=Text(title), title_justify="left", title_style="bold", box=box.SIMPLE, padding=padding)
    columns: Any = zip(*table.rows, strict=True) if table.rows else ((),) * len(table.header)
    for name, cells, numeric in zip(table.header, columns, table.numeric_columns(), strict=True):
        width = max(map(len, cells), default=0) if numeric else None  # numbers do not wrap
        grid.add_column(Text(name), justify="right" if numeric else "left", overflow="fold", min_width=width)
    for i, row in enumerate(table.rows):
        grid.add_row(*map(Text, row), style="bold" if (i, 0) in table.bold else "")
    console.print(grid)
    if table.caption:
        print_text(f"{table.caption}\n")


def print_text(*lines: str, bold: bool = False) -> None:
    """Print lines, wrapped at the width of the terminal."""
    from rich.console import Console
    from rich.text import Text

    for line in lines:
        Console().print(Text(line), style="bold" if bold else "")


def show_result(
    result: "Result", about: dict[str, Any], html: Path | None, title: str, *, as_json: bool
) -> None:
    """Write the page of a result, and print the result as text or as JSON.

    Parameters
    ----------
    result : Result
    about : dict
        Additional values for the JSON.
    html : Path, optional
    title : str
        Title of the page.
    as_json : bool
    """
    if html is not None:
        with os_errors_as_input_errors(html):
            result.save_html(html, title)
    page = None if html is None else str(html.resolve())
    numbers = {**about, **result.to_dict(), "page": page}
    if as_json:
        print(json.dumps(numbers))
        return
    if numbers["notes"]:
        print_text(*numbers["notes"], "")
    print_text(result.heading(), bold=True)
    for name, table in result.tables().items():
        print_table(table, name)
    print_text(result.summary())
    if page is not None:
        print(f"Page: {page}")
