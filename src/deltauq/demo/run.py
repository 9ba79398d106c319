"""The computations of the demonstration."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.datasets import load_diabetes
from sklearn.ensemble import ExtraTreesRegressor, RandomForestRegressor
from sklearn.model_selection import train_test_split
from sklearn.svm import SVR

from deltauq._version import __version__
from deltauq.baselines import TreeSpreadRegressor
from deltauq.core import Posterior
from deltauq.data import GapToy, gap_curve
from deltauq.estimators import AnchoredRegressor
from deltauq.metrics import coverage, mae, spearman, width
from deltauq.plots.page import Table

SEED = 0
N_POINTS = 40
ESTIMATORS = {
    "SVR(C=10, gamma=2)": SVR(C=10, gamma=2.0),
    "ExtraTreesRegressor(20)": ExtraTreesRegressor(20),
}
"""The band of the first widens in a gap of the data, that of the second does not."""

N_TRAIN = 200
N_TREES = 5
N_TREES_LARGE = 100
COVERAGE = 0.9
"""Nominal coverage of the intervals in the table."""


@dataclass(frozen=True)
class Band:
    """The predictions of an anchored estimator over one input; `std` is calibrated."""

    name: str
    toy: GapToy
    x: np.ndarray
    mean: np.ndarray
    std: np.ndarray
    uncalibrated_std: np.ndarray
    anchors: np.ndarray

    @property
    def gap_ratio(self) -> float:
        """Mean uncalibrated σ in the gap, divided by mean uncalibrated σ where there is data."""
        (low, high), (start, end) = self.toy.gap, self.toy.limits
        in_gap = (self.x > low) & (self.x < high)
        in_data = ~in_gap & (self.x >= start) & (self.x <= end)
        return float(self.uncalibrated_std[in_gap].mean() / self.uncalibrated_std[in_data].mean())


@dataclass(frozen=True)
class TableResult:
    """Predictions for the test rows of the diabetes data.

    `plain` is the prediction of a small forest, and `large` the mean and variance over the trees of a larger
    one. `mean`, `uncalibrated_std` and `std` (calibrated) are those of the anchored small forest.
    """

    y: np.ndarray
    plain: np.ndarray
    mean: np.ndarray
    uncalibrated_std: np.ndarray
    std: np.ndarray
    large: Posterior

    def scores(self) -> list[dict[str, Any]]:
        """Return the metrics of each model; the plain forest has no σ, hence an error only."""
        with_std = {
            f"forest of {N_TREES}, anchored": (self.mean, self.uncalibrated_std),
            f"forest of {N_TREES}, anchored, calibrated": (self.mean, self.std),
            f"forest of {N_TREES_LARGE}, spread of its trees": (self.large.mean, self.large.std),
        }
        plain = {"model": f"forest of {N_TREES}, plain", "mae": mae(self.y, self.plain)}
        return [plain] + [
            {
                "model": name,
                "mae": mae(self.y, mean),
                "spearman": spearman(std, self.y - mean),
                "coverage": coverage(self.y, mean, std, COVERAGE),
                "width": width(std, COVERAGE),
            }
            for name, (mean, std) in with_std.items()
        ]

    def score_table(self) -> Table:
        """Return `scores` as a table of text."""
        formats = {"mae": "{:.1f}", "spearman": "{:.2f}", "coverage": "{:.0%}", "width": "{:.0f}"}
        rows = [
            [row["model"], *(form.format(row[key]) if key in row else "–" for key, form in formats.items())]
            for row in self.scores()
        ]
        caption = (
            "MAE: mean absolute error. Rank corr.: Spearman correlation of σ with the absolute error. "
            f"Coverage and width: of intervals with nominal coverage {COVERAGE:.0%}."
        )
        return Table(("model", "MAE", "rank corr.", "coverage", "width"), rows, caption)


@dataclass(frozen=True)
class Demo:
    """All results of the demonstration."""

    bands: list[Band]
    table: TableResult
    seconds: float

    def tables(self) -> dict[str, Table]:
        """Return the results as tables of text, by their titles."""
        bands = [[band.name, f"{band.gap_ratio:.1f}"] for band in self.bands]
        rows = f"{N_TRAIN} training rows, {len(self.table.y)} test rows"
        return {
            "1. A gap in the data": Table(("base estimator", "mean σ in the gap / at the data"), bands),
            f"2. Diabetes: {rows}": self.table.score_table(),
        }

    def to_dict(self) -> dict[str, Any]:
        """Return the results as plain values for JSON."""
        return {
            "version": __version__,
            "bands": [{"estimator": band.name, "gap_ratio": band.gap_ratio} for band in self.bands],
            "models": self.table.scores(),
            "nominal_coverage": COVERAGE,
            "seconds": round(self.seconds, 2),
        }


def run_demo(progress: Callable[[int, int | None], None] = lambda done, total: None) -> Demo:
    """Compute the demonstration; `progress` is called with the number of steps done and of all steps."""
    start = time.perf_counter()
    bands: list[Band] = []
    for name in ESTIMATORS:
        progress(len(bands), len(ESTIMATORS) + 1)
        bands.append(fit_band(name))
    progress(len(ESTIMATORS), len(ESTIMATORS) + 1)
    return Demo(bands, predict_table(), time.perf_counter() - start)


def fit_band(name: str) -> Band:
    """Anchor one of `ESTIMATORS` on points with a gap, and predict over the whole line."""
    toy = gap_curve("hill", N_POINTS, random_state=SEED)
    x = np.linspace(toy.limits[0] - 0.3, toy.limits[1] + 0.3, 173)
    model = _anchored(ESTIMATORS[name], n_anchors=N_POINTS).fit(toy.X, toy.y)
    mean, std = model.predict(x[:, None], return_std=True)
    uncalibrated_std = model.posterior(x[:, None]).std
    return Band(name, toy, x, mean, std, uncalibrated_std, np.sort(model.anchors_.X[:, 0]))


def predict_table() -> TableResult:
    """Compare a small forest with and without anchors, and with a larger forest."""
    X, y = load_diabetes(return_X_y=True)
    X, X_test, y, y_test = train_test_split(X, y, train_size=N_TRAIN, random_state=SEED)
    plain = RandomForestRegressor(N_TREES, random_state=SEED).fit(X, y).predict(X_test)
    large = TreeSpreadRegressor(RandomForestRegressor(N_TREES_LARGE), random_state=SEED).fit(X, y)
    model = _anchored(RandomForestRegressor(N_TREES)).fit(X, y)
    mean, std = model.predict(X_test, return_std=True)
    return TableResult(y_test, plain, mean, model.posterior(X_test).std, std, large.posterior(X_test))


def _anchored(estimator: BaseEstimator, **params: Any) -> AnchoredRegressor:
    return AnchoredRegressor(estimator, calibrate="cv", random_state=SEED, **params)
