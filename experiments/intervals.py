"""`intervals`: prediction intervals with a nominal coverage of 90 % by many methods on seventeen tables."""

from __future__ import annotations

import time
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from sklearn.metrics import mean_pinball_loss
from threadpoolctl import threadpool_limits

from deltauq.metrics import mae
from deltauq.plots import Figure
from experiments.display_names import DISPLAY_NAMES
from experiments.interval_methods import LEVELS, METHODS, OURS, REFERENCE
from experiments.plots import labelled_points
from experiments.regression_tables import TABLES, split_rows, standardized
from experiments.runner import Cell, Experiment, Outcome
from experiments.store import ResultLine
from experiments.summary import summarise
from experiments.tables import TableSpec

N_TRAIN = {"quick": (200,), "paper": (200, 1000, 10_000)}
N_TEST = 2000
SEEDS = {"quick": range(1), "paper": range(5)}
DATASETS = {"quick": ("energy", "yacht"), "paper": TABLES}
SMALL = ("boston", "concrete", "energy", "wine", "yacht")
"""Tables with fewer than 5000 training rows, which are left out of the largest number of rows."""
GP_ROWS = 1000
"""Largest number of rows for a Gaussian process."""
COVERAGE = 0.9
UNCERTAIN = 0.1
"""The share of the test rows whose intervals are the widest."""


def cells(profile: str) -> list[Cell]:
    """Return one cell per trial, number of training rows, table and method."""
    return [
        {"n_train": n_train, "dataset": dataset, "method": method, "seed": seed}
        for seed in SEEDS[profile]
        for n_train in N_TRAIN[profile]
        for dataset in DATASETS[profile]
        for method in METHODS
        if (method != "gp" or n_train <= GP_ROWS) and (dataset not in SMALL or n_train <= 1000)
    ]


def run(cell: Cell, profile: str) -> Outcome:
    """Fit one method and measure its intervals; inputs and target are standardised by the training rows."""
    train, test = split_rows(cell["dataset"], cell["seed"], cell["n_train"])
    X, y, X_test, y_test = standardized(cell["dataset"], train, test[:N_TEST])
    with threadpool_limits(1):
        warm_up(cell["method"])
        start = time.perf_counter()
        model = METHODS[cell["method"]](X, y, cell["seed"])
        fitted = time.perf_counter()
        interval = model.predict_interval(X_test, COVERAGE)
        predicted = time.perf_counter()
        mean, quantiles = model.predict(X_test), model.predict_quantiles(X_test, LEVELS)
    metrics = {**measured(y_test, *interval), "mae": mae(y_test, mean)}
    if quantiles is not None:
        metrics["crps"] = 2 * float(
            np.mean([mean_pinball_loss(y_test, q, alpha=a) for q, a in zip(quantiles.T, LEVELS, strict=True)])
        )
    metrics |= {"seconds_fit": fitted - start, "seconds_predict": predicted - fitted}
    return Outcome({**metrics, "n_train": float(len(y)), "n_test": float(len(y_test))})


@lru_cache
def warm_up(method: str) -> None:
    """Use a method once, so that importing its libraries and compiling its functions is not timed."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(100, 3)), rng.normal(size=100)
    METHODS[method](X, y, 0).predict_interval(X, COVERAGE)


def measured(y: np.ndarray, lower: np.ndarray, upper: np.ndarray) -> dict[str, float]:
    """Return the metrics of intervals of shape (n,).

    The interval score is the mean width plus, for targets outside, 2 / (1 − coverage) times the distance.
    """
    tail = (1 - COVERAGE) / 2
    losses = mean_pinball_loss(y, lower, alpha=tail) + mean_pinball_loss(y, upper, alpha=1 - tail)
    covered, widths = (lower <= y) & (y <= upper), upper - lower
    metrics = {
        "interval_score": float(losses / tail),
        "coverage": float(np.mean(covered)),
        "width": float(np.mean(widths)),
    }
    if np.ptp(widths) > 1e-9 * np.max(widths):  # otherwise the widths are constant
        widest = np.argsort(-widths, kind="stable")[: max(1, int(UNCERTAIN * len(y)))]
        metrics["coverage_uncertain"] = float(np.mean(covered[widest]))
    return metrics


LABELS = {
    "stacked": "deltauq stacked",
    "stacked-quick": "deltauq stacked, quick",
    "stacked-no-anchors": "deltauq stacked, without anchors",
    "boosting-labelled": "deltauq boosting",
    "catboost-held-out": "CatBoost",
    "catboost-cross": "CatBoost, cross-conformal",
    "catboost-cross-trees": "CatBoost, cross-conformal, trees' σ",
    "catboost-cqr": "CatBoost CQR",
    "catboost-uncertainty": "CatBoost, its own σ",
    "lightgbm-cqr": "LightGBM CQR",
    "hist-boosting-cqr": "HistGradientBoosting CQR",
    "quantile-forest-cqr": "quantile forest CQR",
    "extra-trees": "extra-trees' spread",
    "bagged-boosting": "bagged boosting",
    "coverage_uncertain": "coverage of the widest tenth",
    "seconds_fit": "seconds to fit",
    "seconds_predict": "seconds to predict",
}


def comparison(lines: Sequence[ResultLine], n_train: int) -> dict[str, tuple[float, float]]:
    """Return for each method the mean seconds to fit, and the geometric mean of its relative interval score.

    Methods that lack some of the tables of the reference are left out.
    """
    found = {
        (summary.cell["method"], summary.cell["dataset"]): summary.metrics
        for summary in summarise(line for line in lines if line.cell["n_train"] == n_train)
    }
    tables = [dataset for method, dataset in found if method == REFERENCE]
    points = {}
    for method in METHODS:
        if tables and all((method, dataset) in found for dataset in tables):
            scores, references = (
                np.array([found[name, dataset]["interval_score"].mean for dataset in tables])
                for name in (method, REFERENCE)
            )
            seconds = [found[method, dataset]["seconds_fit"].mean for dataset in tables]
            points[method] = (float(np.mean(seconds)), float(np.exp(np.mean(np.log(scores / references)))))
    return points


def draw_comparison(lines: Sequence[ResultLine], n_train: int, size: tuple[int, int]) -> Any:
    """Draw the interval score against the seconds to fit as a plotly figure, with one point per method."""
    names = {**DISPLAY_NAMES, **LABELS}
    points = comparison(lines, n_train)
    return labelled_points(
        {names[method]: point for method, point in points.items()},
        highlighted=[names[method] for method in OURS],
        x_title=f"seconds to fit {n_train:,} rows, one core",
        y_title="interval score, CatBoost = 1",
        reference=1.0,
        size=size,
    )


def draw(lines: Sequence[ResultLine]) -> list[Figure]:
    """Draw a figure for each number of training rows."""
    caption = (
        "Geometric mean over the tables of the interval score of 90 % intervals, relative to CatBoost with "
        "constant widths and a quarter of the rows held out. Lower is better."
    )
    return [
        Figure(draw_comparison(lines, n_train, (900, 520)), f"Interval score, {n_train:,} rows", caption, 520)
        for n_train in sorted({line.cell["n_train"] for line in lines})
    ]


_RELATIVE: tuple[tuple[str, str, str], ...] = (
    ("Interval score", "interval_score", REFERENCE),
    ("Interval score", "interval_score", "stacked"),
    ("MAE", "mae", REFERENCE),
    ("CRPS", "crps", REFERENCE),
)
_MEANS = ("coverage", "coverage_uncertain", "width", "seconds_fit", "seconds_predict")


def _tables() -> tuple[TableSpec, ...]:
    relative = tuple(
        TableSpec(
            f"{title} relative to {LABELS[reference]}, {n_train} rows",
            metric,
            "dataset",
            "method",
            best="min",
            where={"n_train": n_train},
            relative_to=reference,
            labels=LABELS,
        )
        for title, metric, reference in _RELATIVE
        for n_train in N_TRAIN["paper"]
    )
    means = tuple(
        TableSpec(
            f"Coverage, width and seconds on one core, mean of the tables, {n_train} rows",
            _MEANS,
            "method",
            best=None,
            where={"n_train": n_train},
            labels=LABELS,
        )
        for n_train in N_TRAIN["paper"]
    )
    return relative + means


EXPERIMENT = Experiment(
    "intervals",
    1,
    "Prediction intervals of many methods",
    cells,
    run,
    tables=_tables(),
    figures=draw,
    notes=(
        "Intervals with a nominal coverage of 90 %, at most 2000 test rows, inputs and targets standardised. "
        "At most 80 % of a table's rows are training rows, and only the twelve tables with at least 5000 of "
        "them are used with 10,000. CatBoost, the reference, has constant widths by the errors of a quarter "
        "of the training rows, which is held out. Cross-conformal: all rows train, and errors are those of "
        "five folds. Scores of a spread σ are |error| / (σ + δ), with δ by `choose_delta`, from the held-out "
        "quarter unless the name says otherwise. CQR: quantiles at 5 and 95 %, moved by the scores of that "
        "quarter; the prediction is the median. Parameters are the defaults of the libraries, boosting of "
        "scikit-learn without early stopping. The CRPS is twice the mean pinball loss of the quantiles at 5, "
        "10, …, 95 % that the same scores give, for methods that have all of them. The widest tenth: the "
        "test rows with the widest intervals."
    ),
)
