"""What the valid lines of an experiment say: metrics over the seeds, and what is missing or stale."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from experiments.results import ResultLine, ResultStore
from experiments.runner import PROFILES, Experiment
from experiments.views import Spread, Summary

SEED = "seed"


def summarise(lines: Iterable[ResultLine]) -> list[Summary]:
    """Group lines by all words of their cells but the seed, in order of appearance.

    A metric that is not a number for one seed has a mean that is not a number either. The standard deviation
    is the sample's, divided by count − 1.

    Parameters
    ----------
    lines : iterable of ResultLine

    Returns
    -------
    summaries : list of Summary
    """
    cells: dict[str, dict[str, Any]] = {}
    metrics: dict[str, dict[str, list[float]]] = {}
    for line in lines:
        cell = {word: value for word, value in line.cell.items() if word != SEED}
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
class Account:
    """What a results file holds of one experiment under one profile.

    Attributes
    ----------
    experiment : Experiment
    profile : str
    lines : list of ResultLine
        Valid ones, in the order of the cells.
    missing : int
        Cells without a valid line.
    stale : int
        Lines of other versions of the experiment.
    foreign : int
        Lines of other experiments, or of cells that this one does not have.
    unreadable : int
        Lines that were cut off or are no result lines at all.
    """

    experiment: Experiment
    profile: str
    lines: list[ResultLine]
    missing: int
    stale: int
    foreign: int
    unreadable: int

    def summaries(self) -> list[Summary]:
        """Return every metric over the seeds."""
        return summarise(self.lines)

    def seconds(self) -> float:
        """Return the computing time of all lines."""
        return math.fsum(line.seconds for line in self.lines)

    def provenance(self) -> dict[str, list[str]]:
        """Return the commits, machines and versions that made the lines, each in order of appearance."""
        versions = (
            ", ".join(f"{name} {number}" for name, number in line.versions.items()) for line in self.lines
        )
        return {
            "commit": _distinct(line.commit or "unknown" for line in self.lines),
            "hardware": _distinct(line.hardware or "unknown" for line in self.lines),
            "versions": _distinct(versions),
        }

    def status(self) -> str:
        """Return in one line what there is, what is missing and what was ignored."""
        parts = [
            f"Profile {self.profile}: {_count(len(self.lines), 'line')}",
            f"{_count(self.missing, 'cell')} missing" if self.missing else "nothing missing",
        ]
        ignored = {"stale": self.stale, "foreign": self.foreign, "unreadable": self.unreadable}
        parts += [f"{_count(number, f'{kind} line')} ignored" for kind, number in ignored.items() if number]
        return f"{', '.join(parts)}."

    def as_json(self) -> dict[str, Any]:
        """Return everything but the lines themselves as plain values; what is not a number becomes None."""
        return {
            "experiment": self.experiment.name,
            "title": self.experiment.title,
            "version": self.experiment.version,
            "profile": self.profile,
            "lines": len(self.lines),
            "missing": self.missing,
            "stale": self.stale,
            "foreign": self.foreign,
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


def take_account(experiment: Experiment, store: ResultStore, profile: str) -> Account:
    """Read what a results file holds of an experiment under a profile.

    Parameters
    ----------
    experiment : Experiment
    store : ResultStore
    profile : {"quick", "paper"}

    Returns
    -------
    account : Account
    """
    known = {experiment.key(cell, each) for each in PROFILES for cell in experiment.cells(each)}
    kinds = Counter(_kind(line, experiment, known) for line in store)
    valid = experiment.lines(store, profile)
    return Account(
        experiment,
        profile,
        valid,
        missing=len(experiment.cells(profile)) - len(valid),
        stale=kinds["stale"],
        foreign=kinds["foreign"],
        unreadable=_written_lines(store) - kinds.total(),
    )


def _kind(line: ResultLine, experiment: Experiment, known: set[str]) -> str:
    """Return whether a line is valid under some profile, stale or foreign."""
    if line.experiment == experiment.name and line.version != experiment.version:
        return "stale"
    return "valid" if line.key in known else "foreign"


def _written_lines(store: ResultStore) -> int:
    """Return how many lines of the file hold anything at all."""
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
