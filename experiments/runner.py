"""Runs the cells of an experiment that have no valid line yet, and writes a line as each one is completed."""

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

from deltauq.utils import InputError
from experiments.store import ResultLine, ResultStore, cell_key
from experiments.tables import TableSpec

if TYPE_CHECKING:
    from deltauq.plots import Figure

ROOT = Path(__file__).resolve().parents[1]
LIBRARIES = ("deltauq", "numpy", "scipy", "scikit-learn", "torch", "numba")

Cell = dict[str, Any]
RunTasks = Callable[[Callable[[Any], Any], Iterable[Any]], Iterator[tuple[Any, Any]]]
"""``run_tasks(function, tasks)`` yields each task and its result, in any order."""


@dataclass(frozen=True)
class Outcome:
    """The result of a cell: its metrics, and small arrays for figures."""

    metrics: dict[str, float]
    details: dict[str, Any] | None = None


@dataclass(frozen=True)
class Experiment:
    """A table or figure as a grid of independent cells.

    Attributes
    ----------
    name : str
    version : int
        Raised when a fix changes results: older lines are then outdated.
    title : str
    cells : callable
        ``cells(profile)`` returns the configurations, each a dict of plain values.
    run : callable
        ``run(cell, profile)`` computes one of them.
    tables : tuple of TableSpec
        Tables of the report.
    figures : callable, optional
        ``figures(lines)`` draws the figures of the report.
    derived : callable, optional
        ``derived(line)`` computes additional metrics from a line's details.
    notes : str
        A few lines on the setting and the outcome. `docs/results/<name>.md` contains the discussion, if any.
    stored_as : str
        The name in result lines and of their file, if it differs.
    cannot_rerun : callable
        ``cannot_rerun(cell)`` is true for cells that cannot be computed again because an option was
        removed. Their lines are still rendered.
    """

    name: str
    version: int
    title: str
    cells: Callable[[str], list[Cell]]
    run: Callable[[Cell, str], Outcome]
    tables: tuple[TableSpec, ...] = ()
    figures: Callable[[Sequence[ResultLine]], list[Figure]] | None = None
    derived: Callable[[ResultLine], dict[str, float]] | None = None
    notes: str = ""
    stored_as: str = ""
    cannot_rerun: Callable[[Cell], bool] = lambda cell: False

    @property
    def stored_name(self) -> str:
        """The name in result lines and of their file."""
        return self.stored_as or self.name

    def key(self, cell: Cell, profile: str) -> str:
        """Return the identity of a cell under this version."""
        return cell_key(self.stored_name, self.version, profile, cell)

    def pending(self, store: ResultStore, profile: str) -> list[Cell]:
        """Return the cells that have no valid line yet."""
        done = store.latest()
        return [
            cell
            for cell in self.cells(profile)
            if self.key(cell, profile) not in done and not self.cannot_rerun(cell)
        ]

    def lines(self, store: ResultStore, profile: str) -> list[ResultLine]:
        """Return the valid lines in the order of the cells, with the derived metrics."""
        done = store.latest()
        keys = (self.key(cell, profile) for cell in self.cells(profile))
        lines = [done[key] for key in keys if key in done]
        if self.derived is None:
            return lines
        return [replace(line, metrics={**line.metrics, **self.derived(line)}) for line in lines]


def run_experiment(
    experiment: Experiment,
    store: ResultStore,
    profile: str = "quick",
    n_jobs: int = 1,
    only: Mapping[str, str] | None = None,
    run_tasks: RunTasks | None = None,
) -> Iterator[ResultLine]:
    """Run the missing cells and yield each line as it is written.

    Only the calling process writes, so that a worker that dies cannot harm the file.

    Parameters
    ----------
    n_jobs : int
        Processes.
    only : mapping of str to str, optional
        Run only cells with these values, given as text.
    run_tasks : callable, optional
        Runs the cells instead of local processes, such as `deltauq.distributed.run_on_ray`.
    """
    provenance = _provenance()
    selected = select_cells(experiment.cells(profile), only)
    cells = [cell for cell in experiment.pending(store, profile) if cell in selected]
    for cell, outcome, seconds, hardware in _compute(experiment, cells, profile, n_jobs, run_tasks):
        line = ResultLine(
            experiment=experiment.stored_name,
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


def select_cells(cells: list[Cell], only: Mapping[str, str] | None) -> list[Cell]:
    """Return the cells that have these values; raise for a key or a value that no cell has."""
    for key, value in (only or {}).items():
        values = sorted({str(cell[key]) for cell in cells if key in cell})
        if not values:
            raise InputError(f"cells have the keys {sorted({k for c in cells for k in c})}, not {key!r}")
        if value not in values:
            raise InputError(f"{key} is one of {values}, not {value!r}")
        cells = [cell for cell in cells if str(cell.get(key)) == value]
    return cells


def _compute(
    experiment: Experiment, cells: list[Cell], profile: str, n_jobs: int, run_tasks: RunTasks | None
) -> Iterable[tuple[Cell, Outcome, float, str]]:
    if run_tasks is not None:
        return (timed for _, timed in run_tasks(partial(_timed, experiment, profile=profile), cells))
    if n_jobs == 1:
        return (_timed(experiment, cell, profile) for cell in cells)
    # Ctrl-C reaches the workers as well, but the parent ends them.
    with parallel_config("loky", initializer=_ignore_interrupts):
        pool = Parallel(n_jobs=n_jobs, return_as="generator_unordered")
    return pool(delayed(_timed)(experiment, cell, profile) for cell in cells)


def _ignore_interrupts() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _timed(experiment: Experiment, cell: Cell, profile: str) -> tuple[Cell, Outcome, float, str]:
    """Return a cell, its outcome, its seconds, and the hardware of the machine it ran on."""
    start = time.perf_counter()
    outcome = experiment.run(cell, profile)
    return cell, outcome, time.perf_counter() - start, _hardware()


def _provenance() -> dict[str, Any]:
    """Return the versions of the libraries and the commit."""
    versions = {"python": platform.python_version()}
    for name in LIBRARIES:
        try:
            versions[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return {"versions": versions, "commit": _commit()}


def _commit() -> str | None:
    """Return the commit of the sources, marked if they differ from it, or None outside a repository.

    In a copy of the sources without history, the environment variable DELTAUQ_COMMIT names the commit.
    """
    if commit := os.environ.get("DELTAUQ_COMMIT"):
        return commit
    root = _output_of("git", "rev-parse", "--show-toplevel")
    if root is None or Path(root) != ROOT:
        return None  # a copy inside another repository
    commit = _output_of("git", "rev-parse", "--short=12", "HEAD")
    changed = _output_of("git", "status", "--porcelain", "--", "src", "experiments")
    return f"{commit}-dirty" if commit and changed else commit


def _output_of(*command: str) -> str | None:
    """Return the output of a command run in the root of the sources, or None if it fails."""
    try:
        done = subprocess.run(
            command,
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=True,
            timeout=10,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip() or None


@lru_cache(maxsize=1)
def _hardware() -> str:
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    gpus = _output_of("nvidia-smi", "--query-gpu=name", "--format=csv,noheader")
    return ", ".join([platform.machine(), f"{cores} cores", *(gpus or "").splitlines()])
