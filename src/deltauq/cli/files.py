"""Files that commands read and write."""

import os
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from deltauq.utils.errors import InputError

if TYPE_CHECKING:
    from deltauq.tables import TableModel


@contextmanager
def os_errors_as_input_errors(path: Path | str) -> Iterator[None]:
    """Turn errors of the file system, such as a full disk, into `InputError`."""
    try:
        yield
    except OSError as error:
        raise InputError(f"cannot write {path}: {error.strerror or error}") from error


def check_writable(path: Path) -> None:
    """Raise `InputError` if a file cannot be written."""
    with os_errors_as_input_errors(path):
        folder = path.parent
        if not folder.is_dir():
            raise InputError(f"cannot write {path}: {folder} is not a folder")
        if path.is_dir():
            raise InputError(f"cannot write {path}: it is a folder")
        if not os.access(path if path.exists() else folder, os.W_OK):
            raise InputError(f"cannot write {path}: permission denied")


def check_page(path: Path | None) -> None:
    """Raise an error, before any work is done, if an HTML page cannot be written."""
    if path is not None:
        check_writable(path)
        import_module("plotly")
        import_module("jinja2")


def load_model(folder: Path, trust: Sequence[str] | None) -> tuple["TableModel", list[str]]:
    """Return the model of a folder, and warnings about the versions that it was fitted with."""
    from deltauq.tables import load

    with version_warnings() as notes:
        model = load(folder, trust or [])
    return model, notes


@contextmanager
def version_warnings() -> Iterator[list[str]]:
    """Collect messages of `VersionWarning` in a list, and issue other warnings as usual afterwards."""
    from deltauq.tables.errors import VersionWarning

    notes: list[str] = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", VersionWarning)
        yield notes
    for warning in caught:
        if issubclass(warning.category, VersionWarning):
            notes.append(str(warning.message))
        else:
            warnings.warn_explicit(warning.message, warning.category, warning.filename, warning.lineno)
