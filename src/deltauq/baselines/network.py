"""What the baselines for networks share: training, checks, and the posterior over members or samples."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Self

import torch
from lightning_fabric import Fabric
from sklearn.exceptions import NotFittedError
from torch import Tensor, nn

from deltauq.core import Posterior, StreamingPosterior
from deltauq.nn.training import (
    NotStackableError,
    Objective,
    Recipe,
    as_inputs,
    check_data,
    derive_seed,
    fit,
    fit_many,
    supervised,
)

BATCH_SIZE = 500
"""Default number of rows in one pass of prediction."""

MakeNetwork = Callable[[], nn.Module]
Progress = Callable[[int, float], None]
Criterion = Callable[[Tensor, Tensor], Tensor]


@dataclass(frozen=True)
class Training:
    """The options that `NetworkBaseline.fit` was called with; they are those of `deltauq.nn.training.fit`."""

    recipe: Recipe
    fabric: Fabric | None = None
    normalize: tuple[Tensor, Tensor] | None = None
    checkpoint: Path | None = None
    progress: Progress | None = None
    criterion: Criterion | None = None

    def part(self, k: int, n: int, seed: int | None = None) -> Training:
        """Return the options of the k-th of n trainings, with its own checkpoint and share of progress."""
        recipe = self.recipe if seed is None else replace(self.recipe, seed=seed)
        report, epochs = self.progress, recipe.epochs

        def progress(epoch: int, loss: float) -> None:
            if report is not None:
                report((k * epochs + epoch) // n, loss)

        path = self.checkpoint
        if path is not None:
            path = path.with_name(f"{path.stem}-{k}{path.suffix}")
        return replace(self, recipe=recipe, checkpoint=path, progress=progress)

    def run(self, net: nn.Module, x: Tensor, y: Tensor, objective: Objective | None = None) -> None:
        """Train one network in place on rows of shape (n, ...)."""
        if objective is None and self.criterion is not None:
            objective = supervised(self.criterion)
        fit(
            net,
            x,
            y,
            self.recipe,
            objective,
            fabric=self.fabric,
            normalize=self.normalize,
            checkpoint=self.checkpoint,
            progress=self.progress,
        )

    def run_many(
        self,
        nets: Sequence[nn.Module],
        x: Tensor,
        y: Tensor,
        seeds: Sequence[int],
        rows: Tensor | None = None,
    ) -> None:
        """Train networks of one architecture in place: together if that is possible, otherwise one by one.

        Each of the m networks has its own seed and its own `rows`, of shape (m, r); all rows by default.
        """
        recipe = self.recipe
        # `fit_many` supports neither checkpoints nor several devices.
        together = recipe.precision == "32-true" and not (recipe.augment or recipe.compile)
        if together and self.fabric is None and self.checkpoint is None:
            device = Fabric(accelerator="auto", devices=1).device
            for net in nets:
                net.to(device)
            inputs = as_inputs(x, self.normalize, channels_last=False)
            with suppress(NotStackableError):
                fit_many(
                    nets, inputs, y, recipe, self.criterion, rows=rows, seeds=seeds, progress=self.progress
                )
                return
        for k, (net, seed) in enumerate(zip(nets, seeds, strict=True)):
            own: slice | Tensor = slice(None) if rows is None else rows[k]
            self.part(k, len(nets), seed).run(net, x[own], y[own])


class TensorBaseline(ABC):
    """A baseline that takes tensors."""

    fitted_module: ClassVar[str] = "network_"

    def fit(
        self,
        x: Tensor,
        y: Tensor,
        recipe: Recipe,
        *,
        fabric: Fabric | None = None,
        normalize: tuple[Tensor, Tensor] | None = None,
        checkpoint: str | os.PathLike[str] | None = None,
        progress: Progress | None = None,
        criterion: Criterion | None = None,
    ) -> Self:
        """Train on rows x and targets y.

        Parameters
        ----------
        x : tensor of shape (n, ...)
            Floats, or uint8 images, which are divided by 255.
        y : tensor of shape (n, ...)
            Integer class labels of shape (n,), or floats of the shape of the outputs.
        recipe : Recipe
            How to train. Its seed determines all random numbers of training.
        fabric : Fabric, optional
            Devices and precision; by default one device.
        normalize : (mean, std), tensors of shape (channels,), optional
            Mean and standard deviation by which x is standardised.
        checkpoint : path, optional
            Training is resumed from this file if it exists. Baselines of several networks write one file
            each, numbered.
        progress : callable, optional
            Called with the number of finished epochs, out of those of the recipe, and the last loss.
        criterion : callable, optional
            ``criterion(outputs, targets)``, the loss. By default cross-entropy for classes and squared error
            for numbers. Methods with their own likelihood do not use it.

        Returns
        -------
        self
        """
        path = None if checkpoint is None else Path(checkpoint)
        self._fit(x, check_data(x, y), Training(recipe, fabric, normalize, path, progress, criterion))
        return self

    @abstractmethod
    def posterior(self, x: Tensor, link: str | None = None, batch_size: int | None = None) -> Posterior:
        """Return mean and variance of the outputs.

        Parameters
        ----------
        x : tensor of shape (n, ...)
            Network inputs: floats, normalised if `fit` was given `normalize`.
        link : {"sigmoid", "softmax"}, optional
            Also return mean and variance of ``link(output)``.
        batch_size : int, optional
            Rows in one pass.

        Returns
        -------
        posterior : Posterior
            On the device of x.
        """

    @abstractmethod
    def _fit(self, x: Tensor, y: Tensor, training: Training) -> None:
        """Train on rows of shape (n, ...)."""

    def _fitted(self) -> Any:
        """Return the module that `fit` stores, an attribute named `fitted_module`."""
        if not hasattr(self, self.fitted_module):
            raise NotFittedError(f"this {type(self).__name__} is not fitted yet: call fit first.")
        return getattr(self, self.fitted_module)

    @property
    def _device(self) -> torch.device:
        return next(self._fitted().parameters()).device


class NetworkBaseline(TensorBaseline):
    """A baseline that trains networks of one architecture, made by `make_network`.

    With one recipe, the first network of every baseline starts from the same weights.
    """

    def __init__(self, make_network: MakeNetwork) -> None:
        check_factory("make_network", make_network)
        self.make_network = make_network

    def new_network(self, seed: int) -> nn.Module:
        """Return a network with initial weights of this seed."""
        return seeded_network(self.make_network, seed)


class SampledBaseline(NetworkBaseline):
    """A baseline whose posterior is the moments over members or samples, each a function of the input."""

    @torch.no_grad()
    def posterior(self, x: Tensor, link: str | None = None, batch_size: int | None = None) -> Posterior:
        """Return mean and variance over `functions`; see `NetworkBaseline.posterior` for the parameters."""
        stream = StreamingPosterior(link)
        for function in self.functions():
            stream.update(outputs_of(function, x, self._device, batch_size))
        return stream.posterior()

    @abstractmethod
    def functions(self) -> Iterator[Callable[[Tensor], Tensor]]:
        """Yield members or samples: functions of inputs, each to be called before the next is taken."""


def seeded_network(make_network: MakeNetwork, seed: int) -> nn.Module:
    """Return a network with initial weights of this seed; the global random state does not change."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return make_network()


def check_factory(name: str, function: Any) -> None:
    """Raise an error for a network instead of a function that makes one."""
    if isinstance(function, nn.Module) or not callable(function):
        kind = type(function).__name__
        raise TypeError(f"{name} must be a function that returns a new network, got {kind}.")


def no_new_network() -> nn.Module:
    """Raise an error; the `make_network` of baselines that are built from trained networks."""
    raise TypeError("this baseline has trained networks: construct it with make_network to fit it.")


def outputs_of(
    function: Callable[[Tensor], Tensor], x: Tensor, device: torch.device, batch_size: int | None = None
) -> Tensor:
    """Return the outputs of a function on x, computed in batches on a device.

    They are returned on the device of x, in float32 or higher precision.
    """
    if batch_size is not None and batch_size < 1:
        raise ValueError(f"batch_size must be at least 1, got {batch_size}.")
    outputs = torch.cat([function(rows.to(device)) for rows in x.split(batch_size or BATCH_SIZE)])
    return outputs.to(x.device, torch.promote_types(outputs.dtype, torch.float32))


def shuffled_rows(n: int, seed: int) -> Tensor:
    """Return the row numbers below n in an order that is independent of the training's."""
    return torch.randperm(n, generator=torch.Generator().manual_seed(derive_seed(seed, -2)))


def check_no_criterion(training: Training, name: str) -> None:
    """Raise an error if a criterion is given for a method with its own loss."""
    if training.criterion is not None:
        raise ValueError(f"{name} has its own loss: omit criterion.")


def check_regression(y: Tensor, method: str) -> None:
    """Raise an error unless the targets are floats."""
    if not y.is_floating_point():
        raise ValueError(f"{method} is for regression: y must be floats, got {y.dtype}.")


def check_no_link(link: str | None, method: str) -> None:
    """Raise an error if a link is given for a method of regression."""
    if link is not None:
        raise ValueError(f"{method} is for regression and has no link, got {link!r}.")
