"""`AnchoredRegressor`."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.ensemble import RandomForestRegressor

from deltauq.estimators._base import BaseAnchored
from deltauq.estimators.base_estimators import has_fast_path, tree_outputs

N_STRATA = 10


class AnchoredRegressor(RegressorMixin, BaseAnchored):
    """A regressor with an uncertainty for each prediction, by anchor marginalisation.

    The base estimator is trained once, on pairs ``[R, X - R]`` of rows and anchors. It predicts under K
    anchors: the mean is the prediction, and the standard deviation is its uncertainty.

    The standard deviation ranks predictions, but its scale is arbitrary. With ``calibrate="cv"`` its z-scores
    have unit RMS. Anchoring can make predictions less accurate; ``center="estimator"`` keeps the predictions
    of the estimator without anchors.

    Parameters
    ----------
    estimator : scikit-learn regressor, default=None
        The base estimator; None means ``RandomForestRegressor()``.
    n_anchors : int, default=100
        K, the number of anchors used to predict. If there are fewer training anchors, they repeat.
    n_train_anchors : int or "auto", default="auto"
        M, the number of anchors each row is paired with in training. "auto" is min(n, max(20, 100,000 // n)).
        For a forest of T trees it is min(n, max(10, p // n)) with p = min(100,000, 1,000,000 / T), and its
        leaves have at least three pairs: the `forest-study` found about the same errors at a tenth of the
        time and size. Each row is paired with a random part of the M anchors if there would be more than
        10,000 pairs for a support vector machine, 2,000 for a Gaussian process or kernel ridge, or 500 MB
        for any estimator. Estimators with `partial_fit` and `max_iter` see a new anchor for each row in
        every epoch.
    pairing : {"shared", "random"}, default="shared"
        Whether all rows are paired with the same M anchors, or each row with its own.
    encoding : {"difference", "identity", "two-anchor"} or Encoding, default="difference"
        How an input and its anchor become one input of the base estimator. "difference" is ``[R, X - R]``.
    anchors : {"data", "normal", "balanced", "kmeans"}, array of shape (m, d) or AnchorPrior, default="data"
        The prior P(R): training rows, a normal distribution, training rows balanced over deciles of y,
        cluster centres, or the rows of an array.
    center : {"anchored", "estimator"}, default="anchored"
        What is predicted: the mean over anchors, or the prediction of the estimator fitted without anchors.
    calibrate : None, "cv" or float, default=None
        Scale of the returned standard deviations: none, fitted by cross-validation, or a given factor.
        `posterior` is not calibrated.
    random_state : int, RandomState or None, default=None
        Random seed.
    n_jobs : int or None, default=None
        Number of threads for prediction and for folds.

    Attributes
    ----------
    estimator_ : estimator
        The base estimator, fitted on pairs.
    anchors_ : array of shape (K, d)
        The anchors used to predict.
    encoding_ : Encoding
        The encoding.
    center_ : estimator
        The estimator fitted without anchors, with ``center="estimator"``.
    scale_, delta_ : float, or array of shape (o,) if fitted for several outputs
        The calibrated standard deviation is ``scale_ * (std + delta_)``. δ is positive with
        ``calibrate="cv"``, since a spread near zero is no evidence of an error near zero; see `choose_delta`.
    n_features_in_, feature_names_in_
        As in scikit-learn.

    Examples
    --------
    >>> from deltauq import AnchoredRegressor
    >>> from sklearn.datasets import load_diabetes
    >>> from sklearn.tree import DecisionTreeRegressor
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = AnchoredRegressor(DecisionTreeRegressor(), random_state=0).fit(X[:200], y[:200])
    >>> mean, std = model.predict(X[200:], return_std=True)
    >>> mean.shape, std.shape
    ((242,), (242,))
    """

    _default_estimator = RandomForestRegressor

    def predict(self, X: Any, return_std: bool = False) -> Any:
        """Return predictions and, if required, their standard deviations.

        Parameters
        ----------
        X : array-like of shape (n, d)
            Inputs.
        return_std : bool, default=False
            Whether to return the calibrated standard deviations over anchors as well.

        Returns
        -------
        mean : array of shape (n,) or (n, o)
        std : array of the same shape, only if `return_std`
        """
        posterior = self.posterior(X)
        if return_std:
            return posterior.mean, self.calibrated_std(posterior.std)
        return posterior.mean

    def _read_target(self, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        try:
            y = np.asarray(y, dtype=np.float64)
        except ValueError as error:
            raise ValueError(f"y must be numeric, but {error}.") from error
        first = self._observed_outputs(y)[:, 0]
        ranks = np.argsort(np.argsort(first, kind="stable"), kind="stable")
        return y, ranks * N_STRATA // len(ranks)

    def _outputs(self, estimator: BaseEstimator, X: np.ndarray) -> np.ndarray:
        if has_fast_path(estimator):
            return tree_outputs(estimator, X)
        return np.asarray(estimator.predict(X), dtype=np.float64).reshape(len(X), -1)

    def _observed_outputs(self, y: np.ndarray) -> np.ndarray:
        return y.reshape(len(y), -1)
