"""`deltauq demo`."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from deltauq.cli import options
from deltauq.cli.files import check_page, writing
from deltauq.utils.progress import counting_bar

if TYPE_CHECKING:
    from deltauq.demo import Demo

app = options.new_app()


@app.command()
def demo(
    out: Annotated[Path, typer.Option("--out", "-o", help="HTML page to write.")] = Path("deltauq-demo.html"),
    as_json: options.Json = False,
) -> None:
    """Show error bars and intervals on two small problems.

    It takes a few seconds. The page shows a gap in one-dimensional data, and a real table.
    """
    from deltauq.demo import render_demo, run_demo

    check_page(out)
    with counting_bar("steps") as tick:
        result = run_demo(tick)
    with writing(out):
        out.write_text(render_demo(result), encoding="utf-8")
    if as_json:
        print(json.dumps({**result.to_dict(), "page": str(out.resolve())}, allow_nan=False))
        return
    _print_result(result)
    print(f"Page: {out.resolve()}")


def _print_result(result: "Demo") -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from deltauq.demo.run import N_TRAIN

    console = Console()
    bands = Table(title="1. A gap in the data", title_justify="left", title_style="bold")
    bands.add_column("base estimator")
    bands.add_column("mean σ in the gap / at the data", justify="right")
    for band in result.bands:
        bands.add_row(band.name, f"{band.gap_ratio:.1f}")
    console.print(bands)
    title = f"\n2. Diabetes: {N_TRAIN} training rows, {len(result.table.y)} test rows"
    scores = Table(title=title, title_justify="left", title_style="bold")
    for name in ("model", "MAE", "rank corr.", "coverage", "width"):
        scores.add_column(name, justify="left" if name == "model" else "right")
    for row in result.table.formatted_scores():
        scores.add_row(*row)
    console.print(scores)
    console.print(Text(result.table.summary()))
