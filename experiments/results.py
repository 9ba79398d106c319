"""The results store: one JSON line per finished cell, safe against being killed at any moment."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class ResultLine:
    """One finished cell of an experiment.

    Attributes
    ----------
    experiment : str
    version : int
        Raised after a fix; lines of an older version are stale.
    profile : {"quick", "paper"}
    cell : dict
        What distinguishes this cell: data set, method, seed, ...
    metrics : dict of str to float
    seconds : float
    versions : dict of str to str
        Of the libraries that made the figures.
    commit : str or None
    hardware : str
    details : dict
        Curves or small arrays that a figure is drawn from.
    """

    experiment: str
    version: int
    profile: str
    cell: dict[str, Any]
    metrics: dict[str, float]
    seconds: float
    versions: dict[str, str] = field(default_factory=dict)
    commit: str | None = None
    hardware: str = ""
    details: dict[str, Any] = field(default_factory=dict)

    @property
    def key(self) -> str:
        """Identity of the cell: the same configuration and version give the same key."""
        return cell_key(self.experiment, self.version, self.profile, self.cell)


def cell_key(experiment: str, version: int, profile: str, cell: dict[str, Any]) -> str:
    """Return a hash of a cell's configuration and its experiment's version."""
    text = json.dumps([experiment, version, profile, cell], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


class ResultStore:
    """Result lines of one experiment in one file.

    A line is written by a single call and flushed to the disk. A process killed in the middle of it
    leaves at most one line without an end, which reading passes over and the next write closes off.

    Parameters
    ----------
    path : path
        ``results/<experiment>.jsonl``; made on the first write.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)

    def append(self, line: ResultLine) -> None:
        """Add one line."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        text = json.dumps(asdict(line), allow_nan=True) + "\n"
        descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)
        try:
            if self._ends_in_the_middle(descriptor):
                text = "\n" + text
            _write_all(descriptor, text.encode())
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def __iter__(self) -> Iterator[ResultLine]:
        """Yield every whole line; of several with one key, all."""
        if not self.path.exists():
            return
        with self.path.open("rb") as file:
            for text in file:
                line = _parse(text)
                if line is not None:
                    yield line

    def latest(self) -> dict[str, ResultLine]:
        """Return the last line of every key."""
        return {line.key: line for line in self}

    @staticmethod
    def _ends_in_the_middle(descriptor: int) -> bool:
        size = os.lseek(descriptor, 0, os.SEEK_END)
        return size > 0 and os.pread(descriptor, 1, size - 1) != b"\n"


def _write_all(descriptor: int, text: bytes) -> None:
    """Write everything or raise: a disk that fills up takes less than it is given, without a word."""
    while text:
        text = text[os.write(descriptor, text) :]


def _parse(text: bytes) -> ResultLine | None:
    """Return the line, or None for one that was cut off in the middle or is something else."""
    try:
        line = ResultLine(**json.loads(text))
    except (ValueError, TypeError):
        return None
    return line if isinstance(line.cell, dict) and isinstance(line.metrics, dict) else None
