"""The words of the image experiments: kinds of networks, schedules, anchors, and the runs they make up."""

from __future__ import annotations

from dataclasses import MISSING, dataclass, fields
from typing import Any

N_ANCHORS = 10


@dataclass(frozen=True)
class Kind:
    """A way to train a network.

    Attributes
    ----------
    network : str
        Of `deltauq.nn.networks`.
    anchored : bool
    encoding : str
    mask : float
        Share of batches, or of rows, whose anchors are hidden.
    mask_rows : bool
        Hide anchors row by row instead of batch by batch.
    masked_target : {"label", "uniform"}
        What is asked for where anchors are hidden.
    at : str or None
        Layer that is anchored; None for the input.
    copies : int
        Anchors that an image meets in one step.
    consistency : float
        Weight of the variance over these anchors in the loss.
    dropout : float
        Rate of dropout after every residual block, which stays on in prediction.
    kernels : bool
        DUQ: kernels around the centroids of the classes in place of logits.
    variational : bool
        Mean-field variational inference: every weight of a layer is a normal variable.
    raw : bool
        The network sees images in [0, 1] as they are, not normalised by channel.
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
    """What a kind is trained with: SGD with momentum 0.9 on crops and mirror images, in batches of 128.

    Attributes
    ----------
    epochs : int
    lr : float
    shape : {"constant", "steps", "linear"}
        Of the rate over the epochs.
    milestones : tuple of int
        Epochs at which the rate is multiplied by 0.2.
    weight_decay : float
    held_out : bool
        Leave the validation images out of training.
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
"""The paper's schedule for CIFAR-10 against SVHN, a shorter one whose rate falls to zero, and the paper's for
calibration under corruptions."""


@dataclass(frozen=True)
class Anchors:
    """The anchors that a network is asked under.

    Attributes
    ----------
    prior : str
        "data", "balanced" or "kmeans" of the training images, "normal", "svhn", "impulse-1" to "impulse-5";
        "paired": every image has training images of its own, as in the paper.
    number : int
    reading : str
        As in `Anchored`.
    """

    prior: str = "data"
    number: int = N_ANCHORS
    reading: str = "shown"

    def configuration(self) -> list[str | int]:
        """Return what tells these anchors from others; files of the cache are named by it."""
        return [self.prior, self.number, *([] if self.reading == "shown" else [self.reading])]


TRAINING_IMAGES = Anchors()
READ_TWICE = Anchors(reading="both")
NOISY = Anchors("impulse-1")
"""Anchors that no network has met in training; in `ablation-prior` the AUROC of σ rises with them."""


@dataclass(frozen=True)
class Run:
    """One training.

    Attributes
    ----------
    kind : Kind
    schedule : Schedule
    seed : int
    profile : {"quick", "paper"}
        Says which images.
    """

    kind: Kind
    schedule: Schedule
    seed: int
    profile: str

    def configuration(self) -> dict[str, Any]:
        """Return what decides the result as plain values; a new word changes nothing where it is not used."""
        parts = {"kind": _words(self.kind), "schedule": _words(self.schedule)}
        return {**parts, "seed": self.seed, "profile": self.profile}

    def __str__(self) -> str:
        words = {name: value for name, value in _words(self.kind).items() if name != "network"}
        said = [name if value is True else f"{name}{value}" for name, value in words.items()]
        return "-".join([self.kind.network, *said, self.schedule.shape, str(self.seed)])


def _words(settings: Any) -> dict[str, Any]:
    """Return the fields of a dataclass that differ from their defaults."""
    values = {field.name: (getattr(settings, field.name), field.default) for field in fields(settings)}
    return {
        name: value for name, (value, default) in values.items() if default is MISSING or value != default
    }
