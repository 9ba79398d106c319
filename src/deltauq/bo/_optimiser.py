"""`Optimiser`: says where to evaluate next, and is told what came out."""

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

from deltauq.bo._history import History, HistoryFile, written
from deltauq.bo._propose import Acquisition, InFloat64, are_new, find_largest, make_acquisition
from deltauq.bo._surrogate import Surrogate
from deltauq.bo.anchored import default_surrogate

MakeSurrogate = Callable[[Tensor, Tensor], Model]
"""``surrogate(X, Y)``: a model of points of shape (n, d) in the unit cube and their values, (n, 1)."""

N_CENTRES = 4
"""Of the best points, how many to look around."""
DEEPEST = 1e3
"""Values farther below the median, in heights of the best above it, are alike to every surrogate."""
MOST_DRAWS = 100
"""Of a uniform point, until it is new: bounds may hold fewer numbers than that."""


class Optimiser:
    """Maximises a function that is evaluated elsewhere: `ask` for points, `tell` their values.

    The first `n_initial` points are drawn uniformly. Then a surrogate is fitted to all values, and the next
    point is where its acquisition function is largest.

    What is asked depends on the seed and on what was told, on nothing else: asking again without telling
    gives the same points, and an optimiser made anew from its file goes on as the old one would have.

    Parameters
    ----------
    bounds : array-like of shape (2, d)
        The lowest values and then the highest, as BoTorch takes them.
    n_initial : int, default=6
        At least two. Points that are told count, wherever they come from.
    surrogate : callable
        ``surrogate(X, Y)`` returns a BoTorch model of points of shape (n, d), in the unit cube, and values of
        shape (n, 1), standardised, both float64. It is fitted by its `fit` if it has one. By default an
        `AnchoredSurrogate` with ``outcome_transform="clip"``.
    acquisition : "logei" or callable
        "logei" is the logarithm of the expected improvement. A callable is given ``(model, best_f)`` and
        returns an acquisition function of BoTorch; its classes that take a best_f do so themselves. best_f is
        standardised, too.
    path : path, optional
        File that every point is written to as soon as it is told, one JSON line each. Where it exists its
        points are told already; bounds and seed must be the same.
    seed : int, default=0

    Notes
    -----
    The surrogate sees points in the unit cube and values with zero mean and unit variance, as BoTorch
    advises, so that neither their units nor their size matter.

    A point that is told again is kept again; the surrogate sees it once, with the mean of its values. A point
    that failed is seen with the lowest value told, so that its surroundings are avoided, unless it also has a
    value. A point that was told, failed or is pending is not asked again; points nearer to each other than a
    millionth of the bounds' width count as the same.
    """

    def __init__(
        self,
        bounds: ArrayLike,
        *,
        n_initial: int = 6,
        surrogate: MakeSurrogate = default_surrogate,
        acquisition: Acquisition = "logei",
        path: str | os.PathLike[str] | None = None,
        seed: int = 0,
    ) -> None:
        self.bounds = check_bounds(bounds)
        self.n_initial = check_count("n_initial", n_initial, least=2)
        self.seed = check_count("seed", seed, least=0)
        if not callable(surrogate) or isinstance(surrogate, Model):
            raise TypeError(
                "surrogate must be a function of (X, Y) that returns a model, "
                f"got {type(surrogate).__name__}."
            )
        if not callable(acquisition) and not (isinstance(acquisition, str) and acquisition == "logei"):
            raise ValueError(f'acquisition must be "logei" or a function, got {acquisition!r}.')
        self.surrogate = surrogate
        self.acquisition = acquisition
        self._file = None if path is None else HistoryFile(path, self.bounds, self.seed)
        self._told: list[tuple[np.ndarray, float]] = [] if self._file is None else list(self._file.points)
        self._fitted: tuple[int, Model, Tensor] | None = None

    @property
    def history(self) -> History:
        """All points that were told, in order."""
        X = np.array([x for x, _ in self._told]).reshape(-1, self.bounds.shape[1])
        return History(X, np.array([y for _, y in self._told], dtype=np.float64), self.n_initial)

    @property
    def best(self) -> tuple[np.ndarray, float]:
        """The best point, of shape (d,), and its value."""
        history = self.history
        return history.x, history.value

    def ask(self, n: int = 1, *, pending: ArrayLike | None = None) -> np.ndarray:
        """Return the points to evaluate next.

        Parameters
        ----------
        n : int, default=1
            Several points are chosen one after the other, each as if those before it were pending.
        pending : array-like of shape (p, d), optional
            Points that were asked and are still being evaluated, which must not be asked again.

        Returns
        -------
        points : array of shape (n, d)
        """
        check_count("n", n, least=1)
        d = self.bounds.shape[1]
        points = np.empty((0, d)) if pending is None else self._check_points(pending, "pending points")
        n_pending = len(points)
        for _ in range(n):
            points = np.concatenate([points, self._next(points)[None]])
        return points[n_pending:]

    def tell(self, x: ArrayLike, y: Any) -> None:
        """Take in evaluated points, asked or not.

        Parameters
        ----------
        x : array-like of shape (d,) or (n, d)
        y : float, or sequence of n floats
            None for an evaluation that failed.
        """
        points = self._check_points(x, "points that are told")
        given = [y] if y is None or np.ndim(y) == 0 else list(y)
        if len(given) != len(points):
            raise ValueError(f"{len(points)} points were told with {len(given)} values.")
        values = [np.nan if value is None else as_number(value) for value in given]
        for point, value, said in zip(points, values, given, strict=True):
            if said is not None and not np.isfinite(value):
                raise ValueError(
                    f"the value {value} at x = {written(point)} is not finite: "
                    "tell None for a failed evaluation."
                )
        self._fitted = None
        told = list(zip(points, values, strict=True))
        self._told += told  # before the file, whose disk may be full
        if self._file is not None:
            for point, value in told:
                self._file.append(point, value)

    def _next(self, pending: np.ndarray) -> np.ndarray:
        """Return one point of shape (d,), given those of shape (p, d) that are pending."""
        step = len(self._told) + len(pending)
        rng = np.random.default_rng([self.seed, step])
        low, high = self.bounds
        history = self.history
        taken = self._on_cube(np.concatenate([history.X, pending]))
        drawn = self._drawn(rng, taken)
        if step < self.n_initial or self._n_values() < 2:
            return drawn
        with torch.random.fork_rng(devices=[]):
            model, best_f = self._fit(step)
            torch.manual_seed(int(rng.integers(2**63)))
            made = make_acquisition(self.acquisition, model, best_f, self._on_cube(pending))
            # NaN comes last in this order, and there are two values at least.
            best = history.X[np.argsort(-history.Y, kind="stable")[: min(N_CENTRES, self._n_values())]]
            found = find_largest(InFloat64(made), self._on_cube(best), taken, rng)
        return drawn if found is None else np.clip(low + (high - low) * found.numpy(), low, high)

    def _drawn(self, rng: np.random.Generator, taken: Tensor) -> np.ndarray:
        """Return a uniform point, of shape (d,), that is new: results come in another order than asked."""
        low, high = self.bounds
        drawn = rng.uniform(low, high)
        for _ in range(MOST_DRAWS):
            if are_new(self._on_cube(drawn[None]), taken)[0]:
                break
            drawn = rng.uniform(low, high)
        return drawn

    def _fit(self, step: int) -> tuple[Model, Tensor]:
        """Return the surrogate of all points that were told, and the largest value it has seen.

        What it draws is seeded for this step. A network is trained anew for each of several points that are
        asked at once, since points that one network takes for alike another may tell apart; other surrogates
        are kept until a point is told.
        """
        if self._fitted is not None:
            of_step, model, best_f = self._fitted
            if of_step == step or not isinstance(model, Surrogate):
                return model, best_f
        X, Y = training_data(self.history)
        train_X, train_Y = self._on_cube(X), torch.as_tensor(Y)[:, None]
        seeds = np.random.default_rng([self.seed, step]).integers(2**31, size=2)
        torch.manual_seed(int(seeds[0]))
        with warnings.catch_warnings():
            if np.ptp(Y) == 0:  # the first values of an objective may well be equal
                warnings.simplefilter("ignore", InputDataWarning)
            model = self.surrogate(train_X, train_Y)
            if isinstance(model, Surrogate):
                model.reseed(int(seeds[1]))
            if callable(fit := getattr(model, "fit", None)):
                fit()
        self._fitted = step, model, train_Y.max()
        return model, train_Y.max()

    def _n_values(self) -> int:
        """Return the number of different points that have a value."""
        return len({x.tobytes() for x, y in self._told if not np.isnan(y)})

    def _on_cube(self, x: np.ndarray) -> Tensor:
        """Return points as shares of the bounds' width, in [0, 1]."""
        low, high = self.bounds
        return torch.as_tensor((x - low) / (high - low))

    def _check_points(self, x: ArrayLike, name: str) -> np.ndarray:
        """Return points of shape (n, d) in float64, a copy."""
        d = self.bounds.shape[1]
        try:
            points = np.array(x, dtype=np.float64)
        except (TypeError, ValueError):
            raise ValueError(f"{name} must be numbers, of shape (n, {d}).") from None
        if points.shape == (0,):
            points = points.reshape(0, d)
        points = points[None] if points.ndim == 1 else points
        if points.ndim != 2 or points.shape[1] != d:
            raise ValueError(f"{name} must have shape (n, {d}), got {np.shape(x)}.")
        for point in points:
            if not ((point >= self.bounds[0]) & (point <= self.bounds[1])).all():
                raise ValueError(f"x = {written(point)} lies outside the bounds {self.bounds.tolist()}.")
        return points + 0.0  # -0.0 becomes 0.0: equal points have equal bytes


def training_data(history: History) -> tuple[np.ndarray, np.ndarray]:
    """Return what the surrogate is fitted to, points once each in the order in which they came.

    Returns
    -------
    X : array of shape (m, d)
    Y : array of shape (m,)
        The mean of a point's values, the lowest of all for a point that has none; then standardised, the
        depths cut off.
    """
    # Values may be so large, or so small, that their squares are not.
    shares = history.Y / (np.nanmax(np.abs(history.Y)) or 1.0)
    values: dict[bytes, list[float]] = {}
    for x, y in zip(history.X, shares, strict=True):
        values.setdefault(x.tobytes(), []).extend([] if np.isnan(y) else [y])
    X = np.array([np.frombuffer(x) for x in values])
    lowest = np.nanmin(shares)
    Y = np.array([np.mean(y) if y else lowest for y in values.values()])
    # Beside a value of -1e20, which says "never again", all others would be equal to the last digit.
    middle = np.median(Y)
    if (height := Y.max() - middle) > 0:
        Y = np.maximum((Y - middle) / height, -DEEPEST)
    return X, (Y - Y.mean()) / (Y.std() or 1.0)


def as_number(value: Any) -> float:
    """Return a single number as a float; refuse everything else."""
    try:
        shape = tuple(np.shape(value))
        if shape == () and not isinstance(value, str | bytes) and not np.iscomplexobj(value):
            return float(value)
    except (TypeError, ValueError, OverflowError):
        shape = ()
    what = f"an array of shape {shape}" if shape else repr(value)
    raise TypeError(f"a value must be a single number, got {what}.")


def check_bounds(bounds: ArrayLike) -> np.ndarray:
    """Return bounds of shape (2, d) in float64; refuse others."""
    try:
        checked = np.array(bounds, dtype=np.float64)
    except (TypeError, ValueError):
        raise ValueError(f"bounds must be numbers, of shape (2, d), got {bounds!r}.") from None
    form = "the lowest values and then the highest"
    if checked.ndim != 2 or len(checked) != 2 or not checked.shape[1]:
        raise ValueError(f"bounds must have shape (2, d), {form}, got shape {checked.shape}.")
    if not np.isfinite(checked).all():
        raise ValueError(f"bounds must be finite, got {checked.tolist()}.")
    low, high = checked
    if not (low < high).all():
        hint = " These look like pairs (low, high): transpose them." if _are_pairs(checked) else ""
        raise ValueError(f"bounds must be {form}, each below its highest, got {checked.tolist()}.{hint}")
    with np.errstate(over="ignore"):
        if not np.isfinite(high - low).all():
            raise ValueError(f"bounds are too far apart: {checked.tolist()}.")
    return checked + 0.0


def check_count(name: str, number: Any, *, least: int) -> int:
    """Return a whole number of at least `least`; refuse others."""
    if isinstance(number, bool) or not isinstance(number, int | np.integer):
        raise TypeError(f"{name} must be a whole number, got {number!r}.")
    if number < least:
        raise ValueError(f"{name} must be at least {least}, got {number}.")
    return int(number)


def _are_pairs(bounds: np.ndarray) -> bool:
    return bounds.shape == (2, 2) and bool((bounds[:, 0] < bounds[:, 1]).all())
