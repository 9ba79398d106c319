"""`uci-study`: how an anchored perceptron is best trained, inside training rows of `uci`'s first split."""

from __future__ import annotations

from typing import Any

import numpy as np

from deltauq.data.uci import UCI
from deltauq.experiments.runner import Cell, Experiment, Outcome
from deltauq.experiments.uci import NETWORKS, AnchoredPerceptron, measure, uci_table
from deltauq.report import TableView

SETTINGS: dict[str, dict[str, Any]] = {
    "one": {},
    "one-pretrained": {"init": "pretrained"},
    "four": {"per_step": 4},
    "four-pretrained": {"init": "pretrained", "per_step": 4},
    "four-pretrained-consistent": {"init": "pretrained", "per_step": 4, "consistency": 1.0},
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
    words = SETTINGS[cell["method"]]
    return measure(cell, profile, table, rows[n:], rows[:n], lambda make: AnchoredPerceptron(make, **words))


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
        "further loss."
    ),
)
