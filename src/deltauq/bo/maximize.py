"""`maximize`: an objective is evaluated where an acquisition function of its surrogate is largest."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from deltauq.bo._history import History, written
from deltauq.bo._optimiser import MakeSurrogate, Optimiser, as_number, check_count
from deltauq.bo._propose import Acquisition
from deltauq.bo.anchored import default_surrogate

Tick = Callable[[int, int], None]


class OptimisationError(RuntimeError):
    """What ended a maximisation before its time, with everything that was evaluated until then.

    Attributes
    ----------
    history : History
    x : array of shape (d,), or None
        Where the objective failed.
    """

    def __init__(self, message: str, history: History, x: np.ndarray | None = None) -> None:
        super().__init__(message, history, x)
        self.history = history
        self.x = x

    def __str__(self) -> str:
        return str(self.args[0])


def maximize(
    f: Callable[[np.ndarray], float],
    bounds: ArrayLike,
    n_steps: int = 20,
    *,
    n_initial: int = 6,
    surrogate: MakeSurrogate = default_surrogate,
    acquisition: Acquisition = "logei",
    on_failure: Literal["raise", "skip"] = "raise",
    path: str | os.PathLike[str] | None = None,
    seed: int = 0,
    progress: bool | Tick = True,
) -> History:
    """Maximise a function that is expensive to evaluate. To minimise, return its negative.

    Parameters
    ----------
    f : callable
        Takes a point, an array of shape (d,), and returns a number.
    bounds : array-like of shape (2, d)
        The lowest values and then the highest, as BoTorch takes them.
    n_steps : int, default=20
        Evaluations chosen by the surrogate, after the first `n_initial`.
    n_initial : int, default=6
        Points drawn uniformly to begin with, at least two.
    surrogate : callable
        ``surrogate(X, Y)`` returns a BoTorch model of points of shape (n, d), in the unit cube, and values of
        shape (n, 1), standardised, both float64. It is fitted by its `fit` if it has one. By default an
        `AnchoredSurrogate` with ``outcome_transform="clip"``.
    acquisition : "logei" or callable
        "logei" is the logarithm of the expected improvement. A callable is given ``(model, best_f)`` and
        returns an acquisition function of BoTorch; its classes that take a best_f do so themselves. best_f is
        standardised, too.
    on_failure : {"raise", "skip"}
        An objective fails that raises an exception, or returns something that is not one finite number.
        "raise": `OptimisationError`, which has the history; called again with the same `path`, the failed
        point is tried again. "skip": it is recorded as failed, counts as a step, and is avoided.
    path : path, optional
        File that every point is written to as soon as it is evaluated. Where it exists the run goes on from
        it, to the same points as if it had never stopped. Bounds and seed must be the same.
    seed : int, default=0
    progress : bool or callable, default=True
        True shows a bar on a terminal. A callable is given the number of evaluations done and of all.

    Returns
    -------
    history : History
        `x` and `value` are the best; `X`, `Y` and `best_so_far` have everything; `plot()` draws it.

    Examples
    --------
    >>> from deltauq.bo import GPSurrogate, maximize
    >>> found = maximize(lambda x: -((x - 0.3) ** 2).sum(), [[0, 0], [1, 1]], 6, surrogate=GPSurrogate)
    >>> len(found), bool(abs(found.x - 0.3).max() < 0.05)
    (12, True)
    """
    if not callable(f):
        raise TypeError(f"f must be a function of a point, got {type(f).__name__}.")
    if on_failure not in ("raise", "skip"):
        raise ValueError(f'on_failure must be "raise" or "skip", got {on_failure!r}.')
    n_steps = check_count("n_steps", n_steps, least=0)
    optimiser = Optimiser(
        bounds, n_initial=n_initial, surrogate=surrogate, acquisition=acquisition, path=path, seed=seed
    )
    total = optimiser.n_initial + n_steps
    with _shown(progress) as tick:
        for done in range(len(optimiser.history), total):
            tick(done, total)
            x = _asked(optimiser)
            value = _evaluated(f, x, optimiser.history, on_failure)
            _tell(optimiser, x, value)
        tick(total, total)
    return optimiser.history


def _asked(optimiser: Optimiser) -> np.ndarray:
    """Return the next point, of shape (d,)."""
    try:
        return optimiser.ask()[0]
    except Exception as error:
        history = optimiser.history
        message = f"no next point after {len(history)} evaluations: {_said(error)}"
        raise OptimisationError(message, history) from error


def _evaluated(
    f: Callable[[np.ndarray], float], x: np.ndarray, history: History, on_failure: str
) -> float | None:
    """Return the value of the objective at a point, or None where it failed and that is passed over."""
    try:
        value = as_number(f(x.copy()))
        if not np.isfinite(value):
            raise ValueError(f"the value is {value}.")
        return value
    except Exception as error:
        if on_failure == "skip":
            return None
        message = (
            f"the objective failed at x = {written(x)}, after {len(history)} evaluations: {_said(error)}"
        )
        raise OptimisationError(message, history, x) from error


def _tell(optimiser: Optimiser, x: np.ndarray, value: float | None) -> None:
    try:
        optimiser.tell(x, value)
    except OSError as error:
        message = f"the value {value} at x = {written(x)} could not be written to the file: {_said(error)}"
        raise OptimisationError(message, optimiser.history, x) from error


def _said(error: Exception) -> str:
    """Return an error in one line."""
    return f"{type(error).__name__}: " + (" ".join(str(error).split()) or "no message.")


@contextmanager
def _shown(progress: bool | Tick) -> Iterator[Tick]:
    """Yield the function that shows progress."""
    if callable(progress):
        yield progress
    elif not progress:
        yield lambda done, total: None
    else:
        with _bar() as tick:
            yield tick


@contextmanager
def _bar() -> Iterator[Tick]:
    """Show a bar on stderr where somebody watches; without rich, a count."""
    try:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeElapsedColumn
    except ModuleNotFoundError:
        yield _count if sys.stderr.isatty() else lambda done, total: None
        return
    console = Console(stderr=True)
    columns = (BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task("", total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)


def _count(done: int, total: int) -> None:
    end = "\n" if done == total else ""
    print(f"\rmaximize: {done} of {total} evaluations", end=end, file=sys.stderr, flush=True)
