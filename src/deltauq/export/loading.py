"""Loads a saved model of any kind."""

from __future__ import annotations

from collections.abc import Iterable
from os import PathLike
from pathlib import Path
from typing import Any


def load(path: str | PathLike[str], map_location: Any = "cpu", trust: Iterable[str] = ()) -> Any:
    """Return the model stored in a file or folder.

    Nothing is unpickled, and hashes are checked before any object is created.

    Parameters
    ----------
    path : path
        A model folder written by `deltauq.tables.TableModel.save` or ``deltauq fit``, or a safetensors file
        written by `deltauq.nn.Anchored.save` of one of this library's networks. A network of your own is
        loaded by its method: ``net.load(path)``.
    map_location : device, default="cpu"
        Device of a network.
    trust : iterable of str
        Full names of additional types that a folder may contain; see `deltauq.tables.load`.

    Returns
    -------
    model : TableModel or Anchored
    """
    path = Path(path)
    if path.is_dir():
        from deltauq.tables import load as load_folder

        return load_folder(path, trust)
    from deltauq.nn import load as load_network

    return load_network(path, map_location)
