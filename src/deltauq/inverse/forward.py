"""Mean and variance of a forward model, with gradients to its inputs."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn

from deltauq.baselines.network import SampledBaseline
from deltauq.inverse.generator import device_and_dtype

ForwardModel = Any
"""A model with a method `posterior`, or a function that returns one number per input."""

Moments = tuple[Tensor, Tensor | None]
"""Mean and variance, both of shape (n,); the variance is None for a model without uncertainty."""


def predict_moments(f: ForwardModel, x: Tensor) -> Moments:
    """Return mean and variance of a forward model at inputs of shape (n, ...)."""
    if isinstance(f, SampledBaseline):  # its own posterior has no gradients
        outputs = torch.stack([function(x) for function in f.functions()])
        var, mean = torch.var_mean(outputs, 0, correction=0)
    elif hasattr(f, "posterior"):
        posterior = f.posterior(x)
        mean, var = posterior.mean, posterior.var
    else:
        mean, var = f(x), None
        if not isinstance(mean, Tensor):
            kind = type(mean).__name__
            raise TypeError(f"f must return a tensor or have a method posterior; it returned {kind}.")
    return _flatten(mean, len(x)), None if var is None else _flatten(var, len(x))


@torch.no_grad()
def scale_of(f: ForwardModel, x: Tensor, y: Tensor) -> float:
    """Return the ratio of mean absolute error to mean standard deviation of a forward model.

    Parameters
    ----------
    f : model with a method `posterior`, or callable
        The forward model. Without uncertainty, the scale is 1.
    x : tensor of shape (n, ...)
        Inputs that f was not trained on.
    y : tensor of shape (n,) or (n, 1)
        Their targets, standardised as in the training of f.

    Returns
    -------
    scale : float
    """
    check_pairs(x, y)
    if isinstance(f, nn.Module):
        x = x.to(**device_and_dtype(f))
    mean, var = predict_moments(f, x)
    if var is None:
        return 1.0
    # Not the mean of ratios: it would be dominated by inputs where the members agree by chance.
    scale = float((mean - y.to(mean).reshape(-1)).abs().mean() / var.sqrt().mean())
    if not 0.0 < scale < math.inf:
        raise ValueError(f"no scale fits: |error| over standard deviation is {scale} on these inputs.")
    return scale


def check_pairs(x: Tensor, y: Tensor) -> None:
    """Raise an error unless there is one y for each of at least one input."""
    if len(x) == 0 or y.numel() != len(x):
        raise ValueError(f"one y is needed for each of at least one input, got {y.numel()} for {len(x)}.")


def _flatten(outputs: Tensor, n: int) -> Tensor:
    if outputs.shape not in ((n,), (n, 1)):
        shape = tuple(outputs.shape)
        raise ValueError(f"f must return one number for each of {n} inputs, got shape {shape}.")
    return outputs.reshape(n)
