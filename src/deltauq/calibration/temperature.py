"""Scaling of logits: by one temperature, or by the variance over anchors."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from scipy.optimize import brentq
from scipy.special import softmax
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from deltauq.calibration._arrays import on_host, to_numbers
from deltauq.core import Posterior
from deltauq.core.encoding import Array

LOG_TEMPERATURE_BOUND = 10.0
"""Temperatures range from exp(-10) to exp(10) times the range of the logits. Without a bound, logits that
separate the labels have no best temperature."""


def scale_logits(posterior: Posterior) -> Any:
    """Return the paper's calibrated logits: the mean logits times ``t = 0.5 - σ²``.

    σ² is the variance over anchors of the sigmoids of the logits, for each class. It is at most 0.25, so t
    lies between 0.25 and 0.5: all logits are halved, and more than halved where the anchors disagree.
    Nothing is fitted.

    Parameters
    ----------
    posterior : Posterior
        Of logits of shape (n, c), with ``link="sigmoid"``.

    Returns
    -------
    logits : array of shape (n, c), NumPy or torch like the posterior's
    """
    if posterior.link_var is None or posterior.link != "sigmoid":
        raise ValueError(
            'The posterior must be made with link="sigmoid", since σ² is the variance of the sigmoids, '
            f"got link={posterior.link!r}."
        )
    return posterior.mean * (0.5 - posterior.link_var)


class TemperatureScaler(BaseEstimator):
    """Divide all logits by one temperature, fitted by likelihood on held-out rows.

    The predicted class stays the same; only the confidence changes. A temperature above one lowers it.

    Attributes
    ----------
    temperature_ : float
        Minimises the negative log-likelihood of ``softmax(logits / temperature_)``, which is convex in the
        inverse temperature, between exp(-10) times the median range of a row's logits and exp(10) times the
        largest. It is 1 if all classes have the same logits.

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
        """Fit the temperature.

        Parameters
        ----------
        logits : array-like or tensor of shape (n, c)
            For an anchored network, the mean over anchors.
        labels : integers of shape (n,)
            The column of the true class, 0 to c - 1.

        Returns
        -------
        self
        """
        logits = to_numbers(logits, "logits")
        if logits.ndim != 2 or logits.shape[0] < 1 or logits.shape[1] < 2:
            raise ValueError(f"logits must have shape (n, c) with n > 0 and c > 1, got {logits.shape}.")
        n, c = logits.shape
        labels = on_host(labels)
        if labels.shape != (n,):
            raise ValueError(f"labels must have shape ({n},), one for each row, got {labels.shape}.")
        if not np.issubdtype(labels.dtype, np.integer):
            raise ValueError(f"labels must be integers that name columns, got {labels.dtype}.")
        if labels.min() < 0 or labels.max() >= c:
            raise ValueError(f"labels must lie in 0 to {c - 1}, got {labels.min()} to {labels.max()}.")
        self.temperature_ = _best_temperature(logits, labels)
        return self

    def transform(self, logits: Array) -> Any:
        """Return `logits` of shape (n, c) divided by `temperature_`, on the device they came from."""
        check_is_fitted(self, "temperature_")
        return (logits if hasattr(logits, "shape") else np.asarray(logits)) / self.temperature_


def _best_temperature(logits: np.ndarray, labels: np.ndarray) -> float:
    """Return the temperature with the smallest negative log-likelihood."""
    # A shift that is the same for all classes changes nothing; this one makes the largest logit zero.
    logits = logits - logits.max(axis=1, keepdims=True)
    if not np.any(logits):
        return 1.0
    of_label = logits[np.arange(len(logits)), labels]

    def slope(log_temperature: float) -> float:
        """Return the derivative of the negative log-likelihood in the inverse temperature."""
        expected = np.sum(softmax(logits / np.exp(log_temperature), axis=1) * logits, axis=1)
        return float(np.mean(expected - of_label))

    # The slope falls as the temperature rises. Without a change of sign the best temperature is a bound.
    ranges = -logits.min(axis=1)
    low = np.log(np.median(ranges[ranges > 0.0])) - LOG_TEMPERATURE_BOUND
    high = np.log(np.max(ranges)) + LOG_TEMPERATURE_BOUND
    if slope(low) <= 0.0:
        warnings.warn(
            "All labels are predicted correctly, so that no finite temperature is optimal: use more rows.",
            stacklevel=3,
        )
        return float(np.exp(low))
    if slope(high) >= 0.0:
        return float(np.exp(high))
    return float(np.exp(brentq(slope, low, high, xtol=1e-12)))
