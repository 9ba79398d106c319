"""Class probabilities and OOD scores of images, computed from logits."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.special import logsumexp, softmax

from deltauq.calibration import TemperatureScaler, scale_logits
from deltauq.core import Posterior, StreamingPosterior
from deltauq.metrics import accuracy, aupr, auroc, ece, entropy, fpr95
from experiments.spread_scaler import SpreadScaler


@dataclass(frozen=True, eq=False)
class Prediction:
    """The prediction of a method for images.

    Attributes
    ----------
    probabilities : array of shape (n, 10)
    ood_score : array of shape (n,)
        Higher values mean further out of distribution.
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
    scaler = SpreadScaler().fit(posterior_of(logits), labels)
    return lambda logits: by_entropy(softmax(scaler.transform(posterior_of(logits)), axis=-1))


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
