"""`table5`: OOD detection of SVHN by residual networks trained on CIFAR-10."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from experiments import paper_values
from experiments.image_configs import (
    AVERAGE_MASKED,
    NETWORK,
    SCHEDULES,
    TRAINING_IMAGES,
    AnchorSetting,
    NetworkKind,
    TrainingRun,
)
from experiments.image_data import load_image_set
from experiments.image_logits import logits
from experiments.runner import Cell, Experiment, Outcome
from experiments.scoring import (
    Scorer,
    energy,
    first_alone,
    largest_kernel,
    mean_logits,
    mean_probabilities,
    separation,
    spread_scaled,
)
from experiments.tables import TableSpec

MASK = 0.25
DROPOUT = 0.1
KERNEL_RATE = 0.05
"""Initial learning rate of DUQ; with 0.1 all kernels may vanish."""
N_MEMBERS = 3

PLAIN = NetworkKind("")
ANCHORED = NetworkKind("", anchored=True)
MASKED = NetworkKind("", anchored=True, mask=MASK)
MASKED_ROWS = replace(MASKED, mask_rows=True)
"""The best setting in `anchoring-variants`, on held-out images."""


@dataclass(frozen=True)
class Method:
    """A network and a scorer of its logits.

    Attributes
    ----------
    kind : NetworkKind
        Without the name of the network, which depends on the profile.
    scorer : callable
    seeds : int
        Number of trials in the paper's profile.
    linear : bool
        Whether it is also trained with the second schedule.
    anchors : AnchorSetting
    """

    kind: NetworkKind
    scorer: Scorer
    seeds: int = 3
    linear: bool = False
    anchors: AnchorSetting = TRAINING_IMAGES


METHODS = {
    "plain": Method(PLAIN, mean_logits(1.0), 4, linear=True),
    "scaled": Method(PLAIN, mean_logits(0.5), 4, linear=True),
    "energy": Method(PLAIN, energy, 4),
    "delta-uq": Method(ANCHORED, spread_scaled),
    "delta-mean": Method(ANCHORED, mean_logits(1.0)),
    "delta-mean-scaled": Method(ANCHORED, mean_logits(0.5)),
    "delta-uq-batch": Method(ANCHORED, spread_scaled, 1, anchors=AnchorSetting("paired")),
    "delta-masked": Method(MASKED, spread_scaled, linear=True),
    "delta-masked-mean": Method(MASKED, mean_logits(1.0), linear=True),
    "delta-masked-1": Method(MASKED, first_alone(mean_logits(0.5)), linear=True),
    "delta-masked-rows": Method(MASKED_ROWS, spread_scaled, linear=True),
    "delta-masked-rows-mean": Method(MASKED_ROWS, mean_logits(1.0), linear=True),
    "delta-masked-rows-both": Method(MASKED_ROWS, mean_probabilities, linear=True, anchors=AVERAGE_MASKED),
    "mc-dropout": Method(NetworkKind("", dropout=DROPOUT), mean_probabilities, linear=True),
    "delta-trivial": Method(NetworkKind("", anchored=True, encoding="identity"), spread_scaled),
    "duq": Method(NetworkKind("", kernels=True), largest_kernel),
    # Leaves out one of 4 plain networks in turn.
    "ensemble": Method(PLAIN, mean_probabilities, N_MEMBERS + 1, linear=True),
}
LAST = "ensemble"
"""Needs the networks of several seeds."""


def cells(profile: str) -> list[Cell]:
    """Return one cell per method, schedule and seed, the first seed of every method first."""
    cells = [
        {"method": method, "schedule": schedule, "seed": seed}
        for seed in range(1 if profile == "quick" else N_MEMBERS + 1)
        for method, options in METHODS.items()
        for schedule in ("steps", "linear")
        if seed < options.seeds and (schedule == "steps" or options.linear)
    ]
    last = [] if profile == "quick" else [cell for cell in cells if cell["method"] == LAST]
    return [cell for cell in cells if cell["method"] != LAST] + last


def run(cell: Cell, profile: str) -> Outcome:
    """Measure, after training if no other cell has trained the network."""
    method = METHODS[cell["method"]]
    seeds = [cell["seed"]]
    if cell["method"] == LAST:
        seeds = [seed for seed in range(N_MEMBERS + 1) if seed != cell["seed"]]
    runs = [run_of(method.kind, cell["schedule"], seed, profile) for seed in seeds]
    inside, outside = (
        method.scorer(np.concatenate([logits(member, images, method.anchors) for member in runs]))
        for images in ("test", "svhn")
    )
    return Outcome(separation(inside, outside, load_image_set("test", profile).labels))


def run_of(kind: NetworkKind, schedule: str, seed: int, profile: str) -> TrainingRun:
    """Return the training of a cell."""
    training = SCHEDULES[profile][schedule]
    if kind.kernels:
        training = replace(training, lr=KERNEL_RATE)
    return TrainingRun(replace(kind, network=NETWORK[profile]), training, seed, profile)


def _table(title: str, schedule: str) -> TableSpec:
    return TableSpec(
        title,
        ("auroc", "aupr", "fpr95", "accuracy", "ece"),
        "method",
        best=None,
        paper=paper_values.TABLE5 if schedule == "steps" else {},
        where={"schedule": schedule},
        labels={"energy": "plain, energy"},
        note="SVHN: the first 10,000 of its 26,032 test images.",
    )


EXPERIMENT = Experiment(
    "table5",
    2,
    "CIFAR-10 against SVHN",
    cells,
    run,
    tables=(
        _table("OOD detection of SVHN, and the classifier itself: 85 epochs, the paper's steps", "steps"),
        _table("The same after 40 epochs with a linearly decreasing learning rate", "linear"),
    ),
    notes=(
        "Scores are entropies of the predicted probabilities, except for energy and DUQ, which have their "
        "own; the calibration error is that of the predicted probabilities on clean test images. Anchors "
        "are 10 training images shared by all test images; “own anchors” are 10 training images drawn for "
        "each test image, as in the paper. MC dropout: 10 passes, whole channels dropped at a rate of 0.1 "
        "after every residual block (our choice). DUQ: length scale 0.1, momentum of the centroids 0.999, "
        "gradient penalty 0.5, learning rate 0.05. Networks are evaluated in float32. Masked anchors are "
        "better than all other methods; Δ-UQ gains by the factor 0.5, not by σ."
    ),
)
