"""`deltauq demo`."""

import json
from pathlib import Path
from typing import Annotated

import typer

from deltauq.cli import options
from deltauq.cli.files import check_page, os_errors_as_input_errors
from deltauq.cli.output import print_table
from deltauq.utils.progress import counting_bar

app = options.new_app()


@app.command()
def demo(
    out: Annotated[Path, typer.Option("--out", "-o", help="HTML page to write.")] = Path("deltauq-demo.html"),
    as_json: options.Json = False,
) -> None:
    """Show standard deviations and intervals on two small problems.

    It takes a few seconds. The page shows a gap in one-dimensional data, and a real table.
    """
    from deltauq.demo import render_demo, run_demo

    check_page(out)
    with counting_bar("steps") as tick:
        result = run_demo(tick)
    with os_errors_as_input_errors(out):
        out.write_text(render_demo(result), encoding="utf-8")
    if as_json:
        print(json.dumps({**result.to_dict(), "page": str(out.resolve())}, allow_nan=False))
        return
    for title, table in result.tables().items():
        print_table(table, title)
    print(f"Page: {out.resolve()}")
