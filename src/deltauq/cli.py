"""The command line: parses, calls, prints.

typer and rich come with an extra. They are imported when a command is run, so that this module can be
imported, and can say what is missing, without them.
"""

import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

from deltauq._version import __version__

INSTALL = "pip install 'deltauq[cli,report]'"
EXTRAS = {"typer", "rich", "plotly"}
BAD_INPUT = 2
INTERRUPTED = 130


class BadInput(Exception):
    """What the user gave cannot be used; the message is one line that says why."""


def main() -> None:
    """Run the command line and exit with its status."""
    try:
        status = _run(_build_app())
    except ModuleNotFoundError as error:
        missing = (error.name or "").partition(".")[0]
        if missing not in EXTRAS:
            raise
        status = _complain(f"{missing} is not installed: {INSTALL}")
    except BadInput as error:
        status = _complain(str(error))
    sys.exit(status)


def _run(app: Any) -> int:
    """Run an app and return its status; what it says of bad arguments becomes `BadInput`."""
    import typer

    try:
        return app(prog_name="deltauq", standalone_mode=False) or 0
    except (KeyboardInterrupt, typer.Abort):
        return INTERRUPTED
    except Exception as error:
        # typer has its own copy of click or uses an installed one: its errors are known by what they can do.
        message = getattr(error, "format_message", None)
        if message is None:
            raise
        raise BadInput(message()) from error


def _complain(message: str) -> int:
    print(f"deltauq: {' '.join(message.split())}", file=sys.stderr)
    return BAD_INPUT


def _build_app() -> Any:
    """Return the typer app with all commands."""
    import typer

    app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)

    def show_version(asked: bool) -> None:
        if asked:
            print(f"deltauq {__version__}")
            raise typer.Exit

    @app.callback(invoke_without_command=True)
    def deltauq(
        context: typer.Context,
        version: Annotated[
            bool, typer.Option("--version", callback=show_version, is_eager=True, help="Show the version.")
        ] = False,
    ) -> None:
        """An error bar for any predictive model, and an account of how far to trust it."""  # noqa: D401
        if context.invoked_subcommand is None:
            print(context.get_help())

    @app.command()
    def demo(
        out: Annotated[Path, typer.Option(help="The HTML file to write.")] = Path("deltauq-demo.html"),
        as_json: Annotated[bool, typer.Option("--json", help="Print the numbers as JSON.")] = False,
    ) -> None:
        """Show what anchoring does on three small problems, in about half a minute."""
        run_demo(out, as_json)

    return app


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
    with _complaint_about(out):
        _check_writable(out)
    import_module("plotly")

    from rich.console import Console

    from deltauq import demo
    from deltauq.demo import page, terminal

    with terminal.progress_bar() as tick:
        result = demo.run_demo(tick)
    html = page.render_demo(result)
    with _complaint_about(out):
        out.write_text(html, encoding="utf-8")
    if as_json:
        print(json.dumps({**result.numbers(), "page": str(out.resolve())}, allow_nan=False))
        return
    terminal.show(result, Console())
    print(f"Page: {out.resolve()}")


@contextmanager
def _complaint_about(out: Path) -> Iterator[None]:
    """Turn what the system says about a file into one line."""
    try:
        yield
    except OSError as error:
        raise BadInput(f"cannot write {out}: {error.strerror or error}") from error


def _check_writable(out: Path) -> None:
    """Refuse a file that cannot be written."""
    folder = out.parent
    if not folder.is_dir():
        raise BadInput(f"cannot write {out}: {folder} is not a folder")
    if out.is_dir():
        raise BadInput(f"cannot write {out}: it is a folder")
    if not os.access(out if out.exists() else folder, os.W_OK):
        raise BadInput(f"cannot write {out}: permission denied")


if __name__ == "__main__":
    main()
