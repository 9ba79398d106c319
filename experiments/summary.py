"""Summary of the result lines of an experiment: metrics over the seeds, missing cells and outdated lines."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from experiments.store import PROFILES, ResultLine, ResultStore

if TYPE_CHECKING:
    from experiments.runner import Experiment

SEED = "seed"


@dataclass(frozen=True)
class Spread:
    """A metric over the seeds of one configuration.

    Attributes
    ----------
    mean : float
    std : float
        Sample standard deviation over the seeds (divided by count − 1); NaN for a single seed.
    count : int
        Number of seeds.
    """

    mean: float
    std: float
    count: int


@dataclass(frozen=True)
class Summary:
    """One configuration, without its seed, and every metric over the seeds."""

    cell: dict[str, Any]
    metrics: dict[str, Spread]


def summarise(lines: Iterable[ResultLine]) -> list[Summary]:
    """Group lines by all keys of their cells but the seed, in order of appearance.

    A metric that is NaN for one seed has the mean NaN.
    """
    cells: dict[str, dict[str, Any]] = {}
    metrics: dict[str, dict[str, list[float]]] = {}
    for line in lines:
        cell = {key: value for key, value in line.cell.items() if key != SEED}
        key = json.dumps(cell, sort_keys=True)
        cells.setdefault(key, cell)
        group = metrics.setdefault(key, {})
        for name, value in line.metrics.items():
            group.setdefault(name, []).append(value)
    return [
        Summary(cell, {name: _spread(values) for name, values in metrics[key].items()})
        for key, cell in cells.items()
    ]


def _spread(values: Sequence[float]) -> Spread:
    with np.errstate(invalid="ignore"):  # infinite values have no standard deviation
        std = float(np.std(values, ddof=1)) if len(values) > 1 else math.nan
        return Spread(float(np.mean(values)), std, len(values))


@dataclass(frozen=True)
class Results:
    """The results of one experiment under one profile.

    Attributes
    ----------
    experiment : Experiment
    profile : str
    lines : list of ResultLine
        Valid ones, in the order of the cells.
    missing : int
        Cells without a valid line.
    outdated : int
        Lines of other versions of the experiment.
    unknown : int
        Lines of other experiments, or of cells that this one does not have.
    unreadable : int
        Incomplete lines and anything else that is not a result line.
    """

    experiment: Experiment
    profile: str
    lines: list[ResultLine]
    missing: int
    outdated: int
    unknown: int
    unreadable: int

    def summaries(self) -> list[Summary]:
        """Return every metric over the seeds."""
        return summarise(self.lines)

    def seconds(self) -> float:
        """Return the computing time of all lines."""
        return math.fsum(line.seconds for line in self.lines)

    def provenance(self) -> dict[str, list[str]]:
        """Return the commits, hardware and versions of the lines, each in order of appearance."""
        versions = (
            ", ".join(f"{name} {number}" for name, number in line.versions.items()) for line in self.lines
        )
        return {
            "commit": _distinct(line.commit or "unknown" for line in self.lines),
            "hardware": _distinct(line.hardware or "unknown" for line in self.lines),
            "versions": _distinct(versions),
        }

    def status(self) -> str:
        """Return in one line how many lines there are, how many are missing and what was ignored."""
        parts = [
            f"Profile {self.profile}: {_count(len(self.lines), 'line')}",
            f"{_count(self.missing, 'cell')} missing" if self.missing else "nothing missing",
        ]
        ignored = {"outdated": self.outdated, "unknown": self.unknown, "unreadable": self.unreadable}
        parts += [f"{_count(number, f'{kind} line')} ignored" for kind, number in ignored.items() if number]
        return f"{', '.join(parts)}."

    def as_json(self) -> dict[str, Any]:
        """Return everything but the lines as plain values; NaN becomes None."""
        return {
            "experiment": self.experiment.name,
            "title": self.experiment.title,
            "version": self.experiment.version,
            "profile": self.profile,
            "lines": len(self.lines),
            "missing": self.missing,
            "outdated": self.outdated,
            "unknown": self.unknown,
            "unreadable": self.unreadable,
            "seconds": round(self.seconds(), 3),
            **self.provenance(),
            "summary": [
                {
                    "cell": summary.cell,
                    "metrics": {name: _plain(spread) for name, spread in summary.metrics.items()},
                }
                for summary in self.summaries()
            ],
        }


def load_results(experiment: Experiment, store: ResultStore, profile: str) -> Results:
    """Load and summarise the result lines of an experiment under a profile."""
    known = {experiment.key(cell, each) for each in PROFILES for cell in experiment.cells(each)}
    kinds = Counter(_kind(line, experiment, known) for line in store)
    valid = experiment.lines(store, profile)
    return Results(
        experiment,
        profile,
        valid,
        missing=len(experiment.cells(profile)) - len(valid),
        outdated=kinds["outdated"],
        unknown=kinds["unknown"],
        unreadable=_non_empty_lines(store) - kinds.total(),
    )


def _kind(line: ResultLine, experiment: Experiment, known: set[str]) -> str:
    """Return whether a line is valid under some profile, outdated or unknown."""
    if line.experiment == experiment.stored_name and line.version != experiment.version:
        return "outdated"
    return "valid" if line.key in known else "unknown"


def _non_empty_lines(store: ResultStore) -> int:
    if not store.path.exists():
        return 0
    with store.path.open(encoding="utf-8") as file:
        return sum(bool(text.strip()) for text in file)


def _distinct(values: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(values))


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _plain(spread: Spread) -> dict[str, float | int | None]:
    mean, std = (value if math.isfinite(value) else None for value in (spread.mean, spread.std))
    return {"mean": mean, "std": std, "count": spread.count}
