"""What several cells share, such as a network and its outputs: made once, kept in the cache, not in git."""

from __future__ import annotations

import fcntl
import hashlib
import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from deltauq.data.files import cache_dir
from deltauq.utils.filesystem import atomic_write


def shared_file(
    name: str, configuration: Mapping[str, Any], suffix: str, write: Callable[[Path], None]
) -> Path:
    """Return the path of a file that `write` makes, unless the cache has it.

    Of several processes that ask at once, one makes it and the others wait. It appears under its name only
    when it is whole.

    Parameters
    ----------
    name : str
        For people who look into the cache.
    configuration : mapping of plain values
        Everything that the content depends on; another configuration gives another file.
    write : callable
        Told where to write.
    """
    path = artifact_path(name, configuration, suffix)
    path.parent.mkdir(parents=True, exist_ok=True)
    with _locked(path.with_name(f"{path.name}.lock")):
        if not path.exists():
            with atomic_write(path) as whole:
                write(whole)
    return path


def artifact_path(name: str, configuration: Mapping[str, Any], suffix: str) -> Path:
    """Return where a file of this configuration has its place in the cache; see `shared_file`."""
    text = json.dumps(configuration, sort_keys=True)
    digest = hashlib.sha256(text.encode()).hexdigest()[:12]
    return cache_dir() / "artifacts" / f"{name}-{digest}{suffix}"


def shared_arrays(
    name: str, configuration: Mapping[str, Any], make: Callable[[], Mapping[str, np.ndarray]]
) -> dict[str, np.ndarray]:
    """Return arrays by name that `make` gives, from the cache if they are there; see `shared_file`."""

    def write(path: Path) -> None:
        arrays = make()
        with path.open("wb") as file:
            np.savez(file, **arrays)  # type: ignore[arg-type]

    with np.load(shared_file(name, configuration, ".npz", write), allow_pickle=False) as stored:
        return {key: stored[key] for key in stored.files}


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Hold a lock that the system lets go of when the process ends, however it ends."""
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
