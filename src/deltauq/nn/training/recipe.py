"""How a network is trained, as plain values that a result line or a checkpoint can contain."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from operator import index
from typing import Any, Literal

import torch
from torch import Tensor

CHOICES = {
    "optimizer": ("sgd", "adam", "adamw"),
    "schedule": ("constant", "steps", "linear", "cosine"),
    "augment": ("crop-flip", None),
}


@dataclass(frozen=True)
class Recipe:
    """Everything that determines a training run apart from the network and the data.

    Attributes
    ----------
    epochs, batch_size : int
        Number of epochs, and rows of a batch.
    optimizer : {"sgd", "adam", "adamw"}
        Optimizer of PyTorch.
    lr, weight_decay, momentum : float
        Learning rate, weight decay, and the momentum of SGD.
    schedule : {"constant", "steps", "linear", "cosine"}
        The learning rate is constant, multiplied by `gamma` at every milestone, or falls to zero.
    milestones : tuple of int
        Epochs at which the rate changes, for "steps".
    gamma : float
        Factor of the rate at a milestone.
    augment : {"crop-flip"} or None
        Random crops with a border of 4 black pixels, and mirror images.
    mask : float
        Probability of masked anchors in a batch of an anchored network, or in a row if the network has
        ``mask_rows=True``. With 0, the network's own mask is used.
    drop_last : bool
        Leave out an incomplete last batch. Several devices and CUDA graphs always do.
    precision : str
        Precision of Lightning Fabric: "32-true", "bf16-mixed", ...
    compile, graph, channels_last : bool
        Compile the network; replay a step as one CUDA graph on a GPU; store images channels-last.
    seed : int
        Random seed of the order of the rows, augmentation, anchors, masks and dropout.
    """

    epochs: int = 100
    batch_size: int = 128
    optimizer: Literal["sgd", "adam", "adamw"] = "adam"
    lr: float = 1e-3
    weight_decay: float = 0.0
    momentum: float = 0.9
    schedule: Literal["constant", "steps", "linear", "cosine"] = "constant"
    milestones: tuple[int, ...] = ()
    gamma: float = 0.2
    augment: Literal["crop-flip"] | None = None
    mask: float = 0.0
    drop_last: bool = False
    precision: str = "32-true"
    compile: bool = False
    graph: bool = True
    channels_last: bool = False
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("epochs", "batch_size", "seed"):
            object.__setattr__(self, name, index(getattr(self, name)))
        object.__setattr__(self, "milestones", tuple(index(milestone) for milestone in self.milestones))
        if self.epochs < 1 or self.batch_size < 1:
            raise ValueError(
                f"epochs and batch_size must be at least 1, got {self.epochs} and {self.batch_size}."
            )
        for name, choices in CHOICES.items():
            if getattr(self, name) not in choices:
                raise ValueError(f"{name} must be one of {list(choices)}, got {getattr(self, name)!r}.")
        if not 0.0 <= self.mask < 1.0:
            raise ValueError(f"mask must be a probability below 1, got {self.mask}.")
        for name in ("lr", "gamma"):
            if not 0.0 < getattr(self, name) < math.inf:
                raise ValueError(f"{name} must be positive, got {getattr(self, name)}.")
        for name in ("weight_decay", "momentum"):
            if not 0.0 <= getattr(self, name) < math.inf:
                raise ValueError(f"{name} must not be negative, got {getattr(self, name)}.")

    def rate(self, epoch: float) -> float:
        """Return the learning rate at a point of the run, in epochs from its start."""
        if self.schedule == "steps":
            return float(self.lr * self.gamma ** sum(epoch >= milestone for milestone in self.milestones))
        done = epoch / self.epochs
        if self.schedule == "linear":
            return self.lr * (1.0 - done)
        if self.schedule == "cosine":
            return self.lr * 0.5 * (1.0 + math.cos(math.pi * done))
        return self.lr

    def make_optimizer(self, parameters: Iterable[Tensor], *, graphed: bool) -> torch.optim.Optimizer:
        """Return the optimizer of these parameters; `graphed` if its steps are replayed as a CUDA graph."""
        parameters = list(parameters)
        # A graph reads the rate from a tensor.
        rate = torch.tensor(self.lr, device=parameters[0].device) if graphed else self.lr
        options: dict[str, Any] = {"lr": rate, "weight_decay": self.weight_decay, "fused": True}
        if self.optimizer == "sgd":
            return torch.optim.SGD(parameters, momentum=self.momentum, **options)
        kind = torch.optim.AdamW if self.optimizer == "adamw" else torch.optim.Adam
        return kind(parameters, capturable=graphed, **options)


def set_rate(optimizer: torch.optim.Optimizer, rate: float) -> None:
    """Change the learning rate, in place where a CUDA graph reads it."""
    for group in optimizer.param_groups:
        if isinstance(group["lr"], Tensor):
            group["lr"].fill_(rate)
        else:
            group["lr"] = rate
