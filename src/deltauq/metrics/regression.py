"""Metrics of predictions and of their standard deviations."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import erf, ndtri
from scipy.stats import spearmanr
from sklearn.metrics import mean_absolute_error, r2_score, root_mean_squared_error

from deltauq.metrics._arrays import column, columns


def rmse(y: ArrayLike, mean: ArrayLike) -> float:
    """Return the root mean squared error.

    Parameters
    ----------
    y, mean : array-like of shape (n,)

    Returns
    -------
    rmse : float
    """
    y, mean = columns(y=y, mean=mean)
    return float(root_mean_squared_error(y, mean))


def mae(y: ArrayLike, mean: ArrayLike) -> float:
    """Return the mean absolute error.

    Parameters
    ----------
    y, mean : array-like of shape (n,)

    Returns
    -------
    mae : float
    """
    y, mean = columns(y=y, mean=mean)
    return float(mean_absolute_error(y, mean))


def r2(y: ArrayLike, mean: ArrayLike) -> float:
    """Return the proportion of the variance of the targets that the prediction explains.

    Parameters
    ----------
    y, mean : array-like of shape (n,)

    Returns
    -------
    r2 : float
        At most 1; predicting the mean target gives 0. NaN if all targets are equal.
    """
    y, mean = columns(y=y, mean=mean)
    return float("nan") if np.all(y == y[0]) else float(r2_score(y, mean))


def spearman(std: ArrayLike, error: ArrayLike) -> float:
    """Return the rank correlation of standard deviations with absolute errors.

    1 means that the order of σ is the order of the errors, 0 that the two are unrelated. It does not depend
    on the scale of σ; for that, see `coverage`.

    Parameters
    ----------
    std : array-like of shape (n,)
    error : array-like of shape (n,)
        Its sign is ignored.

    Returns
    -------
    correlation : float
        In [-1, 1]; NaN if σ or the error is constant.
    """
    std, error = columns(std=_checked_std(std), error=error)
    error = np.abs(error)
    if np.ptp(std) == 0 or np.ptp(error) == 0:
        return float("nan")
    return float(spearmanr(std, error).statistic)


def gaussian_nll(y: ArrayLike, mean: ArrayLike, std: ArrayLike) -> float:
    """Return the mean negative log-likelihood, in nats, of the targets under normal distributions.

    Parameters
    ----------
    y, mean, std : array-like of shape (n,)

    Returns
    -------
    nll : float
        Smaller is better. If any σ is zero, it is inf when such a row has an error, and -inf when none has.
    """
    error, std = _absolute_error_and_std(y, mean, std)
    certain = std == 0
    if np.any(certain):
        return float("inf") if np.any(error[certain] > 0) else float("-inf")
    # Very large z-scores become infinite.
    with np.errstate(over="ignore"):
        terms = 0.5 * (error / std) ** 2
    return float(np.mean(terms + np.log(std)) + 0.5 * np.log(2.0 * np.pi))


def crps(y: ArrayLike, mean: ArrayLike, std: ArrayLike) -> float:
    """Return the mean continuous ranked probability score of normal distributions.

    Like `gaussian_nll` it is best for a σ of the right size, but it has the unit of the target and is finite.

    Parameters
    ----------
    y, mean, std : array-like of shape (n,)

    Returns
    -------
    crps : float
        Not negative; smaller is better. For a σ of zero it is the absolute error.
    """
    error, std = _absolute_error_and_std(y, mean, std)
    z = _z_scores(error, std)
    with np.errstate(over="ignore"):
        density = np.exp(-0.5 * z**2) / np.sqrt(2.0 * np.pi)
    terms = error * erf(z / np.sqrt(2.0)) + std * (2.0 * density - 1.0 / np.sqrt(np.pi))
    return float(np.mean(terms))


def coverage(y: ArrayLike, mean: ArrayLike, std: ArrayLike, nominal: float = 0.9) -> float:
    """Return the proportion of targets inside Gaussian intervals.

    Parameters
    ----------
    y, mean, std : array-like of shape (n,)
    nominal : float, default=0.9
        The nominal coverage, in (0, 1). The interval is mean ± z · std with z the normal quantile of
        (1 + nominal) / 2.

    Returns
    -------
    coverage : float
        In [0, 1]. Close to `nominal` when σ has the right size.
    """
    error, std = _absolute_error_and_std(y, mean, std)
    return float(np.mean(error <= _half_width(nominal) * std))


def coverage_curve(
    y: ArrayLike, mean: ArrayLike, std: ArrayLike, levels: ArrayLike | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Return the empirical coverage at nominal levels: the calibration curve of a regression.

    Parameters
    ----------
    y, mean, std : array-like of shape (n,)
    levels : array-like of shape (m,), optional
        Each in (0, 1). By default 0.05, 0.10, …, 0.95.

    Returns
    -------
    levels, coverage : ndarray of shape (m,)
        On the diagonal when σ has the right size; below it where σ is too small, above it where too large.
    """
    error, std = _absolute_error_and_std(y, mean, std)
    levels = np.arange(1, 20) / 20 if levels is None else column("levels", levels)
    return levels, np.array([np.mean(error <= _half_width(float(level)) * std) for level in levels])


def miscalibration(y: ArrayLike, mean: ArrayLike, std: ArrayLike) -> float:
    """Return the area between the coverage curve and the diagonal.

    The mean of |coverage − level| over all levels from 0 to 1, computed exactly.

    Parameters
    ----------
    y, mean, std : array-like of shape (n,)

    Returns
    -------
    area : float
        In [0, 0.5]; 0 is perfect. `coverage_curve` shows whether σ is too small or too large.
    """
    error, std = _absolute_error_and_std(y, mean, std)
    # The lowest level whose interval holds each target. The curve is the distribution function of these, and
    # the area to the diagonal is the same with the axes exchanged: the i-th of them against (i−1)/n … i/n.
    reached = np.sort(erf(_z_scores(error, std) / np.sqrt(2.0)))
    edges = np.linspace(0.0, 1.0, len(reached) + 1)
    low, high = edges[:-1] - reached, edges[1:] - reached
    return float(0.5 * np.sum(high * np.abs(high) - low * np.abs(low)))


def width(std: ArrayLike, nominal: float = 0.9) -> float:
    """Return the mean width of Gaussian intervals.

    Parameters
    ----------
    std : array-like of shape (n,)
    nominal : float, default=0.9
        In (0, 1).

    Returns
    -------
    width : float
        In the unit of the target. Of two methods with the same coverage, the narrower one is better.
    """
    return float(2.0 * _half_width(nominal) * np.mean(_checked_std(std)))


def sharpness(std: ArrayLike) -> float:
    """Return the root mean square of the standard deviations.

    Parameters
    ----------
    std : array-like of shape (n,)

    Returns
    -------
    sharpness : float
        In the unit of the target. It equals `rmse` if σ has the right size on average.
    """
    return float(np.sqrt(np.mean(_checked_std(std) ** 2)))


def _half_width(nominal: float) -> float:
    """Return half the width of the interval in standard deviations."""
    if not 0.0 < nominal < 1.0:
        raise ValueError(f"a nominal coverage must lie between 0 and 1, got {nominal!r}.")
    return float(ndtri((1.0 + nominal) / 2.0))


def _z_scores(error: np.ndarray, std: np.ndarray) -> np.ndarray:
    """Return errors in standard deviations, of shape (n,); where σ is zero, inf or, without error, 0."""
    z = np.where(error > 0, np.inf, 0.0)
    with np.errstate(over="ignore"):
        np.divide(error, std, out=z, where=std > 0)
    return z


def _absolute_error_and_std(y: ArrayLike, mean: ArrayLike, std: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
    """Return |y − mean| and σ, both of shape (n,)."""
    y, mean, std = columns(y=y, mean=mean, std=_checked_std(std))
    return np.abs(y - mean), std


def _checked_std(std: ArrayLike) -> np.ndarray:
    return column("std", std, non_negative=True)
