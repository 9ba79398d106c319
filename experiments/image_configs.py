"""Configurations of the image experiments: networks, schedules, anchors, and training runs."""

from __future__ import annotations

from dataclasses import MISSING, dataclass, fields
from typing import Any

N_ANCHORS = 10


@dataclass(frozen=True)
class NetworkKind:
    """A network and what is special about its training.

    Attributes
    ----------
    network : str
        A name in `deltauq.nn.networks`.
    anchored : bool
    encoding : str
    mask : float
        Share of batches, or of rows, with masked anchors.
    mask_rows : bool
        Mask anchors by row instead of by batch.
    masked_target : {"label", "uniform"}
        Target of inputs with masked anchors.
    at : str or None
        Layer that is anchored; None for the input.
    copies : int
        Anchors per image and step.
    consistency : float
        Weight of the variance over these anchors in the loss.
    dropout : float
        Rate of dropout after every residual block, in training and prediction.
    kernels : bool
        DUQ: kernels around class centroids instead of logits.
    variational : bool
        Mean-field variational inference: every weight of a layer is a normal variable.
    raw : bool
        Images are in [0, 1], not normalised by channel.
    """

    network: str
    anchored: bool = False
    encoding: str = "difference"
    mask: float = 0.0
    mask_rows: bool = False
    masked_target: str = "label"
    at: str | None = None
    copies: int = 1
    consistency: float = 0.0
    dropout: float = 0.0
    kernels: bool = False
    variational: bool = False
    raw: bool = False


@dataclass(frozen=True)
class Schedule:
    """A training schedule: SGD with momentum 0.9 on random crops and flips, in batches of 128.

    Attributes
    ----------
    epochs : int
    lr : float
    shape : {"constant", "steps", "linear"}
        Shape of the learning rate over the epochs.
    milestones : tuple of int
        Epochs at which the learning rate is multiplied by 0.2.
    weight_decay : float
    held_out : bool
        Whether the validation images are left out of training.
    """

    epochs: int
    lr: float = 0.1
    shape: str = "constant"
    milestones: tuple[int, ...] = ()
    weight_decay: float = 5e-4
    held_out: bool = False


NETWORK = {"quick": "ResNet20", "paper": "ResNet18"}
SCHEDULES = {
    "quick": {
        "steps": Schedule(2, 0.05),
        "linear": Schedule(2, 0.05, "linear"),
        "long": Schedule(1, 0.05),
    },
    "paper": {
        "steps": Schedule(85, 0.1, "steps", (25, 50, 75)),
        "linear": Schedule(40, 0.1, "linear"),
        "long": Schedule(200, 0.1, "steps", (60, 120, 160)),
    },
}
"""steps: the paper's for CIFAR-10 against SVHN; linear: a shorter one whose rate decreases to zero; long: the
paper's for calibration under corruptions."""


@dataclass(frozen=True)
class AnchorSetting:
    """The anchors at prediction.

    Attributes
    ----------
    prior : str
        "data", "balanced" or "kmeans" of the training images, "normal", "svhn", "impulse-1" to "impulse-5";
        "paired": other training images for every image, as in the paper.
    number : int
    average_masked : bool
        Average every output with that of the masked anchor.
    """

    prior: str = "data"
    number: int = N_ANCHORS
    average_masked: bool = False

    def configuration(self) -> list[str | int]:
        """Return the key of these anchors in the cache."""
        return [self.prior, self.number, *(["both"] if self.average_masked else [])]


TRAINING_IMAGES = AnchorSetting()
AVERAGE_MASKED = AnchorSetting(average_masked=True)
NOISY = AnchorSetting("impulse-1")
"""Unlike all anchors in training; in `ablation-prior` they increase the AUROC of σ."""


@dataclass(frozen=True)
class TrainingRun:
    """One training of a network.

    Attributes
    ----------
    kind : NetworkKind
    schedule : Schedule
    seed : int
    profile : {"quick", "paper"}
        Determines the images.
    """

    kind: NetworkKind
    schedule: Schedule
    seed: int
    profile: str

    def configuration(self) -> dict[str, Any]:
        """Return the key of the result in the cache; a new field does not change it if it has its default."""
        parts = {"kind": _non_default(self.kind), "schedule": _non_default(self.schedule)}
        return {**parts, "seed": self.seed, "profile": self.profile}

    def __str__(self) -> str:
        options = {name: value for name, value in _non_default(self.kind).items() if name != "network"}
        parts = [name if value is True else f"{name}{value}" for name, value in options.items()]
        return "-".join([self.kind.network, *parts, self.schedule.shape, str(self.seed)])


def _non_default(settings: Any) -> dict[str, Any]:
    """Return the fields of a dataclass that differ from their defaults."""
    values = {field.name: (getattr(settings, field.name), field.default) for field in fields(settings)}
    return {
        name: value for name, (value, default) in values.items() if default is MISSING or value != default
    }
