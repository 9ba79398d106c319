"""How risky a prediction is: how far anchors disagree, and how badly the row itself serves as an anchor."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.metrics import pairwise_distances_argmin

LEVELS = ("inside", "low", "moderate", "high")
QUANTILES = (0.25, 0.75)
ROWS_PER_CALL = 16_384


@dataclass(frozen=True)
class RiskScale:
    """What is little and what is much, by the 25th and 75th percentiles of rows held out from training.

    Attributes
    ----------
    std : tuple of two floats
        Of σ.
    reverse : tuple of two floats
        Of the reverse-anchoring score.
    """

    std: tuple[float, float]
    reverse: tuple[float, float]

    @classmethod
    def measure(cls, std: np.ndarray, reverse: np.ndarray) -> RiskScale:
        """Return the scale of held-out rows, from their σ and scores, both of shape (n,)."""
        low, high = (tuple(map(float, np.quantile(values, QUANTILES))) for values in (std, reverse))
        return cls((low[0], low[1]), (high[0], high[1]))

    def levels(self, std: np.ndarray, reverse: np.ndarray) -> np.ndarray:
        """Return where rows stand in `LEVELS`.

        Each of the two measures is small, middling or large. Both small is inside; one middling is low; two
        middling, or one large, is moderate; anything beyond is high.

        Parameters
        ----------
        std, reverse : arrays of shape (n,)

        Returns
        -------
        levels : int array of shape (n,)
        """
        steps = np.searchsorted(self.std, std) + np.searchsorted(self.reverse, reverse)
        return np.minimum(steps, len(LEVELS) - 1)


def reverse_scores(model: Any, X: np.ndarray, anchors: np.ndarray, targets: np.ndarray) -> np.ndarray:
    """Return how badly each row serves as the anchor of training points whose targets are known.

    The score of x is the largest ``|y_r - f([x, r - x])|`` over the points r.

    Parameters
    ----------
    model : fitted AnchoredRegressor
    X : array of shape (n, d)
    anchors : array of shape (m, d)
        The points r.
    targets : array of shape (m,)

    Returns
    -------
    scores : array of shape (n,)
    """
    scores = np.zeros(len(X))
    for start in range(0, len(X), ROWS_PER_CALL):
        rows, worst = X[start : start + ROWS_PER_CALL], scores[start : start + ROWS_PER_CALL]
        for anchor, target in zip(anchors, targets, strict=True):
            tuples = model.encoding_.encode(np.broadcast_to(anchor, rows.shape), rows)
            np.maximum(worst, np.abs(target - model.estimator_.predict(tuples)), out=worst)
    return scores


def anchor_targets(anchors: np.ndarray, X: np.ndarray, y: np.ndarray, averaged: bool) -> np.ndarray:
    """Return the target of each anchor.

    Parameters
    ----------
    anchors : array of shape (m, d)
    X : array of shape (n, d)
        The training rows.
    y : array of shape (n,)
    averaged : bool
        Whether an anchor stands for all rows that it is nearest to, and has the mean of their targets; an
        anchor that is a row has that row's.

    Returns
    -------
    targets : array of shape (m,)
    """
    targets = y[pairwise_distances_argmin(anchors, X)].astype(np.float64)
    if averaged:
        nearest = pairwise_distances_argmin(X, anchors)
        counts = np.bincount(nearest, minlength=len(anchors))
        sums = np.bincount(nearest, weights=y, minlength=len(anchors))
        targets = np.where(counts > 0, sums / np.maximum(counts, 1), targets)
    return targets
