"""A cache of files that several cells use, such as trained networks and their outputs."""

from __future__ import annotations

import fcntl
import hashlib
import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from deltauq.data import cache_dir
from deltauq.utils import atomic_write


def shared_file(
    name: str, configuration: Mapping[str, Any], suffix: str, write: Callable[[Path], None]
) -> Path:
    """Return the path of a cached file; `write` creates it if it does not exist.

    If several processes need it, one writes it and the others wait. Writing is atomic.

    Parameters
    ----------
    name : str
        First part of the file name.
    configuration : mapping of plain values
        Everything that the content depends on; its hash is part of the file name.
    write : callable
        ``write(path)`` writes the file.
    """
    path = artifact_path(name, configuration, suffix)
    path.parent.mkdir(parents=True, exist_ok=True)
    with _locked(path.with_name(f"{path.name}.lock")):
        if not path.exists():
            with atomic_write(path) as temporary:
                write(temporary)
    return path


def artifact_path(name: str, configuration: Mapping[str, Any], suffix: str) -> Path:
    """Return the path of the file with this configuration; see `shared_file`."""
    text = json.dumps(configuration, sort_keys=True)
    digest = hashlib.sha256(text.encode()).hexdigest()[:12]
    return cache_dir() / "artifacts" / f"{name}-{digest}{suffix}"


def shared_arrays(
    name: str, configuration: Mapping[str, Any], make: Callable[[], Mapping[str, np.ndarray]]
) -> dict[str, np.ndarray]:
    """Return the cached arrays by name; `make` computes them if they do not exist. See `shared_file`."""

    def write(path: Path) -> None:
        arrays = make()
        with path.open("wb") as file:
            np.savez(file, **arrays)  # type: ignore[arg-type]

    with np.load(shared_file(name, configuration, ".npz", write), allow_pickle=False) as stored:
        return {key: stored[key] for key in stored.files}


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Hold a file lock, which the system releases when the process ends."""
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
