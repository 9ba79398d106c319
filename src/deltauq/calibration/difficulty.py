"""`Difficulty`: the expected size of an error, learned from errors on rows that did not train the model."""

from __future__ import annotations

from collections.abc import Callable
from typing import Self

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import minimize
from sklearn.base import BaseEstimator, clone
from sklearn.ensemble import RandomForestRegressor
from sklearn.model_selection import GroupKFold, cross_val_predict
from sklearn.utils.validation import check_consistent_length, check_is_fitted

N_TREES, MIN_LEAF, MAX_FEATURES = 100, 10, 0.5
N_FOLDS = 5
"""With groups."""
MAX_SAMPLES = 2000
"""Rows per tree, which bounds the time of large tables."""
RATIO_LEVEL = 0.99
"""Larger ratios of error and spread than this quantile are set to it, so that single rows do not matter."""
PRIOR_ROWS = 100
"""Ratios are shrunk to their mean as if so many rows with it had been added: few rows say little."""
SMALLEST_RATIO = 0.1
"""The forest divides a spread by ten at most."""
LOG_WEIGHTS = 4.0
"""Bound of the logarithms of the weights, which keeps the constant from vanishing."""
PENALTY = 0.02
NEGLIGIBLE = 1e-12
"""Variances with a smaller mean, relative to the squared median error, are rounding errors without weight."""


class Difficulty(BaseEstimator):
    """The expected absolute error of predictions, from several variances and from the inputs.

    A model often has several measures of its uncertainty: the variance over anchors, that over trees, the
    disagreement of its members. They are combined in two steps, with absolute errors of rows that did not
    train the model:

    1. ``sqrt(w_0 + w_1 v_1 + ... + w_k v_k)`` with the weights of the largest likelihood, for errors that
       have a Laplace distribution with this scale. The constant keeps intervals from having no width where
       all variances vanish.
    2. A random forest learns the ratio of the error to this scale from the inputs, the prediction and the
       scale. With few rows it is shrunk to its mean. Rows that it was fitted to are predicted out of bag,
       so that their scores are comparable with those of new rows.

    No error is expected to be larger than the largest of these rows, also where variances are much larger
    than theirs.

    Parameters
    ----------
    random_state : int, RandomState or None, default=None
        Random seed of the forest.
    n_jobs : int or None, default=None
        Number of threads of the forest.

    Attributes
    ----------
    weights_ : array of shape (k,)
        The weights of the variances.
    constant_ : float
        The weight w_0, in squared units of the target.
    largest_ : float
        The largest error of the rows of `fit`.
    forest_ : RandomForestRegressor
        The model of the ratio.
    sizes_ : array of shape (n,)
        The expected absolute errors of the rows of `fit`.

    Examples
    --------
    >>> import numpy as np
    >>> from deltauq.calibration import Difficulty
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(0.0, 1.0, (500, 1))
    >>> variances, errors = X**2, np.abs(rng.normal(0.0, 1.0, 500) * X[:, 0])
    >>> difficulty = Difficulty(random_state=0).fit(X, np.zeros(500), variances, errors)
    >>> small, large = difficulty.predict(X[[X.argmin(), X.argmax()]], np.zeros(2), np.array([[0.0], [1.0]]))
    >>> bool(small < 0.2 < 0.6 < large)
    True
    """

    def __init__(
        self, random_state: int | np.random.RandomState | None = None, n_jobs: int | None = None
    ) -> None:
        self.random_state = random_state
        self.n_jobs = n_jobs

    def fit(
        self,
        X: ArrayLike,
        mean: ArrayLike,
        variances: ArrayLike,
        errors: ArrayLike,
        groups: ArrayLike | None = None,
    ) -> Self:
        """Learn from rows that did not train the model.

        Parameters
        ----------
        X : array-like of shape (n, d)
            Inputs; they may contain NaN.
        mean : array-like of shape (n,)
            Predictions.
        variances : array-like of shape (n, k)
            Variances, none of them negative.
        errors : array-like of shape (n,)
            Absolute errors.
        groups : array-like of shape (n,), optional
            Rows of one group, such as repeated measurements, get sizes that were learned from the others.

        Returns
        -------
        self
        """
        X, mean, variances, errors = (np.asarray(part, dtype=float) for part in (X, mean, variances, errors))
        check_consistent_length(X, mean, variances, errors)
        if variances.ndim != 2 or np.any(variances < 0) or np.any(errors < 0):
            raise ValueError("variances must have shape (n, k), and neither they nor errors may be negative.")
        self.weights_, self.constant_ = _fit_weights(variances, errors)
        self.largest_ = float(errors.max()) or np.inf
        scale = self._scale(variances)
        ratio = errors / scale
        self.forest_ = RandomForestRegressor(
            N_TREES,
            min_samples_leaf=MIN_LEAF,
            max_features=MAX_FEATURES,
            max_samples=min(len(X), MAX_SAMPLES),
            oob_score=True,
            random_state=self.random_state,
            n_jobs=self.n_jobs,
        )
        features = _features(X, mean, scale)
        target = np.minimum(ratio, np.quantile(ratio, RATIO_LEVEL, method="higher"))
        target = target.mean() + len(X) / (len(X) + PRIOR_ROWS) * (target - target.mean())
        self.forest_.fit(features, target)
        ratio = self.forest_.oob_prediction_
        if groups is not None and (n_groups := len(np.unique(groups))) > 1:
            # A row that is out of the bag may have others of its group in it.
            folds = GroupKFold(min(N_FOLDS, n_groups))
            forest = clone(self.forest_).set_params(oob_score=False, max_samples=None)
            ratio = cross_val_predict(forest, features, target, groups=groups, cv=folds)
        self.sizes_ = self._sizes(scale, ratio)
        return self

    def predict(
        self,
        X: ArrayLike,
        mean: ArrayLike,
        variances: ArrayLike,
        compiled: Callable[[RandomForestRegressor, np.ndarray], np.ndarray | None] | None = None,
    ) -> np.ndarray:
        """Return the expected absolute errors of n predictions.

        Parameters
        ----------
        X, mean, variances
            As in `fit`.
        compiled : callable, optional
            A faster prediction of the forest, of shape (n, 1); None if there is none.

        Returns
        -------
        sizes : array of shape (n,)
        """
        check_is_fitted(self)
        scale = self._scale(np.asarray(variances, dtype=float))
        features = _features(np.asarray(X), np.asarray(mean), scale)
        outputs = None if compiled is None else compiled(self.forest_, features)
        return self._sizes(scale, self.forest_.predict(features) if outputs is None else outputs[:, 0])

    def _scale(self, variances: np.ndarray) -> np.ndarray:
        return np.asarray(np.sqrt(self.constant_ + variances @ self.weights_))

    def _sizes(self, scale: np.ndarray, ratio: np.ndarray) -> np.ndarray:
        return np.minimum(scale * np.maximum(ratio, SMALLEST_RATIO), self.largest_)


def _features(X: np.ndarray, mean: np.ndarray, scale: np.ndarray) -> np.ndarray:
    return np.column_stack([X, mean, np.log(scale)])


def _fit_weights(variances: np.ndarray, errors: np.ndarray) -> tuple[np.ndarray, float]:
    """Return the weights of the variances, and the constant, such that the mean error over scale is one."""
    weights = np.zeros(variances.shape[1])
    if not np.any(errors):
        return weights, 1.0
    units = variances.mean(axis=0)
    used = np.flatnonzero(units > NEGLIGIBLE * np.median(errors) ** 2)
    terms = np.column_stack([variances[:, used] / units[used], np.ones(len(errors))])

    def loss(logs: np.ndarray) -> tuple[float, np.ndarray]:
        parts = terms * np.exp(logs)
        total = parts.sum(axis=1)
        relative = errors / np.sqrt(total)
        centred = logs - logs.mean()
        slope = 0.5 * (1.0 - relative / relative.mean()) / (len(errors) * total)
        gradient = slope @ parts + 2.0 * PENALTY / len(logs) * centred
        value = np.mean(0.5 * np.log(total)) + np.log(relative.mean()) + PENALTY * np.mean(centred**2)
        return float(value), gradient

    bounds = [(-LOG_WEIGHTS, LOG_WEIGHTS)] * terms.shape[1]
    logs = minimize(loss, np.zeros(terms.shape[1]), jac=True, method="L-BFGS-B", bounds=bounds).x
    scaled = np.exp(logs) * np.mean(errors / np.sqrt(terms @ np.exp(logs))) ** 2
    weights[used] = scaled[:-1] / units[used]
    return weights, float(scaled[-1])
