"""Cross-validation on training rows: whether to predict the mean over anchors or the plain model, and δ."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import KFold, StratifiedKFold

from deltauq.calibration.scaling import choose_delta, permuted_features, typical_std
from deltauq.estimators import AnchoredClassifier, AnchoredRegressor
from deltauq.estimators.classifier import align_probabilities
from deltauq.metrics import brier, mae
from deltauq.tables.errors import model_errors

FOLDS = 3
MAX_ROWS = 1_000
"""Cross-validation uses no more rows than this."""
CENTERS = ("anchored", "estimator")


@dataclass(frozen=True)
class Selection:
    """The result of cross-validation."""

    errors: dict[str, float]
    """For the mean over anchors and the plain model: mean absolute error, or Brier score."""
    rows: int
    """The number of rows that were cross-validated."""
    center: str
    """Whose prediction to use: "anchored" or "estimator"."""
    delta: float
    """δ in units of the `typical_sigma` of a model; 0 for classification."""


def select_center(
    anchored: AnchoredRegressor | AnchoredClassifier,
    X: np.ndarray,
    y: np.ndarray,
    center: str,
    done: Callable[[], None],
) -> Selection:
    """Cross-validate the anchored and the plain model on at most `MAX_ROWS` training rows.

    The center "auto" is the model with the smaller mean error; unlike in `deltauq.assess`, the difference
    need not be significant, and the uncertainty is not compared.
    `done` is called after each of 2 · `FOLDS` fits.
    """
    is_regression = isinstance(anchored, AnchoredRegressor)
    rng = np.random.default_rng(anchored.random_state)
    rows = np.sort(rng.permutation(len(X))[:MAX_ROWS])
    X, y = X[rows], y[rows]
    probes = permuted_features(X, rng)
    losses: dict[str, list[float]] = {name: [] for name in CENTERS}
    errors: dict[str, list[np.ndarray]] = {name: [] for name in CENTERS}
    stds: list[np.ndarray] = []
    kind = KFold if is_regression else StratifiedKFold
    folds = kind(FOLDS, shuffle=True, random_state=anchored.random_state)
    with warnings.catch_warnings():
        # A class may have fewer rows than there are folds.
        warnings.filterwarnings("ignore", "The least populated class", UserWarning)
        splits = list(folds.split(X, y))
    for train, test in splits:
        for name in CENTERS:
            model = _fit_center(anchored, name, X[train], y[train])
            if is_regression:
                prediction = model.predict(X[test])
                losses[name].append(mae(y[test], prediction))
                errors[name].append(np.abs(y[test] - prediction))
            else:
                losses[name].append(_brier(model, X[test], y[test]))
            if is_regression and name == "anchored":
                stds.append(model.posterior(X[test]).std / typical_sigma(model, probes))
            done()
    means = {name: float(np.mean(values)) for name, values in losses.items()}
    center = min(means, key=lambda name: means[name]) if center == "auto" else center
    delta = float(choose_delta(np.concatenate(errors[center]), np.concatenate(stds))) if stds else 0.0
    return Selection(means, len(rows), center, delta)


def fit_anchored(
    anchored: AnchoredRegressor | AnchoredClassifier, center: str, X: np.ndarray, y: np.ndarray
) -> AnchoredRegressor | AnchoredClassifier:
    """Return the anchored model fitted to rows."""
    model = clone(anchored).set_params(center=center)
    with _fitting(anchored.estimator):
        return model.fit(X, y)


def typical_sigma(model: AnchoredRegressor, probes: np.ndarray) -> float:
    """Return the typical σ of a model on inputs like its training rows, of shape (n, d)."""
    return float(typical_std(model.posterior(probes)))


def _fit_center(anchored: Any, name: str, X: np.ndarray, y: np.ndarray) -> Any:
    """Return the anchored or the plain model, fitted to rows."""
    if name == "anchored":
        return fit_anchored(anchored, name, X, y)
    plain = clone(anchored.estimator)
    if "random_state" in plain.get_params():
        plain.set_params(random_state=anchored.random_state)
    with _fitting(plain):
        return plain.fit(X, y)


@contextmanager
def _fitting(base: BaseEstimator) -> Iterator[None]:
    """Report a base estimator that rejects the rows as a `TableError`, and ignore expected warnings."""
    with (
        warnings.catch_warnings(),
        model_errors(f"{type(base).__name__} cannot be fitted to this table", base),
    ):
        warnings.simplefilter("ignore", ConvergenceWarning)
        warnings.filterwarnings("ignore", "'n_jobs' has no effect", FutureWarning)
        # `fit` shows its progress.
        warnings.filterwarnings("ignore", "Training .* pairs of rows and anchors will take", UserWarning)
        yield


def _brier(model: Any, X: np.ndarray, y: np.ndarray) -> float:
    classes = np.unique(np.concatenate([model.classes_, y]))  # a fold may lack a class
    if hasattr(model, "predict_proba"):
        proba = align_probabilities(model, model.predict_proba(X), [classes])
    else:
        proba = (np.asarray(model.predict(X))[:, None] == classes).astype(np.float64)
    return brier(np.searchsorted(classes, y), proba)
