"""Runs the cells of an experiment that have no valid line yet, and writes a line as each one ends."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import signal
import subprocess
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from joblib import Parallel, delayed, parallel_config

from deltauq.plots.page import Figure
from experiments.results import ResultLine, ResultStore, cell_key
from experiments.views import TableView

if TYPE_CHECKING:
    from deltauq.distributed.running import Run

PROFILES = ("quick", "paper")
LIBRARIES = ("deltauq", "numpy", "scipy", "scikit-learn", "torch", "numba")

Cell = dict[str, Any]


@dataclass(frozen=True)
class Outcome:
    """What a cell gives: its metrics, and small arrays that a figure is drawn from."""

    metrics: dict[str, float]
    details: dict[str, Any] | None = None


@dataclass(frozen=True)
class Experiment:
    """A table or figure as a grid of independent cells.

    Attributes
    ----------
    name : str
    version : int
        Raise it when a fix changes figures: older lines are then stale.
    title : str
    cells : callable
        ``cells(profile)`` gives the configurations, each a dict of plain values.
    run : callable
        ``run(cell, profile)`` computes one of them.
    tables : tuple of TableView
        What the report shows of the lines as tables.
    figures : callable, optional
        ``figures(lines)`` draws what the report shows of them as figures.
    derived : callable, optional
        ``derived(line)`` gives further metrics that follow from a line's details.
    notes : str
        What a reader of the report has to know: where ours differs from the paper's, and why. An empty line
        begins a paragraph.
    """

    name: str
    version: int
    title: str
    cells: Callable[[str], list[Cell]]
    run: Callable[[Cell, str], Outcome]
    tables: tuple[TableView, ...] = ()
    figures: Callable[[Sequence[ResultLine]], list[Figure]] | None = None
    derived: Callable[[ResultLine], dict[str, float]] | None = None
    notes: str = ""

    def key(self, cell: Cell, profile: str) -> str:
        """Return the identity of a cell under this version."""
        return cell_key(self.name, self.version, profile, cell)

    def pending(self, store: ResultStore, profile: str) -> list[Cell]:
        """Return the cells that have no valid line yet."""
        done = store.latest()
        return [cell for cell in self.cells(profile) if self.key(cell, profile) not in done]

    def lines(self, store: ResultStore, profile: str) -> list[ResultLine]:
        """Return the valid lines in the order of the cells, with what follows from their details."""
        done = store.latest()
        keys = (self.key(cell, profile) for cell in self.cells(profile))
        found = [done[key] for key in keys if key in done]
        if self.derived is None:
            return found
        return [replace(line, metrics={**line.metrics, **self.derived(line)}) for line in found]


def run_experiment(
    experiment: Experiment,
    store: ResultStore,
    profile: str = "quick",
    n_jobs: int = 1,
    only: Mapping[str, str] | None = None,
    run: Run | None = None,
) -> Iterator[ResultLine]:
    """Run what is missing and yield each line as it is written.

    Only the calling process writes, so that a worker that dies cannot harm the file.

    Parameters
    ----------
    experiment : Experiment
    store : ResultStore
    profile : {"quick", "paper"}
    n_jobs : int
        Processes.
    only : mapping of str to str, optional
        Run no other cells than those with these values, written as text.
    run : callable, optional
        Runs the cells instead of local processes, such as `deltauq.distributed.run_on_ray`.

    Yields
    ------
    line : ResultLine
    """
    provenance = _provenance()
    wanted = chosen(experiment.cells(profile), only)
    cells = [cell for cell in experiment.pending(store, profile) if cell in wanted]
    for cell, outcome, seconds, hardware in _compute(experiment, cells, profile, n_jobs, run):
        line = ResultLine(
            experiment=experiment.name,
            version=experiment.version,
            profile=profile,
            cell=cell,
            metrics={name: float(value) for name, value in outcome.metrics.items()},
            seconds=round(seconds, 3),
            details=outcome.details or {},
            hardware=hardware,
            **provenance,
        )
        store.append(line)
        yield line


def words_of(texts: Iterable[str]) -> dict[str, str]:
    """Return the words of cells that are written as "word=value"."""
    words = {}
    for text in texts:
        word, equals, value = text.partition("=")
        if not equals:
            raise ValueError(f"{text!r} is not of the form word=value.")
        words[word] = value
    return words


def chosen(cells: list[Cell], only: Mapping[str, str] | None) -> list[Cell]:
    """Return the cells that have these values; a word or a value that no cell has is an error."""
    for word, value in (only or {}).items():
        values = sorted({str(cell[word]) for cell in cells if word in cell})
        if not values:
            raise ValueError(f"cells have the words {sorted({w for c in cells for w in c})}, not {word!r}.")
        if value not in values:
            raise ValueError(f"{word} is one of {values}, not {value!r}.")
        cells = [cell for cell in cells if str(cell.get(word)) == value]
    return cells


def _compute(
    experiment: Experiment, cells: list[Cell], profile: str, n_jobs: int, run: Run | None
) -> Iterable[tuple[Cell, Outcome, float, str]]:
    if run is not None:
        return (timed for _, timed in run(partial(_timed, experiment, profile=profile), cells))
    if n_jobs == 1:
        return (_timed(experiment, cell, profile) for cell in cells)
    # Ctrl-C reaches the workers as well; the parent ends them, and they have nothing to say.
    with parallel_config("loky", initializer=_ignore_interrupts):
        pool = Parallel(n_jobs=n_jobs, return_as="generator_unordered")
    return pool(delayed(_timed)(experiment, cell, profile) for cell in cells)


def _ignore_interrupts() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _timed(experiment: Experiment, cell: Cell, profile: str) -> tuple[Cell, Outcome, float, str]:
    """Return a cell, what it gives, its seconds, and what it was computed on: not always this machine."""
    start = time.perf_counter()
    outcome = experiment.run(cell, profile)
    return cell, outcome, time.perf_counter() - start, _hardware()


def _provenance() -> dict[str, Any]:
    """Return what made the figures: versions and commit."""
    versions = {"python": platform.python_version()}
    for name in LIBRARIES:
        try:
            versions[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return {"versions": versions, "commit": _commit()}


def _commit() -> str | None:
    """Return the commit of the source tree, marked where the package differs from it, or None outside one.

    A copy of the sources without their history can be told by the environment variable DELTAUQ_COMMIT.
    """
    if told := os.environ.get("DELTAUQ_COMMIT"):
        return told
    root = _said_by("git", "rev-parse", "--show-toplevel")
    if root is None or Path(root) != Path(__file__).resolve().parents[1]:
        return None  # installed somewhere inside another repository
    commit = _said_by("git", "rev-parse", "--short=12", "HEAD")
    return f"{commit}-dirty" if commit and _said_by("git", "status", "--porcelain", "--", "..") else commit


def _said_by(*command: str) -> str | None:
    """Return what a command says in the folder this file is in, or None."""
    try:
        answer = subprocess.run(
            command,
            cwd=Path(__file__).parent,
            capture_output=True,
            text=True,
            check=True,
            timeout=10,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return answer.stdout.strip() or None


@lru_cache(maxsize=1)
def _hardware() -> str:
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    gpus = _said_by("nvidia-smi", "--query-gpu=name", "--format=csv,noheader")
    return ", ".join([platform.machine(), f"{cores} cores", *(gpus or "").splitlines()])
