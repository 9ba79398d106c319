"""`Optimizer`: proposes points to evaluate and records their values."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from botorch.exceptions.warnings import InputDataWarning
from botorch.models.model import Model
from numpy.typing import ArrayLike
from torch import Tensor

from deltauq.bo.acquisition import (
    ACQUISITIONS,
    Acquisition,
    Float64Acquisition,
    are_new,
    find_maximum,
    make_acquisition,
)
from deltauq.bo.anchored import AnchoredSurrogate
from deltauq.bo.history import History, HistoryFile, format_point
from deltauq.bo.surrogate import Surrogate

MakeSurrogate = Callable[[Tensor, Tensor], Model]
"""``surrogate(X, Y)``: a model of points of shape (n, d) in the unit cube and their values, (n, 1)."""

N_CENTERS = 4
"""Best points around which candidates are drawn."""
MAX_RELATIVE_DISTANCE = 1e3
"""Values farther below the median, in units of the best value above it, are clipped for the surrogate."""
MAX_DRAWS = 100
"""Attempts to draw a new uniform point: the bounds may contain fewer floating-point numbers than that."""


class Optimizer:
    """Maximises a function that is evaluated elsewhere: `ask` for points, `tell` their values.

    The first `n_initial` points are drawn uniformly. Each later point is the maximum of the acquisition
    function of a surrogate fitted to all values.

    `ask` depends only on the seed and on the observations: calling it again without `tell` returns the same
    points, and an optimizer resumed from its file continues as the old one would have.

    Parameters
    ----------
    bounds : array-like of shape (2, d)
        The lower bounds and then the upper bounds, as in BoTorch.
    n_initial : int, default=6
        Number of points before the first surrogate, at least two. All observations count, also those of
        points that `ask` did not return.
    surrogate : callable
        ``surrogate(X, Y)`` returns a BoTorch model of points of shape (n, d) in the unit cube and
        standardised values of shape (n, 1), both float64. Its method `fit` is called if it has one.
    acquisition : "logei" or callable
        "logei" is the logarithm of the expected improvement. A callable takes ``(model, best_f)`` and returns
        an acquisition function of BoTorch; BoTorch's classes with a parameter best_f can be given themselves.
        best_f is standardised, too.
    path : path, optional
        File that every observation is written to, one JSON line each. If it exists, its observations are
        loaded; bounds, seed, and the surrogate with its parameters must be the same.
    seed : int, default=0
        Random seed.

    Notes
    -----
    If a point is observed several times, the surrogate sees it once, with the mean of its values. A failed
    point without a value is given the lowest value of all, so that its neighbourhood is avoided. Points that
    were evaluated, failed or are pending are not returned again; points that differ by less than a millionth
    of the width of the bounds are the same.
    """

    def __init__(
        self,
        bounds: ArrayLike,
        *,
        n_initial: int = 6,
        surrogate: MakeSurrogate = AnchoredSurrogate,
        acquisition: Acquisition = "logei",
        path: str | os.PathLike[str] | None = None,
        seed: int = 0,
    ) -> None:
        self.bounds = _check_bounds(bounds)
        self.n_initial = check_count("n_initial", n_initial, least=2)
        self.seed = check_count("seed", seed, least=0)
        if not callable(surrogate) or isinstance(surrogate, Model):
            kind = type(surrogate).__name__
            raise TypeError(f"surrogate must be a function of (X, Y) that returns a model, got {kind}.")
        if not callable(acquisition) and acquisition not in ACQUISITIONS:
            names = list(ACQUISITIONS)
            raise ValueError(f"acquisition must be one of {names} or a function, got {acquisition!r}.")
        self.surrogate = surrogate
        self.acquisition = acquisition
        self._file = None if path is None else HistoryFile(path, self.bounds, self.seed, surrogate)
        self._observations: list[tuple[np.ndarray, float]] = [] if self._file is None else self._file.points
        self._fitted: tuple[int, Model, Tensor] | None = None

    @property
    def history(self) -> History:
        """All observations, in order."""
        X = np.array([x for x, _ in self._observations]).reshape(-1, self.bounds.shape[1])
        return History(X, np.array([y for _, y in self._observations], dtype=np.float64), self.n_initial)

    @property
    def best(self) -> tuple[np.ndarray, float]:
        """The best point, of shape (d,), and its value."""
        return self.history.x, self.history.value

    def ask(self, n: int = 1, *, pending: ArrayLike | None = None) -> np.ndarray:
        """Return the points to evaluate next.

        Parameters
        ----------
        n : int, default=1
            Number of points. They are chosen one after the other, each with those before it pending.
        pending : array-like of shape (p, d), optional
            Points that are still being evaluated and must not be returned again.

        Returns
        -------
        points : array of shape (n, d)
        """
        check_count("n", n, least=1)
        d = self.bounds.shape[1]
        points = np.empty((0, d)) if pending is None else self._check_points(pending, "pending points")
        n_pending = len(points)
        for _ in range(n):
            points = np.vstack([points, self._next_point(points)])
        return points[n_pending:]

    def tell(self, x: ArrayLike, y: Any) -> None:
        """Add observations, of points that `ask` returned or others.

        Parameters
        ----------
        x : array-like of shape (d,) or (n, d)
            The points.
        y : float, or sequence of n floats
            Their values; None for a failed evaluation.
        """
        points = self._check_points(x, "points")
        values = [y] if y is None or np.ndim(y) == 0 else list(y)
        if len(values) != len(points):
            raise ValueError(f"{len(points)} points need as many values, got {len(values)}.")
        numbers = [np.nan if value is None else as_number(value) for value in values]
        for point, value, number in zip(points, values, numbers, strict=True):
            if value is not None and not np.isfinite(number):
                where = f"the value {value} at x = {format_point(point)}"
                raise ValueError(f"{where} is not finite: give None for a failed evaluation.")
        self._fitted = None
        observations = list(zip(points, numbers, strict=True))
        self._observations += observations  # before the file, whose disk may be full
        if self._file is not None:
            for point, number in observations:
                self._file.append(point, number)

    def _next_point(self, pending: np.ndarray) -> np.ndarray:
        """Return one point of shape (d,), given those of shape (p, d) that are pending."""
        step = len(self._observations) + len(pending)
        rng = np.random.default_rng([self.seed, step])
        history = self.history
        known = self._to_cube(np.concatenate([history.X, pending]))
        uniform = self._draw_uniform(rng, known)
        n_values = len({x.tobytes() for x, y in self._observations if not np.isnan(y)})
        if step < self.n_initial or n_values < 2:
            return uniform
        with torch.random.fork_rng(devices=[]):
            model, best_f = self._fit(step)
            torch.manual_seed(int(rng.integers(2**63)))
            function = make_acquisition(self.acquisition, model, best_f, self._to_cube(pending))
            # NaN comes last in this order, and there are at least two values.
            best = history.X[np.argsort(-history.Y, kind="stable")[: min(N_CENTERS, n_values)]]
            x = find_maximum(Float64Acquisition(function), self._to_cube(best), known, rng)
        low, high = self.bounds
        return uniform if x is None else np.clip(low + (high - low) * x.numpy(), low, high)

    def _draw_uniform(self, rng: np.random.Generator, known: Tensor) -> np.ndarray:
        """Return a uniform point, of shape (d,), that is new: values may arrive in another order."""
        for _ in range(MAX_DRAWS):
            x = rng.uniform(*self.bounds)
            if are_new(self._to_cube(x[None]), known)[0]:
                break
        return x

    def _fit(self, step: int) -> tuple[Model, Tensor]:
        """Return the surrogate fitted to all observations, and its largest training value.

        For each point of one `ask`, networks are trained again with another seed, so that the points do not
        depend on a single network. Other surrogates are kept until the next `tell`.
        """
        if self._fitted is not None:
            fitted_step, model, best_f = self._fitted
            if fitted_step == step or not isinstance(model, Surrogate):
                return model, best_f
        X, Y = training_data(self.history)
        train_X, train_Y = self._to_cube(X), torch.as_tensor(Y)[:, None]
        seeds = np.random.default_rng([self.seed, step]).integers(2**31, size=2)
        torch.manual_seed(int(seeds[0]))
        with warnings.catch_warnings():
            if np.ptp(Y) == 0:  # the first values of an objective may be equal
                warnings.simplefilter("ignore", InputDataWarning)
            model = self.surrogate(train_X, train_Y)
            if isinstance(model, Surrogate):
                model.reseed(int(seeds[1]))
            if callable(fit := getattr(model, "fit", None)):
                fit()
        self._fitted = step, model, train_Y.max()
        return model, train_Y.max()

    def _to_cube(self, x: np.ndarray) -> Tensor:
        """Return points scaled from the bounds to the unit cube."""
        low, high = self.bounds
        return torch.as_tensor((x - low) / (high - low))

    def _check_points(self, x: ArrayLike, name: str) -> np.ndarray:
        """Return points of shape (n, d) in float64, a copy."""
        d = self.bounds.shape[1]
        points = _as_array(name, x)
        if points.ndim == 1:
            points = points[None] if points.size else points.reshape(0, d)
        if points.ndim != 2 or points.shape[1] != d:
            raise ValueError(f"{name} must have shape (n, {d}), got {np.shape(x)}.")
        for point in points:
            if not ((point >= self.bounds[0]) & (point <= self.bounds[1])).all():
                raise ValueError(f"x = {format_point(point)} lies outside the bounds {self.bounds.tolist()}.")
        return points + 0.0  # -0.0 becomes 0.0: equal points have equal bytes


def training_data(history: History) -> tuple[np.ndarray, np.ndarray]:
    """Return the data that the surrogate is fitted to: each point once, of shape (m, d), and values (m,).

    The value is the mean of a point's values, or the lowest value of all for a point that only failed; values
    are clipped far below the median and then standardised.
    """
    # Scaled first: the squares of very large or very small values are not representable.
    scaled = history.Y / (np.nanmax(np.abs(history.Y)) or 1.0)
    values: dict[bytes, list[float]] = {}
    for x, y in zip(history.X, scaled, strict=True):
        values.setdefault(x.tobytes(), []).extend([] if np.isnan(y) else [y])
    X = np.array([np.frombuffer(x) for x in values])
    lowest = np.nanmin(scaled)
    Y = np.array([np.mean(y) if y else lowest for y in values.values()])
    # A penalty value of -1e20 would make all other values equal.
    median = np.median(Y)
    if (best_above_median := Y.max() - median) > 0:
        Y = np.maximum((Y - median) / best_above_median, -MAX_RELATIVE_DISTANCE)
    return X, (Y - Y.mean()) / (Y.std() or 1.0)


def as_number(value: Any) -> float:
    """Return a single number as a float; raise an error for anything else."""
    try:
        shape = tuple(np.shape(value))
        if shape == () and not isinstance(value, str | bytes) and not np.iscomplexobj(value):
            return float(value)
    except (TypeError, ValueError, OverflowError):
        shape = ()
    what = f"an array of shape {shape}" if shape else repr(value)
    raise TypeError(f"a value must be a single number, got {what}.")


def check_count(name: str, number: Any, *, least: int) -> int:
    """Return an integer of at least `least`; raise an error for anything else."""
    if isinstance(number, bool) or not isinstance(number, int | np.integer):
        raise TypeError(f"{name} must be an integer, got {number!r}.")
    if number < least:
        raise ValueError(f"{name} must be at least {least}, got {number}.")
    return int(number)


def _check_bounds(bounds: ArrayLike) -> np.ndarray:
    """Return bounds of shape (2, d) in float64; raise an error for others."""
    checked = _as_array("bounds", bounds)
    form = "the lower bounds and then the upper bounds"
    if checked.ndim != 2 or len(checked) != 2 or not checked.shape[1]:
        raise ValueError(f"bounds must have shape (2, d), {form}, got shape {checked.shape}.")
    low, high = checked
    with np.errstate(over="ignore", invalid="ignore"):
        if not np.isfinite(high - low).all():
            raise ValueError(f"bounds must be finite and not too far apart, got {checked.tolist()}.")
    if not (low < high).all():
        are_pairs = checked.shape == (2, 2) and (checked[:, 0] < checked[:, 1]).all()
        hint = " These look like pairs (low, high): transpose them." if are_pairs else ""
        raise ValueError(f"bounds need each lower bound below its upper bound, got {checked.tolist()}.{hint}")
    return checked + 0.0


def _as_array(name: str, values: ArrayLike) -> np.ndarray:
    """Return a copy in float64."""
    try:
        return np.array(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise ValueError(f"{name} must be numbers in an array of two dimensions, got {values!r}.") from None
