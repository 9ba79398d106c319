"""Logits scaled by a fitted function of σ: T(σ) in the tables."""

from __future__ import annotations

from typing import Any

import numpy as np
from array_api_compat import array_namespace
from scipy.optimize import minimize
from scipy.special import log_softmax
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from deltauq.calibration import TemperatureScaler
from deltauq.core import Posterior

LOG_TEMPERATURE_BOUND = 10.0


class SpreadScaler(BaseEstimator):
    """Scale logits by a fitted function of σ: ``t(σ) = exp(-decay · σ²) / temperature``.

    σ² is the variance over anchors of the sigmoids of the logits, for each class, as in `scale_logits`.
    With a decay of zero this is temperature scaling; the paper's ``0.5 - σ²`` is a temperature of 2 and a
    decay of 2, to first order in σ². The decay is never negative. Each class has its own t, so that the
    predicted class can change.

    Both numbers are fitted by likelihood (L-BFGS) on held-out rows. Unless the decay lowers the total
    negative log-likelihood by more than ½ log n nats (the price of a parameter in the Bayesian information
    criterion), it is zero and the temperature is that of `TemperatureScaler`.

    Attributes
    ----------
    temperature_ : float
    decay_ : float
        Zero if σ is not informative about the errors.
    """

    def fit(self, posterior: Posterior, labels: Any) -> SpreadScaler:
        """Choose temperature and decay.

        Parameters
        ----------
        posterior : Posterior
            Of logits of shape (n, c), with ``link="sigmoid"``.
        labels : integers of shape (n,)
            The column of the right class, 0 to c - 1.

        Returns
        -------
        self
        """
        var, logits, labels = map(np.asarray, (posterior.link_var, posterior.mean, labels))
        self.temperature_, self.decay_ = TemperatureScaler().fit(logits, labels).temperature_, 0.0
        typical = float(np.mean(var))
        if typical > 0.0:
            start, problem = np.array([-np.log(self.temperature_), 0.0]), (logits, var / typical, labels)
            fit = minimize(
                _loss,
                start,
                problem,
                jac=True,
                method="L-BFGS-B",
                bounds=[(start[0] - LOG_TEMPERATURE_BOUND, start[0] + LOG_TEMPERATURE_BOUND), (0.0, None)],
            )
            gain = len(logits) * (_loss(start, *problem)[0] - fit.fun)
            if gain > 0.5 * np.log(len(logits)):
                self.temperature_ = float(np.exp(-fit.x[0]))
                self.decay_ = float(fit.x[1] / typical)
        return self

    def transform(self, posterior: Posterior) -> Any:
        """Return the scaled logits.

        Parameters
        ----------
        posterior : Posterior
            Of logits of shape (n, c), with ``link="sigmoid"``.

        Returns
        -------
        logits : array of shape (n, c), NumPy or torch like the posterior's
        """
        check_is_fitted(self, "temperature_")
        var: Any = posterior.link_var
        xp = array_namespace(var)
        return posterior.mean * (xp.exp(-self.decay_ * var) / self.temperature_)


def _loss(
    parameters: np.ndarray, logits: np.ndarray, var: np.ndarray, labels: np.ndarray
) -> tuple[float, np.ndarray]:
    """Return the mean negative log-likelihood and its gradient.

    Parameters
    ----------
    parameters : array of shape (2,)
        Minus the log of the temperature, and the decay.
    logits, var : arrays of shape (n, c)
    labels : integer array of shape (n,)

    Returns
    -------
    loss : float
    gradient : array of shape (2,)
    """
    rows = np.arange(len(logits))
    scaled = logits * np.exp(parameters[0] - parameters[1] * var)
    log_proba = log_softmax(scaled, axis=1)
    by_scaled = np.exp(log_proba)
    by_scaled[rows, labels] -= 1.0
    by_log_t = by_scaled * scaled / len(logits)
    return -float(np.mean(log_proba[rows, labels])), np.array([by_log_t.sum(), -(by_log_t * var).sum()])
