"""The methods that `assess` compares: what is fitted, and what it predicts."""

from __future__ import annotations

import inspect
import math
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.dummy import DummyClassifier, DummyRegressor
from sklearn.utils import check_random_state

from deltauq.assessment.scoring import Predictions
from deltauq.baselines import EnsembleRegressor, PlainRegressor, TreeSpreadRegressor
from deltauq.baselines.regressors import seeded_clone
from deltauq.calibration.conformal import DELTA_FRACTION, ConformalRegressor, rows_needed
from deltauq.core import Posterior
from deltauq.estimators import AnchoredClassifier, AnchoredRegressor
from deltauq.estimators.base_estimators import REGRESSION_FORESTS, max_pairs, trains_by_epochs
from deltauq.estimators.classifier import align_probabilities
from deltauq.estimators.pairing import count_train_anchors

N_MEMBERS = 3
ROUNDING = 1e-9
"""A spread, or a difference between spreads, below this share of the predictions is rounding error."""


def anchors_per_row(model: BaseEstimator, n: int, n_train_anchors: int | str) -> int:
    """Return with how many training anchors each of n rows is paired, at most where epochs redraw them."""
    if n_train_anchors != "auto":
        return min(n, int(n_train_anchors))
    if trains_by_epochs(model):
        return n
    count, most = count_train_anchors(n, "auto", model), max_pairs(model)
    return count if most is None else max(1, min(count, most // n))


def make_methods(
    task: str, model: BaseEstimator, params: dict[str, Any], seed: int
) -> dict[str, BaseEstimator]:
    """Return the methods that can be fitted for a model, by their names; `params` are of the anchored one.

    "center" is missing: it combines the predictions of "plain" with the spread of "anchored".
    """
    has_seed = any(name.split("__")[-1] == "random_state" for name in model.get_params(deep=True))
    is_classifier = task == "classification"
    plain: Any = PlainClassifier if is_classifier else PlainRegressor
    anchored: Any = AnchoredClassifier if is_classifier else AnchoredRegressor
    methods = {
        "plain": plain(model, random_state=seed),
        "anchored": anchored(model, random_state=seed, **params),
        "baseline": plain(DummyClassifier(strategy="prior") if is_classifier else DummyRegressor()),
    }
    if isinstance(model, REGRESSION_FORESTS):
        methods["tree-spread"] = TreeSpreadRegressor(model, random_state=seed)
    if not is_classifier and "return_std" in inspect.signature(model.predict).parameters:
        methods["own-std"] = OwnStdRegressor(model, random_state=seed)
    if has_seed and (not is_classifier or hasattr(model, "predict_proba")):
        ensemble = PlainClassifier if is_classifier else EnsembleRegressor
        methods["ensemble"] = ensemble(model, N_MEMBERS, random_state=seed)
    return methods


class OwnStdRegressor(PlainRegressor):
    """A model whose `predict` returns standard deviations, with these."""

    def posterior(self, X: Any) -> Posterior:
        """Return the model's own mean and variance, of shape (n,)."""
        mean, std = self.estimator_.predict(X, return_std=True)
        return Posterior(np.asarray(mean, dtype=np.float64), np.asarray(std, dtype=np.float64) ** 2)


class PlainClassifier(ClassifierMixin, BaseEstimator):
    """One or more copies of a model that differ in their seeds alone; the mean of their probabilities.

    Parameters
    ----------
    estimator : scikit-learn classifier
    n_members : int
        More than one needs `predict_proba`.
    random_state : int
        Random seed.
    """

    def __init__(self, estimator: BaseEstimator, n_members: int = 1, random_state: Any = None) -> None:
        self.estimator = estimator
        self.n_members = n_members
        self.random_state = random_state

    def fit(self, X: Any, y: np.ndarray) -> PlainClassifier:
        """Fit to X of shape (n, d) and class indices of shape (n,)."""
        random_state = check_random_state(self.random_state)
        self.estimators_ = [
            seeded_clone(self.estimator, random_state).fit(X, y) for _ in range(self.n_members)
        ]
        return self


def predict(fitted: Any, X: np.ndarray, n_classes: int) -> Predictions:
    """Return a fitted method's predictions for X of shape (n, d), without rounding errors of σ.

    For regression `n_classes` is zero.
    """
    classes = [np.arange(n_classes)]
    if isinstance(fitted, PlainClassifier):
        first, *others = fitted.estimators_
        if not hasattr(first, "predict_proba"):
            return Predictions(first.predict(X), error_score=_negative_margin(first, X))
        members = [align_probabilities(m, m.predict_proba(X), classes) for m in fitted.estimators_]
        if others:
            return _from_proba(np.mean(members, axis=0), np.var(members, axis=0))
        # The model's own label: SVC's need not be its most probable class.
        return replace(_from_proba(members[0], None), value=first.predict(X))
    posterior = fitted.posterior(X)
    if n_classes > 0:
        predictions = _from_proba(align_probabilities(fitted, posterior.mean, classes), posterior.var)
        # Shares of votes are not probabilities.
        return predictions if hasattr(fitted, "predict_proba") else replace(predictions, proba=None)
    mean, std = np.asarray(posterior.mean), np.asarray(posterior.std)
    if np.max(std) <= ROUNDING * np.sqrt(np.mean(mean**2)):
        std = np.zeros_like(std)
    elif np.ptp(std) <= ROUNDING * np.max(std):  # a linear model's σ is constant but for the last digits
        std = np.full_like(std, std[0])
    return Predictions(mean, std)


def calibrate(test: Predictions, held_out: Predictions, y: np.ndarray, coverage: float) -> Predictions:
    """Add conformal intervals to the predictions of test rows, from held-out rows with targets y.

    Where σ is zero everywhere, as the plain model's is, all intervals have the same width.
    """
    assert test.spread is not None and held_out.spread is not None
    conformal = ConformalRegressor.from_predictions(y, held_out.value, held_out.spread)
    lower, upper = conformal.interval(test.value, test.spread, coverage)
    return replace(test, lower=lower, upper=upper)


def rows_to_calibrate(coverage: float) -> int:
    """Return how many held-out rows `calibrate` needs for a nominal coverage."""
    return math.ceil(rows_needed(coverage) / (1.0 - DELTA_FRACTION))


def _from_proba(proba: np.ndarray, var: np.ndarray | None) -> Predictions:
    """Return predictions from probabilities and their variances, of shape (n, c)."""
    spread = None if var is None else np.sum(var, axis=1)
    if spread is not None and np.max(spread) <= ROUNDING**2:
        spread = None
    return Predictions(np.argmax(proba, axis=1), spread, proba=proba, error_score=1.0 - np.max(proba, axis=1))


def _negative_margin(model: BaseEstimator, X: Any) -> np.ndarray | None:
    """Return minus the distance between the best and the second-best decision score, of shape (n,)."""
    if not hasattr(model, "decision_function"):
        return None
    scores = np.asarray(model.decision_function(X), dtype=np.float64)
    if scores.ndim == 1:
        return -np.abs(scores)
    best = np.sort(scores, axis=1)
    return best[:, -2] - best[:, -1]
