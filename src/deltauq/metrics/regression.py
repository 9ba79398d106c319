"""Measures for regression: of the prediction, and of the standard deviation that comes with it."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike
from scipy.stats import norm, rankdata


def rmse(y: ArrayLike, mean: ArrayLike) -> float:
    """Return the root mean squared error.

    Parameters
    ----------
    y, mean : array-like of shape (n,)

    Returns
    -------
    rmse : float
    """
    y, mean = _columns(y=y, mean=mean)
    return float(np.sqrt(np.mean((y - mean) ** 2)))


def mae(y: ArrayLike, mean: ArrayLike) -> float:
    """Return the mean absolute error.

    Parameters
    ----------
    y, mean : array-like of shape (n,)

    Returns
    -------
    mae : float
    """
    y, mean = _columns(y=y, mean=mean)
    return float(np.mean(np.abs(y - mean)))


def spearman(std: ArrayLike, error: ArrayLike) -> float:
    """Return the rank correlation of standard deviations with absolute errors.

    1 means that the order of σ is the order of the errors, 0 that it says nothing about them. Whether σ has
    the right size is another question: see `coverage`.

    Parameters
    ----------
    std : array-like of shape (n,)
    error : array-like of shape (n,)
        Its sign is ignored.

    Returns
    -------
    correlation : float
        In [-1, 1]; NaN where σ or the error is the same everywhere, since then there is no order to compare.
    """
    std, error = _columns(std=std, error=error)
    a, b = rankdata(std), rankdata(np.abs(error))
    a, b = a - a.mean(), b - b.mean()
    norms = float(np.sqrt(np.sum(a**2) * np.sum(b**2)))
    return float(np.sum(a * b) / norms) if norms > 0 else float("nan")


def coverage(y: ArrayLike, mean: ArrayLike, std: ArrayLike, level: float = 0.9) -> float:
    """Return the share of targets inside the Gaussian interval of a nominal level.

    Parameters
    ----------
    y, mean, std : array-like of shape (n,)
    level : float, default=0.9
        In (0, 1). The interval is mean ± z · std with z the normal quantile of (1 + level) / 2.

    Returns
    -------
    coverage : float
        In [0, 1]. Close to `level` when σ has the right size.
    """
    y, mean, std = _columns(y=y, mean=mean, std=std)
    return float(np.mean(np.abs(y - mean) <= _half_width(level) * std))


def width(std: ArrayLike, level: float = 0.9) -> float:
    """Return the mean width of the Gaussian intervals of a nominal level.

    Parameters
    ----------
    std : array-like of shape (n,)
    level : float, default=0.9
        In (0, 1).

    Returns
    -------
    width : float
        In the units of the target. Of two methods with the same coverage, the narrower one says more.
    """
    (std,) = _columns(std=std)
    return float(2.0 * _half_width(level) * np.mean(std))


def _half_width(level: float) -> float:
    """Return half the width of the interval in standard deviations."""
    if not 0.0 < level < 1.0:
        raise ValueError(f"level must lie between 0 and 1, got {level!r}.")
    return float(norm.ppf((1.0 + level) / 2.0))


def _columns(**named: ArrayLike) -> list[np.ndarray]:
    """Return the arguments as float64 arrays of one shape (n,), or say which of them is not."""
    arrays = {name: np.asarray(value, dtype=np.float64) for name, value in named.items()}
    for name, array in arrays.items():
        # Shapes (n,) and (n, 1) would broadcast to (n, n) and give a plausible number.
        if array.ndim != 1 or len(array) == 0:
            raise ValueError(f"{name} must have shape (n,) with n > 0, got {array.shape}.")
    lengths = {name: len(array) for name, array in arrays.items()}
    if len(set(lengths.values())) > 1:
        raise ValueError(f"All arguments must have the same length, got {lengths}.")
    return list(arrays.values())
