"""Metrics of whether the rows with the largest uncertainty have the largest loss.

The loss is one number per row: (y − mean)² or |y − mean| in regression, and 0 or 1 for a right or a wrong
class in classification.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from deltauq.metrics._arrays import column, columns


def risk_coverage(loss: ArrayLike, uncertainty: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
    """Return the mean loss of the rows with the smallest uncertainty: the risk-coverage curve.

    Parameters
    ----------
    loss : array-like of shape (n,)
    uncertainty : array-like of shape (n,)
        Only its order matters. For rows of equal uncertainty, the expected loss in random order is used.

    Returns
    -------
    coverage : ndarray of shape (n,)
        Proportion of rows kept: 1/n, 2/n, …, 1.
    mean_loss : ndarray of shape (n,)
        Rises when the uncertainty is informative; its last value is the mean loss of all rows.
    """
    loss, uncertainty = columns(loss=loss, uncertainty=uncertainty)
    _, group, count = np.unique(uncertainty, return_inverse=True, return_counts=True)
    expected = np.bincount(group, weights=loss) / count
    kept = np.arange(1, len(loss) + 1)
    return kept / len(loss), np.cumsum(np.repeat(expected, count)) / kept


def aurc(loss: ArrayLike, uncertainty: ArrayLike) -> float:
    """Return the area under the risk-coverage curve: the mean of its n mean losses.

    Parameters
    ----------
    loss : array-like of shape (n,)
    uncertainty : array-like of shape (n,)

    Returns
    -------
    aurc : float
        In the unit of the loss; smaller is better. A constant uncertainty gives the mean loss.
    """
    _, mean_loss = risk_coverage(loss, uncertainty)
    return float(np.mean(mean_loss))


def ause(loss: ArrayLike, uncertainty: ArrayLike) -> float:
    """Return the area under the sparsification error, the difference of `aurc` to that of the best order.

    The best order is that of the loss. The difference is divided by the mean loss.

    Parameters
    ----------
    loss : array-like of shape (n,)
        Not negative.
    uncertainty : array-like of shape (n,)

    Returns
    -------
    ause : float
        Not negative; 0 for the best order, or if all losses are zero.
    """
    loss = column("loss", loss, non_negative=True)
    # Rounding may make the difference negative.
    difference = max(0.0, aurc(loss, uncertainty) - aurc(loss, loss))
    return difference / float(np.mean(loss)) if np.any(loss) else 0.0
