"""Reads what was saved, whatever kind of model it is."""

from __future__ import annotations

from collections.abc import Iterable
from os import PathLike
from pathlib import Path
from typing import Any

from deltauq.utils.errors import InputError


def load(path: str | PathLike[str], map_location: Any = "cpu", trust: Iterable[str] = ()) -> Any:
    """Return the model that a file or folder holds.

    Nothing is unpickled, and hashes are checked before anything is built.

    Parameters
    ----------
    path : path
        A folder that `deltauq.tables.TableModel.save` or ``deltauq fit`` wrote; or a safetensors file that
        `deltauq.nn.Anchored.save` wrote, whatever its name, of one of this library's networks. A network of
        your own is read into a constructed one: ``net.load(path)``.
    map_location : device, default="cpu"
        Where a network is put.
    trust : iterable of str
        Full names of further types that a folder may hold; see `deltauq.tables.load`.

    Returns
    -------
    model : TableModel or Anchored
    """
    path = Path(path)
    if path.is_dir():
        from deltauq.tables import load as load_folder

        return load_folder(path, trust)
    if not path.is_file():
        raise FileNotFoundError(f"there is no file {path}.")
    if not _is_safetensors(path):
        raise InputError(f"{path} is not a safetensors file, which is what networks are saved as.")
    from deltauq.nn import load as load_network

    return load_network(path, map_location)


def _is_safetensors(path: Path) -> bool:
    """Whether a file begins as safetensors do: the length of a header that fits into it, and its brace."""
    with path.open("rb") as file:
        start = file.read(9)
    length = int.from_bytes(start[:8], "little")
    return start[8:] == b"{" and 8 + length <= path.stat().st_size
