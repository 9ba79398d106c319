"""From a spread that ranks to a standard deviation that scales: `calibrate="cv"`."""

from __future__ import annotations

import numpy as np

FLOORS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0)
"""Candidates for the floor under σ, in units of its root mean square."""
FLOOR_GAIN = 0.1
"""A larger floor must lower the mean log standard deviation by this much."""


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
