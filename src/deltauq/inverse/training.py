"""Training of a generator, as the decoder of a variational autoencoder with a critic."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn import functional as F

from deltauq.inverse.generator import Generator, perceptron
from deltauq.nn.training import Batch, History, Recipe, fit

GRADIENT_PENALTY = 0.5
"""Weight of the critic's squared gradient at real inputs, which stabilises its training."""


def fit_generator(
    g: Generator,
    x: Tensor,
    y: Tensor,
    recipe: Recipe,
    *,
    adversarial: float = 0.1,
    hidden: Sequence[int] = (512, 512),
    critic: nn.Module | None = None,
    progress: Callable[[int, float], None] | None = None,
) -> History:
    """Train a generator in place, on a GPU if there is one.

    It is trained as the decoder of a variational autoencoder conditioned on y. The encoder maps every input
    to a normal distribution of latents, which the normal distribution function maps to the cube [−1, 1], so
    that the prior there is uniform. A critic learns to distinguish real pairs (x, y) from those generated
    from the prior; the generator is also trained to be classified as real.

    Parameters
    ----------
    g : Generator
        The generator to train.
    x : float tensor of shape (n, *g.shape)
        Inputs; in [0, 1] for a generator whose output is not linear.
    y : float tensor of shape (n,) or (n, 1)
        Standardised targets.
    recipe : Recipe
        How to train encoder, generator and critic.
    adversarial : float, default=0.1
        Weight of the adversarial loss relative to the likelihood, per value of an input; 0 for none.
    hidden : sequence of int, default=(512, 512)
        Widths of the hidden layers of encoder and critic.
    critic : Module, optional
        ``critic(x, y)`` returns one number, of shape (n, 1), for inputs of shape (n, *g.shape) and targets of
        shape (n, 1); it is trained in place. By default a perceptron.
    progress : callable, optional
        Called with the number of finished epochs and the loss of the last one.

    Returns
    -------
    history : History
    """
    y = _check_data(g, x, y)
    if not 0.0 <= adversarial < math.inf:
        raise ValueError(f"adversarial must not be negative, got {adversarial}.")
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(recipe.seed)
        autoencoder = _AdversarialAutoencoder(g, hidden, adversarial, critic or _Critic(g, hidden))

    def loss(net: nn.Module, batch: Batch) -> Any:
        return net(batch.x, batch.y)

    history = fit(autoencoder, x.flatten(1), y, recipe, loss, progress=progress)
    if not math.isfinite(history.losses[-1]):
        raise FloatingPointError("the training of the generator diverged: use a smaller learning rate.")
    return history


def _check_data(g: Generator, x: Tensor, y: Tensor) -> Tensor:
    """Return y of shape (n, 1)."""
    if len(x) == 0:
        raise ValueError("there are no inputs to train on.")
    if x.shape[1:] != g.shape:
        raise ValueError(f"the generator returns inputs of shape {g.shape}, but x has {tuple(x.shape[1:])}.")
    if y.shape not in ((len(x),), (len(x), 1)):
        raise ValueError(f"y must contain one number for each of {len(x)} inputs, got {tuple(y.shape)}.")
    if not (x.isfinite().all() and y.isfinite().all()):
        raise ValueError("x and y must be finite.")
    if g.output != "linear" and not (x.min() >= 0.0 and x.max() <= 1.0):
        raise ValueError(f"a generator with output={g.output!r} returns inputs in [0, 1], but x is not.")
    return y.reshape(-1, 1)


class _Critic(nn.Module):
    """A perceptron of inputs and targets."""

    def __init__(self, g: Generator, hidden: Sequence[int]) -> None:
        super().__init__()
        self.layers = perceptron(math.prod(g.shape) + 1, hidden, 1)

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        """Return one logit, of shape (n, 1), for inputs of shape (n, ...) and targets of shape (n, 1)."""
        logits: Tensor = self.layers(torch.cat([x.flatten(1), y], dim=1))
        return logits


class _AdversarialAutoencoder(nn.Module):
    """Encoder, generator and critic; the output is the sum of their losses."""

    def __init__(self, g: Generator, hidden: Sequence[int], adversarial: float, critic: nn.Module) -> None:
        super().__init__()
        n = math.prod(g.shape)
        # The likelihood is a sum over the values of an input, so the critic is weighted by their number.
        self.g, self.weight = g, adversarial * n
        self.encoder = perceptron(n + 1, hidden, 2 * g.n_latent)
        self.critic = critic
        self.log_scale = nn.Parameter(torch.tensor(-1.0))  # standard deviation of the noise around inputs

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        """Return the loss for inputs of shape (n, values) and targets of shape (n, 1)."""
        center, log_var = self.encoder(torch.cat([x, y], dim=1)).chunk(2, dim=1)
        log_var = log_var.clamp(-8.0, 4.0)
        normal = center + torch.randn_like(center) * (0.5 * log_var).exp()
        decoded = self.g(y, torch.erf(normal / math.sqrt(2.0))).flatten(1)
        residuals = (decoded - x) * (-self.log_scale).exp()
        nll = (0.5 * residuals.square() + self.log_scale).sum(1).mean()
        divergence = 0.5 * (center.square() + log_var.exp() - 1.0 - log_var).sum(1).mean()
        loss: Tensor = nll + divergence
        return loss + self._adversarial_loss(x, y) if self.weight else loss

    def _adversarial_loss(self, x: Tensor, y: Tensor) -> Tensor:
        """Return the critic's loss and the generator's; neither changes the other's weights."""
        fake = self.g(y, 2.0 * torch.rand(len(y), self.g.n_latent, device=y.device) - 1.0)
        real = x.unflatten(1, self.g.shape).requires_grad_(True)
        real_logits = self.critic(real, y)
        (gradient,) = torch.autograd.grad(real_logits.sum(), real, create_graph=True)
        fake_logits = self.critic(fake.detach(), y)
        critic_loss = F.softplus(-real_logits).mean() + F.softplus(fake_logits).mean()
        critic_loss = critic_loss + GRADIENT_PENALTY * gradient.flatten(1).square().sum(1).mean()
        fixed = {name: weight.detach() for name, weight in self.critic.named_parameters()}
        return critic_loss + self.weight * F.softplus(-functional_call(self.critic, fixed, (fake, y))).mean()
