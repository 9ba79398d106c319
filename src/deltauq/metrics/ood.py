"""Metrics of how well a score separates out-of-distribution (OOD) from in-distribution inputs.

All take the scores of inputs `inside` and `outside` the distribution. Higher scores mean OOD, as with σ and
`entropy`; a confidence must be negated.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike
from sklearn.metrics import average_precision_score, roc_auc_score

from deltauq.metrics._arrays import column


def auroc(inside: ArrayLike, outside: ArrayLike) -> float:
    """Return the area under the ROC curve, with OOD as the positive class.

    It is the probability that an OOD input has a higher score than an in-distribution one; a tie counts half.

    Parameters
    ----------
    inside : array-like of shape (n,)
    outside : array-like of shape (m,)

    Returns
    -------
    auroc : float
        In [0, 1]; 0.5 is chance.
    """
    return float(roc_auc_score(*_labels_and_scores(inside, outside)))


def aupr(inside: ArrayLike, outside: ArrayLike) -> float:
    """Return the area under the precision-recall curve, with OOD as the positive class.

    The area is the average precision: a sum over steps of recall, without interpolating between them.

    Parameters
    ----------
    inside : array-like of shape (n,)
    outside : array-like of shape (m,)

    Returns
    -------
    aupr : float
        In (0, 1]. Chance is the proportion of OOD inputs, m / (n + m).
    """
    return float(average_precision_score(*_labels_and_scores(inside, outside)))


def fpr95(inside: ArrayLike, outside: ArrayLike) -> float:
    """Return the proportion of OOD inputs that are accepted when 95 % of in-distribution inputs are.

    The threshold is the lowest score at or below which 95 % of the in-distribution inputs lie. This is the
    FPR at 95 % TPR, with in-distribution as the positive class.

    Parameters
    ----------
    inside : array-like of shape (n,)
    outside : array-like of shape (m,)

    Returns
    -------
    fpr95 : float
        In [0, 1]; smaller is better and 0.95 is about chance.
    """
    inside, outside = column("inside", inside), column("outside", outside)
    # In integers, since 0.95 · n may be rounded up from an integer.
    n_kept = -(-95 * len(inside) // 100)
    threshold = np.partition(inside, n_kept - 1)[n_kept - 1]
    return float(np.mean(outside <= threshold))


def _labels_and_scores(inside: ArrayLike, outside: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
    """Return the labels, 1 for OOD inputs, and the scores of all inputs."""
    inside, outside = column("inside", inside), column("outside", outside)
    return np.repeat([0, 1], [len(inside), len(outside)]), np.concatenate([inside, outside])
