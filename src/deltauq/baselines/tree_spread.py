"""A forest's own spread: how far its trees disagree."""

from __future__ import annotations

from typing import Any

import numpy as np

from deltauq.baselines.plain import PlainRegressor
from deltauq.core import Posterior, StreamingPosterior


class TreeSpreadRegressor(PlainRegressor):
    """Mean and spread over the members of a forest or bagging model.

    Parameters
    ----------
    estimator : scikit-learn forest
        Any ensemble that keeps its members in `estimators_`.
    random_state : int, RandomState or None
    """

    def posterior(self, X: Any) -> Posterior:
        """Return mean and variance over the trees, of shape (n,)."""
        stream = StreamingPosterior()
        rows = np.asarray(X)
        for tree in self.estimator_.estimators_:
            stream.update(tree.predict(rows))
        return stream.posterior()
