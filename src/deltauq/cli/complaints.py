"""What is wrong with the input, in one line, before any work is done."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from deltauq.utils.install import install_command


class BadInput(Exception):
    """What the user gave cannot be used; the message is one line that says why."""


@contextmanager
def complaint_about(out: Path) -> Iterator[None]:
    """Turn what the system says about a file to be written into `BadInput`."""
    try:
        yield
    except OSError as error:
        raise BadInput(f"cannot write {out}: {error.strerror or error}") from error


@contextmanager
def told_in_one_line() -> Iterator[None]:
    """Turn what the library says of a table, a model folder or a missing package into `BadInput`."""
    from deltauq.tables.errors import ModelFolderError, TableError

    try:
        yield
    except (TableError, ModelFolderError) as error:
        raise BadInput(str(error)) from error
    except ImportError as error:
        if error.name is not None:
            raise
        raise BadInput(str(error)) from error


EXTRA_OF = {
    **dict.fromkeys(("typer", "rich", "plotly", "jinja2"), "cli,report"),
    **dict.fromkeys(("torch", "lightning_fabric", "safetensors"), "nn"),
    **dict.fromkeys(("botorch", "gpytorch"), "bo"),
    **dict.fromkeys(("ngboost", "quantile_forest"), "compare"),
    "PIL": "images",
}


def what_to_install(error: ImportError) -> str | None:
    """Return one line that names the extra a missing package comes with; None for a package of no extra."""
    name = (error.name or "").partition(".")[0]
    return f"{name} is not installed: {install_command(EXTRA_OF[name])}" if name in EXTRA_OF else None


def check_writable(out: Path) -> None:
    """Refuse a file that cannot be written."""
    with complaint_about(out):
        folder = out.parent
        if not folder.is_dir():
            raise BadInput(f"cannot write {out}: {folder} is not a folder")
        if out.is_dir():
            raise BadInput(f"cannot write {out}: it is a folder")
        if not os.access(out if out.exists() else folder, os.W_OK):
            raise BadInput(f"cannot write {out}: permission denied")
