"""Monte Carlo dropout: one network trained with dropout, which stays active in prediction."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from deltauq.baselines.network import MakeNetwork, SampledBaseline, Training
from deltauq.nn.networks import ACTIVATIONS, ResNet18, ResNet20
from deltauq.nn.training import derive_seed

DROPOUTS = (nn.Dropout, nn.Dropout1d, nn.Dropout2d, nn.Dropout3d)


class SharedDropout(nn.Module):
    """Repeatable dropout of whole features or channels (axis 1).

    In ``train()`` every row has its own mask. In ``eval()`` nothing is dropped, unless `generator` is
    set: then all rows share the mask drawn from it, so that one state of the generator is one function of
    the input, independent of the batch. `rate` is the probability that a feature is dropped.
    """

    def __init__(self, rate: float) -> None:
        super().__init__()
        self.rate = rate
        self.generator: torch.Generator | None = None

    def forward(self, x: Tensor) -> Tensor:
        """Return x of shape (n, features, ...) with features dropped and the others scaled up."""
        if self.training:
            mask = F.dropout(x.new_ones(x.shape[:2]), self.rate)
        elif self.generator is not None:
            # Drawn on the CPU, so that every device has the same masks.
            drawn = torch.rand(1, x.shape[1], generator=self.generator)
            mask = (drawn >= self.rate).to(x) / (1.0 - self.rate)
        else:
            return x
        return x * mask.view(*mask.shape, *[1] * (x.ndim - 2))


def add_dropout(net: nn.Module, rate: float) -> nn.Module:
    """Add dropout to a network, in place, and return it.

    Dropout layers of the network are replaced. Otherwise dropout follows every activation layer, or, in
    `ResNet18` and `ResNet20`, every residual block.
    """
    own = _names(net, DROPOUTS)
    for name in own:
        net.set_submodule(name, SharedDropout(rate))
    if not own:
        for name in _default_positions(net):
            net.set_submodule(name, nn.Sequential(net.get_submodule(name), SharedDropout(rate)))
    return net


def _default_positions(net: nn.Module) -> list[str]:
    """Return the names of the layers that dropout follows."""
    if isinstance(net, ResNet18 | ResNet20):
        return [
            f"stages.{k}.{name}" for k, stage in enumerate(net.stages) for name, _ in stage.named_children()
        ]
    activations = _names(net, tuple(ACTIVATIONS.values()))
    if not activations:
        raise ValueError(f"{type(net).__name__} has no activation layers: add dropout layers to it.")
    return activations


def _names(net: nn.Module, kinds: tuple[type[nn.Module], ...]) -> list[str]:
    """Return all names of layers of these types, also of a layer with several names."""
    return [
        name for name, layer in net.named_modules(remove_duplicate=False) if isinstance(layer, kinds) and name
    ]


class MCDropout(SampledBaseline):
    """Mean and variance over random masks of a network that was trained with dropout.

    In prediction all other layers, including batch norm, are in evaluation mode. Sample k has the same masks
    for every row and in every call.

    Parameters
    ----------
    make_network : callable
        Returns a new network. Its dropout layers are replaced; if it has none, dropout follows every
        activation layer.
    rate : float, default=0.1
        Probability that a feature is dropped.
    n_samples : int, default=10
        Number of masks in prediction.
    seed : int, default=0
        Random seed of the masks in prediction.

    Attributes
    ----------
    network_ : Module
    """

    def __init__(
        self, make_network: MakeNetwork, rate: float = 0.1, n_samples: int = 10, *, seed: int = 0
    ) -> None:
        super().__init__(make_network)
        if not 0.0 < rate < 1.0:
            raise ValueError(f"rate must lie between 0 and 1, got {rate}.")
        if n_samples < 2:
            raise ValueError(f"n_samples must be at least 2, got {n_samples}.")
        self.rate = rate
        self.n_samples = n_samples
        self.seed = seed

    def _fit(self, x: Tensor, y: Tensor, training: Training) -> None:
        net = add_dropout(self.new_network(training.recipe.seed), self.rate)
        training.run(net, x, y)
        self.network_ = net

    def functions(self) -> Iterator[Callable[[Tensor], Tensor]]:
        """Yield the network under each mask."""
        net = self._fitted().eval()
        generator = torch.Generator()
        layers = [layer for layer in net.modules() if isinstance(layer, SharedDropout)]

        def sample(k: int, x: Tensor) -> Tensor:
            generator.manual_seed(derive_seed(self.seed, k))
            before = generator.get_state()
            outputs: Tensor = net(x)
            if torch.equal(generator.get_state(), before):
                kind = type(net).__name__
                raise ValueError(f"no dropout layer of {kind} was called.")
            return outputs

        fastpath = torch.backends.mha.get_fastpath_enabled()
        try:
            # The fast path of transformers in evaluation skips their dropout layers.
            torch.backends.mha.set_fastpath_enabled(False)
            for layer in layers:
                layer.generator = generator
            for k in range(self.n_samples):
                yield partial(sample, k)
        finally:
            torch.backends.mha.set_fastpath_enabled(fastpath)
            for layer in layers:
                layer.generator = None
