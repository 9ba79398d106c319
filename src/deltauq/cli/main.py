"""The entry point: runs a command, and turns bad input into one line and exit code 2.

Only the module of the invoked command is imported. typer and rich come with an extra, so this module can be
imported without them and says what to install.
"""

import sys
from importlib import import_module
from typing import Annotated, Any

from deltauq._version import __version__
from deltauq.utils.errors import InputError

COMMANDS = {
    "demo": "Show standard deviations and intervals on two small problems.",
    "data": "List the known datasets, and check their files.",
    "assess": "Compare a model with and without anchoring by cross-validation.",
    "fit": "Fit a model with uncertainty estimates to a table.",
    "predict": "Predict the rows of a table, with intervals or class sets.",
    "evaluate": "Compare predictions with known targets.",
    "export": "Write a model as an ONNX file or an MLflow model.",
}
"""The commands, each a module of this package with an `app`, and their one-line descriptions."""
INPUT_ERROR = 2
INTERRUPTED = 130

EXTRAS = {
    **dict.fromkeys(("typer", "rich", "plotly", "jinja2"), "cli,report"),
    **dict.fromkeys(("torch", "lightning_fabric", "safetensors"), "nn"),
    **dict.fromkeys(("botorch", "gpytorch"), "bo"),
    **dict.fromkeys(("ngboost", "quantile_forest"), "compare"),
    "PIL": "images",
}
"""The extra that each package comes with."""


def main() -> None:
    """Run the command line and exit with its status."""
    try:
        status = _run(sys.argv[1:])
    except InputError as error:
        status = _report(str(error))
    except ImportError as error:
        status = _report(_missing_package(error))
    except Exception as error:
        error.add_note("This is a bug in deltauq. Please report it with the lines above.")
        raise
    sys.exit(status)


def _run(arguments: list[str]) -> int:
    import rich  # noqa: F401  # fails here, before any work is done, if the package is missing
    import typer

    name = arguments[0] if arguments else ""
    try:
        if name in COMMANDS:
            app = import_module(f"deltauq.cli.{name}").app
            return app(arguments[1:], prog_name=f"deltauq {name}", standalone_mode=False) or 0
        return _overview()(arguments, prog_name="deltauq", standalone_mode=False) or 0
    except (KeyboardInterrupt, typer.Abort):
        return INTERRUPTED
    except Exception as error:
        # Errors in the arguments: the class depends on the version of typer, the method does not.
        if not hasattr(error, "format_message"):
            raise
        raise InputError(error.format_message()) from error


def _overview() -> Any:
    """Return the app without a command: it shows the version or the help, or rejects an unknown command."""
    import typer

    from deltauq.cli.options import new_app

    app = new_app()

    def show_version(value: bool) -> None:
        if value:
            print(f"deltauq {__version__}")
            raise typer.Exit

    @app.callback(invoke_without_command=True)
    def deltauq(
        context: typer.Context,
        version: Annotated[
            bool, typer.Option("--version", callback=show_version, is_eager=True, help="Show the version.")
        ] = False,
    ) -> None:
        """Uncertainty estimates for any predictive model."""
        if context.invoked_subcommand is None:
            print(context.get_help())

    for name, description in COMMANDS.items():
        app.command(name, help=description)(lambda: None)
    return app


def _report(message: str) -> int:
    print(f"deltauq: {' '.join(message.split())}", file=sys.stderr)
    return INPUT_ERROR


def _missing_package(error: ImportError) -> str:
    """Return a line that says what to install; raise the error again if no extra has the package."""
    if error.name is None:  # raised by this package, with such a line
        return str(error)
    package = error.name.partition(".")[0]
    if package not in EXTRAS:
        raise error
    from deltauq.utils.install import install_command

    return f"{package} is not installed: {install_command(EXTRAS[package])}"
