"""How a generator learns: as the decoder of a variational autoencoder, with a critic beside it."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn import functional as F

from deltauq.inverse.generator import Generator, perceptron
from deltauq.nn.training import Batch, History, Recipe, fit

SMOOTHNESS = 0.5
"""Weight of the critic's squared slope at real inputs, which keeps it from running away."""


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
    """Train a generator in place, on a GPU where there is one.

    It is the decoder of a variational autoencoder that knows y: an encoder gives every input a normal
    distribution of latents, which the normal's distribution function carries into the cube [−1, 1], so that
    the prior there is uniform. A critic tells real pairs (x, y) from made ones, for latents from the prior;
    the generator is also trained to pass for real.

    Parameters
    ----------
    g : Generator
    x : float tensor of shape (n, *g.shape)
        In [0, 1] for a generator whose output is not linear.
    y : float tensor of shape (n,) or (n, 1)
        Standardised targets.
    recipe : Recipe
        Of encoder, generator and critic alike.
    adversarial : float, default=0.1
        Weight of the critic's word beside the likelihood, for each value of an input; 0 for none.
    hidden : sequence of int, default=(512, 512)
        Of encoder and critic.
    critic : Module, optional
        ``critic(x, y)`` gives one number, of shape (n, 1), for inputs of shape (n, *g.shape) and targets of
        shape (n, 1); it is trained in place. A perceptron by default.
    progress : callable, optional
        Told the number of finished epochs and the loss of the last one.

    Returns
    -------
    history : History
    """
    y = _check_data(g, x, y)
    if not 0.0 <= adversarial < math.inf:
        raise ValueError(f"adversarial must not be negative, got {adversarial}.")
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(recipe.seed)
        pupil = _Pupil(g, hidden, adversarial, critic or _Critic(g, hidden))
    history = fit(pupil, x.flatten(1), y, recipe, _loss, progress=progress)
    if not math.isfinite(history.losses[-1]):
        raise FloatingPointError("the training of the generator diverged: take a smaller rate.")
    return history


def _check_data(g: Generator, x: Tensor, y: Tensor) -> Tensor:
    """Return y of shape (n, 1)."""
    if len(x) == 0:
        raise ValueError("there is nothing to train on: the training range holds no inputs.")
    if x.shape[1:] != g.shape:
        raise ValueError(f"the generator makes inputs of shape {g.shape}, but x has {tuple(x.shape[1:])}.")
    if y.shape not in ((len(x),), (len(x), 1)):
        raise ValueError(f"y must hold one number for each of {len(x)} inputs, got {tuple(y.shape)}.")
    if not (x.isfinite().all() and y.isfinite().all()):
        raise ValueError("x and y must be finite.")
    if g.output != "linear" and not (x.min() >= 0.0 and x.max() <= 1.0):
        raise ValueError(f"a generator whose output is {g.output} makes inputs in [0, 1], but x is not.")
    return y.reshape(-1, 1)


def _loss(net: nn.Module, batch: Batch) -> Tensor:
    loss: Tensor = net(batch.x, batch.y)
    return loss


class _Critic(nn.Module):
    """A perceptron that takes inputs and targets side by side."""

    def __init__(self, g: Generator, hidden: Sequence[int]) -> None:
        super().__init__()
        self.layers = perceptron(math.prod(g.shape) + 1, hidden, 1)

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        """Return one number, of shape (n, 1), for inputs of shape (n, ...) and targets of shape (n, 1)."""
        said: Tensor = self.layers(torch.cat([x.flatten(1), y], dim=1))
        return said


class _Pupil(nn.Module):
    """A generator among those it learns from; its output is the loss of all of them.

    Parameters
    ----------
    g : Generator
    hidden : sequence of int
    adversarial : float
    critic : Module
    """

    def __init__(self, g: Generator, hidden: Sequence[int], adversarial: float, critic: nn.Module) -> None:
        super().__init__()
        n = math.prod(g.shape)
        # The likelihood is a sum over the values of an input, and outweighs one word on all of them.
        self.g, self.weight = g, adversarial * n
        self.encoder = perceptron(n + 1, hidden, 2 * g.n_latent)
        self.critic = critic
        # How exactly inputs are to be met again is learned, too: the noise around them.
        self.log_scale = nn.Parameter(torch.tensor(-1.0))

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        """Return the loss for inputs of shape (n, values) and targets of shape (n, 1)."""
        center, log_var = self.encoder(torch.cat([x, y], dim=1)).chunk(2, dim=1)
        log_var = log_var.clamp(-8.0, 4.0)
        normal = center + torch.randn_like(center) * (0.5 * log_var).exp()
        made = self.g(y, torch.erf(normal / math.sqrt(2.0))).flatten(1)
        divergence = 0.5 * (center.square() + log_var.exp() - 1.0 - log_var).sum(1).mean()
        loss: Tensor = self._unlikeliness(made, x) + divergence
        return loss + self._game(x, y) if self.weight else loss

    def _unlikeliness(self, made: Tensor, x: Tensor) -> Tensor:
        """Return the negative log-likelihood of inputs, normal around what is made, without its constant."""
        off = (made - x) * (-self.log_scale).exp()
        return (0.5 * off.square() + self.log_scale).sum(1).mean()

    def _game(self, x: Tensor, y: Tensor) -> Tensor:
        """Return the critic's loss and the generator's; neither moves the other's weights."""
        fake = self.g(y, 2.0 * torch.rand(len(y), self.g.n_latent, device=y.device) - 1.0)
        real = x.unflatten(1, self.g.shape).requires_grad_(True)
        said = self.critic(real, y)
        (slope,) = torch.autograd.grad(said.sum(), real, create_graph=True)
        told = self.critic(fake.detach(), y)
        critics = F.softplus(-said).mean() + F.softplus(told).mean()
        critics = critics + SMOOTHNESS * slope.flatten(1).square().sum(1).mean()
        fixed = {name: weight.detach() for name, weight in self.critic.named_parameters()}
        passed = functional_call(self.critic, fixed, (fake, y))
        return critics + self.weight * F.softplus(-passed).mean()
