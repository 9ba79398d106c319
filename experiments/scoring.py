"""What methods make of the logits of images: class probabilities, and a score of how strange an image is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.special import logsumexp, softmax

from deltauq.calibration import SpreadScaler, TemperatureScaler, scale_logits
from deltauq.core import Posterior, StreamingPosterior
from deltauq.metrics import accuracy, aupr, auroc, ece, entropy, fpr95


@dataclass(frozen=True, eq=False)
class Judgement:
    """What a method says about images.

    Attributes
    ----------
    probabilities : array of shape (n, 10)
    score : array of shape (n,)
        The higher, the stranger.
    """

    probabilities: np.ndarray
    score: np.ndarray


Judge = Callable[[np.ndarray], Judgement]
"""Judges images by their logits of shape (K, n, 10)."""


def by_entropy(probabilities: np.ndarray) -> Judgement:
    """Return the judgement whose score is the entropy of the probabilities."""
    return Judgement(probabilities, entropy(probabilities))


def mean_logits(scale: float) -> Judge:
    """Return the method that scales the mean of the logits by a constant."""
    return lambda logits: by_entropy(softmax(scale * logits.mean(axis=0), axis=-1))


def spread_scaled(logits: np.ndarray) -> Judgement:
    """Return Δ-UQ's judgement: mean logits times 0.5 − σ², with σ² the variance of their sigmoids."""
    return by_entropy(softmax(scale_logits(posterior_of(logits)), axis=-1))


Fit = Callable[[np.ndarray, np.ndarray], Judge]
"""Makes a judge from logits of shape (K, n, 10) and labels of images that no network was trained on."""


def fitted_temperature(logits: np.ndarray, labels: np.ndarray) -> Judge:
    """Return the method that divides mean logits by the temperature of these images."""
    scaler = TemperatureScaler().fit(logits.mean(axis=0), labels)
    return mean_logits(1.0 / scaler.temperature_)


def fitted_spread(logits: np.ndarray, labels: np.ndarray) -> Judge:
    """Return the method that scales mean logits by a function of σ, fitted on these images."""
    scaler = SpreadScaler().fit(posterior_of(logits), labels)
    return lambda logits: by_entropy(softmax(scaler.transform(posterior_of(logits)), axis=-1))


def first_alone(judge: Judge) -> Judge:
    """Return the method that is given one anchor only."""
    return lambda logits: judge(logits[:1])


def mean_probabilities(logits: np.ndarray) -> Judgement:
    """Return the judgement of an ensemble: the mean of the members' probabilities."""
    return by_entropy(softmax(logits, axis=-1).mean(axis=0))


def energy(logits: np.ndarray) -> Judgement:
    """Return the judgement whose score is the free energy, −log Σ exp(logits)."""
    logits = logits.mean(axis=0)
    return Judgement(softmax(logits, axis=-1), -logsumexp(logits, axis=-1))


def largest_kernel(log_kernels: np.ndarray) -> Judgement:
    """Return DUQ's judgement: its score is the distance to the nearest class, its kernels sum to 1."""
    log_kernels = log_kernels[0]
    return Judgement(softmax(log_kernels, axis=-1), -log_kernels.max(axis=-1))


def posterior_of(logits: np.ndarray) -> Posterior:
    """Return mean and variance of logits of shape (K, n, 10) and of their sigmoids."""
    stream = StreamingPosterior("sigmoid")
    for under_one_anchor in logits:
        stream.update(under_one_anchor)
    return stream.posterior()


def spread(logits: np.ndarray) -> np.ndarray:
    """Return σ of images, of shape (n,): the root of the summed variances of the classes' sigmoids."""
    return np.sqrt(np.asarray(posterior_of(logits).link_var).sum(axis=-1))


def separation(inside: Judgement, outside: Judgement, labels: np.ndarray) -> dict[str, float]:
    """Return how well scores tell strange images from the test images, and how good the classifier is there.

    Parameters
    ----------
    inside, outside : Judgement
        Of n test images and m strange ones.
    labels : int array of shape (n,)
    """
    return {
        "auroc": auroc(inside.score, outside.score),
        "aupr": aupr(inside.score, outside.score),
        "fpr95": fpr95(inside.score, outside.score),
        "accuracy": accuracy(labels, inside.probabilities),
        "ece": ece(labels, inside.probabilities),
    }
