"""A quantile forest: the distribution of the training targets in the leaves a row falls into."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.stats import norm

from deltauq.baselines._base import BaselineRegressor
from deltauq.core import Posterior
from deltauq.utils.install import install_command

_ONE_SIGMA = float(norm.cdf(1.0))


class QuantileForestRegressor(BaselineRegressor):
    """The forest's mean, and half the distance between its 15.9 % and 84.1 % quantiles as σ.

    Needs the `compare` extra (quantile-forest).

    Parameters
    ----------
    n_estimators : int, default=100
    random_state : int, RandomState or None
    """

    def __init__(self, n_estimators: int = 100, random_state: Any = None) -> None:
        self.n_estimators = n_estimators
        self.random_state = random_state

    def fit(self, X: Any, y: Any) -> QuantileForestRegressor:
        """Fit the forest to X of shape (n, d) and y of shape (n,)."""
        try:
            from quantile_forest import RandomForestQuantileRegressor
        except ImportError as error:
            raise ImportError(f"QuantileForestRegressor needs: {install_command('compare')}") from error
        forest = RandomForestQuantileRegressor(self.n_estimators, random_state=self.random_state)
        self.estimator_ = forest.fit(np.asarray(X), np.asarray(y))
        return self

    def posterior(self, X: Any) -> Posterior:
        """Return mean and variance, of shape (n,)."""
        rows = np.asarray(X)
        lower, upper = self.estimator_.predict(rows, quantiles=[1 - _ONE_SIGMA, _ONE_SIGMA]).T
        return Posterior(self.estimator_.predict(rows, quantiles="mean"), ((upper - lower) / 2) ** 2)
