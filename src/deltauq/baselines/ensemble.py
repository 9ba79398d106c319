"""An ensemble: the same model, trained several times with other seeds."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state

from deltauq.baselines._base import BaselineRegressor, seeded
from deltauq.core import Posterior, StreamingPosterior


class EnsembleRegressor(BaselineRegressor):
    """Mean and spread of M models that differ in their seeds alone.

    Parameters
    ----------
    estimator : scikit-learn regressor
        One whose fit depends on its `random_state`; others make M equal members.
    n_members : int, default=3
        M.
    random_state : int, RandomState or None
    """

    def __init__(self, estimator: BaseEstimator, n_members: int = 3, random_state: Any = None) -> None:
        self.estimator = estimator
        self.n_members = n_members
        self.random_state = random_state

    def fit(self, X: Any, y: Any) -> EnsembleRegressor:
        """Fit the members to X of shape (n, d) and y of shape (n,)."""
        random_state = check_random_state(self.random_state)
        self.estimators_ = [seeded(self.estimator, random_state).fit(X, y) for _ in range(self.n_members)]
        return self

    def posterior(self, X: Any) -> Posterior:
        """Return mean and variance over the members, of shape (n,)."""
        stream = StreamingPosterior()
        for member in self.estimators_:
            stream.update(np.asarray(member.predict(X), dtype=np.float64))
        return stream.posterior()
