"""`table2`: regression on nine OpenML tables with forests of five trees and 200 training rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from sklearn.ensemble import RandomForestRegressor

from deltauq.baselines import (
    DEUPRegressor,
    EnsembleRegressor,
    NGBoostRegressor,
    PlainRegressor,
    QuantileForestRegressor,
    TreeSpreadRegressor,
)
from deltauq.data import OPENML, Table, load_openml
from deltauq.estimators import AnchoredRegressor
from deltauq.metrics import coverage, mae, rmse, spearman, width
from deltauq.plots import Figure
from experiments import paper_values
from experiments.figures import dot_figure, relative_to
from experiments.runner import Cell, Experiment, Outcome
from experiments.store import ResultLine
from experiments.tables import TableSpec

N_TRAIN, N_VALIDATION, N_TREES = 200, 100, 5
SEEDS = {"quick": range(2), "paper": range(5)}
DATASETS = {"quick": (216, 1199, 41539), "paper": tuple(OPENML)}
# compas-two-years (42193) has a binary target: it is in the tables, but not in the means.
REGRESSION = tuple(dataset for dataset in OPENML if dataset != 42193)
REGRESSION_NAMES = tuple(map(str, REGRESSION))
MAX_TEST_ROWS = {"quick": 3000, "paper": None}


def full_pairs(n_rows: int) -> int:
    """Return M of the paper's forests: all rows, but at most 100,000 pairs, and at least 20."""
    return min(n_rows, max(20, 100_000 // n_rows))


METHODS: dict[str, Callable[[int], Any]] = {
    "delta-uq": lambda seed: AnchoredRegressor(
        RandomForestRegressor(N_TREES),
        target="value",
        n_train_anchors=full_pairs(N_TRAIN),
        random_state=seed,
    ),
    "delta-labelled": lambda seed: AnchoredRegressor(
        RandomForestRegressor(N_TREES), encoding="full", random_state=seed
    ),
    "delta-labelled-difference": lambda seed: AnchoredRegressor(
        RandomForestRegressor(N_TREES), encoding="difference", random_state=seed
    ),
    "ensemble": lambda seed: EnsembleRegressor(RandomForestRegressor(N_TREES), 3, random_state=seed),
    "deup": lambda seed: DEUPRegressor(RandomForestRegressor(N_TREES), random_state=seed),
    "plain": lambda seed: PlainRegressor(RandomForestRegressor(N_TREES), random_state=seed),
    "tree-spread-5": lambda seed: TreeSpreadRegressor(RandomForestRegressor(N_TREES), random_state=seed),
    "tree-spread-100": lambda seed: TreeSpreadRegressor(RandomForestRegressor(100), random_state=seed),
    "quantile-forest": lambda seed: QuantileForestRegressor(random_state=seed),
    "ngboost": lambda seed: NGBoostRegressor(random_state=seed),
}
NOT_DRAWN = ("delta-labelled-difference", "tree-spread-5")
"""Variants of other methods; a figure has at most eight."""


def split(
    table: Table, seed: int, max_test_rows: int | None, n_train: int = N_TRAIN
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return training, validation and test rows; the same for every method.

    Only DEUP uses the validation rows; no method is tested on them.
    """
    order = np.random.default_rng(seed).permutation(len(table.y))
    train, validation, test = np.split(order, [n_train, n_train + N_VALIDATION])
    return train, validation, test[:max_test_rows]


def cells(profile: str) -> list[Cell]:
    """Return one cell per dataset, method and trial."""
    return [
        {"dataset": dataset, "method": method, "seed": seed}
        for seed in SEEDS[profile]
        for dataset in DATASETS[profile]
        for method in METHODS
    ]


def run(cell: Cell, profile: str) -> Outcome:
    """Fit one method on one split and measure it on the test rows."""
    table = openml_table(cell["dataset"])
    train, validation, test = split(table, cell["seed"], MAX_TEST_ROWS[profile])
    model = METHODS[cell["method"]](cell["seed"])
    extra = (table.X[validation], table.y[validation]) if cell["method"] == "deup" else ()
    model.fit(table.X[train], table.y[train], *extra)
    posterior = model.posterior(table.X[test])
    y, error = table.y[test], table.y[test] - posterior.mean
    metrics = {"mae": mae(y, posterior.mean), "rmse": rmse(y, posterior.mean)}
    if cell["method"] != "plain":
        metrics["spearman"] = spearman(posterior.std, error)
        metrics["coverage"] = coverage(y, posterior.mean, posterior.std)
        metrics["width"] = width(posterior.std)
    return Outcome(metrics)


@lru_cache(maxsize=2)
def openml_table(dataset: int) -> Table:
    """Return a table; consecutive cells use the same one."""
    return load_openml(dataset)


def figures(lines: Sequence[ResultLine]) -> list[Figure]:
    """Return ranking by method, and accuracy relative to the plain forest."""
    lines = [line for line in lines if line.cell["method"] not in NOT_DRAWN]
    return [
        dot_figure(
            lines,
            "spearman",
            rows="dataset",
            series="method",
            title="Does σ rank the errors?",
            caption="1: perfectly. 0: not at all. Bars: one standard deviation over the trials.",
            x_title="rank correlation of σ with the error",
        ),
        dot_figure(
            # DEUP predicts as the plain forest does: its ratio is 1 by construction.
            relative_to(lines, "mae", key="method", reference="plain", without=("deup",)),
            "mae",
            rows="dataset",
            series="method",
            title="Error relative to the plain forest",
            caption="Left of the dotted line: better than the plain forest of the same split. DEUP "
            "predicts as the plain forest does and is left out.",
            x_title="MAE / MAE of the plain forest",
            reference=1.0,
        ),
    ]


EXPERIMENT = Experiment(
    "table2",
    1,
    "Regression on OpenML tables",
    cells,
    run,
    tables=(
        TableSpec(
            "Rank correlation of σ with the error",
            "spearman",
            rows="dataset",
            columns="method",
            paper=paper_values.TABLE2_SPEARMAN,
            mean_over=REGRESSION_NAMES,
        ),
        TableSpec(
            "Mean absolute error",
            "mae",
            rows="dataset",
            columns="method",
            best="min",
            paper=paper_values.TABLE2_MAE,
            note="42193 has a binary target: the paper's errors of about 3 cannot come from it.",
        ),
        TableSpec(
            "Coverage of intervals, nominal 90 %",
            "coverage",
            rows="dataset",
            columns="method",
            best=None,
            note="Before any calibration, μ ± 1.645σ.",
        ),
    ),
    figures=figures,
    notes=(
        "Forests of 5 trees on 200 rows, unless a method's name says otherwise; DEUP uses 100 additional "
        "rows. The paper gives neither its splits nor its encoding of categorical columns. Δ-UQ ranks errors "
        "better than the ensemble and DEUP on most tables, as in the paper, but its mean correlation over "
        "the eight regression tables is below the paper's and below 0.5. `table2-study` and "
        "`ablation-anchors` exclude the pairing and the numbers of anchors as the reason; the mean varies "
        "between trials by about this difference. The spread of the trees of a larger forest ranks errors as "
        "well or better on most tables, and on two tables the plain forest predicts better than the anchored "
        "one. Labelled anchors: [R, X, X − R], which ranks errors better in `targets-study`, and [R, X − R], "
        "the default for forests, whose error is smaller there. The first ranks errors as well as the "
        "paper's method does in the paper, and about as well as 100 trees' spread, with a smaller error than "
        "the ensemble on seven of the eight tables."
    ),
)
