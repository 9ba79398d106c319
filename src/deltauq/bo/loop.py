"""`maximize`: evaluates an objective where an acquisition function of its surrogate is largest."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import nullcontext
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from deltauq.bo.acquisition import Acquisition
from deltauq.bo.anchored import AnchoredSurrogate
from deltauq.bo.history import History, format_point
from deltauq.bo.optimizer import MakeSurrogate, Optimizer, as_number, check_count
from deltauq.utils.progress import counting_bar


class OptimizationError(RuntimeError):
    """Ended a maximisation early; `history` has the evaluated points, `x` the failed one or None."""

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
    surrogate: MakeSurrogate = AnchoredSurrogate,
    acquisition: Acquisition = "logei",
    on_failure: Literal["raise", "skip"] = "raise",
    path: str | os.PathLike[str] | None = None,
    seed: int = 0,
    progress: bool | Callable[[int, int], None] = True,
) -> History:
    """Maximise a function that is expensive to evaluate. To minimise it, return its negative.

    Parameters
    ----------
    f : callable
        Takes a point, an array of shape (d,), and returns a number.
    bounds : array-like of shape (2, d)
        The lower bounds and then the upper bounds, as in BoTorch.
    n_steps : int, default=20
        Number of evaluations chosen by the surrogate, after the first `n_initial`.
    n_initial : int, default=6
        Number of points drawn uniformly at the start, at least two.
    surrogate, acquisition
        How points are chosen; see `Optimizer`.
    on_failure : {"raise", "skip"}
        The objective fails if it raises an exception or does not return one finite number. "raise": raise
        `OptimizationError`, which has the history; called again with the same `path`, the failed point is
        evaluated again. "skip": the failure is recorded, counts as a step, and its neighbourhood is avoided.
    path : path, optional
        File that every point is written to as soon as it is evaluated. If it exists, the run continues from
        it with the same points as if it had not been interrupted. Bounds, seed, and the surrogate with its
        parameters must be the same.
    seed : int, default=0
        Random seed.
    progress : bool or callable, default=True
        True shows a bar in a terminal. A callable is called with the number of evaluations done and of all.

    Returns
    -------
    history : History
        `x` and `value` are the best point; `X`, `Y` and `best_so_far` have all points; `plot()` draws them.

    Examples
    --------
    >>> from deltauq.bo import GPSurrogate, maximize
    >>> result = maximize(lambda x: -((x - 0.3) ** 2).sum(), [[0, 0], [1, 1]], 6, surrogate=GPSurrogate)
    >>> len(result), bool(abs(result.x - 0.3).max() < 0.05)
    (12, True)
    """
    if not callable(f):
        raise TypeError(f"f must be a function of a point, got {type(f).__name__}.")
    if on_failure not in ("raise", "skip"):
        raise ValueError(f'on_failure must be "raise" or "skip", got {on_failure!r}.')
    n_steps = check_count("n_steps", n_steps, least=0)
    optimizer = Optimizer(
        bounds, n_initial=n_initial, surrogate=surrogate, acquisition=acquisition, path=path, seed=seed
    )
    total = optimizer.n_initial + n_steps
    report = progress if callable(progress) else lambda done, total: None
    with counting_bar("evaluations") if progress is True else nullcontext(report) as tick:
        for done in range(len(optimizer.history), total):
            tick(done, total)
            _step(f, optimizer, on_failure)
        tick(total, total)
    return optimizer.history


def _step(f: Callable[[np.ndarray], float], optimizer: Optimizer, on_failure: str) -> None:
    """Evaluate the objective at the next point and record its value."""
    history = optimizer.history
    try:
        x = optimizer.ask()[0]
    except Exception as error:
        message = f"no next point after {len(history)} evaluations: {_one_line(error)}"
        raise OptimizationError(message, history) from error
    value = None
    try:
        value = as_number(f(x.copy()))
        if not np.isfinite(value):
            raise ValueError(f"the value is {value}.")
    except Exception as error:
        if on_failure == "raise":
            message = f"the objective failed at x = {format_point(x)}, after {len(history)} evaluations: "
            raise OptimizationError(message + _one_line(error), history, x) from error
        value = None
    try:
        optimizer.tell(x, value)
    except OSError as error:
        message = f"the value {value} at x = {format_point(x)} could not be written to the file: "
        raise OptimizationError(message + _one_line(error), optimizer.history, x) from error


def _one_line(error: Exception) -> str:
    """Return the type and message of an error in one line."""
    return f"{type(error).__name__}: " + (" ".join(str(error).split()) or "no message.")
