"""Base estimators, plain and anchored by value and by difference, on seventeen tables."""

from __future__ import annotations

import time
from typing import Any

from sklearn.ensemble import BaggingRegressor

from deltauq.estimators import AnchoredRegressor
from deltauq.metrics import coverage, mae, spearman
from experiments.regression_tables import BASES, TABLES, split_rows, standardized
from experiments.runner import Cell, Experiment, Outcome
from experiments.tables import TableSpec

SIZES = {"quick": (200,), "paper": (200, 1000, 8000)}
N_TEST = {"quick": 200, "paper": 1000}
SEEDS = {"quick": range(1), "paper": range(5)}
DATASETS = {"quick": (216, "yacht"), "paper": TABLES}
NAMES = tuple(name for name in BASES if name not in ("extra-trees-10",))
BOOSTING = ("boosting", "lightgbm", "xgboost", "catboost")
N_MEMBERS = {200: 40, 1000: 20, 8000: 20}
"""Members of the bagged boosting, by training rows: it takes at least the seconds of the anchored one."""


def cells(profile: str) -> list[Cell]:
    """Return one cell per size, dataset, base estimator, method and trial."""
    return [
        {"n_train": n_train, "dataset": dataset, "base": base, "method": method, "seed": seed}
        for seed in SEEDS[profile]
        for n_train in SIZES[profile]
        for dataset in DATASETS[profile]
        for base in NAMES
        for method in ("plain", "value", "difference", *(("bagged",) if base == "boosting" else ()))
    ]


def run(cell: Cell, profile: str) -> Outcome:
    """Fit and measure one method; inputs and target are standardised by the training rows."""
    train, test = split_rows(cell["dataset"], cell["seed"], cell["n_train"])
    X, y, X_test, y_test = standardized(cell["dataset"], train, test[: N_TEST[profile]])
    model = _model(cell)
    start = time.perf_counter()
    model.fit(X, y)
    fitted = time.perf_counter()
    if cell["method"] in ("plain", "bagged"):
        metrics = {"mae": mae(y_test, model.predict(X_test))}
    else:
        posterior = model.posterior(X_test)
        metrics = {
            "mae": mae(y_test, posterior.mean),
            "spearman": spearman(posterior.std, y_test - posterior.mean),
            "coverage": coverage(y_test, posterior.mean, posterior.std),
        }
    seconds = {"seconds_fit": fitted - start, "seconds_predict": time.perf_counter() - fitted}
    return Outcome({**metrics, **seconds, "n_train": float(len(X)), "n_test": float(len(y_test))})


def _model(cell: Cell) -> Any:
    method, seed = cell["method"], cell["seed"]
    base = BASES[cell["base"]](seed)
    if method == "plain":
        return base
    if method == "bagged":
        return BaggingRegressor(base, N_MEMBERS[cell["n_train"]], random_state=seed)
    return AnchoredRegressor(base, target=method, random_state=seed)


def _tables() -> tuple[TableSpec, ...]:
    by_base = tuple(
        TableSpec(
            f"MAE relative to the plain {base}, {n} rows",
            "mae",
            "dataset",
            "method",
            best="min",
            relative_to="plain",
            where={"n_train": n, "base": base},
        )
        for n in SIZES["paper"]
        for base in ("boosting", "forest-100")
    )
    metrics: tuple[tuple[str, str, Any], ...] = (
        ("spearman", "Spearman(σ, |error|)", "max"),
        ("seconds_fit", "Seconds to fit, one core", None),
    )
    overview = tuple(
        TableSpec(f"{title}, {n} rows", metric, "base", "method", best=best, where={"n_train": n})
        for metric, title, best in metrics
        for n in SIZES["paper"]
    )
    return by_base + overview


EXPERIMENT = Experiment(
    "base-estimators",
    2,
    "Base estimators, plain and anchored",
    cells,
    run,
    stored_as="bases",
    tables=_tables(),
    notes="",
)
