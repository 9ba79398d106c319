"""`uci-study`: training of an anchored perceptron, on training rows of the first split of `uci`."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from deltauq.data import UCI
from experiments.runner import Cell, Experiment, Outcome
from experiments.tables import TableSpec
from experiments.uci import N_SAMPLES, NETWORKS, AnchoredPerceptron, WithLoss, measure, uci_table

FOUR: dict[str, Any] = {"init": "pretrained", "per_step": 4}
ANCHORED: dict[str, dict[str, Any]] = {
    "one": {},
    "one-pretrained": {"init": "pretrained"},
    "four": {"per_step": 4},
    "four-pretrained": FOUR,
    "four-pretrained-consistent": {**FOUR, "consistency": 1.0},
    "eight-pretrained": {"init": "pretrained", "per_step": 8},
    "four-decay-0.1": {**FOUR, "decay": 0.1},
    "four-decay-0.3": {**FOUR, "decay": 0.3},
    "four-decay-1": {**FOUR, "decay": 1.0},
    "four-dropout-0.02": {**FOUR, "dropout": 0.02},
    "four-dropout-0.05": {**FOUR, "dropout": 0.05},
    "four-dropout-0.1": {**FOUR, "dropout": 0.1},
    "one-log": {"loss": "log"},
    "one-pretrained-log": {"init": "pretrained", "loss": "log"},
    "four-log": {"per_step": 4, "loss": "log"},
    "four-pretrained-log": {**FOUR, "loss": "log"},
    "eight-pretrained-log": {"init": "pretrained", "per_step": 8, "loss": "log"},
    "four-decay-0.3-log": {**FOUR, "decay": 0.3, "loss": "log"},
    "four-decay-1-log": {**FOUR, "decay": 1.0, "loss": "log"},
    "four-dropout-0.05-log": {**FOUR, "dropout": 0.05, "loss": "log"},
}
DIFFERENCE: dict[str, Any] = {"target": "difference"}
FULL: dict[str, Any] = {**DIFFERENCE, "encoding": "full"}
LABELLED: dict[str, dict[str, Any]] = {
    "labelled-log": {**DIFFERENCE, "loss": "log"},
    "labelled-pretrained-log": {**DIFFERENCE, "init": "pretrained", "loss": "log"},
    "labelled-four-log": {**DIFFERENCE, "per_step": 4, "loss": "log"},
    "labelled-full": FULL,
    "labelled-full-log": {**FULL, "loss": "log"},
    "labelled-full-pretrained-log": {**FULL, "init": "pretrained", "loss": "log"},
    "labelled-full-four-log": {**FULL, "per_step": 4, "loss": "log"},
}
MC_DROPOUT: dict[str, tuple[float, str]] = {
    "mc-dropout-0.02": (0.02, "squared"),
    "mc-dropout-0.05": (0.05, "squared"),
    "mc-dropout-0.1": (0.1, "squared"),
    "mc-dropout-0.2": (0.2, "squared"),
    "mc-dropout-0.02-log": (0.02, "log"),
    "mc-dropout-0.05-log": (0.05, "log"),
    "mc-dropout-0.1-log": (0.1, "log"),
}
SVI_PRIORS = {"svi-prior-0.3": 0.3, "svi-prior-1": 1.0, "svi-prior-3": 3.0}
SETTINGS = (*ANCHORED, *MC_DROPOUT, *SVI_PRIORS, *LABELLED)
DATASETS = {"quick": ("yacht",), "paper": tuple(name for name in UCI if name != "protein")}
SEEDS = {"quick": range(1), "paper": range(3)}
VALIDATED = 0.2
"""Share of the training rows that is used for testing."""


def cells(profile: str) -> list[Cell]:
    """Return one cell per table, network, setting and draw of the rows."""
    return [
        {"dataset": dataset, "network": network, "method": setting, "seed": seed}
        for seed in SEEDS[profile]
        for dataset in DATASETS[profile]
        for network in NETWORKS
        for setting in SETTINGS
    ]


def run(cell: Cell, profile: str) -> Outcome:
    """Measure a setting as `uci` does, on held-out training rows."""
    table = uci_table(cell["dataset"])
    rows = np.random.default_rng(1000 + cell["seed"]).permutation(table.splits[0][0])
    n = int(VALIDATED * len(rows))
    setting = cell["method"]
    calibration = "noise" if setting in MC_DROPOUT or setting in SVI_PRIORS else "scale"
    return measure(cell, profile, table, rows[n:], rows[:n], partial(make_model, setting), calibration)


def make_model(setting: str, make: Callable[[], Any]) -> Any:
    """Return an unfitted model; see `measure`."""
    from deltauq.baselines import SVI, MCDropout
    from deltauq.nn import MLP

    if setting in MC_DROPOUT:
        rate, loss = MC_DROPOUT[setting]
        return WithLoss(MCDropout(make, rate, N_SAMPLES), loss)
    if setting in SVI_PRIORS:
        return SVI(make, SVI_PRIORS[setting], n_samples=N_SAMPLES)
    options = dict((ANCHORED | LABELLED)[setting])
    rate = options.pop("dropout", 0.0)
    return AnchoredPerceptron(lambda: MLP(**{**make().config, "dropout": rate}), **options)


EXPERIMENT = Experiment(
    "uci-study",
    2,
    "How to train an anchored perceptron",
    cells,
    run,
    tables=tuple(
        TableSpec(
            f"{metric}, network {network}",
            metric,
            "dataset",
            "method",
            best="min",
            where={"network": network},
        )
        for network in NETWORKS
        for metric in ("crps", "rmse")
    ),
    notes=(
        "Training rows of the first standard split only. pretrained: both halves of the first layer start "
        "with the same weights, so that the network starts as a function of X alone. four: every row has "
        "four anchors per step, in one pass. consistent: the variance over them is an additional loss. "
        "decay, dropout: in training, pretrained and with four anchors; prediction is without dropout. log: "
        "the loss is the logarithm of the squared error. labelled: the network learns the difference from "
        "the anchor's target, with one anchor per step; full: of [R, X, X − R] instead of [R, X − R]. "
        "Dropout rates of MC dropout and priors of SVI are compared on the same rows."
    ),
)
