"""Measures of whether the uncertainty finds the rows that are predicted badly, for any loss.

The rows with the largest uncertainty are dropped first and the mean loss of the others is watched. The loss
is one number a row: (y − mean)² or |y − mean| in regression; 1 for a wrong class and 0 for the right one in
classification.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from deltauq.metrics._arrays import columns, require_not_negative


def risk_coverage(loss: ArrayLike, uncertainty: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
    """Return the share of rows kept and the mean loss of these: the risk-coverage, or sparsification, curve.

    Parameters
    ----------
    loss : array-like of shape (n,)
    uncertainty : array-like of shape (n,)
        Only its order matters. Rows that are equally uncertain give the risk expected when they are dropped
        in random order, so the order in which rows are passed does not matter.

    Returns
    -------
    coverage : ndarray of shape (n,)
        1/n, 2/n, …, 1.
    risk : ndarray of shape (n,)
        Rises when the uncertainty is informative; its last value is the mean loss of all rows.
    """
    loss, uncertainty = columns(loss=loss, uncertainty=uncertainty)
    _, group, count = np.unique(uncertainty, return_inverse=True, return_counts=True)
    expected = np.bincount(group, weights=loss) / count
    kept = np.arange(1, len(loss) + 1)
    return kept / len(loss), np.cumsum(np.repeat(expected, count)) / kept


def aurc(loss: ArrayLike, uncertainty: ArrayLike) -> float:
    """Return the area under the risk-coverage curve: the mean of its n risks.

    Parameters
    ----------
    loss : array-like of shape (n,)
    uncertainty : array-like of shape (n,)

    Returns
    -------
    aurc : float
        In the units of the loss; smaller is better. A constant uncertainty gives the mean loss.
    """
    _, risk = risk_coverage(loss, uncertainty)
    return float(np.mean(risk))


def ause(loss: ArrayLike, uncertainty: ArrayLike) -> float:
    """Return the area under the sparsification error: how far `aurc` is from the best order there is.

    The best order drops the rows with the largest loss first. The difference is divided by the mean loss, so
    that models with different errors compare.

    Parameters
    ----------
    loss : array-like of shape (n,)
        Not negative.
    uncertainty : array-like of shape (n,)

    Returns
    -------
    ause : float
        Not negative; 0 is the best order, and also the result when no row has a loss.
    """
    loss, uncertainty = columns(loss=loss, uncertainty=uncertainty)
    require_not_negative("loss", loss)
    mean_loss = float(np.mean(loss))
    if mean_loss == 0:
        return 0.0
    # Rounding may put the best order a hair above the given one.
    return max(0.0, aurc(loss, uncertainty) - aurc(loss, loss)) / mean_loss
