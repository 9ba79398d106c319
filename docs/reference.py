"""The pages of the reference: every public name of every room, and every command with its options."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from collections.abc import Iterator
from enum import Enum
from pathlib import Path
from types import ModuleType
from typing import Any, get_args, get_type_hints

from typer.models import ArgumentInfo, CommandInfo

import deltauq

DOCS = Path(__file__).parent
GENERATED = "<!-- Written by docs/render.py. -->\n"
FURTHER = {
    "nn": ("engine.fit", "recipe.Recipe", "vectorised.fit_many"),
}
"""What a room offers beside the names that it exports."""
ROOMS = (
    ("estimators", "regressors and classifiers around any scikit-learn model"),
    ("nn", "any PyTorch network, anchored"),
    ("tables", "tables of one's own: fit, predict, evaluate, the model folder"),
    ("assessment", "whether anchoring helps a model on a table"),
    ("calibration", "from a spread that ranks to statements that hold"),
    ("metrics", "of predictions and of their error bars"),
    ("bo", "sequential optimisation on BoTorch"),
    ("inverse", "inputs that reach a target"),
    ("scale", "more than one machine"),
    ("io", "files of models, ONNX, MLflow"),
    ("baselines", "rivals that speak `Posterior`"),
    ("core", "encodings, anchor priors, posteriors"),
    ("data", "where data sets come from"),
    ("experiments", "tables and figures as grids of cells"),
    ("report", "figures, tables, HTML pages"),
    ("testing", "checks for estimators of one's own"),
    ("demo", "what `deltauq demo` computes"),
)
"""In the order of the site, each with what it holds."""


def public_modules() -> Iterator[tuple[str, ModuleType]]:
    """Yield every room, and every package inside one, that says by `__all__` what is public."""
    for found in pkgutil.walk_packages(deltauq.__path__, "deltauq."):
        inner = found.name.removeprefix("deltauq.")
        if found.ispkg and not any(part.startswith("_") for part in inner.split(".")):
            module = importlib.import_module(found.name)
            if hasattr(module, "__all__"):
                yield inner, module


def api_pages() -> dict[Path, str]:
    """Return the page of every room, and the one that leads to them."""
    modules = dict(public_modules())
    pages = {DOCS / "api" / "index.md": _front_page([room for room, _ in ROOMS if room in modules])}
    for room, _ in ROOMS:
        inside = {name: module for name, module in modules.items() if name.split(".")[0] == room}
        if inside:
            pages[DOCS / "api" / f"{room}.md"] = _room_page(room, inside)
    return pages


def _front_page(rooms: list[str]) -> str:
    holds = dict(ROOMS)
    rows = [f"| [`deltauq.{room}`]({room}.md) | {holds[room]} |" for room in rooms]
    return "\n".join(
        [
            f"{GENERATED}# Reference",
            "",
            "Every public name; whatever is not here may change without notice.",
            "",
            "| in `deltauq` | what it is |",
            "| --- | --- |",
            *(_exported(name) for name in deltauq.__all__),
            "",
            "| room | what it holds |",
            "| --- | --- |",
            *rows,
            "",
            "The [commands](../commands.md) are on a page of their own.",
            "",
        ]
    )


def _exported(name: str) -> str:
    """Return the row of a name that the package itself exports."""
    if name == "__version__":
        return "| `__version__` | the version, a string |"
    value = getattr(deltauq, name)
    room = ".".join(value.__module__.split(".")[:2])
    return f"| [`{name}`][{room}.{name}] | {_first_line(value)} |"


def _room_page(room: str, modules: dict[str, ModuleType]) -> str:
    parts = [f"{GENERATED}# deltauq.{room}", "", inspect.getdoc(modules[room]) or ""]
    for name, module in modules.items():
        if name != room:
            parts += ["", f"## deltauq.{name} {{ .room }}", "", inspect.getdoc(module) or ""]
        shown = [member for member in module.__all__ if not _shown_above(member, module, modules, name)]
        parts += [_entry(f"deltauq.{name}.{member}", getattr(module, member)) for member in shown]
    parts += [_entry(f"deltauq.{room}.{path}", None) for path in FURTHER.get(room, ())]
    return "\n".join(parts) + "\n"


def _shown_above(member: str, module: ModuleType, modules: dict[str, ModuleType], name: str) -> bool:
    """Tell whether the room that a package is in exports the same thing under the same name."""
    room = modules[name.split(".")[0]]
    return module is not room and getattr(room, member, None) is getattr(module, member)


def _entry(path: str, value: Any) -> str:
    options = "\n    options:\n      members: false" if inspect.ismodule(value) else ""
    return f"\n::: {path}{options}"


def commands_page() -> dict[Path, str]:
    """Return the page of the commands."""
    from deltauq.cli.main import _build_app

    app = _build_app()
    parts = [
        f"{GENERATED}# Commands",
        "",
        "Bad input is answered by one line and exit code 2. Needs the extras `cli` and `report`; "
        "`fit`, `predict`, `evaluate` and `export` the extra `tables` besides, `--backend ray` the extra "
        "`ray`.",
    ]
    for command in app.registered_commands:
        parts += _command("deltauq", command)
    for group in app.registered_groups:
        for command in group.typer_instance.registered_commands:
            parts += _command(f"deltauq {group.name or group.typer_instance.info.name}", command)
    parts += ["", "## In Python", "", "::: deltauq.cli.main\n    options:\n      heading_level: 3"]
    return {DOCS / "commands.md": "\n".join(parts) + "\n"}


def _command(before: str, command: CommandInfo) -> list[str]:
    """Return a command under a heading, with a table of its arguments and options."""
    callback = command.callback
    assert callback is not None
    name = f"{before} {command.name or callback.__name__}"
    hints = get_type_hints(callback, include_extras=True)
    defaults = {word: param.default for word, param in inspect.signature(callback).parameters.items()}
    rows, arguments = [], []
    for word, default in defaults.items():
        kind, info = get_args(hints[word])[:2]
        is_argument = isinstance(info, ArgumentInfo)
        if is_argument:
            words = [f"[{word.upper()}...]" if "list" in str(kind) else word.upper()]
            arguments += words
        else:
            words = _names(word, info)
        said = f"{info.help or ''} {_values(kind)}{_default(default, is_argument)}".strip()
        rows.append(f"| {' '.join(f'`{word}`' for word in words)} | {said} |")
    usage = " ".join([name, *arguments, *(["[OPTIONS]"] if len(rows) > len(arguments) else [])])
    table = ["", "| word | what it is |", "| --- | --- |", *rows] if rows else []
    return ["", f"## {name}", "", inspect.getdoc(callback) or "", "", "```text", usage, "```", *table]


def _names(word: str, info: Any) -> list[str]:
    """Return the names of an option, the long one first; the first that was given is kept as its default."""
    given = [name for name in (info.default, *(info.param_decls or ())) if str(name).startswith("-")]
    return sorted(given, key=len, reverse=True) or [f"--{word.replace('_', '-')}"]


def _values(kind: Any) -> str:
    """Return the words that an option may be, where they are few."""
    found = next((k for k in (kind, *get_args(kind)) if inspect.isclass(k) and issubclass(k, Enum)), None)
    return "" if found is None else "One of " + ", ".join(f"`{word.value}`" for word in found) + ". "


def _default(default: Any, is_argument: bool) -> str:
    if default is inspect.Parameter.empty:
        return "" if is_argument else "Required."
    value = getattr(default, "value", default)
    return "" if value is None or isinstance(value, (bool, list)) else f"Default: `{value}`."


def _first_line(value: Any) -> str:
    return (inspect.getdoc(value) or "").splitlines()[0]
