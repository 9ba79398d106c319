"""Optional libraries, and the command that installs an extra from where this package was installed."""

from __future__ import annotations

import json
import shlex
import shutil
import sys
from importlib import import_module
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from types import ModuleType
from typing import Any
from urllib.parse import unquote, urlsplit

NAME = "deltauq"


def import_optional(module: str, reason: str, extra: str) -> ModuleType:
    """Return a module of an extra; the error for a missing one says why it is needed and how to get it."""
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != module.partition(".")[0]:
            raise  # the package is installed, but lacks a package itself
        raise ImportError(f"{reason}: {install_command(extra)}.") from error


def install_command(extras: str) -> str:
    """Return the command that adds extras, such as "cli,report", to this installation.

    The package may come from a folder, a wheel or a repository, which an index does not have. pip is that of
    the Python that runs.
    """
    pip = shutil.which("pip")
    is_ours = pip is not None and Path(pip).parent == Path(sys.executable).parent
    return f"{'pip' if is_ours else f'{shlex.quote(sys.executable)} -m pip'} install {_requirement(extras)}"


def _requirement(extras: str) -> str:
    """Return what pip is to install: a folder, an address or a name."""
    package = f"{NAME}[{extras}]"
    origin = _origin()
    path = Path(unquote(urlsplit(origin.get("url", "")).path))
    if "dir_info" in origin and (path / "pyproject.toml").exists():
        editable = "-e " if origin["dir_info"].get("editable") else ""
        return f"{editable}{shlex.quote(f'{path}[{extras}]')}"
    if "vcs_info" in origin:
        vcs = origin["vcs_info"]
        return shlex.quote(f"{package} @ {vcs['vcs']}+{origin['url']}@{vcs['commit_id']}")
    if "archive_info" in origin and (not origin["url"].startswith("file:") or path.exists()):
        return shlex.quote(f"{package} @ {origin['url']}")
    return shlex.quote(package)


def _origin() -> dict[str, Any]:
    """Return what pip has noted of where the package came from (direct_url.json), empty for an index."""
    try:
        noted = distribution(NAME).read_text("direct_url.json")
    except PackageNotFoundError:
        # Run from its sources, which were not installed.
        return {"url": Path(__file__).parents[3].as_uri(), "dir_info": {}}
    return json.loads(noted) if noted else {}
