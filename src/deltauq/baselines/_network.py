"""What the baselines for networks share: how networks are trained, and how samples become a posterior."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Self

import torch
from lightning_fabric import Fabric
from sklearn.exceptions import NotFittedError
from torch import Tensor, nn

from deltauq.core import Posterior, StreamingPosterior
from deltauq.nn.training import (
    Batch,
    NotStackableError,
    Objective,
    Recipe,
    as_inputs,
    check_data,
    fit,
    fit_many,
    supervised,
)

BATCH_SIZE = 500
"""Rows in one pass of prediction."""

MakeNetwork = Callable[[], nn.Module]
Progress = Callable[[int, float], None]
Criterion = Callable[[Tensor, Tensor], Tensor]


@dataclass(frozen=True)
class Training:
    """How networks are to be trained; the words are those of `deltauq.nn.training.fit`."""

    recipe: Recipe
    fabric: Fabric | None = None
    normalise: tuple[Tensor, Tensor] | None = None
    checkpoint: Path | None = None
    progress: Progress | None = None
    criterion: Criterion | None = None

    def part(self, k: int, n: int, seed: int | None = None) -> Training:
        """Return the k-th of n trainings: its own checkpoint file, and an n-th of the progress.

        Progress then still counts to the epochs of the recipe, however many networks are trained.
        """
        recipe = self.recipe if seed is None else replace(self.recipe, seed=seed)
        whole, epochs = self.progress, recipe.epochs

        def progress(epoch: int, loss: float) -> None:
            if whole is not None:
                whole((k * epochs + epoch) // n, loss)

        path = self.checkpoint
        if path is not None:
            path = path.with_name(f"{path.stem}-{k}{path.suffix}")
        return replace(self, recipe=recipe, checkpoint=path, progress=progress)

    def run(
        self,
        net: nn.Module,
        x: Tensor,
        y: Tensor,
        objective: Objective | None = None,
        after_step: Callable[[Batch], None] | None = None,
    ) -> None:
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
            normalise=self.normalise,
            checkpoint=self.checkpoint,
            after_step=after_step,
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
        """Train networks of one architecture in place: together where that is possible, or one by one.

        Parameters
        ----------
        nets : sequence of m Modules
        x, y : tensors of shape (n, ...)
        seeds : sequence of m ints
        rows : int tensor of shape (m, r), optional
            The rows of each network; all of them by default.
        """
        if self._plain() and self._run_together(nets, x, y, seeds, rows):
            return
        for k, (net, seed) in enumerate(zip(nets, seeds, strict=True)):
            mine: slice | Tensor = slice(None) if rows is None else rows[k]
            self.part(k, len(nets), seed).run(net, x[mine], y[mine])

    def _plain(self) -> bool:
        """Tell whether `fit_many` can do what is asked; it knows no checkpoints and no devices."""
        recipe = self.recipe
        plain = recipe.precision == "32-true" and not (recipe.augment or recipe.compile)
        return plain and self.fabric is None and self.checkpoint is None

    def _run_together(
        self, nets: Sequence[nn.Module], x: Tensor, y: Tensor, seeds: Sequence[int], rows: Tensor | None
    ) -> bool:
        """Train networks together; return False, and leave them as they were, where that is impossible."""
        device = Fabric(accelerator="auto", devices=1).device
        for net in nets:
            net.to(device)
        inputs = as_inputs(x, self.normalise, channels_last=False)
        try:
            fit_many(
                nets, inputs, y, self.recipe, self.criterion, rows=rows, seeds=seeds, progress=self.progress
            )
        except NotStackableError:
            return False
        return True


def refuse_criterion(training: Training, name: str) -> None:
    """Refuse a criterion for a method whose loss is part of it."""
    if training.criterion is not None:
        raise ValueError(f"{name} has a loss of its own: give no criterion.")


class NetworkBaseline(ABC):
    """A rival of anchoring that trains networks of one architecture and speaks `Posterior`.

    Parameters
    ----------
    make_network : callable
        Returns a new network with its initial weights. It is called under the seed of the recipe, so that
        the first network of every method starts from the same weights.
    """

    def __init__(self, make_network: MakeNetwork) -> None:
        if isinstance(make_network, nn.Module) or not callable(make_network):
            raise TypeError(
                "make_network must be a function that returns a new network, "
                f"got {type(make_network).__name__}."
            )
        self.make_network = make_network

    def fit(
        self,
        x: Tensor,
        y: Tensor,
        recipe: Recipe,
        *,
        fabric: Fabric | None = None,
        normalise: tuple[Tensor, Tensor] | None = None,
        checkpoint: str | os.PathLike[str] | None = None,
        progress: Progress | None = None,
        criterion: Criterion | None = None,
    ) -> Self:
        """Train as the recipe says.

        Parameters
        ----------
        x : tensor of shape (n, ...)
            Floats, or bytes that are divided by 255.
        y : tensor of shape (n, ...)
            Integer classes of shape (n,), or floats of the shape of the outputs.
        recipe : Recipe
            Its seed decides everything that is drawn in training.
        fabric : Fabric, optional
        normalise : (mean, std), tensors of shape (channels,), optional
            Applied to x.
        checkpoint : path, optional
            Resumed from if it is there. Methods of several networks write one file each, numbered.
        progress : callable, optional
            Told the finished epochs, out of those of the recipe, and the last loss.
        criterion : callable, optional
            ``criterion(outputs, targets)`` for the networks that predict; cross-entropy for classes, squared
            error for numbers by default. Methods with a likelihood of their own take none.

        Returns
        -------
        self
        """
        path = None if checkpoint is None else Path(checkpoint)
        self._fit(x, check_data(x, y), Training(recipe, fabric, normalise, path, progress, criterion))
        return self

    @abstractmethod
    def posterior(self, x: Tensor, link: str | None = None, batch_size: int | None = None) -> Posterior:
        """Return mean and variance of the outputs.

        Parameters
        ----------
        x : tensor of shape (n, ...)
            Inputs as the networks see them: floats, normalised where `fit` was told to.
        link : {"sigmoid", "softmax"}, optional
            Also return the moments behind this link.
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

    @property
    def _device(self) -> torch.device:
        """Where the networks are."""
        return next(self._fitted("network_").parameters()).device

    def _fitted(self, name: str) -> nn.Module:
        """Return what `fit` has left under this name."""
        if not hasattr(self, name):
            raise NotFittedError(f"this {type(self).__name__} is not fitted yet: call fit first.")
        network: nn.Module = getattr(self, name)
        return network

    def _new_network(self, seed: int) -> nn.Module:
        """Return a network with the initial weights of this seed; the random state outside stays."""
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            return self.make_network()


class SampledBaseline(NetworkBaseline):
    """A baseline whose posterior is made of members or samples, each a function of the input."""

    @torch.no_grad()
    def posterior(self, x: Tensor, link: str | None = None, batch_size: int | None = None) -> Posterior:
        """Return mean and variance of the outputs over members or samples, of shape (n, ...).

        Parameters
        ----------
        x : tensor of shape (n, ...)
            Inputs as the networks see them: floats, normalised where `fit` was told to.
        link : {"sigmoid", "softmax"}, optional
            Also return the moments behind this link.
        batch_size : int, optional
            Rows in one pass.

        Returns
        -------
        posterior : Posterior
            On the device of x.
        """
        stream = StreamingPosterior(link)
        for function in self._functions():
            stream.update(outputs_of(function, x, self._device, batch_size))
        return stream.posterior()

    @abstractmethod
    def _functions(self) -> Iterator[Callable[[Tensor], Tensor]]:
        """Yield members or samples, one at a time: functions of inputs of shape (n, ...)."""


def no_new_network() -> nn.Module:
    """Stand for `make_network` in a model that is made of trained networks."""
    raise TypeError("a model of given networks trains no new ones: make one with make_network to fit it.")


def outputs_of(
    function: Callable[[Tensor], Tensor], x: Tensor, device: torch.device, batch_size: int | None = None
) -> Tensor:
    """Return a function's outputs of shape (n, ...), computed in batches on a device.

    Parameters
    ----------
    function : callable
    x : tensor of shape (n, ...)
    device : torch.device
    batch_size : int, optional

    Returns
    -------
    outputs : tensor of shape (n, ...)
        On the device of x, at least in float32.
    """
    if batch_size is not None and batch_size < 1:
        raise ValueError(f"batch_size must be at least 1, got {batch_size}.")
    outputs = torch.cat([function(rows.to(device)) for rows in x.split(batch_size or BATCH_SIZE)])
    return outputs.to(x.device, torch.promote_types(outputs.dtype, torch.float32))


def require_labels(y: Tensor, method: str) -> None:
    """Refuse targets that are no classes."""
    if y.is_floating_point() or y.ndim != 1:
        raise ValueError(
            f"{method} is for classification: y must be integers of shape (n,), "
            f"got {y.dtype} of shape {tuple(y.shape)}."
        )


def require_numbers(y: Tensor, method: str) -> None:
    """Refuse targets that are classes."""
    if not y.is_floating_point():
        raise ValueError(f"{method} is for regression: y must be floats, got {y.dtype}.")


def refuse_link(link: str | None, method: str) -> None:
    """Refuse a link where there are no logits."""
    if link is not None:
        raise ValueError(f"{method} is for regression and has no link, got {link!r}.")
