"""Logits softened where the anchors disagree."""

from __future__ import annotations

from typing import Any

import numpy as np
from array_api_compat import array_namespace
from scipy.optimize import minimize
from scipy.special import log_softmax
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from deltauq.calibration._arrays import check_labels, check_logits, to_numbers
from deltauq.calibration.temperature import LOG_TEMPERATURE_BOUND, best_temperature
from deltauq.core import Posterior
from deltauq.core.encoding import Array


def scale_logits(posterior: Posterior) -> Any:
    """Return the paper's calibrated logits: the mean logits times ``t = 0.5 - σ²``.

    σ² is the variance over anchors of the sigmoids of the logits, class by class. It is at most 0.25, so t
    lies between 0.25 and 0.5: all logits are halved, and more than halved where the anchors disagree.
    Nothing is fitted; see `SpreadScaler` for a fitted form.

    Parameters
    ----------
    posterior : Posterior
        Of logits of shape (n, c), with ``link="sigmoid"``.

    Returns
    -------
    logits : array of shape (n, c), NumPy or torch like the posterior's
    """
    return posterior.mean * (0.5 - _sigmoid_var(posterior))


class SpreadScaler(BaseEstimator):
    """Scale logits by a fitted function of σ: ``t(σ) = exp(-decay · σ²) / temperature``.

    σ² is the variance over anchors of the sigmoids of the logits, class by class, as in `scale_logits`. With
    a decay of zero this is temperature scaling; the paper's ``0.5 - σ²`` is a temperature of 2 and a decay
    of 2, to first order in σ². The decay is never negative: where the anchors disagree more, logits are
    softened more. As in the paper each class is scaled by its own t, so that the predicted class can change.

    Both numbers are chosen by likelihood (L-BFGS) on rows the network was not trained on. The decay must
    earn its place: unless it lowers the total negative log-likelihood by more than ½ log n nats (the
    price of a parameter in the Bayesian information criterion), it is zero and the temperature is that of
    `TemperatureScaler`.

    Attributes
    ----------
    temperature_ : float
    decay_ : float
        Zero where σ says nothing about the errors.
    """

    def fit(self, posterior: Posterior, labels: Array) -> SpreadScaler:
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
        var = to_numbers(_sigmoid_var(posterior), "the variance of the sigmoids")
        logits = check_logits(posterior.mean)
        labels = check_labels(labels, *logits.shape)
        self.temperature_, self.decay_ = best_temperature(logits, labels), 0.0
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
        var = _sigmoid_var(posterior)
        xp = array_namespace(var)
        return posterior.mean * (xp.exp(-self.decay_ * var) / self.temperature_)


def _sigmoid_var(posterior: Posterior) -> Array:
    if posterior.link != "sigmoid":
        raise ValueError(
            f'The posterior must be made with link="sigmoid", since σ² is the variance of the sigmoids, '
            f"got link={posterior.link!r}."
        )
    return posterior.link_var


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
