"""How fitted models of any kind are asked for a mean and σ, or for probabilities."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np

from deltauq.calibration._arrays import to_numbers


def mean_and_std(model: Any, X: Any) -> tuple[np.ndarray, np.ndarray]:
    """Return the model's mean and σ for n inputs, each of shape (n,) or (n, o)."""
    if hasattr(model, "posterior"):
        posterior = model.posterior(X)
        mean, var = to_numbers(posterior.mean, "the mean"), to_numbers(posterior.variance, "the variance")
        std = np.sqrt(var)
    elif _takes(getattr(model, "predict", None), "return_std"):
        mean, std = (to_numbers(part, "the prediction") for part in model.predict(X, return_std=True))
    else:
        raise TypeError(
            f"model must have posterior(X) or predict(X, return_std=True), got {type(model).__name__}."
        )
    if mean.ndim not in (1, 2) or mean.shape != std.shape:
        raise ValueError(
            f"mean and std must both have shape (n,) or (n, o), got {mean.shape} and {std.shape}."
        )
    return mean, std


def probabilities(model: Any, X: Any) -> np.ndarray:
    """Return the model's probabilities for n inputs, of shape (n, c)."""
    if hasattr(model, "predict_proba"):
        proba = model.predict_proba(X)
    elif _takes(getattr(model, "posterior", None), "link"):
        proba = model.posterior(X, link="softmax").link_mean
        if proba.ndim == 2 and proba.shape[1] < 2:
            raise ValueError("the network must give at least two logits, one for each class, got one.")
    else:
        raise TypeError(
            f'model must have predict_proba(X) or posterior(X, link="softmax"), got {type(model).__name__}.'
        )
    if isinstance(proba, list):
        raise ValueError(f"model must predict one output, got probabilities for {len(proba)}.")
    proba = to_numbers(proba, "the probabilities")
    if proba.ndim != 2:
        raise ValueError(f"the probabilities must have shape (n, c), got {proba.shape}.")
    return proba


def _takes(method: Any, keyword: str) -> bool:
    """Return whether a method can be called with this keyword, as far as its signature tells."""
    if method is None:
        return False
    parameters = inspect.signature(method).parameters
    return keyword in parameters or any(p.kind is p.VAR_KEYWORD for p in parameters.values())
