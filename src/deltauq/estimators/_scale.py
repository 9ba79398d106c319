"""From a spread that ranks to a standard deviation that scales: `calibrate="cv"`."""

from __future__ import annotations

import numpy as np

from deltauq.core import Posterior

N_PROBES = 256
FLOORS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0)
"""Candidates for the floor under σ, in units of its root mean square."""
FLOOR_GAIN = 0.1
"""A larger floor must lower the mean log standard deviation by this much."""


ROUNDING = 1e-9
"""A spread below this share of the outputs is no spread."""


def crossed_rows(X: np.ndarray, rng: np.random.Generator, n: int = N_PROBES) -> np.ndarray:
    """Return inputs like the training rows, but none of them: features of two rows mixed at random.

    Two models trained on parts of the same rows may spread on quite different scales (a linear model's σ
    depends on how its two weight blocks happened to part). Both are asked about the same probes, so
    that the scales can be told apart. Training rows would not do: there a tree's σ is zero.

    Parameters
    ----------
    X : array of shape (n_rows, d)
    rng : numpy.random.Generator
    n : int

    Returns
    -------
    probes : array of shape (n, d)
    """
    mothers, fathers = rng.integers(len(X), size=(2, n))
    return np.where(rng.random((n, X.shape[1])) < 0.5, X[mothers], X[fathers])


def significant_std(posterior: Posterior) -> np.ndarray:
    """Return the stds of shape (n, o), with zero for what is mere rounding of the outputs."""
    size = np.sqrt(np.mean(posterior.mean**2, axis=0))
    return np.where(posterior.std > ROUNDING * size, posterior.std, 0.0)


def typical_std(posterior: Posterior) -> np.ndarray:
    """Return the root mean square of the stds for each of o outputs, or one where all are zero."""
    rms = np.sqrt(np.mean(significant_std(posterior) ** 2, axis=0))
    return np.where(rms > 0, rms, 1.0)


def unit_rms_scale(
    residuals: np.ndarray, stds: np.ndarray, weights: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return the factor on σ that gives z-scores unit RMS, and the floor under σ.

    A σ of nearly zero is no promise of an error of nearly zero, and a handful of such rows would
    rule the RMS. Of several floors the one with the smallest mean log standard deviation is taken (at
    unit RMS that is the likeliest one); where σ never comes near zero, no floor is in force.

    Parameters
    ----------
    residuals, stds : arrays of shape (n, o)
    weights : array of shape (n,)

    Returns
    -------
    scale, floor : arrays of shape (o,)
        z = residual / (scale * max(std, floor)).
    """
    fitted = [_unit_rms_scale(r, s, weights) for r, s in zip(residuals.T, stds.T, strict=True)]
    scale, floor = np.array(fitted).T
    return scale, floor


def _unit_rms_scale(residuals: np.ndarray, stds: np.ndarray, weights: np.ndarray) -> tuple[float, float]:
    rms = np.sqrt(np.average(stds**2, weights=weights))
    error = np.sqrt(np.average(residuals**2, weights=weights))
    if rms == 0 or error == 0:
        # Nothing spreads, or nothing errs: the typical error is all that can be said.
        return 1.0, float(error)
    best: tuple[float, float, float] | None = None
    for share in FLOORS:
        floored = np.maximum(stds, share * rms)
        scale = np.sqrt(np.average((residuals / floored) ** 2, weights=weights))
        mean_log_std = np.log(scale) + np.average(np.log(floored), weights=weights)
        if best is None or mean_log_std < best[0] - FLOOR_GAIN:
            best = (float(mean_log_std), float(scale), float(share * rms))
    assert best is not None
    return best[1], best[2]
