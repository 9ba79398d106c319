"""`difficulty-study`: measures of uncertainty of several models, compared by their intervals."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np
from sklearn.ensemble import ExtraTreesRegressor
from sklearn.model_selection import KFold

from deltauq.baselines import TreeSpreadRegressor
from deltauq.calibration import Difficulty, choose_delta, quantiles_of_scores
from deltauq.estimators import regression_members
from experiments.intervals import COVERAGE, SMALL, measured
from experiments.regression_tables import TABLES, split_rows, standardized
from experiments.runner import Cell, Experiment, Outcome
from experiments.tables import TableSpec

N_TRAIN = {"quick": (200,), "paper": (200, 1000, 10_000)}
SEEDS = {"quick": range(1), "paper": range(3)}
DATASETS = {"quick": ("yacht",), "paper": TABLES}
FIT_SHARE = 0.6
"""Of the training rows; the others are test rows."""
N_FOLDS = 5

Part = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]
"""Inputs, targets, mean predictions of n rows, and variances of shape (n, 3)."""
Sizes = Callable[[Part, Part, int], tuple[np.ndarray, np.ndarray]]
"""Returns the expected sizes of the errors of the rows that they are learned from, and of new rows."""


def constant(learned: Part, new: Part, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the same size for all rows."""
    return np.ones(len(learned[1])), np.ones(len(new[1]))


def one_variance(k: int) -> Sizes:
    """Return the rule σ + δ for one of the variances."""

    def sizes(learned: Part, new: Part, seed: int) -> tuple[np.ndarray, np.ndarray]:
        _, y, mean, variances = learned
        std = np.sqrt(variances[:, k])
        delta = choose_delta(np.abs(y - mean), std)
        return std + delta, np.sqrt(new[3][:, k]) + delta

    return sizes


def weighted(learned: Part, new: Part, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the root of the weighted variances, the first step of `Difficulty`."""
    X, y, mean, variances = learned
    model = Difficulty(seed).fit(X, mean, variances, np.abs(y - mean))
    old, others = (np.sqrt(model.constant_ + part @ model.weights_) for part in (variances, new[3]))
    return old, others


def forest(learned: Part, new: Part, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the prediction of a forest of the inputs and the mean, the second step of `Difficulty`."""
    X, y, mean, variances = learned
    model = Difficulty(seed).fit(X, mean, 0 * variances, np.abs(y - mean))
    return model.sizes_, model.predict(new[0], new[2], 0 * new[3])


def both(learned: Part, new: Part, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the sizes of `Difficulty`."""
    X, y, mean, variances = learned
    model = Difficulty(seed).fit(X, mean, variances, np.abs(y - mean))
    return model.sizes_, model.predict(new[0], new[2], new[3])


METHODS: dict[str, Sizes] = {
    "constant": constant,
    "anchors": one_variance(0),
    "trees": one_variance(1),
    "disagreement": one_variance(2),
    "weighted": weighted,
    "forest": forest,
    "both": both,
}
LABELS = {
    "anchors": "variance over anchors",
    "trees": "variance over trees",
    "weighted": "weighted variances",
    "forest": "forest of the inputs",
}


def cells(profile: str) -> list[Cell]:
    """Return one cell per trial, number of training rows, table and method."""
    return [
        {"n_train": n_train, "dataset": dataset, "method": method, "seed": seed}
        for seed in SEEDS[profile]
        for n_train in N_TRAIN[profile]
        for dataset in DATASETS[profile]
        if dataset not in SMALL or n_train <= 1000
        for method in METHODS
    ]


def run(cell: Cell, profile: str) -> Outcome:
    """Measure the intervals of one method on training rows that were held out."""
    learned, new = predictions(cell["dataset"], cell["n_train"], cell["seed"])
    old_sizes, sizes = METHODS[cell["method"]](learned, new, cell["seed"])
    tail = (1 - COVERAGE) / 2
    lower, upper = quantiles_of_scores((learned[1] - learned[2]) / old_sizes, [tail, 1 - tail])
    return Outcome(measured(new[1], new[2] + lower * sizes, new[2] + upper * sizes))


@lru_cache(maxsize=1)
def predictions(dataset: int | str, n_train: int, seed: int) -> tuple[Part, Part]:
    """Return the mean predictions of the members of `StackedRegressor`: out-of-fold, and for new rows."""
    rows, _ = split_rows(dataset, seed, n_train)
    n_fit = int(FIT_SHARE * len(rows))
    X, y, X_new, y_new = standardized(dataset, rows[:n_fit], rows[n_fit:])
    folds = list(KFold(N_FOLDS).split(X))  # the rows are in random order
    parts = [_moments(X[train], y[train], X[test], seed) for train, test in folds]
    mean, variances = (np.concatenate(part) for part in zip(*parts, strict=True))
    return (X, y, mean, variances), (X_new, y_new, *_moments(X, y, X_new, seed))


def _moments(X: np.ndarray, y: np.ndarray, X_new: np.ndarray, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the mean of the members, and the variances over anchors, over trees, and between members."""
    means, variances = [], []
    for _, member in regression_members(len(X)):
        member.set_params(**_seed_of(member, seed))
        if isinstance(member, ExtraTreesRegressor):
            member = TreeSpreadRegressor(member, random_state=seed)
        model = member.fit(X, y)
        if hasattr(model, "posterior"):
            posterior = model.posterior(X_new)
            means.append(posterior.mean)
            variances.append(posterior.var)
        else:
            means.append(model.predict(X_new))
    return np.mean(means, axis=0), np.column_stack([*variances, np.var(means, axis=0)])


def _seed_of(member: Any, seed: int) -> dict[str, int]:
    return {name: seed for name in member.get_params() if name.rpartition("__")[2] == "random_state"}


def _tables() -> tuple[TableSpec, ...]:
    return tuple(
        TableSpec(
            f"Interval score relative to constant width, {n_train} rows",
            "interval_score",
            "dataset",
            "method",
            best="min",
            where={"n_train": n_train},
            relative_to="constant",
            labels=LABELS,
        )
        for n_train in N_TRAIN["paper"]
    )


EXPERIMENT = Experiment(
    "difficulty-study",
    2,
    "Expected size of errors of several models",
    cells,
    run,
    tables=_tables(),
    notes=(
        "Members of `StackedRegressor` are fitted to 60 % of the training rows and averaged. The size of "
        "their errors is learned from out-of-fold predictions, and intervals with a nominal coverage of 90 % "
        "are measured on the other training rows; test rows are not used. Single variances: σ + δ with δ by "
        "`choose_delta`. Weighted variances and the forest are the two steps of `Difficulty`: the forest "
        "pays from about 1,000 rows on, the more the larger the table is."
    ),
)
