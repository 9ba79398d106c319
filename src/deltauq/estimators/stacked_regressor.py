"""`StackedRegressor`."""

from __future__ import annotations

from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import minimize
from scipy.special import ndtri
from sklearn.base import RegressorMixin
from sklearn.ensemble import ExtraTreesRegressor, HistGradientBoostingRegressor
from sklearn.linear_model import RidgeCV
from sklearn.utils import assert_all_finite
from sklearn.utils.parallel import delayed

from deltauq.calibration import Difficulty, conformal_quantile, quantiles_of_scores
from deltauq.core import Posterior
from deltauq.estimators._stacking import BaseStacked, Member, Scored, numbers_of_kept, smooth_member
from deltauq.estimators.base_estimators import FORESTS
from deltauq.estimators.compiled_trees import forest_moments, plain_outputs
from deltauq.estimators.regressor import AnchoredRegressor
from deltauq.utils.formatting import as_text

SMOOTHING = 0.1
"""In units of the root mean square error of the best member. It gives the absolute error a gradient."""
LOG_WEIGHTS = 4.0
RIDGE_PENALTIES = tuple(np.logspace(-8, 3, 23).tolist())
PAIRS, MIN_ANCHORS, MAX_ANCHORS = 10_000, 5, 50
"""Of anchored boosting: half of the pairs of `AnchoredRegressor`, since other members make up for it."""
STD_LEVEL = 0.9
"""A standard deviation is the half-width of intervals of this coverage over that of a normal distribution."""


class StackedRegressor(RegressorMixin, BaseStacked):
    """Predictions, quantiles and prediction intervals from several models, by out-of-fold predictions.

    Members of different kinds are fitted to the same rows: gradient boosting with labelled anchors and
    without, extremely randomised trees, and ridge regression on smooth features. Every training row is
    predicted by members of the other folds, and from these predictions three things are learned:

    - the weights of the members, with the smallest mean absolute error; members that do not help are left
      out;
    - the `Difficulty` of a row, the expected size of its error, from the variance over anchors, the
      variance over trees, the disagreement of the members, and the inputs;
    - the quantiles of the errors, in units of the difficulty. They give prediction intervals that are wide
      where errors are large, and not symmetric if errors are not.

    All rows train the members that predict. If there are more than 20,000 rows, a part of them is held out
    instead.

    Parameters
    ----------
    estimators : "auto" or list of (str, estimator) pairs, default="auto"
        The members. They learn the standardised target, so that losses for positive targets cannot be used.
        Those with a `posterior` method and forests also have a variance, but not within a pipeline.
    quick : bool, default=False
        Whether to use three folds instead of five, and smaller members: a quarter of the time, at somewhat
        wider intervals.
    random_state : int, RandomState or None, default=None
        Random seed.
    n_jobs : int or None, default=None
        Number of threads.

    Attributes
    ----------
    names_ : list of str
        The names of the members that are kept.
    estimators_ : list of estimators
        These members, fitted.
    weights_ : array of shape (m,)
        Their weights, which add up to one.
    difficulty_ : Difficulty
        The model of the size of errors.
    sizes_, scores_ : arrays of shape (n,)
        The expected sizes of the errors of the training rows, or of those that were held out, and the errors
        divided by them.
    member_errors_ : dict of str to float
        The mean absolute error of every member on rows that did not train it.
    error_ : float
        That of the weighted mean.
    n_scored_ : int
        The number of scores.
    std_factor_ : float
        The standard deviation of a row in units of the expected size of its error.
    target_mean_, target_scale_, target_range_
        Mean and standard deviation of the targets, and the range of the standardised targets.
    n_features_in_, feature_names_in_
        As in scikit-learn.

    Notes
    -----
    Scores of rows that were held out are exchangeable with the score of a new row from the same distribution:
    the coverage of an interval is then at least the nominal one, on average over training sets. Scores from
    folds are those of members that saw fewer rows than the ones that predict. Their coverage is near the
    nominal one in practice, and usually slightly above it, but it is not guaranteed.

    Examples
    --------
    >>> from deltauq import StackedRegressor
    >>> from sklearn.datasets import load_diabetes
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = StackedRegressor(quick=True, random_state=0).fit(X[:300], y[:300])
    >>> lower, upper = model.predict_interval(X[300:], coverage=0.9)
    >>> quantiles = model.predict_quantiles(X[300:], [0.05, 0.5, 0.95])
    >>> quantiles.shape
    (142, 3)
    """

    def predict(self, X: Any, return_std: bool = False) -> Any:
        """Return predictions and, if required, their standard deviations.

        Parameters
        ----------
        X : array-like of shape (n, d)
            Inputs.
        return_std : bool, default=False
            Whether to return standard deviations: half-widths of 90 % intervals over 1.645.

        Returns
        -------
        mean : array of shape (n,)
            Weighted means of the members, which minimise the absolute error; not the median of the quantiles.
        std : array of shape (n,), only if `return_std`
        """
        mean, sizes = self.predict_sizes(X)
        return (mean, self.std_factor_ * sizes) if return_std else mean

    def posterior(self, X: Any) -> Posterior:
        """Return mean and variance of the target, arrays of shape (n,), as `predict` with `return_std`."""
        mean, std = self.predict(X, return_std=True)
        return Posterior(mean, std**2)

    def predict_sizes(self, X: Any) -> tuple[np.ndarray, np.ndarray]:
        """Return predictions and the expected sizes of their errors, each of shape (n,)."""
        X, means, variances = self._predict_members(X)
        mean, spread = _combined(means, variances, self.weights_)
        blocks = zip(*(self._blocks(part) for part in (X, mean, spread)), strict=True)
        sizes = np.concatenate(
            self._threads(delayed(self.difficulty_.predict)(*block, plain_outputs) for block in blocks)
        )
        return self.target_mean_ + self.target_scale_ * mean, self.target_scale_ * sizes

    def predict_quantiles(self, X: Any, levels: ArrayLike) -> np.ndarray:
        """Return quantiles of the target.

        Parameters
        ----------
        X : array-like of shape (n, d)
            Inputs.
        levels : array-like of shape (q,)
            Levels in (0, 1). Higher levels have higher quantiles, for every row.

        Returns
        -------
        quantiles : array of shape (n, q)
            Infinite, with a warning, where a level is too near zero or one for the number of scores.
        """
        mean, sizes = self.predict_sizes(X)
        return mean[:, None] + sizes[:, None] * quantiles_of_scores(self.scores_, levels)

    def predict_interval(self, X: Any, coverage: float = 0.9) -> tuple[np.ndarray, np.ndarray]:
        """Return prediction intervals between two quantiles, with the same share of targets beyond each.

        Parameters
        ----------
        X : array-like of shape (n, d)
            Inputs.
        coverage : float, default=0.9
            Nominal coverage, in (0, 1).

        Returns
        -------
        lower, upper : arrays of shape (n,)
        """
        if not isinstance(coverage, Real) or not 0.0 < coverage < 1.0:
            raise ValueError(f"coverage must lie between 0 and 1, got {as_text(coverage)}.")
        tail = (1.0 - coverage) / 2.0
        lower, upper = self.predict_quantiles(X, [tail, 1.0 - tail]).T
        return lower, upper

    def set_jobs(self, n_jobs: int | None) -> None:
        """Set the number of threads that predict."""
        super().set_jobs(n_jobs)
        self.difficulty_.forest_.n_jobs = n_jobs

    def _default_members(self, n: int) -> list[Member]:
        return regression_members(n, quick=self.quick)

    def _read_target(self, y: np.ndarray) -> np.ndarray:
        try:
            y = np.asarray(y, dtype=np.float64)
        except ValueError as error:
            raise ValueError(f"y must be numeric, but {error}.") from error
        assert_all_finite(y, input_name="y")
        # Divided by the largest first, so that squares do not overflow.
        largest = float(np.abs(y).max()) or 1.0
        self.target_mean_ = largest * float(np.mean(y / largest))
        self.target_scale_ = largest * float(np.std(y / largest)) or 1.0
        y = (y - self.target_mean_) / self.target_scale_
        self.target_range_ = (float(y.min()), float(y.max()))
        return y

    def _moments(self, model: Any, X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        if hasattr(model, "posterior"):
            posterior = model.posterior(X)
            mean, var = posterior.mean, posterior.var
        elif isinstance(model, FORESTS):
            mean, var = forest_moments(model, X)
        else:
            outputs = plain_outputs(model, X)
            outputs = np.asarray(model.predict(X) if outputs is None else outputs, dtype=np.float64)
            mean, var = outputs.reshape(len(X)), np.zeros(len(X))
        # A linear model may predict anything for a row far from the data.
        low, high = self.target_range_
        return np.clip(mean, 2 * low - high, 2 * high - low), var

    def _combine(
        self, X: np.ndarray, y: np.ndarray, scored: Scored, names: list[str], rng: np.random.RandomState
    ) -> list[int]:
        X, y, means, variances = X[scored.rows], y[scored.rows], scored.mean, scored.var
        learned, others = scored.halves(rng)
        self.n_scored_ = len(others)
        kept = numbers_of_kept(fit_weights(y[learned], means[:, learned]))
        means, variances = means[kept], variances[kept]
        self.weights_ = fit_weights(y[learned], means[:, learned])
        mean, spread = _combined(means, variances, self.weights_)
        errors = np.abs(y - mean)
        self.difficulty_ = Difficulty(random_state=rng, n_jobs=self.n_jobs)
        groups = None if scored.groups is None else scored.groups[learned]
        self.difficulty_.fit(X[learned], mean[learned], spread[learned], errors[learned], groups)
        sizes = self.difficulty_.sizes_
        if scored.is_held_out:
            sizes = self.difficulty_.predict(X[others], mean[others], spread[others])
        self.scores_ = (y - mean)[others] / sizes
        self.sizes_ = sizes * self.target_scale_
        self.std_factor_ = _std_factor(np.sort(np.abs(self.scores_)))
        of_members = np.mean(np.abs(scored.mean - y), axis=1) * self.target_scale_
        self.member_errors_ = dict(zip(names, of_members.tolist(), strict=True))
        self.error_ = float(errors.mean()) * self.target_scale_
        return kept


def _combined(means: np.ndarray, variances: np.ndarray, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the weighted mean, and variances of shape (n, m + 1): of the members, and between them."""
    mean = weights @ means
    return mean, np.column_stack([*variances, np.mean((means - mean) ** 2, axis=0)])


def fit_weights(y: np.ndarray, means: np.ndarray) -> np.ndarray:
    """Return positive weights of members, which add up to one, with the smallest mean absolute error."""
    if len(means) == 1:
        return np.ones(1)

    def loss(logs: np.ndarray) -> tuple[float, np.ndarray]:
        weights = np.exp(logs - logs.max())
        weights /= weights.sum()
        error = weights @ errors
        size = np.sqrt(error**2 + SMOOTHING**2)
        slope = errors @ (error / size) / len(y)
        return float(size.mean()), weights * (slope - weights @ slope)

    # In units of the errors of the best member, which are much smaller than the target if it is good.
    squares = np.mean((means - y) ** 2, axis=1)
    errors = (means - y) / np.sqrt(min(squares[squares > 0], default=1.0))
    bounds = [(-LOG_WEIGHTS, LOG_WEIGHTS)] * len(means)
    logs = minimize(loss, np.zeros(len(means)), jac=True, method="L-BFGS-B", bounds=bounds).x
    weights = np.exp(logs - logs.max())
    return np.asarray(weights / weights.sum())


def _std_factor(scores: np.ndarray) -> float:
    """Return the quantile of absolute scores over that of a normal distribution.

    With fewer than nine scores the level is below `STD_LEVEL`; where more than 90 % of the scores are zero,
    it is that of the smallest other score.
    """
    n = len(scores)
    zeros = int(np.searchsorted(scores, 0.0, side="right"))
    level = min(max(STD_LEVEL, (zeros + 1) / (n + 1)), n / (n + 1))
    return float(conformal_quantile(scores, level) / ndtri((1.0 + level) / 2.0))


def regression_members(
    n: int, *, quick: bool = False, store_rows: bool = True, **anchoring: Any
) -> list[Member]:
    """Return the members of `StackedRegressor`.

    Parameters
    ----------
    n : int
        Number of training rows.
    quick : bool, default=False
        Whether to return smaller members.
    store_rows : bool, default=True
        Whether members besides the anchored one may contain rows of the training data.
    **anchoring : dict
        Parameters of `AnchoredRegressor`.

    Returns
    -------
    members : list of (str, estimator) pairs
    """
    size = (
        {"max_iter": 60, "max_leaf_nodes": 31, "learning_rate": 0.15}
        if quick
        else {"max_iter": 200, "max_leaf_nodes": 62}
    )
    boosting = HistGradientBoostingRegressor(**size, max_bins=127, early_stopping=False)
    n_train_anchors = min(n, MAX_ANCHORS, max(MIN_ANCHORS, PAIRS // n))
    return [
        (
            "anchored boosting",
            AnchoredRegressor(boosting, **{"n_train_anchors": n_train_anchors, **anchoring}),
        ),
        ("boosting", HistGradientBoostingRegressor(early_stopping=False)),
        ("extra-trees", ExtraTreesRegressor(30 if quick else 100)),
        ("smooth", smooth_member(quick, store_rows, RidgeCV(RIDGE_PENALTIES))),
    ]
