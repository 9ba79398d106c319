"""Time and memory of a function."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from mmap import PAGESIZE
from pathlib import Path


def measure(function: Callable[[], object]) -> tuple[float, float]:
    """Return the seconds that a function takes, and the megabytes that it adds at its peak."""
    before, added, done = _resident(), [0.0], threading.Event()

    def watch() -> None:
        while not done.wait(0.005):
            added.append(_resident() - before)

    threading.Thread(target=watch).start()
    start = time.perf_counter()
    function()
    done.set()
    return time.perf_counter() - start, max(added)


def _resident() -> float:
    """Return the resident memory in megabytes, or 0 if the system does not report it."""
    status = Path("/proc/self/statm")
    return int(status.read_text().split()[1]) * PAGESIZE / 1e6 if status.exists() else 0.0
