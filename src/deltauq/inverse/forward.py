"""What a forward model says about inputs, with gradients to them."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from deltauq.baselines.network import SampledBaseline
from deltauq.core import Posterior
from deltauq.inverse.generator import numbers_of

Forward = Any
"""A model that speaks `Posterior`, or a function that gives one number for each input."""

Said = tuple[Tensor, Tensor | None]
"""Mean and variance, of shape (n,) both; None for the variance where a model has no uncertainty."""


def ask(f: Forward, x: Tensor) -> Said:
    """Return mean and variance of what a forward model says about inputs of shape (n, ...)."""
    posterior = _posterior_of(f)
    if posterior is None:
        outputs = f(x)
        if not isinstance(outputs, Tensor):
            raise TypeError(f"f must return a tensor or speak Posterior, got {type(outputs).__name__}.")
        return _one_number_a_row(outputs, len(x)), None
    found = posterior(x)
    return _one_number_a_row(found.mean, len(x)), _one_number_a_row(found.var, len(x))


@torch.no_grad()
def scale_of(f: Forward, x: Tensor, y: Tensor) -> float:
    """Return how many of its standard deviations f is off, on average: mean |error| / mean deviation.

    Parameters
    ----------
    f : model that speaks `Posterior`, or callable
        1 for one without uncertainty.
    x : tensor of shape (n, ...)
        Inputs that f was not trained on.
    y : tensor of shape (n,) or (n, 1)
        Their targets, standardised as f's were.

    Returns
    -------
    scale : float
    """
    if len(x) == 0 or y.numel() != len(x):
        raise ValueError(f"one y is needed for each of at least one input, got {y.numel()} for {len(x)}.")
    if isinstance(f, nn.Module):
        x = x.to(**numbers_of(f))
    mean, var = ask(f, x)
    if var is None:
        return 1.0
    # Not the mean of ratios: a few members agree by chance, and would decide it.
    scale = float((mean - y.to(mean).reshape(-1)).abs().mean() / var.sqrt().mean())
    if not 0.0 < scale < math.inf:
        raise ValueError(f"no scale fits: |error| over standard deviation is {scale} on these inputs.")
    return scale


def _posterior_of(f: Forward) -> Callable[[Tensor], Posterior] | None:
    """Return a model's posterior with gradients, or None where it speaks none."""
    if isinstance(f, SampledBaseline):
        # Its own posterior keeps no gradients.
        return lambda x: _over_functions(f, x)
    posterior: Callable[[Tensor], Posterior] | None = getattr(f, "posterior", None)
    return posterior


def _over_functions(f: SampledBaseline, x: Tensor) -> Posterior:
    var, mean = torch.var_mean(torch.stack([function(x) for function in f.functions()]), 0, correction=0)
    return Posterior(mean, var)


def _one_number_a_row(outputs: Tensor, n: int) -> Tensor:
    if outputs.shape not in ((n,), (n, 1)):
        raise ValueError(f"f must give one number for each of {n} inputs, got shape {tuple(outputs.shape)}.")
    return outputs.reshape(n)
