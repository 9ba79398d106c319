"""`table2-study`: pairing of rows and anchors in training, and number of anchors, on training rows.

Only folds of the training rows of each trial of `table2` (`base-estimators` for the large size) are used.
The training rows of one trial are test rows of others, so small differences must not decide. It confirmed the
default.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.ensemble import RandomForestRegressor
from sklearn.model_selection import KFold

from deltauq.estimators import AnchoredRegressor
from deltauq.metrics import mae, spearman
from experiments.runner import Cell, Experiment, Outcome
from experiments.table2 import N_TREES, REGRESSION, REGRESSION_NAMES, openml_table, split
from experiments.tables import TableSpec

SEEDS = {200: range(5), 2000: range(2)}
FOLDS = {200: 4, 2000: 4}
N_ANCHORS = 100
MORE_ANCHORS = 200
# "all": every row of the fold's training part.
TRAIN_ANCHORS = {200: (20, 50, 100, "all"), 2000: (20, 50, 100)}
DATASETS = {"quick": (216, 41539), "paper": REGRESSION}
SIZES = {"quick": (200,), "paper": (200, 2000)}


# Candidates that were equal on the first partition into folds are measured on three more.
CANDIDATES = (50, 75, 100, "all")
MORE_PARTITIONS = {"quick": range(0), "paper": range(1, 4)}


def cells(profile: str) -> list[Cell]:
    """Return one cell per size, dataset, pairing, number of anchors and trial; additional partitions last."""
    return _first_partition(profile) + [
        {
            "n_train": 200,
            "dataset": dataset,
            "pairing": "shared",
            "n_train_anchors": m,
            "n_anchors": N_ANCHORS,
            "partition": partition,
            "seed": seed,
        }
        for partition in MORE_PARTITIONS[profile]
        for seed in SEEDS[200]
        for dataset in DATASETS[profile]
        for m in CANDIDATES
    ]


def _first_partition(profile: str) -> list[Cell]:
    return [
        {
            "n_train": size,
            "dataset": dataset,
            "pairing": pairing,
            "n_train_anchors": m,
            "n_anchors": k,
            "seed": seed,
        }
        for size in SIZES[profile]
        for seed in SEEDS[size]
        for dataset in DATASETS[profile]
        for m in TRAIN_ANCHORS[size]
        for pairing in ("shared", "random")
        for k in (N_ANCHORS, MORE_ANCHORS)
        if k == N_ANCHORS or (pairing, m) == ("shared", "all")
    ]


def run(cell: Cell, profile: str) -> Outcome:
    """Measure a pairing on folds of training rows; on one fold only for the large size, to save time."""
    table = openml_table(cell["dataset"])
    rows = split(table, cell["seed"], None, n_train=cell["n_train"])[0]
    X, y = table.X[rows], table.y[rows]
    state = cell["seed"] + 1000 * cell.get("partition", 0)
    folds = KFold(FOLDS[cell["n_train"]], shuffle=True, random_state=state)
    errors, ranks = [], []
    for train, test in list(folds.split(X))[: 1 if cell["n_train"] > 200 else None]:
        model = AnchoredRegressor(
            RandomForestRegressor(N_TREES),
            target="value",
            n_train_anchors=len(train) if cell["n_train_anchors"] == "all" else cell["n_train_anchors"],
            n_anchors=cell["n_anchors"],
            random_state=cell["seed"],
        )
        posterior = model.fit(X[train], y[train]).posterior(X[test])
        errors.append(mae(y[test], posterior.mean))
        ranks.append(spearman(posterior.std, y[test] - posterior.mean))
    return Outcome({"mae": float(np.mean(errors)), "spearman": float(np.mean(ranks))})


def _tables(size: int) -> tuple[TableSpec, ...]:
    metrics: tuple[Any, ...] = (("spearman", "Spearman(σ, |error|)", "max"), ("mae", "MAE", "min"))
    return tuple(
        TableSpec(
            f"{title}, {size} rows, {pairing} pairing, by anchors per row",
            metric,
            "dataset",
            "n_train_anchors",
            best=best,
            where={"n_train": size, "pairing": pairing, "n_anchors": N_ANCHORS, "partition": None},
            mean_over=REGRESSION_NAMES if metric == "spearman" else (),
        )
        for metric, title, best in metrics
        for pairing in ("shared", "random")
    )


def _partitions() -> tuple[TableSpec, ...]:
    """Return a table of the candidates for each additional partition."""
    return tuple(
        TableSpec(
            f"Spearman(σ, |error|), 200 rows, shared pairing, partition {partition} into folds",
            "spearman",
            "dataset",
            "n_train_anchors",
            where={"partition": partition},
            mean_over=REGRESSION_NAMES,
        )
        for partition in MORE_PARTITIONS["paper"]
    )


EXPERIMENT = Experiment(
    "table2-study",
    1,
    "Pairing and numbers of anchors, on training rows",
    cells,
    run,
    cannot_rerun=lambda cell: cell["pairing"] == "random",
    tables=_tables(200) + _partitions() + _tables(2000),
    notes=(
        "Rows that share their anchors do better than rows with anchors of their own, at both sizes, and "
        "are far more accurate at the large one: shared pairing is the default. At 200 rows 100 anchors and "
        "all rows are equal over four partitions into folds, and fewer anchors are slightly worse; at 2000 "
        "rows 20, 50 and 100 are equal. n_train_anchors therefore stays at all pairs up to 316 rows, then "
        "100,000 // n. Training rows of one trial are test rows of another, so small differences were "
        "ignored."
    ),
)
