"""The plain model, which claims no uncertainty."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state

from deltauq.baselines._base import BaselineRegressor, seeded
from deltauq.core import Posterior


class PlainRegressor(BaselineRegressor):
    """A model as it is, with a variance of zero.

    Parameters
    ----------
    estimator : scikit-learn regressor
    random_state : int, RandomState or None
    """

    def __init__(self, estimator: BaseEstimator, random_state: Any = None) -> None:
        self.estimator = estimator
        self.random_state = random_state

    def fit(self, X: Any, y: Any) -> PlainRegressor:
        """Fit the model to X of shape (n, d) and y of shape (n,)."""
        self.estimator_ = seeded(self.estimator, check_random_state(self.random_state)).fit(X, y)
        return self

    def posterior(self, X: Any) -> Posterior:
        """Return the prediction and a variance of zero, of shape (n,)."""
        mean = np.asarray(self.estimator_.predict(X), dtype=np.float64)
        return Posterior(mean, np.zeros_like(mean))
