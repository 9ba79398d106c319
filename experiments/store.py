"""The results store: one JSON line per completed cell."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from deltauq.utils import JsonLines

PROFILES = ("quick", "paper")


@dataclass(frozen=True)
class ResultLine:
    """One completed cell of an experiment.

    Attributes
    ----------
    experiment : str
    version : int
        Raised after a fix; lines of an older version are outdated.
    profile : {"quick", "paper"}
    cell : dict
        The configuration of the cell: dataset, method, seed, ...
    metrics : dict of str to float
    seconds : float
    versions : dict of str to str
        Of the libraries in use.
    commit : str or None
    hardware : str
    details : dict
        Curves or small arrays for figures.
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
    """Result lines of one experiment in one file; see `deltauq.utils.jsonl.JsonLines` for what a crash costs.

    Parameters
    ----------
    path : path
        ``results/<experiment>.jsonl``; created on the first write.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self._file = JsonLines(path)

    def append(self, line: ResultLine) -> None:
        """Add one line."""
        self._file.append(asdict(line))

    def __iter__(self) -> Iterator[ResultLine]:
        """Yield every result line, all lines of a repeated key included; anything else is skipped."""
        for record in self._file:
            try:
                line = ResultLine(**record)
            except TypeError:
                continue
            if isinstance(line.cell, dict) and isinstance(line.metrics, dict):
                yield line

    def latest(self) -> dict[str, ResultLine]:
        """Return the last line of every key."""
        return {line.key: line for line in self}
