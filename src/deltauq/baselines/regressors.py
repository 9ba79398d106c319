"""Baselines around scikit-learn regressors, NGBoost and quantile forests."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.stats import norm
from sklearn.base import BaseEstimator, RegressorMixin, clone
from sklearn.utils import check_random_state

from deltauq.core import Posterior, StreamingPosterior
from deltauq.utils.install import import_optional

_ONE_SIGMA = float(norm.cdf(1.0))


def seeded_clone(estimator: BaseEstimator, random_state: np.random.RandomState) -> BaseEstimator:
    """Return a clone whose `random_state` parameters are drawn from `random_state`."""
    copy = clone(estimator)
    names = sorted(name for name in copy.get_params(deep=True) if name.split("__")[-1] == "random_state")
    copy.set_params(**{name: int(random_state.randint(np.iinfo(np.int32).max)) for name in names})
    return copy


class BaselineRegressor(RegressorMixin, BaseEstimator):
    """A regressor with a `posterior` method, which `predict` is derived from."""

    def posterior(self, X: Any) -> Posterior:
        """Return mean and variance, each of shape (n,)."""
        raise NotImplementedError

    def predict(self, X: Any, return_std: bool = False) -> Any:
        """Return the mean, of shape (n,), and the standard deviation if `return_std`."""
        posterior = self.posterior(X)
        return (posterior.mean, posterior.std) if return_std else posterior.mean


class PlainRegressor(BaselineRegressor):
    """The estimator alone, with a variance of zero.

    Parameters
    ----------
    estimator : scikit-learn regressor
    random_state : int, RandomState or None
        Random seed of the fit.
    """

    def __init__(self, estimator: BaseEstimator, random_state: Any = None) -> None:
        self.estimator = estimator
        self.random_state = random_state

    def fit(self, X: Any, y: Any) -> PlainRegressor:
        """Fit the estimator to X of shape (n, d) and y of shape (n,)."""
        self.estimator_ = seeded_clone(self.estimator, check_random_state(self.random_state)).fit(X, y)
        return self

    def posterior(self, X: Any) -> Posterior:
        """Return the prediction and a variance of zero, of shape (n,)."""
        mean = np.asarray(self.estimator_.predict(X), dtype=np.float64)
        return Posterior(mean, np.zeros_like(mean))


class TreeSpreadRegressor(PlainRegressor):
    """Mean and variance over the members of a forest or a bagging model.

    Its parameters are those of `PlainRegressor`; the estimator must store its members in `estimators_`.
    """

    def posterior(self, X: Any) -> Posterior:
        """Return mean and variance over the trees, of shape (n,)."""
        X = np.asarray(X)
        return _posterior_over(tree.predict(X) for tree in self.estimator_.estimators_)


class EnsembleRegressor(BaselineRegressor):
    """Mean and variance over M copies of an estimator that differ only in their seeds.

    Parameters
    ----------
    estimator : scikit-learn regressor
        Its fit must depend on its `random_state`: otherwise all members are equal.
    n_members : int, default=3
        M.
    random_state : int, RandomState or None
        Random seed that the seeds of the members are drawn from.
    """

    def __init__(self, estimator: BaseEstimator, n_members: int = 3, random_state: Any = None) -> None:
        self.estimator = estimator
        self.n_members = n_members
        self.random_state = random_state

    def fit(self, X: Any, y: Any) -> EnsembleRegressor:
        """Fit the members to X of shape (n, d) and y of shape (n,)."""
        random_state = check_random_state(self.random_state)
        self.estimators_ = [
            seeded_clone(self.estimator, random_state).fit(X, y) for _ in range(self.n_members)
        ]
        return self

    def posterior(self, X: Any) -> Posterior:
        """Return mean and variance over the members, of shape (n,)."""
        return _posterior_over(member.predict(X) for member in self.estimators_)


class DEUPRegressor(BaselineRegressor):
    """Direct epistemic uncertainty prediction: a second model predicts the error of the first.

    The error model, another copy of `estimator`, learns the absolute error on rows that the first model was
    not trained on.

    Parameters
    ----------
    estimator : scikit-learn regressor
    random_state : int, RandomState or None
        Random seed of both fits.
    """

    def __init__(self, estimator: BaseEstimator, random_state: Any = None) -> None:
        self.estimator = estimator
        self.random_state = random_state

    def fit(self, X: Any, y: Any, X_validation: Any = None, y_validation: Any = None) -> DEUPRegressor:
        """Fit the estimator, then the error estimator on other rows, by default every third one of X."""
        X, y = np.asarray(X), np.asarray(y)
        if X_validation is None:
            held_out = np.arange(len(X)) % 3 == 2
            X, X_validation, y, y_validation = X[~held_out], X[held_out], y[~held_out], y[held_out]
        random_state = check_random_state(self.random_state)
        self.estimator_ = seeded_clone(self.estimator, random_state).fit(X, y)
        error = np.abs(np.asarray(y_validation) - self.estimator_.predict(X_validation))
        self.error_estimator_ = seeded_clone(self.estimator, random_state).fit(X_validation, error)
        return self

    def posterior(self, X: Any) -> Posterior:
        """Return the prediction and the square of its predicted error, of shape (n,)."""
        error = np.maximum(self.error_estimator_.predict(X), 0.0)
        return Posterior(np.asarray(self.estimator_.predict(X), dtype=np.float64), error**2)


class QuantileForestRegressor(BaselineRegressor):
    """The mean of a quantile forest, and half the distance between its 15.9 % and 84.1 % quantiles as σ.

    Needs the `compare` extra (quantile-forest).

    Parameters
    ----------
    n_estimators : int, default=100
        Number of trees.
    random_state : int, RandomState or None
        Random seed of the fit.
    """

    def __init__(self, n_estimators: int = 100, random_state: Any = None) -> None:
        self.n_estimators = n_estimators
        self.random_state = random_state

    def fit(self, X: Any, y: Any) -> QuantileForestRegressor:
        """Fit the forest to X of shape (n, d) and y of shape (n,)."""
        reason = "QuantileForestRegressor needs quantile-forest"
        library: Any = import_optional("quantile_forest", reason, "compare")
        forest = library.RandomForestQuantileRegressor(self.n_estimators, random_state=self.random_state)
        self.estimator_ = forest.fit(np.asarray(X), np.asarray(y))
        return self

    def posterior(self, X: Any) -> Posterior:
        """Return mean and variance, of shape (n,)."""
        X = np.asarray(X)
        lower, upper = self.estimator_.predict(X, quantiles=[1 - _ONE_SIGMA, _ONE_SIGMA]).T
        return Posterior(self.estimator_.predict(X, quantiles="mean"), ((upper - lower) / 2) ** 2)


class NGBoostRegressor(BaselineRegressor):
    """Natural gradient boosting of the mean and variance of a normal distribution, with NGBoost's defaults.

    Needs the `compare` extra (ngboost).

    Parameters
    ----------
    n_estimators : int, default=500
        Number of boosting rounds.
    random_state : int, RandomState or None
        Random seed of the fit.
    """

    def __init__(self, n_estimators: int = 500, random_state: Any = None) -> None:
        self.n_estimators = n_estimators
        self.random_state = random_state

    def fit(self, X: Any, y: Any) -> NGBoostRegressor:
        """Fit to X of shape (n, d) and y of shape (n,)."""
        ngboost: Any = import_optional("ngboost", "NGBoostRegressor needs ngboost", "compare")
        # The trees break ties between equally good splits with their own random state.
        random_state = check_random_state(self.random_state)
        boosting = ngboost.NGBRegressor(
            n_estimators=self.n_estimators,
            Base=seeded_clone(ngboost.learners.default_tree_learner, random_state),
            random_state=random_state,
            verbose=False,
        )
        # Natural gradients do not converge for very small or very large targets: standardise them.
        y = np.asarray(y, dtype=np.float64)
        self.center_, self.scale_ = float(y.mean()), float(y.std()) or 1.0
        self.estimator_ = boosting.fit(np.asarray(X), (y - self.center_) / self.scale_)
        return self

    def posterior(self, X: Any) -> Posterior:
        """Return mean and variance, of shape (n,)."""
        normal = self.estimator_.pred_dist(np.asarray(X))
        mean = self.center_ + self.scale_ * normal.params["loc"]
        return Posterior(mean, (self.scale_ * normal.params["scale"]) ** 2)


def _posterior_over(predictions: Any) -> Posterior:
    """Return mean and variance over predictions of shape (n,), which are consumed one at a time."""
    stream = StreamingPosterior()
    for prediction in predictions:
        stream.update(np.asarray(prediction, dtype=np.float64))
    return stream.posterior()
