"""A conditional generator: inputs for a target and latents."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

Generate = Callable[[Tensor, Tensor], Tensor]
"""``g(y, z)``: inputs of shape (n, ...) for standardised targets of shape (n, 1) and latents (n, d)."""

OUTPUTS = ("linear", "sigmoid", "clipped")
MARGIN = 0.05
"""How far a clipped sigmoid extends below 0 and above 1 before it is clipped."""


class Generator(nn.Module):
    """The paper's inverse model: a network that maps a target y and latents z to an input.

    Parameters
    ----------
    shape : sequence of int
        Shape of one input.
    n_latent : int, default=100
        Number of latents. Their prior is uniform on [-1, 1].
    hidden : sequence of int, default=(128, 256, 512, 1024)
        Widths of the hidden layers of the perceptron, by default the paper's.
    layers : Module, optional
        A network instead of the perceptron. It maps targets and latents side by side, of shape
        (n, 1 + n_latent), to the values of inputs, of shape (n, number of values).
    output : {"linear", "sigmoid", "clipped"}
        "sigmoid": for inputs in [0, 1]. "clipped": for inputs with many values of exactly 0 or 1, such as
        pixels; a sigmoid that extends a little beyond both and is clipped.
    """

    def __init__(
        self,
        shape: Sequence[int],
        n_latent: int = 100,
        hidden: Sequence[int] = (128, 256, 512, 1024),
        *,
        layers: nn.Module | None = None,
        output: str = "linear",
    ) -> None:
        super().__init__()
        if not shape or min(shape) < 1:
            raise ValueError(f"shape must be that of one input, got {tuple(shape)}.")
        check_counts(n_latent=n_latent)
        if output not in OUTPUTS:
            raise ValueError(f"output must be one of {list(OUTPUTS)}, got {output!r}.")
        self.shape, self.n_latent, self.output = tuple(shape), n_latent, output
        self.layers = layers or perceptron(1 + n_latent, hidden, math.prod(shape))

    def forward(self, y: Tensor, z: Tensor) -> Tensor:
        """Return inputs of shape (n, *shape) for standardised targets (n, 1) and latents (n, n_latent)."""
        outputs: Tensor = self.layers(torch.cat([y, z], dim=1))
        if self.output != "linear":
            outputs = outputs.sigmoid()
        if self.output == "clipped":
            wide = (1.0 + 2.0 * MARGIN) * outputs - MARGIN
            # The gradient is that of the unclipped values, so that a wrongly clipped one can still learn.
            outputs = wide + (wide.clamp(0.0, 1.0) - wide).detach()
        return outputs.unflatten(1, self.shape)

    @torch.no_grad()
    def sample(self, y: Tensor, seed: int = 0) -> Tensor:
        """Return inputs of shape (n, *shape) for standardised targets of shape (n, 1) and random latents."""
        return self(y, uniform(len(y), self.n_latent, seed).to(y))


def uniform(n: int, d: int, seed: int) -> Tensor:
    """Return n random points of the cube [-1, 1]^d, the same on every device."""
    return 2.0 * torch.rand(n, d, generator=torch.Generator().manual_seed(seed)) - 1.0


def latent_size(g: Any, n_latent: int | None) -> int:
    """Return the number of latents of a generator: `n_latent`, or by default ``g.n_latent``."""
    d = getattr(g, "n_latent", None) if n_latent is None else n_latent
    if d is None:
        raise ValueError("g has no attribute n_latent: give n_latent.")
    check_counts(n_latent=d)
    return int(d)


def check_counts(**counts: Any) -> None:
    """Raise an error for a number that is not a positive integer."""
    for name, value in counts.items():
        if isinstance(value, bool) or not (isinstance(value, int) and value >= 1):
            raise ValueError(f"{name} must be an integer of at least 1, got {value!r}.")


def device_and_dtype(*models: Any) -> dict[str, Any]:
    """Return device and dtype of the first network with weights; those of a new tensor if there is none."""
    networks = (model for model in models if isinstance(model, nn.Module))
    weights = (weight for net in networks for weight in net.parameters() if weight.is_floating_point())
    first = next(weights, torch.empty(0))
    return {"device": first.device, "dtype": first.dtype}


def perceptron(n_in: int, hidden: Sequence[int], n_out: int) -> nn.Sequential:
    """Return a perceptron with leaky ReLUs of slope 0.2."""
    layers: list[nn.Module] = []
    for width in hidden:
        layers += [nn.Linear(n_in, width), nn.LeakyReLU(0.2)]
        n_in = width
    return nn.Sequential(*layers, nn.Linear(n_in, n_out))
