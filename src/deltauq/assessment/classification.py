"""Classification: the methods compared, and the measures of one fold."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.dummy import DummyClassifier
from sklearn.utils import check_random_state

from deltauq.assessment.anchoring import Anchoring
from deltauq.assessment.regression import has_seed
from deltauq.baselines.regressors import seeded_clone
from deltauq.estimators import AnchoredClassifier
from deltauq.metrics import auroc, brier, ece, nll
from deltauq.utils.formatting import short_repr

N_MEMBERS = 3
ROUNDING = 1e-9
"""Probabilities that differ by less are equal."""


@dataclass(frozen=True)
class Opinion:
    """What a method says about n rows.

    Attributes
    ----------
    label : int array of shape (n,)
        The predicted class.
    proba : array of shape (n, c), or None for a method without probabilities
    doubt : array of shape (n,), or None
        One minus the largest probability; minus the margin for a model that has only decision scores.
    spread : array of shape (n,), or None
        The sum over classes of the variance of the probabilities.
    """

    label: np.ndarray
    proba: np.ndarray | None
    doubt: np.ndarray | None
    spread: np.ndarray | None = None

    __repr__ = short_repr


class PlainClassifier(ClassifierMixin, BaseEstimator):
    """One or more copies of a model that differ in their seeds alone; the mean of their probabilities.

    Parameters
    ----------
    estimator : scikit-learn classifier
    n_members : int
        More than one needs `predict_proba`.
    random_state : int
    """

    def __init__(self, estimator: BaseEstimator, n_members: int = 1, random_state: Any = None) -> None:
        self.estimator = estimator
        self.n_members = n_members
        self.random_state = random_state

    def fit(self, X: Any, y: np.ndarray) -> PlainClassifier:
        """Fit to X of shape (n, d) and classes of shape (n,), each in [0, c)."""
        random_state = check_random_state(self.random_state)
        self.estimators_ = [
            seeded_clone(self.estimator, random_state).fit(X, y) for _ in range(self.n_members)
        ]
        return self

    def opinion(self, X: Any, n_classes: int) -> Opinion:
        """Return what the members say about X of shape (n, d)."""
        first = self.estimators_[0]
        if not hasattr(first, "predict_proba"):
            return Opinion(first.predict(X), None, _minus_margin(first, X))
        members = [_spread_out(member, X, n_classes) for member in self.estimators_]
        opinion = _from_proba(np.mean(members, axis=0))
        if len(members) == 1:
            # Its own choice: SVC's need not be the class it finds most probable.
            return replace(opinion, label=first.predict(X))
        return _with_spread(opinion, np.var(members, axis=0))


class Classification:
    """The comparison of classifiers.

    Parameters
    ----------
    n_classes : int
        Targets are class numbers in [0, n_classes).
    """

    name = "classification"

    def __init__(self, n_classes: int) -> None:
        self.n_classes = n_classes

    def methods(self, model: BaseEstimator, anchoring: Anchoring) -> dict[str, Callable[[int], Any]]:
        """Return the methods that can be fitted for a model: name to a function of the seed.

        "center" is missing: it is put together of "plain" and "anchored".
        """
        found: dict[str, Callable[[int], Any]] = {
            "plain": lambda seed: PlainClassifier(model, random_state=seed),
            "anchored": lambda seed: AnchoredClassifier(model, random_state=seed, **anchoring.words()),
        }
        if has_seed(model) and hasattr(model, "predict_proba"):
            found["ensemble"] = lambda seed: PlainClassifier(model, N_MEMBERS, random_state=seed)
        found["baseline"] = lambda seed: PlainClassifier(DummyClassifier(strategy="prior"))
        return found

    def ask(self, fitted: Any, X: np.ndarray) -> Opinion:
        """Return a fitted method's opinion on X of shape (n, d)."""
        if isinstance(fitted, PlainClassifier):
            return fitted.opinion(X, self.n_classes)
        posterior = fitted.posterior(X)
        opinion = _from_proba(_in_columns(posterior.mean, fitted.classes_, self.n_classes))
        opinion = _with_spread(opinion, posterior.var)
        # Votes are no probabilities.
        return opinion if hasattr(fitted, "predict_proba") else replace(opinion, proba=None)

    def center(self, plain: Opinion, anchored: Opinion) -> Opinion:
        """Return the plain model's prediction with the spread over anchors."""
        return replace(plain, spread=anchored.spread)

    def measure(self, y: np.ndarray, answer: Opinion) -> dict[str, float]:
        """Return the measures of one method in one fold.

        Parameters
        ----------
        y : int array of shape (n,)
        answer : Opinion

        Returns
        -------
        measures : dict of str to float
            NaN for what the method cannot say, and for AUROC where there is no mistake or nothing else.
        """
        proba, mistaken = answer.proba, answer.label != y
        return {
            "accuracy": float(np.mean(~mistaken)),
            "brier": math.nan if proba is None else brier(y, proba),
            "log_loss": math.nan if proba is None else nll(y, proba),
            "ece": math.nan if proba is None else ece(y, proba),
            "auroc_spread": _auroc_of_mistakes(mistaken, answer.spread),
            "auroc_confidence": _auroc_of_mistakes(mistaken, answer.doubt),
        }


def _auroc_of_mistakes(mistaken: np.ndarray, uncertainty: np.ndarray | None) -> float:
    if uncertainty is None or np.all(mistaken) or not np.any(mistaken):
        return math.nan
    return auroc(uncertainty[~mistaken], uncertainty[mistaken])


def _from_proba(proba: np.ndarray) -> Opinion:
    return Opinion(np.argmax(proba, axis=1), proba, 1.0 - np.max(proba, axis=1))


def _with_spread(opinion: Opinion, var: np.ndarray) -> Opinion:
    """Add the variances of the probabilities, of shape (n, c), unless they are mere rounding."""
    spread = np.sum(var, axis=1)
    return replace(opinion, spread=spread if np.max(spread) > ROUNDING**2 else None)


def _spread_out(model: BaseEstimator, X: Any, n_classes: int) -> np.ndarray:
    return _in_columns(model.predict_proba(X), model.classes_, n_classes)


def _in_columns(proba: np.ndarray, classes: np.ndarray, n_classes: int) -> np.ndarray:
    """Return probabilities of shape (n, n_classes), zero for classes that were not seen in training."""
    full = np.zeros((len(proba), n_classes))
    full[:, np.asarray(classes, dtype=int)] = proba
    return full


def _minus_margin(model: BaseEstimator, X: Any) -> np.ndarray | None:
    """Return how little the best class is ahead of the next one, of shape (n,)."""
    if not hasattr(model, "decision_function"):
        return None
    scores = np.asarray(model.decision_function(X), dtype=np.float64)
    if scores.ndim == 1:
        return -np.abs(scores)
    best = np.sort(scores, axis=1)
    return best[:, -2] - best[:, -1]
