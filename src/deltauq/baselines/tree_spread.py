"""A forest's own spread: how far its trees disagree."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import BaseEstimator

from deltauq.baselines._base import BaselineRegressor, as_random_state, seeded
from deltauq.core import Posterior, StreamingPosterior


class TreeSpreadRegressor(BaselineRegressor):
    """Mean and spread over the members of a forest or bagging model.

    Parameters
    ----------
    estimator : scikit-learn forest
        Any ensemble that keeps its members in `estimators_`.
    random_state : int, RandomState or None
    """

    def __init__(self, estimator: BaseEstimator, random_state: Any = None) -> None:
        self.estimator = estimator
        self.random_state = random_state

    def fit(self, X: Any, y: Any) -> TreeSpreadRegressor:
        """Fit the forest to X of shape (n, d) and y of shape (n,)."""
        self.estimator_ = seeded(self.estimator, as_random_state(self.random_state)).fit(X, y)
        return self

    def posterior(self, X: Any) -> Posterior:
        """Return mean and variance over the trees, of shape (n,)."""
        stream = StreamingPosterior()
        rows = np.asarray(X)
        for tree in self.estimator_.estimators_:
            stream.update(tree.predict(rows))
        return stream.posterior()
