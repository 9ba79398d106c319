"""Mean-field variational inference: every weight has an independent normal distribution."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from deltauq.baselines.network import MakeNetwork, SampledBaseline, Training, check_no_criterion
from deltauq.nn.losses import check_same_shape
from deltauq.nn.training import Batch, derive_seed

TINY = 1e-12
"""Smallest variance of an output: the derivative of the square root is infinite at zero."""

INITIAL_STD = 0.01
"""Of every weight. It changes slowly, so it matters in short runs."""

NOISE_RATE = 10.0
"""Learning rate of the logarithm of the noise, relative to that of the weights."""


class VariationalLayer(nn.Module):
    """A Linear or Conv2d layer with a normal distribution over each weight.

    The weights of `layer` become the means. In ``train()`` outputs are sampled by local reparametrisation:
    from the normal distribution that the weights induce, independently for every row and pixel. In ``eval()``
    the weights are at their means, or at the sample taken by `draw`, which is the same for all rows.
    """

    def __init__(self, layer: nn.Linear | nn.Conv2d, initial_std: float) -> None:
        super().__init__()
        self.layer = layer
        self.log_std = nn.ParameterDict(
            {name: torch.full_like(mean, math.log(initial_std)) for name, mean in layer.named_parameters()}
        )
        self.drawn: dict[str, Tensor] | None = None

    def forward(self, x: Tensor) -> Tensor:
        """Return outputs of shape (n, ...), random in ``train()``."""
        if self.drawn is not None:
            return self._product(x, self.drawn)
        mean = self._product(x, dict(self.layer.named_parameters()))
        if not self.training:
            return mean
        var = self._product(x.square(), {name: (2.0 * log_std).exp() for name, _, log_std in self.weights()})
        return mean + var.clamp_min(TINY).sqrt() * torch.randn_like(mean)

    def draw(self, generator: torch.Generator) -> None:
        """Sample the weights, on the CPU, so that the sample is the same on every device."""
        self.drawn = {
            name: mean + log_std.exp() * torch.randn(log_std.shape, generator=generator).to(log_std)
            for name, mean, log_std in self.weights()
        }

    def weights(self) -> Iterator[tuple[str, Tensor, Tensor]]:
        """Yield the names of the weights, their means and log standard deviations, in the order of `draw`."""
        means = dict(self.layer.named_parameters())
        for name, log_std in self.log_std.items():
            yield name, means[name], log_std

    def _product(self, x: Tensor, weights: dict[str, Tensor]) -> Tensor:
        """Return the output of the layer with these weights."""
        if isinstance(self.layer, nn.Linear):
            return F.linear(x, weights["weight"], weights.get("bias"))
        return self.layer._conv_forward(x, weights["weight"], weights.get("bias"))


def make_variational(net: nn.Module, initial_std: float = INITIAL_STD) -> nn.Module:
    """Replace the Linear and Conv2d layers of a network by variational ones, in place, and return it.

    Other weights, such as those of batch norm, stay deterministic. For a single layer, its replacement is
    returned.
    """
    # Subclasses may use their weights in other ways.
    converted = {
        layer: VariationalLayer(cast("nn.Linear | nn.Conv2d", layer), initial_std)
        for layer in net.modules()
        if type(layer) in (nn.Linear, nn.Conv2d)
    }
    if net in converted:
        return converted[net]
    for name, layer in list(net.named_modules(remove_duplicate=False)):
        if layer in converted:
            net.set_submodule(name, converted[layer])
    return net


class VariationalNetwork(nn.Module):
    """A network that was converted by `make_variational` and, for regression, the noise of the targets.

    `noise` is its initial standard deviation; None for classification.
    """

    def __init__(
        self, module: nn.Module, prior_std: float, noise: float | None, learn_noise: bool = True
    ) -> None:
        super().__init__()
        self.module = module
        self.prior_std = prior_std
        self.scaled_log_noise: nn.Parameter | None = None
        if noise is not None:
            scaled = torch.tensor(math.log(noise) / NOISE_RATE)
            self.scaled_log_noise = nn.Parameter(scaled, requires_grad=learn_noise)
        self.layers = [layer for layer in module.modules() if isinstance(layer, VariationalLayer)]
        if not self.layers:
            raise ValueError(f"{type(module).__name__} has no Linear or Conv2d layers to convert.")

    def forward(self, x: Tensor) -> Tensor:
        """Return outputs of shape (n, ...)."""
        outputs: Tensor = self.module(x)
        return outputs

    @property
    def noise(self) -> Tensor | None:
        """Standard deviation of the targets around the outputs, of shape ()."""
        return None if self.scaled_log_noise is None else (NOISE_RATE * self.scaled_log_noise).exp()

    def divergence(self) -> Tensor:
        """Return the Kullback-Leibler divergence of all weights from N(0, prior_std²), a scalar."""
        # One sum over all weights: on a GPU, one small kernel per layer takes longer than the network.
        pairs = [(mean, log_std) for layer in self.layers for _, mean, log_std in layer.weights()]
        means, log_stds = (torch.cat([_flat(each) for each in side]) for side in zip(*pairs, strict=True))
        log_ratios = log_stds - math.log(self.prior_std)
        squares = (2.0 * log_ratios).exp() + (means / self.prior_std).square()
        return (0.5 * (squares - 1.0) - log_ratios).sum()

    def nll(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """Return the mean negative log-likelihood of the rows, up to a constant."""
        noise = self.noise
        if noise is None:
            return F.cross_entropy(outputs, targets)
        check_same_shape(outputs, targets)
        squares = ((outputs - targets) / noise).square()
        return (0.5 * squares + noise.log()).sum() / len(targets)


def _flat(weights: Tensor) -> Tensor:
    """Return weights as a vector; convolutions in channels-last order, which needs no copy on a GPU."""
    return (weights.permute(0, 2, 3, 1) if weights.ndim == 4 else weights).reshape(-1)


class SVI(SampledBaseline):
    """Mean and variance over weights sampled from a mean-field normal posterior.

    The loss is the negative evidence lower bound per row: the negative log-likelihood, by local
    reparametrisation, plus 1/n of the divergence from the prior N(0, prior_std²). Means start at the weights
    of the network. The weight decay of the recipe is ignored, since the prior regularises.

    Parameters
    ----------
    make_network : callable
        Returns a new network.
    prior_std : float, default=1
        Standard deviation of the prior of every weight.
    noise : float, optional
        Standard deviation of regression targets around the outputs. By default it is learned, starting at 1,
        which suits standardised targets. It is not part of the posterior variance.
    n_samples : int, default=10
        Number of weight samples in prediction.
    seed : int, default=0
        Random seed of these samples. Sample k has the same weights for every row and in every call.

    Attributes
    ----------
    network_ : VariationalNetwork
    """

    network_: VariationalNetwork

    def __init__(
        self,
        make_network: MakeNetwork,
        prior_std: float = 1.0,
        *,
        noise: float | None = None,
        n_samples: int = 10,
        seed: int = 0,
    ) -> None:
        super().__init__(make_network)
        for name, value in (("prior_std", prior_std), ("noise", noise)):
            if value is not None and not value > 0.0:
                raise ValueError(f"{name} must be positive, got {value}.")
        if n_samples < 2:
            raise ValueError(f"n_samples must be at least 2, got {n_samples}.")
        self.prior_std = prior_std
        self.noise = noise
        self.n_samples = n_samples
        self.seed = seed

    def _fit(self, x: Tensor, y: Tensor, training: Training) -> None:
        check_no_criterion(training, "SVI")
        module = make_variational(self.new_network(training.recipe.seed))
        noise = (self.noise or 1.0) if y.is_floating_point() else None
        net = VariationalNetwork(module, self.prior_std, noise, learn_noise=self.noise is None)

        def objective(trained: nn.Module, batch: Batch) -> Tensor:
            return net.nll(trained(batch.x), batch.y) + net.divergence() / len(x)

        replace(training, recipe=replace(training.recipe, weight_decay=0.0)).run(net, x, y, objective)
        self.network_ = net

    def functions(self) -> Iterator[Callable[[Tensor], Tensor]]:
        """Yield the network with each sample of weights."""
        net = self._fitted().eval()
        try:
            for k in range(self.n_samples):
                generator = torch.Generator().manual_seed(derive_seed(self.seed, k))
                for layer in net.layers:
                    layer.draw(generator)
                yield net
        finally:
            for layer in net.layers:
                layer.drawn = None
