"""DEUP: a second model predicts the error of the first."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state

from deltauq.baselines._base import BaselineRegressor, seeded
from deltauq.core import Posterior


class DEUPRegressor(BaselineRegressor):
    """Direct epistemic uncertainty prediction.

    The error predictor is trained on rows that the model has not seen, and learns the absolute error there.

    Parameters
    ----------
    estimator : scikit-learn regressor
    error_estimator : scikit-learn regressor, default=None
        None means another copy of `estimator`.
    random_state : int, RandomState or None
    """

    def __init__(
        self,
        estimator: BaseEstimator,
        error_estimator: BaseEstimator | None = None,
        random_state: Any = None,
    ) -> None:
        self.estimator = estimator
        self.error_estimator = error_estimator
        self.random_state = random_state

    def fit(self, X: Any, y: Any, X_validation: Any = None, y_validation: Any = None) -> DEUPRegressor:
        """Fit the model, then the predictor of its error.

        Parameters
        ----------
        X, y : arrays of shape (n, d) and (n,)
        X_validation, y_validation : arrays of shape (m, d) and (m,)
            Rows beyond the training set; without them every third training row is held back.
        """
        X, y = np.asarray(X), np.asarray(y)
        if X_validation is None:
            held = np.arange(len(X)) % 3 == 2
            X, X_validation, y, y_validation = X[~held], X[held], y[~held], y[held]
        random_state = check_random_state(self.random_state)
        self.estimator_ = seeded(self.estimator, random_state).fit(X, y)
        error = np.abs(np.asarray(y_validation) - self.estimator_.predict(X_validation))
        error_estimator = self.estimator if self.error_estimator is None else self.error_estimator
        self.error_estimator_ = seeded(error_estimator, random_state).fit(X_validation, error)
        return self

    def posterior(self, X: Any) -> Posterior:
        """Return the prediction and the square of its predicted error, of shape (n,)."""
        error = np.maximum(self.error_estimator_.predict(X), 0.0)
        return Posterior(np.asarray(self.estimator_.predict(X), dtype=np.float64), error**2)
