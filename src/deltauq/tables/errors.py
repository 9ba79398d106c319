"""What is wrong with a table or a model folder, in one line."""

from __future__ import annotations

import traceback
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from difflib import get_close_matches
from importlib import import_module
from types import ModuleType

from deltauq.utils.errors import InputError
from deltauq.utils.install import install_command

EXTRA = "tables"
LONGEST = 800
"""Characters of a message; a longer one, which quotes a long value, keeps its two ends."""


class _OneLineError(InputError):
    """An error whose message is one line of printable characters, whatever it quotes from a file."""

    def __init__(self, message: str) -> None:
        line = "".join(c if c.isprintable() else "\ufffd" for c in " ".join(message.split()))
        if len(line) > LONGEST:
            line = f"{line[: LONGEST // 2]} … {line[-LONGEST // 4 :]}"
        super().__init__(line)


class TableError(_OneLineError):
    """A table, or what was asked of it, cannot be used."""


class ModelFolderError(_OneLineError):
    """A folder is no whole model folder, or one that must not or cannot be read here."""


@contextmanager
def model_errors(what: str) -> Iterator[None]:
    """Raise a `TableError` for an error that scikit-learn, or another package with a model, raises.

    Any other error of this package than an `InputError` is a bug, not a fault of the table: it passes
    unchanged.

    Parameters
    ----------
    what : str
        The beginning of the message.
    """
    try:
        yield
    except (ValueError, IndexError, ArithmeticError) as error:
        *_, (frame, _) = traceback.walk_tb(error.__traceback__)
        is_ours = frame.f_globals.get("__name__", "").partition(".")[0] == "deltauq"
        if isinstance(error, TableError) or (is_ours and not isinstance(error, InputError)):
            raise
        reason = str(error).strip().partition("\n")[0].rstrip(".")
        raise TableError(f"{what}: {reason}.") from error


def require_pandas() -> ModuleType:
    """Return pandas, or say in one line what to install."""
    try:
        import pandas
    except ImportError as error:
        raise ImportError(f"tables need pandas: {install_command(EXTRA)}.") from error
    return pandas


def require_pyarrow() -> ModuleType:
    """Return pyarrow, or say in one line what to install."""
    try:
        import pyarrow
    except ImportError as error:
        raise ImportError(f"table files need pyarrow: {install_command(EXTRA)}.") from error
    return pyarrow


def require_skops() -> ModuleType:
    """Return skops.io, or say in one line what to install."""
    try:
        return import_module("skops.io")
    except ImportError as error:
        raise ImportError(f"model folders need skops: {install_command(EXTRA)}.") from error


def did_you_mean(name: str, names: Iterable[str]) -> str:
    """Return a hint at the names nearest to one that is not there, or the first few of them all."""
    names = list(names)
    by_lower = {other.lower(): other for other in names}
    near = [by_lower[other] for other in get_close_matches(name.lower(), by_lower, n=3)]
    if near:
        quoted = " or ".join(f'"{other}"' for other in near)
        return f"did you mean {quoted}?"
    return f"the columns are {', '.join(names[:10])}{', …' if len(names) > 10 else '.'}"
