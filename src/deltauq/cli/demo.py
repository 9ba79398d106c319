"""`deltauq demo`."""

import json
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

from deltauq.cli.complaints import check_writable, complaint_about


def register(app: Any) -> None:
    """Add the command to the app."""
    import typer

    @app.command()
    def demo(
        out: Annotated[Path, typer.Option(help="The HTML file to write.")] = Path("deltauq-demo.html"),
        as_json: Annotated[bool, typer.Option("--json", help="Print the numbers as JSON.")] = False,
    ) -> None:
        """Show what anchoring does on three small problems, in about half a minute."""
        run_demo(out, as_json)


def run_demo(out: Path, as_json: bool) -> None:
    """Compute the demonstration, write its page and print its numbers.

    Parameters
    ----------
    out : Path
        The HTML file to write.
    as_json : bool
        Print JSON for machines instead of tables.
    """
    # What would stop the writing in the end is found out before the work.
    check_writable(out)
    import_module("plotly")

    from rich.console import Console

    from deltauq import demo
    from deltauq.demo import page, terminal

    with terminal.progress_bar() as tick:
        result = demo.run_demo(tick)
    html = page.render_demo(result)
    with complaint_about(out):
        out.write_text(html, encoding="utf-8")
    if as_json:
        print(json.dumps({**result.numbers(), "page": str(out.resolve())}, allow_nan=False))
        return
    terminal.show(result, Console())
    print(f"Page: {out.resolve()}")
