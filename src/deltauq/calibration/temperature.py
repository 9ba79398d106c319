"""One temperature for all logits."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from scipy.optimize import brentq
from scipy.special import softmax
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from deltauq.calibration._arrays import check_labels, check_logits
from deltauq.core.encoding import Array

LOG_TEMPERATURE_BOUND = 10.0
"""Temperatures are sought from exp(-10) to exp(10) times the range of the logits: logits that separate the
labels have no best one."""


class TemperatureScaler(BaseEstimator):
    """Divide all logits by one temperature, chosen by likelihood on rows the network was not trained on.

    The class predicted stays the same; only the confidence changes. A temperature above one softens it.

    Attributes
    ----------
    temperature_ : float
        Where the negative log-likelihood of ``softmax(logits / temperature_)`` is smallest, between exp(-10)
        times the median range of a row's logits and exp(10) times the largest, so that logits in another
        unit have the same temperature in that unit. The likelihood is convex in the inverse temperature, so
        there is one such place. It is 1 where all classes have the same logits.

    Examples
    --------
    >>> import numpy as np
    >>> from deltauq.calibration import TemperatureScaler
    >>> logits = np.array([[8.0, 0.0], [8.0, 0.0], [0.0, 8.0], [8.0, 0.0]])
    >>> scaler = TemperatureScaler().fit(logits, [0, 0, 1, 1])
    >>> round(scaler.temperature_, 3)  # three of four right: odds of 3 = exp(8 / temperature)
    7.282
    """

    def fit(self, logits: Array, labels: Array) -> TemperatureScaler:
        """Choose the temperature.

        Parameters
        ----------
        logits : array-like or tensor of shape (n, c)
            For an anchored network, the mean over anchors.
        labels : integers of shape (n,)
            The column of the right class, 0 to c - 1.

        Returns
        -------
        self
        """
        logits = check_logits(logits)
        self.temperature_ = best_temperature(logits, check_labels(labels, *logits.shape))
        return self

    def transform(self, logits: Array) -> Any:
        """Return `logits` of shape (n, c) divided by `temperature_`, on the device they came from."""
        check_is_fitted(self, "temperature_")
        return logits / self.temperature_


def best_temperature(logits: np.ndarray, labels: np.ndarray) -> float:
    """Return the temperature with the smallest negative log-likelihood.

    Parameters
    ----------
    logits : array of shape (n, c)
    labels : integer array of shape (n,)

    Returns
    -------
    temperature : float
    """
    # A shift that is the same for all classes changes nothing; this one makes the largest logit zero.
    logits = logits - logits.max(axis=1, keepdims=True)
    if not np.any(logits):
        return 1.0
    right = logits[np.arange(len(logits)), labels]

    def slope(log_temperature: float) -> float:
        """Return the derivative of the negative log-likelihood in the inverse temperature."""
        expected = np.sum(softmax(logits / np.exp(log_temperature), axis=1) * logits, axis=1)
        return float(np.mean(expected - right))

    # The slope falls as the temperature rises. Without a change of sign the best one lies at an end.
    ranges = -logits.min(axis=1)
    low = np.log(np.median(ranges[ranges > 0.0])) - LOG_TEMPERATURE_BOUND
    high = np.log(np.max(ranges)) + LOG_TEMPERATURE_BOUND
    if slope(low) <= 0.0:
        warnings.warn(
            "Every label has the largest logit of its row, so that the lowest temperature is the likeliest: "
            "take more rows.",
            stacklevel=3,
        )
        return float(np.exp(low))
    if slope(high) >= 0.0:
        return float(np.exp(high))
    return float(np.exp(brentq(slope, low, high, xtol=1e-12)))
