"""`coverage`: empirical coverage and width of the intervals of `deltauq fit` and of `predict_interval`."""

from __future__ import annotations

import time

import numpy as np
from sklearn.ensemble import HistGradientBoostingRegressor

from deltauq.calibration import ConformalRegressor
from deltauq.data import UCI
from deltauq.estimators import AnchoredRegressor
from deltauq.metrics import mae, spearman
from experiments.runner import Cell, Experiment, Outcome
from experiments.tables import TableSpec
from experiments.uci import uci_table

LEVEL = 0.9
MAX_ROWS = {"quick": 300, "paper": 2000}
"""Larger training parts are sampled at random: all rows of protein would take an hour."""
DATASETS = {"quick": ("yacht", "boston", "energy"), "paper": tuple(UCI)}
FIT, ESTIMATOR = "fit", "estimator"
"""The part with `deltauq.tables.fit`, and the part with `predict_interval`: scores of folds ("cv"), or of a
quarter of the rows ("held-out")."""
N_SPLITS = {"quick": {FIT: (2, 1), ESTIMATOR: (2, 1)}, "paper": {FIT: (10, 5), ESTIMATOR: (20, 5)}}
"""Number of standard splits: of small tables, of large ones."""
LARGE = ("kin8nm", "naval", "power", "protein")
HELD_OUT = 0.25


def cells(profile: str) -> list[Cell]:
    """Return one cell per table and split, and per table, split and kind of scores."""

    def splits(part: str) -> list[Cell]:
        small, large = N_SPLITS[profile][part]
        return [
            {"dataset": dataset, "seed": seed}
            for seed in range(max(small, large))
            for dataset in DATASETS[profile]
            if seed < (large if dataset in LARGE else small)
        ]

    of_fit = [{"part": FIT, **split} for split in splits(FIT)]
    of_estimator = [
        {"part": ESTIMATOR, "scores": scores, **split}
        for split in splits(ESTIMATOR)
        for scores in ("cv", "held-out")
    ]
    return of_fit + of_estimator


def run(cell: Cell, profile: str) -> Outcome:
    """Run a cell of either part."""
    return {FIT: run_table, ESTIMATOR: run_estimator}[cell["part"]](cell, profile)


def run_estimator(cell: Cell, profile: str) -> Outcome:
    """Measure the intervals of anchored boosting on the test rows."""
    table, seed = uci_table(cell["dataset"]), cell["seed"]
    train, test = table.splits[seed]
    rows = np.random.default_rng(seed).permutation(train)[: MAX_ROWS[profile]]
    base = HistGradientBoostingRegressor(early_stopping=False, random_state=seed)
    started = time.perf_counter()
    if cell["scores"] == "cv":
        model = AnchoredRegressor(base, calibrate="cv", random_state=seed).fit(table.X[rows], table.y[rows])
        mean, (lower, upper) = model.predict(table.X[test]), model.predict_interval(table.X[test], LEVEL)
    else:
        held_out, fitted = np.split(rows, [int(HELD_OUT * len(rows))])
        model = AnchoredRegressor(base, random_state=seed).fit(table.X[fitted], table.y[fitted])
        conformal = ConformalRegressor(model).conformalize(table.X[held_out], table.y[held_out])
        mean, (lower, upper) = model.predict(table.X[test]), conformal.predict_interval(table.X[test], LEVEL)
    y = table.y[test]
    return Outcome(
        {
            "coverage": float(np.mean((lower <= y) & (y <= upper))),
            "width": float(np.mean(upper - lower)),
            "mae": mae(y, mean),
            "n_test": float(len(y)),
            "seconds": time.perf_counter() - started,
        }
    )


def run_table(cell: Cell, profile: str) -> Outcome:
    """Fit a table as the command does, and measure its intervals on the test rows."""
    import pandas as pd

    from deltauq.tables import fit

    table = uci_table(cell["dataset"])
    train, test = table.splits[cell["seed"]]
    frame = pd.DataFrame(table.X, columns=[f"x{k}" for k in range(table.X.shape[1])]).assign(y=table.y)
    started = time.perf_counter()
    model = fit(
        frame.iloc[train],
        "y",
        task="regression",
        coverage=LEVEL,
        max_rows=MAX_ROWS[profile],
        random_state=cell["seed"],
    )
    fitted = time.perf_counter()
    predictions = model.predict(frame.iloc[test])
    y, mean = table.y[test], predictions["prediction"].to_numpy()
    widths = (predictions["upper"] - predictions["lower"]).to_numpy()
    return Outcome(
        {
            "coverage": float(np.mean((predictions["lower"] <= y) & (y <= predictions["upper"]))),
            "width": float(np.mean(widths)),
            "width_constant": model.report["constant_width"],
            "spearman": spearman(widths, y - mean),
            "mae": mae(y, mean),
            "n_test": float(len(y)),
            "seconds_fit": fitted - started,
        }
    )


_LABELS = {
    "width": "by expected error",
    "width_constant": "constant width",
    "seconds_fit": "seconds to fit",
    "spearman": "rank correlation of the width with the error",
    "cv": "out-of-fold scores",
    "held-out": "a quarter held out",
}

EXPERIMENT = Experiment(
    "coverage",
    1,
    "Intervals of `deltauq fit`",
    cells,
    run,
    tables=(
        TableSpec(
            "Coverage of intervals, nominal 90 %",
            ("coverage",),
            "dataset",
            best=None,
            where={"part": FIT},
            labels=_LABELS,
            mean_over=tuple(UCI),
        ),
        TableSpec(
            "Mean width of these intervals, and of intervals of constant width",
            ("width", "width_constant"),
            "dataset",
            best="min",
            where={"part": FIT},
            labels=_LABELS,
        ),
        TableSpec(
            "Ranking of errors by the width, and seconds to fit",
            ("spearman", "seconds_fit"),
            "dataset",
            best=None,
            where={"part": FIT},
            labels=_LABELS,
        ),
        TableSpec(
            "Coverage of intervals of anchored boosting, nominal 90 %",
            "coverage",
            "dataset",
            "scores",
            best=None,
            where={"part": ESTIMATOR},
            labels=_LABELS,
            mean_over=tuple(UCI),
        ),
        *(
            TableSpec(
                f"{title} of anchored boosting, relative to a quarter of the rows held out",
                metric,
                "dataset",
                "scores",
                best="min",
                where={"part": ESTIMATOR},
                relative_to="held-out",
                labels=_LABELS,
            )
            for title, metric in (("Width of intervals", "width"), ("MAE", "mae"))
        ),
    ),
    notes=(
        "`deltauq.tables.fit` with its defaults on the training rows of the standard splits, at most "
        f"{MAX_ROWS['paper']} of them: {N_SPLITS['paper'][FIT][0]} splits, but {N_SPLITS['paper'][FIT][1]} "
        f"of {', '.join(LARGE[:-1])} and {LARGE[-1]}. Intervals of constant width are those of the same "
        "model and the same out-of-fold errors. The last tables: `AnchoredRegressor` with gradient boosting, "
        f"{N_SPLITS['paper'][ESTIMATOR][0]} splits of the smaller tables, `predict_interval` with "
        '`calibrate="cv"`, and `ConformalRegressor` with a quarter of the rows held out.'
    ),
)
