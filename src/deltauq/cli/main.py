"""The entry point: gathers the commands, and turns bad input into one line and exit code 2.

typer and rich come with an extra. They are imported when a command is run, so that this module can be
imported, and can say what is missing, without them.
"""

import sys
from importlib import import_module
from typing import Annotated, Any

from deltauq._version import __version__
from deltauq.cli.complaints import BadInput, what_to_install

COMMANDS = ("demo", "data", "assess", "fit", "predict", "evaluate", "export")
BAD_INPUT = 2
INTERRUPTED = 130


def main() -> None:
    """Run the command line and exit with its status."""
    try:
        status = _run(_build_app())
    except ModuleNotFoundError as error:
        message = what_to_install(error)
        if message is None:
            raise
        status = _complain(message)
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

    for name in COMMANDS:
        import_module(f"deltauq.cli.{name}").register(app)
    return app
