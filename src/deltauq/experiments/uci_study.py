"""`uci-study`: how an anchored perceptron is best trained, inside training rows of `uci`'s first split."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from deltauq.data.uci import UCI
from deltauq.experiments.runner import Cell, Experiment, Outcome
from deltauq.experiments.uci import N_SAMPLES, NETWORKS, AnchoredPerceptron, measure, uci_table
from deltauq.report import TableView

FOUR: dict[str, Any] = {"init": "pretrained", "per_step": 4}
SETTINGS: dict[str, Callable[[Any], Any]] = {
    "one": lambda make: AnchoredPerceptron(make),
    "one-pretrained": lambda make: AnchoredPerceptron(make, init="pretrained"),
    "four": lambda make: AnchoredPerceptron(make, per_step=4),
    "four-pretrained": lambda make: AnchoredPerceptron(make, **FOUR),
    "four-pretrained-consistent": lambda make: AnchoredPerceptron(make, **FOUR, consistency=1.0),
    "eight-pretrained": lambda make: AnchoredPerceptron(make, init="pretrained", per_step=8),
    "four-decay-0.1": lambda make: AnchoredPerceptron(make, **FOUR, decay=0.1),
    "four-decay-0.3": lambda make: AnchoredPerceptron(make, **FOUR, decay=0.3),
    "four-decay-1": lambda make: AnchoredPerceptron(make, **FOUR, decay=1.0),
    "four-dropout-0.02": lambda make: AnchoredPerceptron(lambda: _dropping(make, 0.02), **FOUR),
    "four-dropout-0.05": lambda make: AnchoredPerceptron(lambda: _dropping(make, 0.05), **FOUR),
    "four-dropout-0.1": lambda make: AnchoredPerceptron(lambda: _dropping(make, 0.1), **FOUR),
    "mc-dropout-0.02": lambda make: _mc_dropout(make, 0.02),
    "mc-dropout-0.05": lambda make: _mc_dropout(make, 0.05),
    "mc-dropout-0.1": lambda make: _mc_dropout(make, 0.1),
    "mc-dropout-0.2": lambda make: _mc_dropout(make, 0.2),
    "svi-prior-0.3": lambda make: _svi(make, 0.3),
    "svi-prior-1": lambda make: _svi(make, 1.0),
}
DATASETS = {"quick": ("yacht",), "paper": tuple(name for name in UCI if name != "protein")}
SEEDS = {"quick": range(1), "paper": range(3)}
VALIDATED = 0.2
"""Share of the training rows that stand for the test rows here."""


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
    """Measure a setting as `uci` does, on training rows put aside."""
    table = uci_table(cell["dataset"])
    rows = np.random.default_rng(1000 + cell["seed"]).permutation(table.splits[0][0])
    n = int(VALIDATED * len(rows))
    make_model = SETTINGS[cell["method"]]
    calibration = "noise" if cell["method"].startswith(("mc-dropout", "svi")) else "scale"
    return measure(cell, profile, table, rows[n:], rows[:n], make_model, calibration)


def _dropping(make: Callable[[], Any], rate: float) -> Any:
    """Return a network with dropout in training, which is off in prediction."""
    from deltauq.nn.networks import MLP

    return MLP(**{**make().config, "dropout": rate})


def _mc_dropout(make: Callable[[], Any], rate: float) -> Any:
    from deltauq.baselines import MCDropout

    return MCDropout(make, rate, N_SAMPLES)


def _svi(make: Callable[[], Any], prior_std: float) -> Any:
    from deltauq.baselines import SVI

    return SVI(make, prior_std, n_samples=N_SAMPLES)


EXPERIMENT = Experiment(
    "uci-study",
    2,
    "How to train an anchored perceptron",
    cells,
    run,
    tables=tuple(
        TableView(
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
        "Rows of the first standard split's training part only. pretrained: both halves of the first layer "
        "begin with the same weights, so that the network begins as a function of X alone. four: every row "
        "meets four anchors in a step, in one pass. consistent: with the variance over them as a "
        "further loss. decay, dropout: in training, pretrained and with four anchors; prediction is without "
        "dropout. The rates of MC dropout and the priors of SVI are tried beside, on the same rows."
    ),
)
