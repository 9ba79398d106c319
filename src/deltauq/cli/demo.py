"""`deltauq demo`."""

import json
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from deltauq.cli.complaints import check_writable, complaint_about
from deltauq.utils.progress import counting_bar

if TYPE_CHECKING:
    from deltauq.demo import Demo


def register(app: Any) -> None:
    """Add the command to the app."""
    import typer

    @app.command()
    def demo(
        out: Annotated[Path, typer.Option(help="The HTML file to write.")] = Path("deltauq-demo.html"),
        as_json: Annotated[bool, typer.Option("--json", help="Print the numbers as JSON.")] = False,
    ) -> None:
        """Show error bands and intervals on two small problems, in a few seconds."""
        # Errors in writing the page are reported before the computation, not after it.
        check_writable(out)
        import_module("plotly")
        import_module("rich")

        from deltauq.demo import render_demo, run_demo

        with counting_bar("steps") as progress:
            result = run_demo(progress)
        with complaint_about(out):
            out.write_text(render_demo(result), encoding="utf-8")
        if as_json:
            print(json.dumps({**result.numbers(), "page": str(out.resolve())}, allow_nan=False))
            return
        _print_results(result)
        print(f"Page: {out.resolve()}")


def _print_results(demo: "Demo") -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from deltauq.demo.run import N_TRAIN

    console = Console()
    bands = Table(title="1. A gap in the data", title_justify="left", title_style="bold")
    bands.add_column("base estimator")
    bands.add_column("mean σ in the gap / at the data", justify="right")
    for band in demo.bands:
        bands.add_row(band.name, f"{band.gap_ratio:.1f}")
    console.print(bands)
    title = f"\n2. Diabetes: {N_TRAIN} training rows, {len(demo.table.y)} test rows"
    scores = Table(title=title, title_justify="left", title_style="bold")
    for name in ("model", "MAE", "rank corr.", "coverage", "width"):
        scores.add_column(name, justify="left" if name == "model" else "right")
    for row in demo.table.formatted_scores():
        scores.add_row(*row)
    console.print(scores)
    console.print(Text(demo.table.summary()))
