"""Errors for tables and model folders that cannot be used, in one line."""

from __future__ import annotations

import traceback
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from difflib import get_close_matches
from types import ModuleType

from deltauq.utils.errors import InputError
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
