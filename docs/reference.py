"""Adds the reference to the documentation: the public names of every package, and the commands.

mkdocs runs this hook; the pages are not stored.
"""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from types import ModuleType

import typer
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from typer.cli import get_docs_for_click

import deltauq
from deltauq.cli.main import COMMANDS as COMMAND_NAMES

PACKAGES = {
    "estimators": "regressors and classifiers around any scikit-learn model",
    "nn": "anchored PyTorch networks and their training",
    "tables": "fit, predict and evaluate on CSV, Parquet and Arrow files",
    "assessment": "does anchoring help a model on your data?",
    "calibration": "scaling of σ, temperature, conformal prediction",
    "metrics": "of predictions and their uncertainties",
    "bo": "Bayesian optimisation with BoTorch",
    "inverse": "search for inputs that reach a target",
    "distributed": "prediction on a Ray cluster",
    "export": "ONNX, MLflow, model files",
    "baselines": "other methods that return a `Posterior`",
    "core": "encodings, anchors, posteriors",
    "data": "datasets",
    "plots": "figures and HTML pages",
    "testing": "checks for your own estimators",
    "utils": "errors, progress bars and files",
    "demo": "the computations of `deltauq demo`",
}
"""In the order of the navigation."""
FRONT_PAGE = """# Reference

Names that are not listed here may change without notice.

| in `deltauq` | description |
| --- | --- |
{names}

| package | description |
| --- | --- |
{packages}

The [commands](../commands.md) have their own page.
"""
COMMANDS = """# Commands

Invalid input is reported in one line, with exit code 2. The commands need the extras `cli` and `report`;
`fit`, `predict`, `evaluate` and `export` also need `tables`, and `--backend ray` needs `ray`.

{commands}

## In Python

::: deltauq.cli.main
    options:
      heading_level: 3
"""


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages; called by mkdocs."""
    for path, text in (api_pages() | {"commands.md": commands_page()}).items():
        files.append(File.generated(config, path, content=text))
    return files


def public_modules() -> dict[str, ModuleType]:
    """Return every package of deltauq that has public names, by its name below deltauq."""
    names = [
        info.name
        for info in pkgutil.walk_packages(deltauq.__path__, "deltauq.")
        if info.ispkg and "._" not in info.name
    ]
    modules = {name.removeprefix("deltauq."): importlib.import_module(name) for name in names}
    return {name: module for name, module in modules.items() if hasattr(module, "__all__")}


def api_pages() -> dict[str, str]:
    """Return the page of every package, and the front page."""
    modules = public_modules()
    pages = {
        f"api/{package}.md": _package_page(
            {name: module for name, module in modules.items() if name.split(".")[0] == package}
        )
        for package in PACKAGES
    }
    front_page = FRONT_PAGE.format(
        names="\n".join(_exported(name) for name in deltauq.__all__),
        packages="\n".join(f"| [`deltauq.{name}`]({name}.md) | {text} |" for name, text in PACKAGES.items()),
    )
    return pages | {"api/index.md": front_page}


def _exported(name: str) -> str:
    """Return the row of a name that `deltauq` itself exports."""
    if name == "__version__":
        return "| `__version__` | the version, a string |"
    value = getattr(deltauq, name)
    package = ".".join(value.__module__.split(".")[:2])
    return f"| [`{name}`][{package}.{name}] | {(inspect.getdoc(value) or '').splitlines()[0]} |"


def _package_page(modules: dict[str, ModuleType]) -> str:
    """Return the page of a package and the packages inside it, each name once."""
    parts = []
    listed: set[str] = set()
    for level, (name, module) in enumerate(modules.items()):
        heading = f"# deltauq.{name}" if level == 0 else f"## deltauq.{name} {{ .package }}"
        parts += [heading, inspect.getdoc(module) or ""]
        parts += [f"::: deltauq.{name}.{member}" for member in module.__all__ if member not in listed]
        listed |= set(module.__all__)
    return "\n\n".join(parts) + "\n"


def commands_page() -> str:
    """Return the page of the commands."""
    app = typer.Typer(add_completion=False)
    for name in COMMAND_NAMES:
        command = importlib.import_module(f"deltauq.cli.{name}").app
        if command.registered_callback:
            app.add_typer(command, name=name)
        else:
            app.registered_commands += command.registered_commands
    command = typer.main.get_command(app)
    context = command.make_context("deltauq", [], resilient_parsing=True)
    text = get_docs_for_click(obj=command, ctx=context, name="deltauq")
    return COMMANDS.format(commands=text[text.index("\n## ") :].strip())
