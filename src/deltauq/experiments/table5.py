"""`table5`: telling SVHN from CIFAR-10 by residual networks trained on the latter."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from scipy.special import logsumexp, softmax

from deltauq.calibration import scale_logits
from deltauq.core import StreamingPosterior
from deltauq.experiments import labels, paper
from deltauq.experiments.image_runs import SIZES, Kind, Schedule, outputs, pictures
from deltauq.experiments.runner import Cell, Experiment, Outcome
from deltauq.metrics import accuracy, aupr, auroc, ece, entropy, fpr95
from deltauq.report import TableView

NETWORK = {"quick": "ResNet20", "paper": "ResNet18"}
SCHEDULE = {
    "quick": Schedule({"epochs": 2, "batch_size": 128, "optimizer": "sgd", "lr": 0.05}),
    "paper": Schedule(
        {
            "epochs": 85,
            "batch_size": 128,
            "optimizer": "sgd",
            "lr": 0.1,
            "momentum": 0.9,
            "weight_decay": 5e-4,
            "schedule": "steps",
            "milestones": (25, 50, 75),
            "gamma": 0.2,
        }
    ),
}
MASK = 0.25
N_MEMBERS = 3


@dataclass(frozen=True)
class Judgement:
    """What a method says about images.

    Attributes
    ----------
    probabilities : array of shape (n, 10)
    score : array of shape (n,)
        The higher, the stranger.
    """

    probabilities: np.ndarray
    score: np.ndarray


def by_entropy(probabilities: np.ndarray) -> Judgement:
    """Return the judgement whose score is the entropy of the probabilities."""
    return Judgement(probabilities, entropy(probabilities))


def mean_logits(scale: float) -> Callable[[np.ndarray], Judgement]:
    """Return the method that scales the mean of the logits, of shape (K, n, 10), by a constant."""
    return lambda logits: by_entropy(softmax(scale * logits.mean(axis=0), axis=-1))


def spread_scaled(logits: np.ndarray) -> Judgement:
    """Return Δ-UQ's judgement: mean logits times 0.5 − σ², with σ² the variance of their sigmoids."""
    stream = StreamingPosterior("sigmoid")
    for under_one_anchor in logits:
        stream.update(under_one_anchor)
    return by_entropy(softmax(scale_logits(stream.posterior()), axis=-1))


def mean_probabilities(logits: np.ndarray) -> Judgement:
    """Return the judgement of an ensemble: the mean of the members' probabilities."""
    return by_entropy(softmax(logits, axis=-1).mean(axis=0))


def energy(logits: np.ndarray) -> Judgement:
    """Return the judgement whose score is the free energy, −log Σ exp(logits)."""
    logits = logits.mean(axis=0)
    return Judgement(softmax(logits, axis=-1), -logsumexp(logits, axis=-1))


# Method to the kind of network behind it and what is done with its logits.
METHODS: dict[str, tuple[Kind, Callable[[np.ndarray], Judgement]]] = {
    "plain": (Kind(""), mean_logits(1.0)),
    "scaled": (Kind(""), mean_logits(0.5)),
    "energy": (Kind(""), energy),
    "delta-mean": (Kind("", anchored=True), mean_logits(1.0)),
    "delta-mean-scaled": (Kind("", anchored=True), mean_logits(0.5)),
    "delta-uq": (Kind("", anchored=True), spread_scaled),
    "delta-masked": (Kind("", anchored=True, mask=MASK), spread_scaled),
    "delta-trivial": (Kind("", anchored=True, encoding="identity"), spread_scaled),
    "ensemble": (Kind(""), mean_probabilities),
}
SEEDS = {"plain": 4, "scaled": 4, "energy": 4, "ensemble": 4}
"""Trials of the paper's profile, where they are not 3; an ensemble leaves out one of 4 networks in turn."""


def cells(profile: str) -> list[Cell]:
    """Return one cell per method and seed, the first seed of every method first."""
    if profile == "quick":
        return [{"method": method, "seed": 0} for method in METHODS if method != "ensemble"]
    return [
        {"method": method, "seed": seed}
        for seed in range(4)
        for method in METHODS
        if seed < SEEDS.get(method, 3)
    ]


def run(cell: Cell, profile: str) -> Outcome:
    """Train, unless another cell has, and measure."""
    kind, judge = METHODS[cell["method"]]
    kind = replace(kind, network=NETWORK[profile])
    seeds = [cell["seed"]]
    if cell["method"] == "ensemble":
        seeds = [seed for seed in range(N_MEMBERS + 1) if seed != cell["seed"]]
    logits = [_logits(kind, seed, profile) for seed in seeds]
    inside, outside = (
        judge(np.concatenate([found[name] for found in logits]).astype(np.float64))
        for name in ("test", "svhn")
    )
    y = pictures("cifar10-test", SIZES[profile][1])[1]
    return Outcome(
        {
            "auroc": auroc(inside.score, outside.score),
            "aupr": aupr(inside.score, outside.score),
            "fpr95": fpr95(inside.score, outside.score),
            "accuracy": accuracy(y, inside.probabilities),
            "ece": ece(y, inside.probabilities),
        }
    )


def _logits(kind: Kind, seed: int, profile: str) -> dict[str, np.ndarray]:
    n = SIZES[profile][1]
    sets = {
        "test": lambda: pictures("cifar10-test", n)[0],
        "svhn": lambda: pictures("svhn-test10k", n)[0],
    }
    return outputs(kind, SCHEDULE[profile], seed, profile, sets)


EXPERIMENT = Experiment(
    "table5",
    1,
    "CIFAR-10 against SVHN",
    cells,
    run,
    tables=(
        TableView(
            "Telling SVHN from CIFAR-10, and the classifier itself",
            ("auroc", "aupr", "fpr95", "accuracy", "ece"),
            "method",
            best=None,
            paper=paper.TABLE5,
            labels=labels.LABELS,
            note="SVHN: the first 10,000 of its 26,032 test images.",
        ),
    ),
)
