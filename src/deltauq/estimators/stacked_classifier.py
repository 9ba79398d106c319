"""`StackedClassifier`."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.optimize import minimize
from scipy.special import log_softmax, softmax
from sklearn.base import ClassifierMixin
from sklearn.ensemble import ExtraTreesClassifier, HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.utils.multiclass import check_classification_targets

from deltauq.calibration import ConformalClassifier, classification_scores
from deltauq.estimators._stacking import BaseStacked, Member, Scored, numbers_of_kept, smooth_member
from deltauq.estimators.classifier import AnchoredClassifier, align_probabilities
from deltauq.estimators.compiled_trees import plain_outputs

N_TRAIN_ANCHORS = 10
INVERSE_PENALTY = 0.1
"""Of logistic regression."""
LARGEST_EXPONENT = 3.0
SMALLEST_SUM = 0.01
"""Of the exponents, if the members know nothing about the classes: these are then nearly equally probable."""
FLOOR = 0.1
"""Probabilities of members are at least this, divided by the number of training rows."""


class StackedClassifier(ClassifierMixin, BaseStacked):
    """Calibrated probabilities and prediction sets from several models, by out-of-fold predictions.

    Members of different kinds are fitted to the same rows: gradient boosting with anchors, extremely
    randomised trees, and logistic regression on smooth features. Every training row is predicted by members
    of the other folds. Probabilities of the members are raised to powers and multiplied, with the exponents
    of the largest likelihood: these weight the members, and calibrate them like a temperature. Members that
    do not help are left out. Prediction sets are conformal, by the same out-of-fold predictions.

    All rows train the members that predict. If there are more than 20,000 rows, a part of them is held out
    instead.

    Parameters
    ----------
    estimators : "auto" or list of (str, estimator) pairs, default="auto"
        The members. They need `predict_proba`.
    quick : bool, default=False
        Whether to use three folds instead of five, and smaller members.
    random_state : int, RandomState or None, default=None
        Random seed.
    n_jobs : int or None, default=None
        Number of threads.

    Attributes
    ----------
    classes_ : array of shape (c,)
        The classes.
    names_ : list of str
        The names of the members that are kept.
    estimators_ : list of estimators
        These members, fitted.
    weights_ : array of shape (m,)
        Their exponents.
    floor_ : float
        The smallest probability of a member.
    conformal_ : ConformalClassifier
        The scores of rows that did not train the members.
    member_errors_ : dict of str to float
        The log loss of every member on rows that did not train it.
    error_ : float
        That of the combined probabilities.
    scored_proba_ : array of shape (n, c)
        Probabilities of these rows.
    n_scored_ : int
        The number of these rows.
    n_features_in_, feature_names_in_
        As in scikit-learn.

    Notes
    -----
    As for `StackedRegressor`, coverage is guaranteed on average only if rows are held out. Sets from folds
    cover about the nominal share in practice; with few rows, single training sets may be several points off.

    Examples
    --------
    >>> from deltauq import StackedClassifier
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> model = StackedClassifier(quick=True, random_state=0).fit(X[::2], y[::2])
    >>> model.predict_proba(X[1::2]).shape, model.predict_set(X[1::2], coverage=0.9).shape
    ((75, 3), (75, 3))
    """

    _member_method = "predict_proba"

    def predict(self, X: Any) -> np.ndarray:
        """Return the most probable classes, an array of shape (n,)."""
        best = np.argmax(self.predict_proba(X), axis=1)
        return np.asarray(self.classes_[best])

    def predict_proba(self, X: Any, return_std: bool = False) -> Any:
        """Return probabilities and, if required, their standard deviations.

        Parameters
        ----------
        X : array-like of shape (n, d)
            Inputs.
        return_std : bool, default=False
            Whether to return standard deviations over anchors and members.

        Returns
        -------
        proba : array of shape (n, c)
        std : array of shape (n, c), only if `return_std`
        """
        _, means, variances = self._predict_members(X)
        proba = self._pool(means)
        if not return_std:
            return proba
        shares = self.weights_ / self.weights_.sum()
        return proba, np.sqrt(np.tensordot(shares, variances + (means - proba) ** 2, axes=1))

    def predict_set(self, X: Any, coverage: float = 0.9, allow_empty: bool = True) -> np.ndarray:
        """Return sets that contain the true class with probability `coverage`.

        Parameters
        ----------
        X : array-like of shape (n, d)
            Inputs.
        coverage : float, default=0.9
            Nominal coverage, in (0, 1).
        allow_empty : bool, default=True
            As for `AnchoredClassifier.predict_set`.

        Returns
        -------
        sets : boolean array of shape (n, c)
            Whether the set of a row holds a class, in the order of `classes_`.
        """
        proba = self.predict_proba(X)
        return self.conformal_.sets(proba, coverage, allow_empty)

    def _default_members(self, n: int) -> list[Member]:
        return classification_members(n, quick=self.quick)

    def _read_target(self, y: np.ndarray) -> np.ndarray:
        check_classification_targets(y)
        self.classes_, y = np.unique(y, return_inverse=True)
        if len(self.classes_) < 2:
            raise ValueError(f"y has one class, {self.classes_.tolist()[0]!r}: at least two are needed.")
        if len(self.classes_) == len(y):
            raise ValueError("every row has a class of its own: at least one class needs two rows.")
        self.floor_ = FLOOR / len(y)
        return y

    def _moments(self, model: Any, X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        numbers = [np.arange(len(self.classes_))]
        if isinstance(model, AnchoredClassifier):
            posterior = model.posterior(X)
            mean, var = (
                align_probabilities(model, part, numbers) for part in (posterior.mean, posterior.var)
            )
            return mean, var
        outputs = plain_outputs(model, X)
        proba = align_probabilities(model, model.predict_proba(X) if outputs is None else outputs, numbers)
        return proba, np.zeros_like(proba)

    def _pool(self, means: np.ndarray) -> np.ndarray:
        return np.asarray(softmax(np.tensordot(self.weights_, self._logs(means), axes=1), axis=1))

    def _logs(self, means: np.ndarray) -> np.ndarray:
        return np.log(np.maximum(means, self.floor_))

    def _combine(
        self, X: np.ndarray, y: np.ndarray, scored: Scored, names: list[str], rng: np.random.RandomState
    ) -> list[int]:
        y, logs = y[scored.rows], self._logs(scored.mean)
        rows = np.arange(len(y))
        learned, others = scored.halves(rng)
        self.n_scored_ = len(others)
        kept = numbers_of_kept(fit_exponents(y[learned], logs[:, learned]))
        self.weights_ = fit_exponents(y[learned], logs[kept][:, learned])
        proba = self._pool(scored.mean[kept])
        self.scored_proba_ = proba[others]
        scores = classification_scores(y[others], proba[others], np.arange(len(self.classes_)))
        self.conformal_ = ConformalClassifier.from_scores(scores, self.classes_)
        losses = [-np.mean(log_softmax(part, axis=1)[rows, y]) for part in logs]
        self.member_errors_ = dict(zip(names, map(float, losses), strict=True))
        self.error_ = float(-np.mean(np.log(np.maximum(proba[rows, y], self.floor_))))
        return kept


def fit_exponents(y: np.ndarray, logs: np.ndarray) -> np.ndarray:
    """Return the exponents of the members of the largest likelihood.

    Parameters
    ----------
    y : int array of shape (n,)
        Numbers of the classes.
    logs : array of shape (m, n, c)
        Log-probabilities of m members.

    Returns
    -------
    weights : array of shape (m,)
        Not negative, and not all zero.
    """
    rows = np.arange(len(y))

    def loss(weights: np.ndarray) -> tuple[float, np.ndarray]:
        proba = log_softmax(np.tensordot(weights, logs, axes=1), axis=1)
        expected = np.sum(np.exp(proba) * logs, axis=2)
        return float(-proba[rows, y].mean()), (expected - logs[:, rows, y]).mean(axis=1)

    start = np.full(len(logs), 1.0 / len(logs))
    bounds = [(0.0, LARGEST_EXPONENT)] * len(logs)
    weights = minimize(loss, start, jac=True, method="L-BFGS-B", bounds=bounds).x
    return np.asarray(weights if weights.any() else SMALLEST_SUM * start)


def classification_members(
    n: int, *, quick: bool = False, store_rows: bool = True, **anchoring: Any
) -> list[Member]:
    """Return the members of `StackedClassifier`; the parameters are those of `regression_members`."""
    boosting = HistGradientBoostingClassifier(**({"max_iter": 50, "learning_rate": 0.2} if quick else {}))
    anchored = AnchoredClassifier(boosting, **{"n_train_anchors": N_TRAIN_ANCHORS, **anchoring})
    return [
        ("anchored boosting", anchored),
        ("boosting", HistGradientBoostingClassifier(early_stopping=False)),
        ("extra-trees", ExtraTreesClassifier(30 if quick else 100)),
        ("smooth", smooth_member(quick, store_rows, LogisticRegression(C=INVERSE_PENALTY, max_iter=300))),
    ]
