"""Where known inputs lie in the latent space of a generator."""

from __future__ import annotations

import math
from contextlib import nullcontext

import torch
from torch import Tensor, nn

from deltauq.inverse.generator import Generate, latent_size, numbers_of
from deltauq.nn import evaluating


def latents_of(
    g: Generate, x: Tensor, y: Tensor, *, n_steps: int = 100, lr: float = 0.05, n_latent: int | None = None
) -> Tensor:
    """Find latents from which a generator makes inputs as near to given ones as it can.

    Minimised is the squared distance, by Adam from the middle of the cube [−1, 1], which no step leaves.

    Parameters
    ----------
    g : callable
        As `search` takes it.
    x : tensor of shape (n, ...)
        Inputs, of the shape that g makes.
    y : tensor of shape (n,) or (n, 1)
        Their targets, standardised as g's were.
    n_steps : int, default=100
    lr : float, default=0.05
    n_latent : int, optional
        d; that of ``g.n_latent`` by default.

    Returns
    -------
    z : tensor of shape (n, d)
        To start a `search` from, say: known inputs are plausible, what lies between them may not be.
    """
    d = latent_size(g, n_latent)
    if len(x) == 0 or y.numel() != len(x):
        raise ValueError(f"one y is needed for each of at least one input, got {y.numel()} for {len(x)}.")
    if not (isinstance(n_steps, int) and n_steps >= 1):
        raise ValueError(f"n_steps must be an integer of at least 1, got {n_steps!r}.")
    if not 0.0 < lr < math.inf:
        raise ValueError(f"lr must be positive, got {lr}.")
    numbers = numbers_of(g)
    x, y = x.to(**numbers), y.to(**numbers).reshape(-1, 1)
    z = torch.zeros(len(x), d, **numbers, requires_grad=True)
    optimizer = torch.optim.Adam([z], lr=lr)
    with evaluating(g) if isinstance(g, nn.Module) else nullcontext():
        for _ in range(n_steps):
            made = g(y, z)
            if made.shape != x.shape:
                raise ValueError(f"g makes inputs of shape {tuple(made.shape)}, but x has {tuple(x.shape)}.")
            # Only the way to z is followed back: the weights of g get no gradients.
            (z.grad,) = torch.autograd.grad((made - x).square().sum(), z)
            optimizer.step()
            with torch.no_grad():
                z.clamp_(-1.0, 1.0)
    found = z.detach()
    if not found.isfinite().all():
        raise ValueError("no latents were found: x, y or what g makes of them is not finite.")
    return found
