"""Measures of how well a score tells out-of-distribution (OOD) inputs from in-distribution ones.

All take the scores of the inputs `inside` and `outside` the distribution. A higher score means "more likely
outside": σ and `entropy` are such scores, and a confidence has to be negated.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike
from scipy.stats import rankdata
from sklearn.metrics import average_precision_score

from deltauq.metrics._arrays import column


def auroc(inside: ArrayLike, outside: ArrayLike) -> float:
    """Return the area under the ROC curve, with OOD as the positive class.

    It is the probability that an input from outside scores higher than one from inside, a tie counting half.

    Parameters
    ----------
    inside : array-like of shape (n,)
    outside : array-like of shape (m,)

    Returns
    -------
    auroc : float
        In [0, 1]; 0.5 is chance. The same whichever class is called positive.
    """
    inside, outside = column("inside", inside), column("outside", outside)
    n, m = len(inside), len(outside)
    ranks = rankdata(np.concatenate([inside, outside]))
    return float((ranks[n:].sum() - m * (m + 1) / 2) / (n * m))


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
        In (0, 1]. Chance is the share of OOD inputs, m / (n + m): compare only figures of one share.
    """
    inside, outside = column("inside", inside), column("outside", outside)
    positive = np.repeat([0, 1], [len(inside), len(outside)])
    return float(average_precision_score(positive, np.concatenate([inside, outside])))


def fpr95(inside: ArrayLike, outside: ArrayLike) -> float:
    """Return the share of OOD inputs that pass when 95 % of in-distribution inputs do.

    The threshold is the lowest one that keeps at least 95 % of the inside inputs, where inputs that score at
    or below it are kept; the result is the share of the outside inputs that it keeps. In the words of the
    literature: FPR at 95 % TPR, with in-distribution as the positive class.

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
    # In integers, since 0.95 · n may land just above the whole number that it should be.
    n_kept = -(-95 * len(inside) // 100)
    threshold = np.partition(inside, n_kept - 1)[n_kept - 1]
    return float(np.mean(outside <= threshold))
