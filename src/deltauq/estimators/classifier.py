"""`AnchoredClassifier`."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted

from deltauq.calibration import ConformalClassifier, classification_scores
from deltauq.core import Target, ValueTarget
from deltauq.estimators._base import BaseAnchored
from deltauq.estimators._delta_model import Trainer
from deltauq.estimators.base_estimators import class_weight_of, has_fast_path, tree_outputs
from deltauq.estimators.pairing import TrainingRows
from deltauq.estimators.validation import advise_on_nan, validate_input
from deltauq.utils.errors import InputError

MAX_MAP_ANCHORS = 20
"""The map from scores to probabilities is fitted under at most this many anchors, to limit memory."""


def _gives_probabilities(model: AnchoredClassifier) -> bool:
    base = getattr(model, "estimator_", model._base())
    return hasattr(base, "predict_proba") or hasattr(base, "decision_function")


def _class_list(estimator: Any) -> list[np.ndarray]:
    """Return the classes of each output."""
    return estimator.classes_ if isinstance(estimator.classes_, list) else [estimator.classes_]


class AnchoredClassifier(ClassifierMixin, BaseAnchored):
    """A classifier with an uncertainty for each probability, by anchor marginalisation.

    The base estimator is trained once, on pairs ``[R, X - R]`` of rows and anchors. It predicts probabilities
    under K anchors: the mean is the prediction, and the standard deviation is its uncertainty.

    If the base estimator has decision scores but no `predict_proba` (SVC, LinearSVC), a logistic map from
    scores to probabilities is fitted on held-out rows. If it has neither, `predict_proba` is missing and each
    anchor has one vote; votes are also used for several outputs with scores only.

    Parameters
    ----------
    estimator : scikit-learn classifier, default=None
        The base estimator; None means ``RandomForestClassifier()``.
    encoding : {"auto", "difference", "full", "identity", "two-anchor"} or Encoding, default="auto"
        How an input and its anchor become one input of the base estimator. "difference", the same as "auto",
        is ``[R, X - R]``.
    n_anchors : int, default=20
        K, the number of anchors used to predict. If there are fewer training anchors, they repeat.
    n_train_anchors : int or "auto", default="auto"
        M, the number of anchors each row is paired with in training; see `AnchoredRegressor`.
    anchors : {"data", "normal", "balanced", "kmeans"}, Anchors, array of shape (m, d) or AnchorPrior, \
            default="data"
        The prior P(R): training rows, a normal distribution, training rows balanced over classes,
        cluster centres, or given anchors, whose targets are not used.
    center : {"anchored", "estimator"}, default="anchored"
        What is predicted: the mean over anchors, or the prediction of the estimator fitted without anchors.
        Without `predict_proba` its probabilities are 0 and 1.
    calibrate : None, "cv" or float, default=None
        Scale of the returned standard deviations: none, fitted by cross-validation so that
        ``(1[y = c] - p_c) / std_c`` has unit RMS, or a given factor. "cv" is needed by `predict_set`; it fits
        on five folds in addition. `posterior` and `uncertainty` are not calibrated.
    random_state : int, RandomState or None, default=None
        Random seed.
    n_jobs : int or None, default=None
        Number of threads for prediction and for folds.

    Attributes
    ----------
    estimator_ : estimator
        The base estimator, fitted on pairs.
    anchors_ : Anchors
        The anchors used to predict; `X` has shape (K, d).
    encoding_ : Encoding
        The encoding.
    center_ : estimator
        The estimator fitted without anchors, with ``center="estimator"``.
    classes_ : array of shape (c,), or a list of such arrays for several outputs
        The classes.
    probability_calibrator_ : LogisticRegression
        The map from decision scores to probabilities, if the base estimator has scores only.
    scale_, delta_ : float, or array of shape (c,) if fitted
        As in `AnchoredRegressor`. The classes of several outputs follow one another.
    conformal_ : ConformalClassifier
        The out-of-fold scores of the training rows, with ``calibrate="cv"`` and one output.
    n_features_in_, feature_names_in_
        As in scikit-learn.

    Examples
    --------
    >>> from deltauq import AnchoredClassifier
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.svm import SVC
    >>> X, y = load_iris(return_X_y=True)
    >>> model = AnchoredClassifier(SVC(), random_state=0).fit(X, y)
    >>> proba, std = model.predict_proba(X, return_std=True)
    >>> proba.shape, std.shape, model.uncertainty(X).shape
    ((150, 3), (150, 3), (150,))
    """

    classes_: Any
    _default_estimator = RandomForestClassifier

    def __init__(
        self,
        estimator: BaseEstimator | None = None,
        *,
        encoding: Any = "auto",
        n_anchors: int = 20,
        n_train_anchors: int | str = "auto",
        anchors: Any = "data",
        center: str = "anchored",
        calibrate: str | float | None = None,
        random_state: int | np.random.RandomState | None = None,
        n_jobs: int | None = None,
    ) -> None:
        super().__init__(
            estimator,
            encoding=encoding,
            n_anchors=n_anchors,
            n_train_anchors=n_train_anchors,
            anchors=anchors,
            center=center,
            calibrate=calibrate,
            random_state=random_state,
            n_jobs=n_jobs,
        )

    def predict(self, X: Any) -> np.ndarray:
        """Return the class with the largest mean probability, or the most votes.

        With ``center="estimator"``, return the predictions of the estimator without anchors.

        Parameters
        ----------
        X : array-like of shape (n, d)
            Inputs.

        Returns
        -------
        labels : array of shape (n,) or (n, o)
        """
        check_is_fitted(self)
        if hasattr(self, "center_"):
            with advise_on_nan(self):
                predicted = np.asarray(self.center_.predict(validate_input(self, X)))
            # CatBoost returns one of several classes as a column.
            return predicted.ravel() if self._single_output else predicted
        pairs = zip(_class_list(self), self._per_output(self.posterior(X).mean), strict=True)
        labels = [classes[np.argmax(block, axis=1)] for classes, block in pairs]
        return labels[0] if self._single_output else np.column_stack(labels)

    @available_if(_gives_probabilities)
    def predict_proba(self, X: Any, return_std: bool = False) -> Any:
        """Return the mean probabilities over anchors and, if required, their standard deviations.

        Parameters
        ----------
        X : array-like of shape (n, d)
            Inputs.
        return_std : bool, default=False
            Whether to return the calibrated standard deviations over anchors as well.

        Returns
        -------
        proba : array of shape (n, c), or a list of such arrays for several outputs
        std : the same, only if `return_std`
        """
        posterior = self.posterior(X)
        proba = self._per_output(posterior.mean)
        std = self._per_output(self.calibrated_std(posterior.std))
        if self._single_output:
            return (proba[0], std[0]) if return_std else proba[0]
        return (proba, std) if return_std else proba

    def predict_set(self, X: Any, coverage: float = 0.9, allow_empty: bool = True) -> np.ndarray:
        """Return sets of classes; they need ``calibrate="cv"`` and one output.

        Every training row is scored by a model of the other folds, so that all rows train the model that
        predicts; see `AnchoredRegressor.predict_interval` for what this means for the coverage.
        `ConformalClassifier` with rows that are held out guarantees it.

        Parameters
        ----------
        X : array-like of shape (n, d)
            Inputs.
        coverage : float, default=0.9
            Nominal coverage, in (0, 1).
        allow_empty : bool, default=True
            Whether a set is empty where no class is probable enough. False adds the most probable class to
            every set; the coverage can only rise.

        Returns
        -------
        sets : boolean array of shape (n, c)
            Whether the set of a row holds a class, in the order of `classes_`.
        """
        check_is_fitted(self)
        if not self._single_output:
            raise ValueError("predict_set takes a classifier of one output: fit one for each.")
        self._check_conformalized("predict_set", "ConformalClassifier")
        return self.conformal_.sets(self.posterior(X).mean, coverage, allow_empty)

    def uncertainty(self, X: Any) -> np.ndarray:
        """Return the sum over classes of the variance of the probabilities, or of the votes.

        Parameters
        ----------
        X : array-like of shape (n, d)
            Inputs.

        Returns
        -------
        uncertainty : array of shape (n,) or (n, o)
        """
        totals = [block.sum(axis=1) for block in self._per_output(self.posterior(X).var)]
        return totals[0] if self._single_output else np.column_stack(totals)

    def _per_output(self, columns: np.ndarray) -> list[np.ndarray]:
        """Split columns of shape (n, total classes) into one array per output."""
        ends = np.cumsum([len(classes) for classes in _class_list(self)])
        return np.split(columns, ends[:-1], axis=1)

    def _target(self) -> Target:
        return ValueTarget()

    def _conformalize(self, data: TrainingRows, mean: np.ndarray, std: np.ndarray) -> None:
        if self._single_output:
            scores = classification_scores(data.y, mean, self.classes_)
            self.conformal_ = ConformalClassifier.from_scores(scores, self.classes_)

    def _read_target(self, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        check_classification_targets(y)
        if self._single_output:
            self.classes_, strata = np.unique(y, return_inverse=True)
        else:
            self.classes_ = [np.unique(column) for column in y.T]
            strata = np.unique(y, axis=0, return_inverse=True)[1].reshape(-1)
        return y, strata

    def _outputs(self, estimator: BaseEstimator, X: np.ndarray) -> np.ndarray:
        """Return probabilities or votes of shape (n, c), the classes of all outputs side by side."""
        if self._has_fast_path(estimator):
            return tree_outputs(estimator, X)
        if hasattr(estimator, "predict_proba"):
            return align_probabilities(estimator, estimator.predict_proba(X), _class_list(self))
        return self._observed_outputs(np.asarray(estimator.predict(X)))

    def _observed_outputs(self, y: np.ndarray) -> np.ndarray:
        """Return labels as indicators of shape (n, c)."""
        labels = y.reshape(len(y), -1)
        columns = [labels[:, [k]] == classes for k, classes in enumerate(_class_list(self))]
        return np.hstack(columns).astype(np.float64)

    def _has_fast_path(self, estimator: BaseEstimator) -> bool:
        """Return whether the estimator was fitted on all classes; those of a fold may lack some."""
        if not has_fast_path(estimator):
            return False
        pairs = zip(_class_list(estimator), _class_list(self), strict=True)
        return all(len(seen) == len(known) for seen, known in pairs)

    def _predict_outputs(self, estimator: BaseEstimator, tuples: np.ndarray) -> np.ndarray:
        if not hasattr(self, "probability_calibrator_"):
            return self._outputs(estimator, tuples)
        proba = self.probability_calibrator_.predict_proba(decision_scores(estimator, tuples))
        return align_probabilities(self.probability_calibrator_, proba, _class_list(self))

    def _fit_probability_calibrator(
        self, trainer: Trainer, data: TrainingRows, rng: np.random.Generator
    ) -> None:
        """Fit the map from decision scores to probabilities on held-out rows of folds."""
        base = self.estimator_
        scores_only = hasattr(base, "decision_function") and not hasattr(base, "predict_proba")
        if not (scores_only and self._single_output):
            return
        if np.unique(data.strata, return_counts=True)[1].min() < 2:
            raise InputError(
                f"y has a class with a single row, but {type(base).__name__} predicts no "
                "probabilities, and fitting them requires at least two rows of every class."
            )
        trainer = replace(trainer, n_anchors=min(trainer.n_anchors, MAX_MAP_ANCHORS))

        def fold_scores(train: np.ndarray, test: np.ndarray, fold_rng: np.random.Generator) -> np.ndarray:
            model = trainer.train(data.take(train), fold_rng)
            return np.asarray(model.posterior(data.X[test], decision_scores, keep_samples=True).samples)

        rows, by_fold = self._over_folds(fold_scores, data.strata, rng)
        scores = np.concatenate(by_fold, axis=1)
        # Without the class weights of the base estimator the map would undo them.
        calibrator = LogisticRegression(max_iter=1000, class_weight=class_weight_of(base))
        self.probability_calibrator_ = calibrator.fit(
            scores.reshape(-1, scores.shape[-1]),
            np.tile(data.y[rows], len(scores)),
            None if data.weights is None else np.tile(data.weights[rows], len(scores)),
        )


def decision_scores(estimator: BaseEstimator, X: np.ndarray) -> np.ndarray:
    """Return decision scores of shape (n, s): one column for two classes."""
    return np.asarray(estimator.decision_function(X)).reshape(len(X), -1)


def align_probabilities(
    estimator: BaseEstimator, proba: np.ndarray | list[np.ndarray], classes: list[np.ndarray]
) -> np.ndarray:
    """Return the probabilities of one or several outputs side by side, in the order of the sorted `classes`.

    A class that the estimator was not fitted on has probability zero.
    """
    if not isinstance(proba, list) and len(classes) > 1:
        # A multilabel estimator returns the probability that each label is set.
        both = [np.column_stack([1.0 - p, p]) for p in np.asarray(proba).T]
        return np.hstack([block[:, known.astype(int)] for block, known in zip(both, classes, strict=True)])
    blocks = [np.asarray(block) for block in (proba if isinstance(proba, list) else [proba])]
    aligned = []
    for block, seen, known in zip(blocks, _class_list(estimator), classes, strict=True):
        full = np.zeros((len(block), len(known)))
        full[:, np.searchsorted(known, seen)] = block[:, : len(seen)]
        aligned.append(full)
    return np.hstack(aligned)
