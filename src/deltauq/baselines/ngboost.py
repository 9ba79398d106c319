"""Natural gradient boosting: mean and variance of a normal distribution, boosted together."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from deltauq.baselines._base import BaselineRegressor, seeded
from deltauq.core import Posterior
from deltauq.utils.install import install_command


class NGBoostRegressor(BaselineRegressor):
    """NGBoost with its defaults. Needs the `compare` extra (ngboost).

    Parameters
    ----------
    n_estimators : int, default=500
    random_state : int, RandomState or None
    """

    def __init__(self, n_estimators: int = 500, random_state: Any = None) -> None:
        self.n_estimators = n_estimators
        self.random_state = random_state

    def fit(self, X: Any, y: Any) -> NGBoostRegressor:
        """Fit to X of shape (n, d) and y of shape (n,)."""
        try:
            from ngboost import NGBRegressor
            from ngboost.learners import default_tree_learner
        except ImportError as error:
            raise ImportError(f"NGBoostRegressor needs: {install_command('compare')}") from error
        # Its trees have a random state of their own, for equally good splits.
        random_state = check_random_state(self.random_state)
        boosting = NGBRegressor(
            n_estimators=self.n_estimators,
            Base=seeded(default_tree_learner, random_state),
            random_state=random_state,
            verbose=False,
        )
        # Natural gradients stall when targets are tiny or huge, so the target is standardised around them.
        y = np.asarray(y, dtype=np.float64)
        self.center_, self.unit_ = float(y.mean()), float(y.std()) or 1.0
        self.estimator_ = boosting.fit(np.asarray(X), (y - self.center_) / self.unit_)
        return self

    def posterior(self, X: Any) -> Posterior:
        """Return mean and variance, of shape (n,)."""
        normal = self.estimator_.pred_dist(np.asarray(X))
        return Posterior(
            self.center_ + self.unit_ * normal.params["loc"], (self.unit_ * normal.params["scale"]) ** 2
        )
