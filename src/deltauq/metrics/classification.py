"""Metrics of class probabilities of shape (n, C) and class indices 0 … C − 1."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import entr

from deltauq.metrics._arrays import labels_and_probabilities, probabilities


@dataclass(frozen=True)
class CalibrationCurve:
    """Confidence against accuracy in equal-width bins of the confidence.

    Attributes
    ----------
    confidence, accuracy : ndarray of shape (n_bins,)
        Means over the rows of each bin; NaN where a bin is empty.
    count : ndarray of int of shape (n_bins,)
        Rows in each bin.
    """

    confidence: np.ndarray
    accuracy: np.ndarray
    count: np.ndarray


def accuracy(y: ArrayLike, proba: ArrayLike) -> float:
    """Return the proportion of rows whose most probable class is the true one.

    Parameters
    ----------
    y : array-like of int of shape (n,)
    proba : array-like of shape (n, C)

    Returns
    -------
    accuracy : float
        In [0, 1]. Ties go to the first class.
    """
    y, proba = labels_and_probabilities(y, proba)
    return float(np.mean(proba.argmax(axis=1) == y))


def nll(y: ArrayLike, proba: ArrayLike) -> float:
    """Return the mean negative log-likelihood of the true classes, in nats: the log loss.

    Probabilities below 2.2e-16 count as this, as in scikit-learn.

    Parameters
    ----------
    y : array-like of int of shape (n,)
    proba : array-like of shape (n, C)

    Returns
    -------
    nll : float
        Not negative; smaller is better.
    """
    y, proba = labels_and_probabilities(y, proba)
    likelihood = np.maximum(proba[np.arange(len(y)), y], np.finfo(np.float64).eps)
    # Subtracting from zero, since the negative of a perfect 0.0 would be printed as -0.0.
    return float(0.0 - np.mean(np.log(likelihood)))


def brier(y: ArrayLike, proba: ArrayLike) -> float:
    """Return the Brier score: the mean over rows of the squared error summed over classes.

    Parameters
    ----------
    y : array-like of int of shape (n,)
    proba : array-like of shape (n, C)

    Returns
    -------
    brier : float
        In [0, 2]; smaller is better. For two classes it is twice the score of the positive class alone.
    """
    y, proba = labels_and_probabilities(y, proba)
    error = proba - np.eye(proba.shape[1])[y]
    return float(np.mean(np.sum(error**2, axis=1)))


def ece(y: ArrayLike, proba: ArrayLike, n_bins: int = 15) -> float:
    """Return the expected calibration error of the most probable class.

    The mean of |accuracy − confidence| over the bins of `calibration_curve`, weighted by their counts.

    Parameters
    ----------
    y : array-like of int of shape (n,)
    proba : array-like of shape (n, C)
    n_bins : int, default=15

    Returns
    -------
    ece : float
        In [0, 1]; smaller is better.
    """
    curve = calibration_curve(y, proba, n_bins)
    gap = np.abs(curve.accuracy - curve.confidence)
    filled = curve.count > 0
    return float(np.average(gap[filled], weights=curve.count[filled]))


def calibration_curve(y: ArrayLike, proba: ArrayLike, n_bins: int = 15) -> CalibrationCurve:
    """Return accuracy against confidence, the probability of the most probable class.

    Parameters
    ----------
    y : array-like of int of shape (n,)
    proba : array-like of shape (n, C)
    n_bins : int, default=15
        Bins of equal width on [0, 1]. A confidence on the edge of two bins is in the lower one.

    Returns
    -------
    curve : CalibrationCurve
        Accuracy above confidence means underconfident, below it overconfident.
    """
    y, proba = labels_and_probabilities(y, proba)
    if not isinstance(n_bins, (int, np.integer)) or n_bins < 1:
        raise ValueError(f"n_bins must be a positive integer, got {n_bins!r}.")
    confidence, correct = proba.max(axis=1), proba.argmax(axis=1) == y
    inner_edges = np.arange(1, n_bins) / n_bins
    bins = np.searchsorted(inner_edges, confidence, side="left")
    count = np.bincount(bins, minlength=n_bins)
    # Division by NaN gives empty bins the mean NaN without a warning.
    divisor = np.where(count > 0, count, np.nan)
    return CalibrationCurve(
        confidence=np.bincount(bins, weights=confidence, minlength=n_bins) / divisor,
        accuracy=np.bincount(bins, weights=correct, minlength=n_bins) / divisor,
        count=count,
    )


def entropy(proba: ArrayLike) -> np.ndarray:
    """Return the entropy of each row of probabilities, in nats: a score for OOD detection and for `aurc`.

    Parameters
    ----------
    proba : array-like of shape (n, C)

    Returns
    -------
    entropy : ndarray of shape (n,)
        From 0 for a single possible class to log C for equal probabilities.
    """
    return entr(probabilities(proba)).sum(axis=1)
