"""What the baselines for tables share."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin, clone

from deltauq.core import Posterior


class BaselineRegressor(RegressorMixin, BaseEstimator):
    """A regressor with a `posterior`; `predict` follows from it."""

    def posterior(self, X: Any) -> Posterior:
        """Return mean and variance, each of shape (n,)."""
        raise NotImplementedError

    def predict(self, X: Any, return_std: bool = False) -> Any:
        """Return the mean, of shape (n,), and the standard deviation when `return_std`."""
        posterior = self.posterior(X)
        return (posterior.mean, posterior.std) if return_std else posterior.mean


def seeded(estimator: BaseEstimator, random_state: np.random.RandomState) -> BaseEstimator:
    """Return a clone whose random states are drawn anew, so that clones differ."""
    copy = clone(estimator)
    names = sorted(name for name in copy.get_params(deep=True) if name.split("__")[-1] == "random_state")
    copy.set_params(**{name: int(random_state.randint(np.iinfo(np.int32).max)) for name in names})
    return copy
