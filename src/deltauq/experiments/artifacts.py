"""Arrays that several cells share, such as a network's outputs: made once, kept in the cache, not in git."""

from __future__ import annotations

import fcntl
import hashlib
import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from deltauq.data.files import cache_dir, written_whole


def shared_arrays(
    name: str, configuration: Mapping[str, Any], make: Callable[[], Mapping[str, np.ndarray]]
) -> dict[str, np.ndarray]:
    """Return arrays made by `make`, from the cache if they are there.

    Of several processes that ask at once, one makes them and the others wait.

    Parameters
    ----------
    name : str
        For people who look into the cache.
    configuration : mapping of plain values
        Everything that the arrays depend on; another configuration gives another file.
    make : callable
        Gives arrays by name.

    Returns
    -------
    arrays : dict of str to array
    """
    text = json.dumps(configuration, sort_keys=True)
    digest = hashlib.sha256(text.encode()).hexdigest()[:12]
    path = cache_dir() / "artifacts" / f"{name}-{digest}.npz"
    path.parent.mkdir(parents=True, exist_ok=True)
    with _locked(path.with_suffix(".lock")):
        if not path.exists():
            arrays = make()
            with written_whole(path) as whole, whole.open("wb") as file:
                np.savez(file, **arrays)  # type: ignore[arg-type]
    with np.load(path, allow_pickle=False) as stored:
        return {key: stored[key] for key in stored.files}


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Hold a lock that the system lets go of when the process ends, however it ends."""
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
