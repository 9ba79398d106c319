"""`targets-study`: target, encoding, M and aggregation of anchored regressors, on training rows."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.model_selection import KFold

from deltauq.estimators import AnchoredRegressor
from deltauq.metrics import mae, spearman
from experiments.regression_tables import BASES, TABLES, split_rows, standardized
from experiments.runner import Cell, Experiment, Outcome
from experiments.table2 import REGRESSION
from experiments.tables import TableSpec

SIZES = {"quick": (200,), "paper": (200, 1000)}
SEEDS = {"quick": range(1), "paper": range(5)}
DATASETS = {"quick": (216, "yacht"), "paper": TABLES}
STUDIED = ("tree", "forest-5", "extra-trees-10", "boosting", "knn", "svr", "mlp")
FORMS = (
    ("value", "difference"),
    ("value", "full"),
    ("difference", "difference"),
    ("difference", "full"),
    ("difference", "identity"),
)
"""Targets and encodings."""
N_ANCHORS = 50
"""K, and M where it is not varied."""
TRAIN_ANCHORS = (5, 10, 20, 100)
"""Other M, for labelled anchors of these base estimators."""
VARIED = ("forest-5", "boosting")
MAX_PAIRS = {"svr": 10_000}
"""Largest number of pairs, the default of `AnchoredRegressor` for support vector machines."""
NEARNESS = 1.0
"""Anchors are weighted by exp(-distance / NEARNESS), in units of the median distance to the anchors."""
N_FOLDS = 4
BOOSTING_SIZES = {
    "plain": (0, 1, 1),
    "plain, 2 x 2": (0, 2, 2),
    "20 anchors": (20, 1, 1),
    "50 anchors": (50, 1, 1),
    "20 anchors, 2 x 1": (20, 2, 1),
    "5 anchors, 2 x 2": (5, 2, 2),
    "20 anchors, 2 x 2": (20, 2, 2),
    "50 anchors, 2 x 2": (50, 2, 2),
    "5 anchors, 4 x 2": (5, 4, 2),
}
"""M, and factors of the iterations and of the leaves per tree, of boosting."""
FOREST_COLUMNS = {
    "plain": ("", 1.0),
    "difference": ("difference", 1.0),
    "difference, half": ("difference", 0.5),
    "full": ("full", 1.0),
    "full, half": ("full", 0.5),
    "full, third": ("full", 1 / 3),
}
"""Encoding, and share of the columns among which a forest of five trees chooses a split."""
FOREST_ROWS = (200, 1000)
N_FOREST_ANCHORS, MIN_PAIRS_PER_LEAF = 100, 3
SIZE_SEEDS = {200: range(3), 1000: range(2), 8000: range(1)}
LARGE = (*REGRESSION, "kin8nm", "naval", "power", "protein")
"""Tables with thousands of rows, the only ones with 8000."""


def cells(profile: str) -> list[Cell]:
    """Return one cell per number of rows, dataset, base estimator, form, M and trial, and those of sizes."""
    sizes: list[Cell] = [
        {
            "part": "size",
            "n_train": n_train,
            "dataset": dataset,
            "setting": setting,
            "seed": seed,
        }
        for n_train, seeds in SIZE_SEEDS.items()
        for seed in seeds
        for dataset in (LARGE if n_train > max(SIZES["paper"]) else TABLES)
        for setting in BOOSTING_SIZES
    ]
    columns: list[Cell] = [
        {"part": "columns", "n_train": n_train, "dataset": dataset, "setting": setting, "seed": seed}
        for n_train in FOREST_ROWS
        for seed in SIZE_SEEDS[n_train]
        for dataset in TABLES
        for setting in FOREST_COLUMNS
    ]
    return (sizes + columns if profile == "paper" else []) + [
        {
            "n_train": n_train,
            "dataset": dataset,
            "base": base,
            "target": target,
            "encoding": encoding,
            "n_train_anchors": m,
            "seed": seed,
        }
        for seed in SEEDS[profile]
        for n_train in SIZES[profile]
        for dataset in DATASETS[profile]
        for base in STUDIED
        for target, encoding in FORMS
        for m in (N_ANCHORS, *TRAIN_ANCHORS)
        if m == N_ANCHORS or (base in VARIED and target == "difference" and encoding != "identity")
    ]


def run(cell: Cell, profile: str) -> Outcome:
    """Fit to three quarters of the training rows, and measure on the others."""
    rows, _ = split_rows(cell["dataset"], cell["seed"], cell["n_train"])
    train, test = next(KFold(N_FOLDS, shuffle=True, random_state=cell["seed"]).split(rows))
    X, y, X_test, y_test = standardized(cell["dataset"], rows[train], rows[test])
    if "part" not in cell:
        return _run_form(cell, X, y, X_test, y_test)
    if cell["part"] == "size":
        n_anchors, iterations, leaves = BOOSTING_SIZES[cell["setting"]]
        base = BASES["boosting"](cell["seed"])
        base.set_params(max_iter=iterations * base.max_iter, max_leaf_nodes=leaves * base.max_leaf_nodes)
        encoding = "full" if n_anchors else ""
    else:
        encoding, max_features = FOREST_COLUMNS[cell["setting"]]
        base = BASES["forest-5"](cell["seed"]).set_params(max_features=max_features)
        base.set_params(min_samples_leaf=MIN_PAIRS_PER_LEAF if encoding else 1)
        n_anchors = N_FOREST_ANCHORS
    start = time.perf_counter()
    metrics: dict[str, float] = {}
    if encoding:
        model = AnchoredRegressor(
            base,
            encoding=encoding,
            n_anchors=N_ANCHORS,
            n_train_anchors=n_anchors,
            random_state=cell["seed"],
        ).fit(X, y)
        posterior = model.posterior(X_test)
        mean = posterior.mean
        metrics["spearman"] = _spearman(posterior.std, y_test - mean)
    else:
        mean = base.fit(X, y).predict(X_test)
    return Outcome({"mae": mae(y_test, mean), "seconds": time.perf_counter() - start, **metrics})


def _run_form(cell: Cell, X: np.ndarray, y: np.ndarray, X_test: np.ndarray, y_test: np.ndarray) -> Outcome:
    """Measure several means over anchors."""
    base = BASES[cell["base"]](cell["seed"])
    plain = mae(y_test, clone(base).fit(X, y).predict(X_test))
    most = MAX_PAIRS.get(cell["base"])
    n_anchors = cell["n_train_anchors"] if most is None else min(cell["n_train_anchors"], most // len(X))
    start = time.perf_counter()
    model = AnchoredRegressor(
        base,
        target=cell["target"],
        encoding=cell["encoding"],
        n_anchors=min(N_ANCHORS, n_anchors),
        n_train_anchors=n_anchors,
        random_state=cell["seed"],
    ).fit(X, y)
    seconds = time.perf_counter() - start
    posterior = model.posterior(X_test, return_samples=True)
    samples = np.asarray(posterior.samples)
    errors = {name: mae(y_test, mean) for name, mean in _means(model, samples, X_test).items()}
    error = y_test - posterior.mean
    total = posterior.var + _tree_variance(model, X_test)
    return Outcome(
        {
            **{f"mae_{name}": value / plain for name, value in errors.items()},
            "spearman": _spearman(posterior.std, error),
            "spearman_total": _spearman(np.sqrt(total), error),
            "seconds_fit": seconds,
        }
    )


def _spearman(std: np.ndarray, error: np.ndarray) -> float:
    """Return the rank correlation, which is zero for a constant standard deviation."""
    return float(np.nan_to_num(spearman(std, error)))


def _means(model: AnchoredRegressor, samples: np.ndarray, X: np.ndarray) -> dict[str, np.ndarray]:
    """Return the mean, the median, the mean of the middle half, and the mean weighted by nearness."""
    ordered = np.sort(samples, axis=0)
    quarter = len(samples) // 4
    distances = np.linalg.norm(X[None] - model.anchors_.X[:, None], axis=-1)
    weights = np.exp(-distances / (NEARNESS * np.median(distances)))
    return {
        "mean": samples.mean(axis=0),
        "median": np.median(samples, axis=0),
        "trimmed": ordered[quarter : len(samples) - quarter].mean(axis=0),
        "nearer": np.average(samples, axis=0, weights=weights),
    }


def _tree_variance(model: AnchoredRegressor, X: np.ndarray) -> Any:
    """Return the variance of the trees of a forest, averaged over anchors; zero for other base estimators."""
    trees = getattr(model.estimator_, "estimators_", None)
    if not isinstance(trees, list):
        return 0.0
    anchors = np.unique(model.anchors_.X, axis=0)
    tuples = [model.encoding_.encode(X, r[None]).astype(np.float32) for r in anchors]
    return np.mean([np.var([tree.predict(part) for tree in trees], axis=0) for part in tuples], axis=0)


def _tables() -> tuple[TableSpec, ...]:
    metrics: tuple[Any, ...] = (
        ("mae_mean", "MAE relative to the plain estimator", "min"),
        ("spearman", "Spearman(σ, |error|)", "max"),
    )
    forms = tuple(
        TableSpec(
            f"{title}, {n} rows, target {target}, by encoding",
            metric,
            "base",
            "encoding",
            best=best,
            where={"n_train": n, "target": target, "n_train_anchors": N_ANCHORS},
        )
        for metric, title, best in metrics
        for n in SIZES["paper"]
        for target in ("value", "difference")
    )
    aggregation = tuple(
        TableSpec(
            f"MAE relative to the plain estimator, {n} rows, target difference, encoding {encoding}, by "
            "aggregation over anchors",
            ("mae_mean", "mae_median", "mae_trimmed", "mae_nearer"),
            "base",
            best="min",
            where={"n_train": n, "target": "difference", "encoding": encoding, "n_train_anchors": N_ANCHORS},
        )
        for n in SIZES["paper"]
        for encoding in ("difference", "full")
    )
    anchors = tuple(
        TableSpec(
            f"{title}, {n} rows, {base}, by anchors per row",
            metric,
            "encoding",
            "n_train_anchors",
            best=best,
            where={"n_train": n, "target": "difference", "base": base},
        )
        for metric, title, best in (*metrics, ("seconds_fit", "Seconds to fit", None))
        for n in SIZES["paper"]
        for base in VARIED
    )
    trees = tuple(
        TableSpec(
            f"Spearman(σ, |error|), {n} rows, with and without the variance of the trees",
            ("spearman", "spearman_total"),
            "base",
            where={"n_train": n, "target": "difference", "encoding": encoding, "n_train_anchors": N_ANCHORS},
        )
        for n in SIZES["paper"]
        for encoding in ("difference", "full")
    )
    of_sizes: tuple[tuple[str, str, Any, str], ...] = (
        ("mae", "MAE relative to the plain estimator", "min", "plain"),
        ("spearman", "Spearman(σ, |error|)", "max", ""),
        ("seconds", "Seconds", None, ""),
    )
    sizes = tuple(
        TableSpec(
            f"{title}, {n} rows, boosting with anchors, iterations and leaves",
            metric,
            "dataset",
            "setting",
            best=best,
            where={"part": "size", "n_train": n},
            relative_to=reference,
        )
        for metric, title, best, reference in of_sizes
        for n in SIZE_SEEDS
    )
    columns = tuple(
        TableSpec(
            f"{title}, {n} rows, forest of 5 by encoding and share of the columns",
            metric,
            "dataset",
            "setting",
            best=best,
            where={"part": "columns", "n_train": n},
            relative_to=reference,
        )
        for metric, title, best, reference in of_sizes[:2]
        for n in FOREST_ROWS
    )
    return forms + aggregation + anchors + trees + sizes + columns


EXPERIMENT = Experiment(
    "targets-study",
    1,
    "Target, encoding and anchors of anchored regressors, on training rows",
    cells,
    run,
    tables=_tables(),
    notes=(
        "A quarter of the training rows is held out to measure; no test row is used. MAE of the first tables "
        "is relative to the same estimator without anchors, and K is at most 50. The last tables are of "
        "boosting of scikit-learn with labelled anchors and [R, X, X − R]; 20 anchors, 2 x 1 is 20 anchors, "
        "twice the default number of iterations and the default number of leaves. They chose "
        '`n_train_anchors="auto"`: with twice the iterations and leaves and few anchors, boosting errs less '
        "than with many anchors, at less cost, most of all with thousands of rows. Plain boosting of twice "
        "the size gains much less."
    ),
)
