"""Second part, a real table: whether σ ranks the errors, has their size, and what anchoring costs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.datasets import load_diabetes
from sklearn.ensemble import RandomForestRegressor
from sklearn.model_selection import train_test_split

from deltauq.estimators import AnchoredRegressor
from deltauq.metrics import coverage, mae, spearman, width

N_TRAIN = 200
N_TREES = 5
N_TREES_RIVAL = 100
LEVEL = 0.9
LEVELS = np.array([0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99])
SEED = 0
STEPS = 3

PLAIN = f"forest of {N_TREES}, plain"
RAW = f"forest of {N_TREES}, anchored"
CALIBRATED = f"forest of {N_TREES}, anchored, calibrated"
RIVAL = f"forest of {N_TREES_RIVAL}, spread of its trees"


@dataclass(frozen=True)
class Prediction:
    """What one model said about the test rows.

    Attributes
    ----------
    name : str
    mean : array of shape (n,)
    std : array of shape (n,), or None for a model without an error bar
    """

    name: str
    mean: np.ndarray
    std: np.ndarray | None

    def numbers(self, y: np.ndarray) -> dict[str, Any]:
        """Return the measures against targets of shape (n,)."""
        values: dict[str, Any] = {"model": self.name, "mae": mae(y, self.mean)}
        if self.std is not None:
            values["spearman"] = spearman(self.std, y - self.mean)
            values["coverage"] = coverage(y, self.mean, self.std, LEVEL)
            values["width"] = width(self.std, LEVEL)
        return values


@dataclass(frozen=True)
class TableStudy:
    """All that the second part found.

    Attributes
    ----------
    y : array of shape (n,)
        Targets of the test rows.
    plain, raw, calibrated, rival : Prediction
        `raw` and `calibrated` share their means.
    """

    y: np.ndarray
    plain: Prediction
    raw: Prediction
    calibrated: Prediction
    rival: Prediction

    @property
    def error(self) -> np.ndarray:
        """Errors of the anchored model, of shape (n,)."""
        return self.y - self.raw.mean

    def models(self) -> list[dict[str, Any]]:
        """Return the measures of every model."""
        return [p.numbers(self.y) for p in (self.plain, self.raw, self.calibrated, self.rival)]

    def coverage_at(self, prediction: Prediction) -> np.ndarray:
        """Return the observed coverage at every nominal level, of shape (l,)."""
        assert prediction.std is not None
        return np.array([coverage(self.y, prediction.mean, prediction.std, level) for level in LEVELS])

    def numbers(self) -> dict[str, Any]:
        """Return the findings as plain values."""
        return {
            "dataset": "diabetes",
            "train_rows": N_TRAIN,
            "test_rows": len(self.y),
            "level": LEVEL,
            "models": self.models(),
            "levels": LEVELS.tolist(),
            "coverage_raw": self.coverage_at(self.raw).tolist(),
            "coverage_calibrated": self.coverage_at(self.calibrated).tolist(),
        }


def study_table(tick: Callable[[str], None]) -> TableStudy:
    """Compare a small forest with and without anchors, and with a large one.

    Parameters
    ----------
    tick : callable
        Told what comes next before each of `STEPS` steps.

    Returns
    -------
    study : TableStudy
    """
    X, y = load_diabetes(return_X_y=True)
    X, X_test, y, y_test = train_test_split(X, y, train_size=N_TRAIN, random_state=SEED)
    tick("table: plain forest")
    plain = RandomForestRegressor(N_TREES, random_state=SEED).fit(X, y).predict(X_test)
    tick("table: large forest")
    rival = _tree_spread(RandomForestRegressor(N_TREES_RIVAL, random_state=SEED).fit(X, y), X_test)
    tick("table: anchored forest, calibrated in five folds")
    model = AnchoredRegressor(RandomForestRegressor(N_TREES), calibrate="cv", random_state=SEED).fit(X, y)
    mean, std = model.predict(X_test, return_std=True)
    return TableStudy(
        y=y_test,
        plain=Prediction(PLAIN, plain, None),
        raw=Prediction(RAW, mean, model.posterior(X_test).std),
        calibrated=Prediction(CALIBRATED, mean, std),
        rival=rival,
    )


def _tree_spread(forest: RandomForestRegressor, X: np.ndarray) -> Prediction:
    """Return a plain forest's prediction with the standard deviation over its trees."""
    trees = np.stack([tree.predict(X) for tree in forest.estimators_])
    return Prediction(RIVAL, trees.mean(axis=0), trees.std(axis=0))
