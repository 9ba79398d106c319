"""`AnchoredRegressor`."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.ensemble import RandomForestRegressor

from deltauq.estimators._base import BaseAnchored
from deltauq.estimators.base_estimators import packable, tree_outputs

N_STRATA = 10


class AnchoredRegressor(RegressorMixin, BaseAnchored):
    """Any scikit-learn regressor with an error bar, by anchor marginalisation.

    The base is trained once, on pairs ``[R, X - R]`` of rows and anchors. Predictions are made with K
    anchors: their mean is the prediction, their spread its uncertainty.

    The raw spread ranks predictions; it is not a scale. Set ``calibrate="cv"`` for a standard deviation
    whose z-scores have unit RMS. Anchoring can also cost accuracy: ``center="estimator"`` keeps the
    plain model's predictions and takes only the spread from the anchors.

    Parameters
    ----------
    estimator : scikit-learn regressor, default=None
        The base; None means ``RandomForestRegressor()``.
    n_anchors : int, default=100
        K, the anchors used to predict. More than there are training anchors repeats them.
    n_train_anchors : int or "auto", default="auto"
        M, the anchors each row meets in training. "auto" is min(n, max(20, 100,000 // n)): all pairs up to
        316 rows with shared anchors. For a forest of T trees it is min(n, max(10, p // n)) with
        p = min(100,000, 1,000,000 / T), and its leaves hold at least three pairs: the `forest-study` found
        about the same errors at a tenth of the time and size. An int leaves the forest as it is.
        Where that makes too many pairs, each row meets a random part of the M anchors, but at least one:
        support vector machines see 10,000 pairs then, Gaussian processes and kernel ridge 2,000, and no
        base more than 500 MB of them. Bases with `partial_fit` and `max_iter` see a fresh anchor per
        row in every epoch instead, out of all rows or of M.
    pairing : {"shared", "random"}, default="shared"
        Whether all rows meet the same M anchors, some of which then serve to predict, or each its own M.
        Bases that learn by epochs always draw anew.
    encoding : {"difference", "identity", "two-anchor"} or Encoding, default="difference"
    anchors : {"data", "normal", "balanced", "kmeans"}, array of shape (m, d) or AnchorPrior, default="data"
        The prior P(R). "balanced" draws evenly over deciles of y (of its first output).
    center : {"anchored", "estimator"}, default="anchored"
        What is predicted: the mean over anchors, or the plain model fitted beside it.
    calibrate : None, "cv" or float, default=None
        Scale of the returned standard deviations: none, fitted in five folds of the training rows, or a
        given factor. `posterior` is not calibrated.
    random_state : int, RandomState or None, default=None
    n_jobs : int or None, default=None
        Threads for prediction and for folds.

    Attributes
    ----------
    estimator_ : the base, fitted on tuples
    anchors_ : array of shape (K, d)
    encoding_ : Encoding
    center_ : the plain model, with ``center="estimator"``
    scale_, delta_ : float, or array of shape (o,) when fitted for several outputs
        The calibrated standard deviation is ``scale_ * (std + delta_)``. δ is positive with
        ``calibrate="cv"``, since a spread near zero is no evidence of an error near zero; see `choose_delta`.
    n_features_in_, feature_names_in_ : as in scikit-learn

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

    def predict(self, X: Any, return_std: bool = False) -> Any:
        """Predict, and say how far the anchors disagree.

        Parameters
        ----------
        X : array-like of shape (n, d)
        return_std : bool, default=False

        Returns
        -------
        mean : array of shape (n,) or (n, o)
        std : array of the same shape, only when `return_std`
            Times `scale_`.
        """
        posterior = self.posterior(X)
        if return_std:
            return posterior.mean, self.calibrated_std(posterior.std)
        return posterior.mean

    def _default_estimator(self) -> BaseEstimator:
        return RandomForestRegressor()

    def _read_target(self, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        try:
            y = np.asarray(y, dtype=np.float64)
        except ValueError as error:
            raise ValueError(f"y must be numeric, but {error}.") from error
        self._single_output = y.ndim == 1
        first = y if y.ndim == 1 else y[:, 0]
        ranks = np.argsort(np.argsort(first, kind="stable"), kind="stable")
        return y, ranks * N_STRATA // len(ranks)

    def _outputs(self, estimator: BaseEstimator, X: np.ndarray) -> np.ndarray:
        if packable(estimator):
            return tree_outputs(estimator, X)
        return np.asarray(estimator.predict(X), dtype=np.float64).reshape(len(X), -1)

    def _observed_outputs(self, y: np.ndarray) -> np.ndarray:
        return y.reshape(len(y), -1)
