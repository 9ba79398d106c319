"""Errors for tables and model folders that cannot be used, in one line."""

from __future__ import annotations

import os
import re
import sys
import traceback
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from difflib import get_close_matches
from types import ModuleType
from typing import Any

from deltauq.utils.errors import InputError
from deltauq.utils.formatting import first_line
from deltauq.utils.install import import_optional

MAX_CHARACTERS = 800
"""A longer message, which quotes a long value, is shortened in the middle."""


class _OneLineError(InputError):
    """An error whose message is one line of printable characters, whatever it quotes from a file."""

    def __init__(self, message: str) -> None:
        line = "".join(c if c.isprintable() else "\ufffd" for c in " ".join(message.split()))
        if len(line) > MAX_CHARACTERS:
            line = f"{line[: MAX_CHARACTERS // 2]} … {line[-MAX_CHARACTERS // 4 :]}"
        super().__init__(line)


class TableError(_OneLineError):
    """A table, or an option for it, cannot be used."""


class ModelFolderError(_OneLineError):
    """A model folder is incomplete, not trusted, or cannot be written or read."""


class VersionWarning(UserWarning):
    """A model was fitted with another version of scikit-learn."""


@contextmanager
def model_errors(what: str, base: Any) -> Iterator[None]:
    """Raise a `TableError` for an error of the base estimator or of scikit-learn.

    Any other error of this package than an `InputError` is a bug, not a fault of the table: it passes
    unchanged, also if the wrong arguments come from here and NumPy raises the error.

    Parameters
    ----------
    what : str
        The beginning of the message.
    base : estimator
        Its package is one of those whose errors are converted.
    """
    try:
        yield
    except (ValueError, IndexError, ArithmeticError) as error:
        is_bug = not isinstance(error, InputError) and _last_package(error, base) == "deltauq"
        if isinstance(error, TableError) or is_bug:
            raise
        raise TableError(f"{what}: {first_line(error)}.") from error


def _last_package(error: Exception, base: Any) -> str:
    """Return which of this package, scikit-learn and the base estimator's package was called last."""
    packages = ["deltauq", "sklearn", type(base).__module__.partition(".")[0]]
    if type(error.__cause__).__name__ == "_RemoteTraceback":  # of another process, as text
        folders = {os.path.dirname(sys.modules[name].__file__ or ""): name for name in packages[:2]}
        paths = re.findall(rf'File "({"|".join(map(re.escape, folders))})', str(error.__cause__))
        return folders[paths[-1]] if paths else "deltauq"
    names = (frame.f_globals.get("__name__", "") for frame, _ in traceback.walk_tb(error.__traceback__))
    return [name for name in (name.partition(".")[0] for name in names) if name in packages][-1]


def require_pandas() -> ModuleType:
    """Return pandas, or raise an error with the command that installs it."""
    return import_optional("pandas", "tables need pandas", "tables")


def require_pyarrow() -> ModuleType:
    """Return pyarrow, or raise an error with the command that installs it."""
    return import_optional("pyarrow", "table files need pyarrow", "tables")


def require_skops() -> ModuleType:
    """Return skops.io, or raise an error with the command that installs it."""
    return import_optional("skops.io", "model folders need skops", "tables")


def did_you_mean(name: str, names: Iterable[str]) -> str:
    """Return a hint at the names that are most similar to a missing one, or else at the first few."""
    names = list(names)
    by_lower = {other.lower(): other for other in names}
    near = [by_lower[other] for other in get_close_matches(name.lower(), by_lower, n=3)]
    if near:
        quoted = " or ".join(f'"{other}"' for other in near)
        return f"did you mean {quoted}?"
    return f"the columns are {', '.join(names[:10])}{', …' if len(names) > 10 else '.'}"
