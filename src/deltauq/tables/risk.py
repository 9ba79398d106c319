"""The risk of a prediction: low, moderate or high, by limits that held-out rows set."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.metrics import pairwise_distances_argmin

LEVELS = ("low", "moderate", "high")
RISK_SHARES = (0.20, 0.05)
"""At most so many of the rows like the training data are of moderate or high, and of high risk."""
SECOND_SHARE = 5
"""One in so many of these rows is for the second of two measures: the first one ranks errors better."""
ROWS_PER_CALL = 16_384


@dataclass(frozen=True)
class RiskScale:
    """The limits beyond which the risk of a row is moderate, and high.

    Attributes
    ----------
    limits : dict of str to (float, float)
        For each measure of risk. Of a regression `std`, the spread over anchors, and `reverse`, the
        reverse-anchoring score; of classes `error_probability`, 1 minus the probability of the predicted
        class.
    """

    limits: dict[str, tuple[float, float]]

    @classmethod
    def measure(cls, measures: Mapping[str, np.ndarray]) -> RiskScale:
        """Return the limits that a new row exceeds with a probability of at most `RISK_SHARES`.

        This is conformal prediction: of n held-out rows and a new one drawn like them, each is as likely as
        any other to have one of the a largest values, so that the a-th largest held-out value is exceeded
        with a probability of at most a / (n + 1). Two measures share the a rows. A limit that n is too small
        for is the largest number there is.

        Parameters
        ----------
        measures : mapping of str to array of shape (n,)
            Of the held-out rows; at most two.

        Returns
        -------
        scale : RiskScale
        """
        n = len(next(iter(measures.values())))
        limits: dict[str, list[float]] = {name: [] for name in measures}
        for share in RISK_SHARES:
            allowed = int(share * (n + 1) + 1e-9)
            second = max(allowed // SECOND_SHARE, min(allowed - 1, 1), 0) if len(measures) > 1 else 0
            for (name, values), a in zip(measures.items(), (allowed - second, second), strict=False):
                limits[name].append(float(np.sort(values)[n - a]) if a > 0 else np.finfo(np.float64).max)
        return cls({name: (moderate, high) for name, (moderate, high) in limits.items()})

    def levels(self, measures: Mapping[str, np.ndarray]) -> np.ndarray:
        """Return the risk of rows, by the measure that is further beyond its limits.

        Parameters
        ----------
        measures : mapping of str to array of shape (n,)

        Returns
        -------
        levels : array of n strings
            Of `LEVELS`.
        """
        steps = [np.searchsorted(limits, measures[name]) for name, limits in self.limits.items()]
        return np.array(LEVELS, dtype=object)[np.max(steps, axis=0)]


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
