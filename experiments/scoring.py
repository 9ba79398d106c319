"""Class probabilities and OOD scores of images, computed from logits."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.optimize import minimize
from scipy.special import log_softmax, logsumexp, softmax

from deltauq.calibration import TemperatureScaler, scale_logits
from deltauq.core import Posterior, StreamingPosterior
from deltauq.metrics import accuracy, aupr, auroc, ece, entropy, fpr95

LOG_TEMPERATURE_BOUND = 10.0


@dataclass(frozen=True, eq=False)
class Prediction:
    """The prediction of a method for images.

    Attributes
    ----------
    probabilities : array of shape (n, 10)
    ood_score : array of shape (n,)
        Higher values indicate that an input is out of distribution.
    """

    probabilities: np.ndarray
    ood_score: np.ndarray


Scorer = Callable[[np.ndarray], Prediction]
"""Predicts from logits of shape (K, n, 10)."""


def by_entropy(probabilities: np.ndarray) -> Prediction:
    """Return the prediction whose OOD score is the entropy of the probabilities."""
    return Prediction(probabilities, entropy(probabilities))


def mean_logits(scale: float) -> Scorer:
    """Return a scorer that scales the mean of the logits by a constant."""
    return lambda logits: by_entropy(softmax(scale * logits.mean(axis=0), axis=-1))


def spread_scaled(logits: np.ndarray) -> Prediction:
    """Return Δ-UQ's prediction: mean logits times 0.5 − σ², with σ² the variance of their sigmoids."""
    return by_entropy(softmax(scale_logits(posterior_of(logits)), axis=-1))


FitScorer = Callable[[np.ndarray, np.ndarray], Scorer]
"""Fits a scorer to logits of shape (K, n, 10) and labels of held-out images."""


def fitted_temperature(logits: np.ndarray, labels: np.ndarray) -> Scorer:
    """Return a scorer that divides mean logits by a temperature."""
    scaler = TemperatureScaler().fit(logits.mean(axis=0), labels)
    return mean_logits(1.0 / scaler.temperature_)


def fitted_spread(logits: np.ndarray, labels: np.ndarray) -> Scorer:
    """Return a scorer that scales mean logits by a fitted function of σ."""
    temperature, decay = fit_spread_scale(posterior_of(logits), labels)

    def score(logits: np.ndarray) -> Prediction:
        posterior = posterior_of(logits)
        scale = np.exp(-decay * np.asarray(posterior.link_var)) / temperature
        return by_entropy(softmax(posterior.mean * scale, axis=-1))

    return score


def fit_spread_scale(posterior: Posterior, labels: np.ndarray) -> tuple[float, float]:
    """Fit temperature and decay of T(σ): logits are multiplied by ``exp(-decay · σ²) / temperature``.

    σ² is the variance over anchors of the sigmoids of the logits, for each class. With a decay of zero this
    is temperature scaling; the paper's ``0.5 - σ²`` is a temperature of 2 and a decay of 2, to first order.
    Both numbers are fitted by likelihood, and the decay is not negative. It is zero, with the temperature of
    `TemperatureScaler`, unless it lowers the total negative log-likelihood by more than ½ log n (the price of
    a parameter in the Bayesian information criterion).

    Parameters
    ----------
    posterior : Posterior
        Of logits of shape (n, c), with ``link="sigmoid"``.
    labels : int array of shape (n,)
    """
    logits, var = np.asarray(posterior.mean), np.asarray(posterior.link_var)
    temperature = float(TemperatureScaler().fit(logits, labels).temperature_)
    typical = float(np.mean(var))
    if typical <= 0.0:
        return temperature, 0.0
    start, problem = np.array([-np.log(temperature), 0.0]), (logits, var / typical, labels)
    bounds = [(start[0] - LOG_TEMPERATURE_BOUND, start[0] + LOG_TEMPERATURE_BOUND), (0.0, None)]
    fit = minimize(_spread_loss, start, problem, jac=True, method="L-BFGS-B", bounds=bounds)
    gain = len(logits) * (_spread_loss(start, *problem)[0] - fit.fun)
    if gain <= 0.5 * np.log(len(logits)):
        return temperature, 0.0
    return float(np.exp(-fit.x[0])), float(fit.x[1] / typical)


def _spread_loss(
    parameters: np.ndarray, logits: np.ndarray, var: np.ndarray, labels: np.ndarray
) -> tuple[float, np.ndarray]:
    """Return the mean negative log-likelihood and its gradient in (-log temperature, decay)."""
    rows = np.arange(len(logits))
    scaled = logits * np.exp(parameters[0] - parameters[1] * var)
    log_proba = log_softmax(scaled, axis=1)
    by_scaled = np.exp(log_proba)
    by_scaled[rows, labels] -= 1.0
    by_log_scale = by_scaled * scaled / len(logits)
    loss = -float(np.mean(log_proba[rows, labels]))
    return loss, np.array([by_log_scale.sum(), -(by_log_scale * var).sum()])


def first_alone(scorer: Scorer) -> Scorer:
    """Return a scorer that uses the first anchor only."""
    return lambda logits: scorer(logits[:1])


def mean_probabilities(logits: np.ndarray) -> Prediction:
    """Return the prediction of an ensemble: the mean of the members' probabilities."""
    return by_entropy(softmax(logits, axis=-1).mean(axis=0))


def energy(logits: np.ndarray) -> Prediction:
    """Return the prediction whose OOD score is the free energy, −log Σ exp(logits)."""
    logits = logits.mean(axis=0)
    return Prediction(softmax(logits, axis=-1), -logsumexp(logits, axis=-1))


def largest_kernel(log_kernels: np.ndarray) -> Prediction:
    """Return DUQ's prediction: the OOD score is the distance to the nearest class, the kernels sum to 1."""
    log_kernels = log_kernels[0]
    return Prediction(softmax(log_kernels, axis=-1), -log_kernels.max(axis=-1))


def posterior_of(logits: np.ndarray) -> Posterior:
    """Return mean and variance of logits of shape (K, n, 10) and of their sigmoids."""
    stream = StreamingPosterior("sigmoid")
    for under_one_anchor in logits:
        stream.update(under_one_anchor)
    return stream.posterior()


def spread(logits: np.ndarray) -> np.ndarray:
    """Return σ of images, of shape (n,): the root of the summed variances of the classes' sigmoids."""
    return np.sqrt(np.asarray(posterior_of(logits).link_var).sum(axis=-1))


def separation(inside: Prediction, outside: Prediction, labels: np.ndarray) -> dict[str, float]:
    """Measure the OOD scores, and the accuracy and calibration on the test images.

    Parameters
    ----------
    inside, outside : Prediction
        Of n test images and m OOD images.
    labels : int array of shape (n,)
    """
    return {
        "auroc": auroc(inside.ood_score, outside.ood_score),
        "aupr": aupr(inside.ood_score, outside.ood_score),
        "fpr95": fpr95(inside.ood_score, outside.ood_score),
        "accuracy": accuracy(labels, inside.probabilities),
        "ece": ece(labels, inside.probabilities),
    }
