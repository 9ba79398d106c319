"""What is chosen by cross-validation on training rows: whose predictions to take, and δ."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, clone
from sklearn.model_selection import KFold, StratifiedKFold

from deltauq.assessment.methods import anchor_params
from deltauq.calibration.scaling import permuted_features, typical_std
from deltauq.estimators import AnchoredClassifier, AnchoredRegressor
from deltauq.metrics import brier, mae
from deltauq.tables.schema import REGRESSION

FOLDS = 3
MOST_ROWS = 1_000
"""Choices are made on no more rows than this."""
DELTAS = (100.0, 30.0, 10.0, 3.0, 1.0, 0.3, 0.1, 0.03)
"""Candidates for δ, in units of the typical σ; the first makes the widths all but constant."""
CENTERS = ("anchored", "estimator")


@dataclass(frozen=True)
class Settings:
    """How the anchored model is made.

    Attributes
    ----------
    base : scikit-learn estimator
    task : {"regression", "classification"}
    anchors : {"data", "normal", "balanced", "kmeans"}
    n_anchors : int
        K.
    n_train_anchors : int, "auto" or "quick"
        M.
    seed : int
    n_jobs : int or None
    """

    base: BaseEstimator
    task: str
    anchors: str
    n_anchors: int
    n_train_anchors: int | str
    seed: int
    n_jobs: int | None

    def anchored(self, center: str, n: int) -> AnchoredRegressor | AnchoredClassifier:
        """Return the anchored model for n rows, unfitted."""
        kind = AnchoredRegressor if self.task == REGRESSION else AnchoredClassifier
        return kind(
            clone(self.base),
            **anchor_params(self.base, n, self.n_anchors, self.n_train_anchors),
            anchors=self.anchors,
            center=center,
            random_state=self.seed,
            n_jobs=self.n_jobs,
        )

    def plain(self) -> BaseEstimator:
        """Return the model without anchors, unfitted."""
        plain = clone(self.base)
        return plain.set_params(random_state=self.seed) if "random_state" in plain.get_params() else plain


@dataclass(frozen=True)
class Choice:
    """What cross-validation found.

    Attributes
    ----------
    errors : dict of float
        Of the mean over anchors and of the plain model: absolute errors, or Brier scores of classes.
    rows : int
        How many rows were cross-validated on.
    center : {"anchored", "estimator"}
        What is to be predicted.
    delta : float
        In units of the typical σ; 0 for classes.
    """

    errors: dict[str, float]
    rows: int
    center: str
    delta: float


def choose(
    settings: Settings,
    X: np.ndarray,
    y: np.ndarray,
    center: str,
    coverage: float,
    done: Callable[[], None],
) -> Choice:
    """Fit the anchored and the plain model in folds, and compare.

    Parameters
    ----------
    settings : Settings
    X : array of shape (n, d)
    y : array of shape (n,)
    center : {"auto", "anchored", "estimator"}
        "auto" takes the smaller error.
    coverage : float
        Of the intervals that are to be narrow.
    done : callable
        Called after each of the 2 · `FOLDS` fits.

    Returns
    -------
    choice : Choice
    """
    rng = np.random.default_rng(settings.seed)
    rows = np.sort(rng.permutation(len(X))[:MOST_ROWS])
    X, y = X[rows], y[rows]
    probes = permuted_features(X, rng)
    kind = KFold if settings.task == REGRESSION else StratifiedKFold
    losses: dict[str, list[float]] = {word: [] for word in CENTERS}
    errors: dict[str, list[np.ndarray]] = {word: [] for word in CENTERS}
    stds: list[np.ndarray] = []
    for train, test in kind(FOLDS, shuffle=True, random_state=settings.seed).split(X, y):
        for word in CENTERS:
            model = settings.anchored(word, len(train)) if word == "anchored" else settings.plain()
            model.fit(X[train], y[train])
            losses[word].append(_loss(model, settings.task, X[test], y[test]))
            if settings.task == REGRESSION:
                errors[word].append(np.abs(y[test] - model.predict(X[test])))
            if settings.task == REGRESSION and word == "anchored":
                stds.append(model.posterior(X[test]).std / typical_of(model, probes))
            done()
    means = {word: float(np.mean(found)) for word, found in losses.items()}
    center = min(means, key=lambda word: means[word]) if center == "auto" else center
    delta = _narrowest(np.concatenate(errors[center]), np.concatenate(stds), coverage) if stds else 0.0
    return Choice(means, len(rows), center, delta)


def typical_of(model: AnchoredRegressor, probes: np.ndarray) -> float:
    """Return the typical σ of a model on inputs like the training rows, of shape (n, d)."""
    return float(typical_std(model.posterior(probes)))


def _loss(model: Any, task: str, X: np.ndarray, y: np.ndarray) -> float:
    if task == REGRESSION:
        return mae(y, model.predict(X))
    # A fold may lack a class.
    classes = np.unique(np.concatenate([model.classes_, y]))
    proba = np.zeros((len(X), len(classes)))
    if hasattr(model, "predict_proba"):
        proba[:, np.searchsorted(classes, model.classes_)] = model.predict_proba(X)
    else:
        proba[np.arange(len(X)), np.searchsorted(classes, model.predict(X))] = 1.0
    return brier(np.searchsorted(classes, y), proba)


def _narrowest(errors: np.ndarray, stds: np.ndarray, coverage: float) -> float:
    """Return the δ under which intervals of a coverage are narrowest, from errors and σ of shape (n,)."""

    def mean_width(delta: float) -> float:
        widths = stds + delta
        return float(np.quantile(errors / widths, coverage) * np.mean(widths))

    return min(DELTAS, key=mean_width)
