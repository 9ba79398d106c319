"""`table1-study`: the sizes and the domain at which the paper's order of encodings appears.

The paper gives neither. The seeds are others than those of `table1`.
"""

from __future__ import annotations

from deltauq.data.functions import FUNCTIONS
from deltauq.experiments.runner import Cell, Experiment, Outcome
from deltauq.experiments.table1 import DIMENSIONS, ENCODINGS, measure

SEEDS = {"quick": range(100, 101), "paper": range(100, 103)}
SIZES = {"quick": (200,), "paper": (100, 200, 500, 1000, 2000)}
SHARES = {"quick": (1.0,), "paper": (0.15, 0.5, 1.0)}
"""Of the function's usual domain."""
N_TEST = 1000


def cells(profile: str) -> list[Cell]:
    """Return one cell per function, dimension, size, domain, encoding and seed."""
    return [
        {
            "function": f"{function}-{dimension}d",
            "n_train": n_train,
            "share": share,
            "encoding": encoding,
            "seed": seed,
        }
        for n_train in SIZES[profile]
        for seed in SEEDS[profile]
        for function in FUNCTIONS
        for dimension in DIMENSIONS
        for share in SHARES[profile]
        for encoding in ENCODINGS
    ]


def run(cell: Cell, profile: str) -> Outcome:
    """Measure one configuration with the default pairing."""
    return measure(cell, n_train=cell["n_train"], n_test=N_TEST, n_train_anchors="auto", share=cell["share"])


EXPERIMENT = Experiment("table1-study", 1, "Sizes and domains for the choice of encoding", cells, run)
