"""Search in the latent space of a generator for inputs that a forward model takes for the target."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from deltauq.inverse.forward import Forward, Said, ask
from deltauq.inverse.generator import Generate, latent_size, numbers_of, uniform
from deltauq.nn import evaluating
from deltauq.utils.formatting import short_repr

FLOOR = 0.01
"""Least scale b, in standard deviations of y: below it, log b would reward certainty without end."""


@dataclass(frozen=True)
class Found:
    """What a search has found: r inputs for each of t targets.

    Attributes
    ----------
    x : tensor of shape (t, r, ...)
        Inputs.
    z : tensor of shape (t, r, d)
        Their latents, in [-1, 1].
    mean : tensor of shape (t, r)
        What the forward model says of them, in units of y.
    std : tensor of shape (t, r) or None
        Its uncertainty; None for a model without any.
    loss : tensor of shape (t, r)
        The least loss met.
    diverged : bool tensor of shape (t, r)
        Whether a loss or a gradient was not finite on the way; the best point before it is kept.
    """

    x: Tensor
    z: Tensor
    mean: Tensor
    std: Tensor | None
    loss: Tensor
    diverged: Tensor

    __repr__ = short_repr


def search(
    g: Generate,
    f: Forward,
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
) -> Found:
    """Find inputs g(y*, z) of which f says y*, and is sure of it.

    Minimised over z is |f(g(y*, z)) − y*| / b + log b, where b is `scale` times the standard deviation that f
    states, in units of standardised y and at least 0.01: the likelihood of a Laplacian. A model without
    uncertainty leaves the plain distance. All targets and restarts go together, by Adam; a step that leaves
    the prior's support, the cube [−1, 1], is projected onto it.

    Parameters
    ----------
    g : callable
        ``g(y, z)`` gives inputs of shape (n, ...) for standardised targets of shape (n, 1) and latents of
        shape (n, d), uniform on [−1, 1]; see `Generator`. Gradients must flow from inputs to z.
    f : model that speaks `Posterior`, or callable
        Takes these inputs and gives one standardised y for each, with gradients: an `Anchored` network,
        `DeepEnsemble`, `MCDropout`, `SVI`, or any differentiable function without uncertainty.
    targets : sequence of t floats
        In units of y.
    n_restarts : int, default=50
        r, random starts for each target.
    n_steps : int, default=1000
    lr : float, default=0.02
        Short steps stay near their start, where f is less easily fooled than far from it.
    n_latent : int, optional
        d; that of ``g.n_latent`` by default.
    starts : array of shape (r, d), optional
        Latents to start from for each target, in place of random ones; `latents_of` finds those of known
        inputs.
    y_mean, y_std : float
        What y was standardised with when g and f were trained.
    scale : float, default=1
        What f's uncertainty is multiplied with; `scale_of` finds it on data that f has not seen.
    seed : int, default=0
        Of random starts, which are the same for every target and every model.
    progress : callable, optional
        Told the number of finished steps.

    Returns
    -------
    found : Found
    """
    goals = _check_targets(targets, y_mean, y_std)
    _check_sizes(n_restarts, n_steps, lr, scale)
    if starts is None:
        starts = uniform(n_restarts, latent_size(g, n_latent), seed)
    numbers = numbers_of(g, f)
    starts = _check_starts(starts).to(**numbers)
    n_restarts, d = starts.shape
    y = goals.to(**numbers).repeat_interleave(n_restarts)[:, None]
    # Every target has the same starts: what is found for one does not depend on the others.
    z = starts.repeat(len(goals), 1)
    with ExitStack() as stack:
        for model in (g, f):
            if isinstance(model, nn.Module):
                stack.enter_context(evaluating(model))
        _check_models(g, f, y, z)
        z, loss, diverged = _descend(g, f, y, z, n_steps, lr, scale, progress)
        with torch.no_grad():
            x = g(y, z)
            mean, var = ask(f, x)
    if n_bad := int(diverged.sum()):
        warnings.warn(
            f"{n_bad} of {len(y)} searches met values that are not finite; each keeps its best point.",
            stacklevel=2,
        )
    shape = (len(goals), n_restarts)
    std = None if var is None else (y_std * var.sqrt()).view(shape)
    return Found(
        x.view(*shape, *x.shape[1:]),
        z.view(*shape, d),
        (y_mean + y_std * mean).view(shape),
        std,
        loss.view(shape),
        diverged.view(shape),
    )


def laplace_loss(said: Said, y: Tensor, scale: float = 1.0) -> Tensor:
    """Return the loss of every row, of shape (n,): |mean − y| / b + log b, or the plain distance.

    b is the scale times the standard deviation.

    Parameters
    ----------
    said : mean and variance of shape (n,), or mean and None
        Of standardised y.
    y : tensor of shape (n,)
    scale : float, default=1
    """
    mean, var = said
    distance = (mean - y).abs()
    if var is None:
        return distance
    # The variance is bounded before the root, whose slope at zero is infinite.
    v = 0.5 * (scale**2 * var).clamp_min(FLOOR**2).log()
    return distance * (-v).exp() + v


def _descend(
    g: Generate,
    f: Forward,
    y: Tensor,
    z: Tensor,
    n_steps: int,
    lr: float,
    scale: float,
    progress: Callable[[int], None] | None,
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the best latents, their losses, and which rows met values that are not finite."""
    z = z.clone().requires_grad_(True)
    best, least = z.detach().clone(), z.new_full((len(z),), math.inf)
    diverged = torch.zeros(len(z), dtype=torch.bool, device=z.device)
    # Adam moves every coordinate by itself: rows do not know of each other.
    optimizer = torch.optim.Adam([z], lr=lr)
    for step in range(n_steps + 1):
        losses = laplace_loss(ask(f, g(y, z)), y[:, 0], scale)
        with torch.no_grad():
            better = losses < least
            best, least = torch.where(better[:, None], z, best), torch.where(better, losses, least)
            diverged |= ~losses.isfinite()
        if step == n_steps:
            break
        # Only the way to z is followed back: the weights of g and f get no gradients.
        (slope,) = torch.autograd.grad(losses.sum(), z)
        with torch.no_grad():
            diverged |= ~slope.isfinite().all(1)
            z.grad = torch.where(diverged[:, None], 0.0, slope)
            optimizer.step()
            # A row that diverged stays where it was best.
            z.copy_(torch.where(diverged[:, None], best, z.clamp(-1.0, 1.0)))
        if progress is not None:
            progress(step + 1)
    return best, least, diverged


def _check_targets(targets: Sequence[float] | Tensor, y_mean: float, y_std: float) -> Tensor:
    """Return standardised targets of shape (t,)."""
    goals = torch.as_tensor(targets, dtype=torch.float64).cpu()
    if goals.ndim != 1 or len(goals) == 0:
        raise ValueError(f"targets must be a list of numbers, got shape {tuple(goals.shape)}.")
    if not goals.isfinite().all():
        raise ValueError(f"targets must be finite, got {goals.tolist()}.")
    if not (math.isfinite(y_mean) and math.isfinite(y_std) and y_std > 0.0):
        raise ValueError(f"y_mean must be finite and y_std positive, got {y_mean} and {y_std}.")
    return (goals - y_mean) / y_std


def _check_sizes(n_restarts: int, n_steps: int, lr: float, scale: float) -> None:
    for name, value in (("n_restarts", n_restarts), ("n_steps", n_steps)):
        if isinstance(value, bool) or not (isinstance(value, int) and value >= 1):
            raise ValueError(f"{name} must be an integer of at least 1, got {value!r}.")
    for name, rate in (("lr", lr), ("scale", scale)):
        if not 0.0 < rate < math.inf:
            raise ValueError(f"{name} must be positive, got {rate}.")


def _check_starts(starts: Any) -> Tensor:
    """Return starts as a tensor of their own."""
    try:
        starts = torch.as_tensor(starts).detach()
    except (TypeError, ValueError, RuntimeError) as error:
        raise ValueError(f"starts must be latents of shape (r, d): {_first_line(error)}") from error
    if starts.ndim != 2 or starts.numel() == 0:
        raise ValueError(f"starts must be latents of shape (r, d), got {tuple(starts.shape)}.")
    if not (starts.abs() <= 1.0).all():
        raise ValueError("starts must be in [-1, 1], where latents are.")
    return starts


def _check_models(g: Generate, f: Forward, y: Tensor, z: Tensor) -> None:
    """Refuse models that do not fit together, or say nothing that can be followed back, on all starts."""
    z = z.clone().requires_grad_(True)
    try:
        x = g(y, z)
    except (RuntimeError, IndexError) as error:
        raise ValueError(
            f"g does not take targets of shape {tuple(y.shape)} and latents of shape {tuple(z.shape)}: "
            f"{_first_line(error)}"
        ) from error
    if not isinstance(x, Tensor) or x.ndim == 0 or len(x) != len(z):
        shape = tuple(x.shape) if isinstance(x, Tensor) else type(x).__name__
        raise ValueError(f"g must give one input for each of {len(z)} latents, got {shape}.")
    if not x.isfinite().all():
        raise ValueError("g gives values that are not finite at the starts of the search.")
    try:
        mean, var = ask(f, x)
    except (RuntimeError, IndexError) as error:
        raise ValueError(
            f"f does not take what g gives, of shape {tuple(x.shape)}: {_first_line(error)}"
        ) from error
    if not mean.isfinite().all() or not (var is None or var.isfinite().all()):
        raise ValueError("f gives values that are not finite at the starts of the search.")
    if var is not None and (var < 0.0).any():
        raise ValueError("f states a negative variance at the starts of the search.")
    (slope,) = torch.autograd.grad(mean.sum(), z, allow_unused=True) if mean.requires_grad else (None,)
    if slope is None:
        raise ValueError("no gradient flows from what f says back to z: neither g nor f may detach.")


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0].rstrip(".") + "."
