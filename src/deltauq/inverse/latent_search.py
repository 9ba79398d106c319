"""Search in the latent space of a generator, for inputs with a given target or for known inputs."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from deltauq.baselines.network import SampledBaseline
from deltauq.inverse.generator import Generate, check_counts, device_and_dtype, latent_size, uniform
from deltauq.nn import evaluation_mode
from deltauq.utils.formatting import short_repr

ForwardModel = Any
"""A model with a method `posterior`, or a function that returns one number per input."""

Moments = tuple[Tensor, Tensor | None]
"""Mean and variance, both of shape (n,); the variance is None for a model without uncertainty."""

MIN_SCALE = 0.01
"""Minimum of b, in standard deviations of y: the objective would otherwise be unbounded below."""


@dataclass(frozen=True)
class SearchResult:
    """The inputs that a search returns: r for each of t targets."""

    x: Tensor
    """Inputs, of shape (t, r, ...)."""
    z: Tensor
    """Their latents, of shape (t, r, d), in [-1, 1]."""
    mean: Tensor
    """Predictions of the forward model, of shape (t, r), in units of y."""
    std: Tensor | None
    """Their uncertainty, of shape (t, r); None for a model without."""
    loss: Tensor
    """The smallest loss of each restart, of shape (t, r)."""
    diverged: Tensor
    """Whether a loss or a gradient was not finite, of shape (t, r); the best point before is kept."""

    __repr__ = short_repr


def search(
    g: Generate,
    f: ForwardModel,
    targets: Sequence[float] | Tensor,
    *,
    n_restarts: int = 50,
    n_steps: int = 1000,
    lr: float = 0.02,
    n_latent: int | None = None,
    starts: Tensor | None = None,
    y_mean: float = 0.0,
    y_std: float = 1.0,
    scale: float = 1.0,
    seed: int = 0,
    progress: Callable[[int], None] | None = None,
) -> SearchResult:
    """Find inputs g(y*, z) for which f predicts y* with small uncertainty.

    The loss of z is |f(g(y*, z)) − y*| / b + log b, the negative log-likelihood of a Laplace distribution; b
    is `scale` times the standard deviation of f, in units of standardised y and at least 0.01. For a model
    without uncertainty it is the distance. All targets and restarts are optimised together by Adam; z is
    projected onto the support of its prior, the cube [−1, 1], after every step.

    Parameters
    ----------
    g : callable
        ``g(y, z)`` returns inputs of shape (n, ...) for standardised targets of shape (n, 1) and latents of
        shape (n, d), uniform on [−1, 1]; see `Generator`. It must be differentiable in z.
    f : model with a method `posterior`, or callable
        Predicts one standardised y per input, with gradients: an `Anchored` network, `DeepEnsemble`,
        `MCDropout`, `SVI`, or any differentiable function without uncertainty.
    targets : sequence of t floats
        Target values, in units of y.
    n_restarts : int, default=50
        r, the number of random starting points for each target.
    n_steps : int, default=1000
        Number of steps of Adam.
    lr : float, default=0.02
        Learning rate. Small steps stay near the start, where f is more reliable than far from it.
    n_latent : int, optional
        d, the number of latents; by default ``g.n_latent``.
    starts : array of shape (r, d), optional
        Starting points for each target instead of random ones; `latents_of` computes those of known inputs.
    y_mean, y_std : float
        Mean and standard deviation that y was standardised with when g and f were trained.
    scale : float, default=1
        Factor on the standard deviation of f; `scale_of` estimates it on held-out data.
    seed : int, default=0
        Random seed of the starting points, which are the same for every target and every model.
    progress : callable, optional
        Called with the number of finished steps.

    Returns
    -------
    result : SearchResult
    """
    y_targets = _standardize_targets(targets, y_mean, y_std)
    check_counts(n_restarts=n_restarts, n_steps=n_steps)
    _check_positive(lr=lr, scale=scale)
    if starts is None:
        starts = uniform(n_restarts, latent_size(g, n_latent), seed)
    like = device_and_dtype(g, f)
    starts = torch.as_tensor(starts).detach().to(**like)
    if starts.ndim != 2 or starts.numel() == 0:
        raise ValueError(f"starts must be latents of shape (r, d), got {tuple(starts.shape)}.")
    if not (starts.abs() <= 1.0).all():
        raise ValueError("starts must be in [-1, 1].")
    n_restarts, d = starts.shape
    y = y_targets.to(**like).repeat_interleave(n_restarts)[:, None]
    # Every target has the same starts, so that the result for one does not depend on the others.
    z = starts.repeat(len(y_targets), 1)
    with _evaluation_mode(g, f):
        _check_models(g, f, y, z)
        z, loss, diverged = _minimize(
            lambda z: laplace_loss(predict_moments(f, g(y, z)), y[:, 0], scale), z, n_steps, lr, progress
        )
        with torch.no_grad():
            x = g(y, z)
            mean, var = predict_moments(f, x)
    if n_diverged := int(diverged.sum()):
        message = f"{n_diverged} of {len(y)} searches reached non-finite values; their best points are kept."
        warnings.warn(message, stacklevel=2)
    shape = (len(y_targets), n_restarts)
    return SearchResult(
        x.view(*shape, *x.shape[1:]),
        z.view(*shape, d),
        (y_mean + y_std * mean).view(shape),
        None if var is None else (y_std * var.sqrt()).view(shape),
        loss.view(shape),
        diverged.view(shape),
    )


def latents_of(
    g: Generate, x: Tensor, y: Tensor, *, n_steps: int = 100, lr: float = 0.05, n_latent: int | None = None
) -> Tensor:
    """Find latents for which a generator returns inputs as close to given ones as possible.

    The squared distance is minimised by Adam from the centre of the cube [−1, 1]; every step is projected
    onto the cube.

    Parameters
    ----------
    g : callable
        The generator, as for `search`.
    x : tensor of shape (n, ...)
        Inputs, of the shape that g returns.
    y : tensor of shape (n,) or (n, 1)
        Their targets, standardised as in the training of g.
    n_steps : int, default=100
        Number of steps of Adam.
    lr : float, default=0.05
        Learning rate.
    n_latent : int, optional
        d, the number of latents; by default ``g.n_latent``.

    Returns
    -------
    z : tensor of shape (n, d)
        Starting points for `search`, for example: known inputs are plausible, random latents may not be.
    """
    d = latent_size(g, n_latent)
    check_pairs(x, y)
    check_counts(n_steps=n_steps)
    _check_positive(lr=lr)
    like = device_and_dtype(g)
    x, y = x.to(**like), y.to(**like).reshape(-1, 1)
    z = torch.zeros(len(x), d, **like, requires_grad=True)
    optimizer = torch.optim.Adam([z], lr=lr)
    with _evaluation_mode(g):
        for _ in range(n_steps):
            decoded = g(y, z)
            if decoded.shape != x.shape:
                shapes = f"{tuple(decoded.shape)}, but x has {tuple(x.shape)}"
                raise ValueError(f"g returns inputs of shape {shapes}.")
            # autograd.grad, not backward: the weights of g get no gradients.
            (z.grad,) = torch.autograd.grad((decoded - x).square().sum(), z)
            optimizer.step()
            with torch.no_grad():
                z.clamp_(-1.0, 1.0)
    z = z.detach()
    if not z.isfinite().all():
        raise ValueError("the latents are not finite: x, y or the outputs of g are not.")
    return z


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


def laplace_loss(moments: Moments, y: Tensor, scale: float = 1.0) -> Tensor:
    """Return |mean − y| / b + log b for every row, where b is the scaled standard deviation.

    Without a variance, the loss is the distance.
    """
    mean, var = moments
    distance = (mean - y).abs()
    if var is None:
        return distance
    # The variance is bounded before the root, whose slope at zero is infinite.
    log_b = 0.5 * (scale**2 * var).clamp_min(MIN_SCALE**2).log()
    return distance * (-log_b).exp() + log_b


def _minimize(
    loss: Callable[[Tensor], Tensor],
    z: Tensor,
    n_steps: int,
    lr: float,
    progress: Callable[[int], None] | None,
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the best latents, their losses, and which rows reached values that are not finite."""
    z = z.clone().requires_grad_(True)
    best, least = z.detach().clone(), z.new_full((len(z),), math.inf)
    diverged = torch.zeros(len(z), dtype=torch.bool, device=z.device)
    # Adam treats every coordinate separately: rows are independent of each other.
    optimizer = torch.optim.Adam([z], lr=lr)
    for step in range(n_steps + 1):
        losses = loss(z)
        with torch.no_grad():
            better = losses < least
            best, least = torch.where(better[:, None], z, best), torch.where(better, losses, least)
            diverged |= ~losses.isfinite()
        if step == n_steps:
            break
        (gradient,) = torch.autograd.grad(losses.sum(), z)
        with torch.no_grad():
            diverged |= ~gradient.isfinite().all(1)
            z.grad = torch.where(diverged[:, None], 0.0, gradient)
            optimizer.step()
            z.copy_(torch.where(diverged[:, None], best, z.clamp(-1.0, 1.0)))
        if progress is not None:
            progress(step + 1)
    return best, least, diverged


@contextmanager
def _evaluation_mode(*models: Any) -> Iterator[None]:
    with ExitStack() as stack:
        for model in models:
            if isinstance(model, nn.Module):
                stack.enter_context(evaluation_mode(model))
        yield


def _standardize_targets(targets: Sequence[float] | Tensor, y_mean: float, y_std: float) -> Tensor:
    """Return standardised targets of shape (t,)."""
    values = torch.as_tensor(targets, dtype=torch.float64).cpu()
    if values.ndim != 1 or len(values) == 0:
        raise ValueError(f"targets must be a list of numbers, got shape {tuple(values.shape)}.")
    if not values.isfinite().all():
        raise ValueError(f"targets must be finite, got {values.tolist()}.")
    if not (math.isfinite(y_mean) and math.isfinite(y_std) and y_std > 0.0):
        raise ValueError(f"y_mean must be finite and y_std positive, got {y_mean} and {y_std}.")
    return (values - y_mean) / y_std


def _check_positive(**numbers: float) -> None:
    for name, value in numbers.items():
        if not 0.0 < value < math.inf:
            raise ValueError(f"{name} must be positive, got {value}.")


def _check_models(g: Generate, f: ForwardModel, y: Tensor, z: Tensor) -> None:
    """Raise an error unless the models fit together and are finite and differentiable at all starts."""
    z = z.clone().requires_grad_(True)
    shapes = f"targets of shape {tuple(y.shape)} and latents of {tuple(z.shape)}"
    with _shape_errors(f"g does not accept {shapes}"):
        x = g(y, z)
    if not isinstance(x, Tensor) or x.ndim == 0 or len(x) != len(z):
        shape = tuple(x.shape) if isinstance(x, Tensor) else type(x).__name__
        raise ValueError(f"g must return one input for each of {len(z)} latents, got {shape}.")
    if not x.isfinite().all():
        raise ValueError("g returns values that are not finite at the starts of the search.")
    with _shape_errors(f"f does not accept the inputs of g, of shape {tuple(x.shape)}"):
        mean, var = predict_moments(f, x)
    if not mean.isfinite().all() or not (var is None or var.isfinite().all()):
        raise ValueError("f returns values that are not finite at the starts of the search.")
    if var is not None and (var < 0.0).any():
        raise ValueError("f returns a negative variance at the starts of the search.")
    gradient = torch.autograd.grad(mean.sum(), z, allow_unused=True)[0] if mean.requires_grad else None
    if gradient is None:
        raise ValueError("the outputs of f have no gradient with respect to z: neither g nor f may detach.")


@contextmanager
def _shape_errors(message: str) -> Iterator[None]:
    """Raise errors of PyTorch as a ValueError with this message and their first line."""
    try:
        yield
    except (RuntimeError, IndexError) as error:
        line = str(error).partition("\n")[0].rstrip(".")
        raise ValueError(f"{message}: {line}.") from error
