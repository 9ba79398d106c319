"""Methods of prediction intervals: ours, and those of other libraries made conformal in the same way."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from sklearn.ensemble import BaggingRegressor
from sklearn.exceptions import ConvergenceWarning
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel
from sklearn.model_selection import KFold

from deltauq.baselines import NGBoostRegressor, PlainRegressor, QuantileForestRegressor, TreeSpreadRegressor
from deltauq.calibration import ConformalRegressor, choose_delta, conformal_quantile, regression_scores
from deltauq.core import Posterior
from deltauq.estimators import AnchoredRegressor, StackedRegressor, regression_members
from experiments.regression_tables import BASES

LEVELS = tuple(k / 20 for k in range(1, 20))
"""Levels of quantiles; the first and the last are the ends of intervals with a coverage of 90 %."""
ENDS = (LEVELS[0], 0.5, LEVELS[-1])
HELD_OUT = 0.25
N_FOLDS = 5
N_MEMBERS = 20

Array = np.ndarray
PredictPosterior = Callable[[Array], Posterior]
PredictQuantiles = Callable[[Array], Array]


@dataclass
class SpreadIntervals:
    """Intervals mean ± q · (σ + δ), where q is a quantile of conformal scores."""

    posterior: PredictPosterior
    conformal: ConformalRegressor

    def predict(self, X: Array) -> Array:
        """Return the mean."""
        return np.asarray(self.posterior(X).mean)

    def predict_interval(self, X: Array, coverage: float) -> tuple[Array, Array]:
        """Return both ends of the intervals."""
        posterior = self.posterior(X)
        return self.conformal.interval(posterior.mean, posterior.std, coverage)

    def predict_quantiles(self, X: Array, levels: Sequence[float]) -> Array:
        """Return the ends of the intervals whose tails have these levels, of shape (n, levels)."""
        posterior = self.posterior(X)
        scale = posterior.std + self.conformal.delta_
        factors = [
            0.0
            if level == 0.5
            else np.sign(level - 0.5) * conformal_quantile(self.conformal.scores_, abs(2 * level - 1))
            for level in levels
        ]
        return np.asarray(posterior.mean[:, None] + scale[:, None] * np.array(factors))


def held_out(
    fit: Callable[[Array, Array, int], PredictPosterior], X: Array, y: Array, seed: int
) -> SpreadIntervals:
    """Train on three quarters of the rows, which are in random order, and score the others."""
    n_scored = int(HELD_OUT * len(y))
    posterior = fit(X[n_scored:], y[n_scored:], seed)
    return SpreadIntervals(posterior, _conformal(y[:n_scored], [posterior(X[:n_scored])]))


def cross(
    fit: Callable[[Array, Array, int], PredictPosterior], X: Array, y: Array, seed: int
) -> SpreadIntervals:
    """Train on all rows, and score each one by a model of the other folds."""
    folds = list(KFold(N_FOLDS, shuffle=True, random_state=seed).split(X))
    scored = [fit(X[train], y[train], seed)(X[test]) for train, test in folds]
    conformal = _conformal(np.concatenate([y[test] for _, test in folds]), scored)
    return SpreadIntervals(fit(X, y, seed), conformal)


def _conformal(y: Array, scored: Iterable[Posterior]) -> ConformalRegressor:
    """Return conformal scores. δ is chosen on the scored rows; if σ is zero, widths are constant."""
    mean, std = (np.concatenate(parts) for parts in zip(*((p.mean, p.std) for p in scored), strict=True))
    delta = choose_delta(np.abs(y - mean), std)
    return ConformalRegressor.from_scores(regression_scores(y, mean, std, delta), delta)


def catboost(X: Array, y: Array, seed: int) -> PredictPosterior:
    """Fit CatBoost with its defaults; σ is zero."""
    return PlainRegressor(BASES["catboost"](seed), random_state=seed).fit(X, y).posterior


def extra_trees(X: Array, y: Array, seed: int) -> PredictPosterior:
    """Fit 100 extra-trees; σ is their spread."""
    return TreeSpreadRegressor(BASES["extra-trees-100"](seed), random_state=seed).fit(X, y).posterior


def catboost_and_trees(X: Array, y: Array, seed: int) -> PredictPosterior:
    """Fit CatBoost, and extra-trees for σ."""
    mean, spread = catboost(X, y, seed), extra_trees(X, y, seed)
    return lambda X: Posterior(mean(X).mean, spread(X).var)


def catboost_uncertainty(X: Array, y: Array, seed: int) -> PredictPosterior:
    """Fit CatBoost with a normal likelihood; the variance is its total one, of knowledge and of data."""
    model = BASES["catboost"](seed).set_params(loss_function="RMSEWithUncertainty").fit(X, y)

    def posterior(X: Array) -> Posterior:
        total = model.virtual_ensembles_predict(X, prediction_type="TotalUncertainty", thread_count=1)
        return Posterior(model.predict(X)[:, 0], total[:, 1:].sum(axis=1))

    return posterior


def ngboost(X: Array, y: Array, seed: int) -> PredictPosterior:
    """Fit NGBoost with its defaults: a normal distribution."""
    return NGBoostRegressor(random_state=seed).fit(X, y).posterior


def bagged_boosting(X: Array, y: Array, seed: int) -> PredictPosterior:
    """Fit boosting to bootstrap samples; σ is the spread of the members."""
    bagged = BaggingRegressor(BASES["boosting"](seed), N_MEMBERS)
    return TreeSpreadRegressor(bagged, random_state=seed).fit(X, y).posterior


def gaussian_process(X: Array, y: Array, seed: int) -> PredictPosterior:
    """Fit a Gaussian process with one length scale and noise; its variance includes the noise."""
    kernel = ConstantKernel() * RBF() + WhiteKernel()
    model = GaussianProcessRegressor(kernel, normalize_y=True, random_state=seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # a parameter at its bound
        model.fit(X, y)

    def posterior(X: Array) -> Posterior:
        mean, std = model.predict(X, return_std=True)
        return Posterior(mean, std**2)

    return posterior


def labelled_boosting(X: Array, y: Array, seed: int) -> SpreadIntervals:
    """Fit boosting with labelled anchors, and its scores of folds."""
    model = AnchoredRegressor(BASES["boosting"](seed), calibrate="cv", random_state=seed).fit(X, y)
    # These scores are in units of `typical_std_`.
    unit, scores = model.typical_std_, model.conformal_
    conformal = ConformalRegressor.from_scores(scores.scores_ / unit, scores.delta_ * unit)
    return SpreadIntervals(model.posterior, conformal)


# -- conformalised quantile regression -------------------------------------------------------------


@dataclass
class QuantileIntervals:
    """Conformalised quantile regression: both ends of an interval are moved by the quantile of the scores.

    Attributes
    ----------
    levels : tuple of float
        Of the quantiles, symmetric around 0.5.
    quantiles : callable
        Returns the quantiles of n inputs, of shape (n, levels).
    shifts : array of shape (levels,)
        What is added to them.
    """

    levels: tuple[float, ...]
    quantiles: PredictQuantiles
    shifts: Array

    def predict(self, X: Array) -> Array:
        """Return the median."""
        return self.quantiles(X)[:, len(self.levels) // 2]

    def predict_interval(self, X: Array, coverage: float) -> tuple[Array, Array]:
        """Return both ends of the intervals: the first and the last quantile."""
        if not math.isclose(coverage, self.levels[-1] - self.levels[0]):
            raise ValueError(f"the quantiles have a coverage of {self.levels[-1] - self.levels[0]:g}.")
        moved = self._moved(X)
        return moved[:, 0], moved[:, -1]

    def predict_quantiles(self, X: Array, levels: Sequence[float]) -> Array | None:
        """Return the quantiles, or None if other levels were fitted."""
        return self._moved(X) if self.levels == tuple(levels) else None

    def _moved(self, X: Array) -> Array:
        return np.sort(self.quantiles(X) + self.shifts, axis=1)


def conformal_quantiles(
    fit: Callable[[Array, Array, int, Sequence[float]], PredictQuantiles],
    levels: tuple[float, ...],
    X: Array,
    y: Array,
    seed: int,
) -> QuantileIntervals:
    """Train on three quarters of the rows, and score the others by the distance from each interval."""
    n_scored = int(HELD_OUT * len(y))
    quantiles = fit(X[n_scored:], y[n_scored:], seed, levels)
    scored = quantiles(X[:n_scored])
    shifts = np.zeros(len(levels))
    for k in range(len(levels) // 2):
        scores = np.maximum(scored[:, k] - y[:n_scored], y[:n_scored] - scored[:, -1 - k])
        shifts[-1 - k] = conformal_quantile(scores, levels[-1 - k] - levels[k])
        shifts[k] = -shifts[-1 - k]
    return QuantileIntervals(levels, quantiles, shifts)


def catboost_quantiles(X: Array, y: Array, seed: int, levels: Sequence[float]) -> PredictQuantiles:
    """Fit one model of CatBoost for all levels."""
    loss = f"MultiQuantile:alpha={','.join(map(str, levels))}"
    predict: PredictQuantiles = BASES["catboost"](seed).set_params(loss_function=loss).fit(X, y).predict
    return predict


def forest_quantiles(X: Array, y: Array, seed: int, levels: Sequence[float]) -> PredictQuantiles:
    """Fit a quantile forest."""
    forest = QuantileForestRegressor(random_state=seed).fit(X, y).estimator_
    return lambda X: np.asarray(forest.predict(X, quantiles=list(levels)))


def boosting_quantiles(
    base: str, loss: str, level_name: str, X: Array, y: Array, seed: int, levels: Sequence[float]
) -> PredictQuantiles:
    """Fit a model for each level; the parameters for the loss and the level have these names."""
    models = [
        BASES[base](seed).set_params(**{loss: "quantile", level_name: level}).fit(X, y) for level in levels
    ]
    return lambda X: np.column_stack([model.predict(X) for model in models])


def stacked(X: Array, y: Array, seed: int, quick: bool = False, anchored: bool = True) -> StackedRegressor:
    """Fit the members of `StackedRegressor`, or those without anchors."""
    members = [
        (name, model)
        for name, model in regression_members(len(X), quick=quick)
        if anchored or not isinstance(model, AnchoredRegressor)
    ]
    return StackedRegressor(members, quick=quick, random_state=seed).fit(X, y)


REFERENCE = "catboost-held-out"
METHODS: dict[str, Callable[[Array, Array, int], Any]] = {
    "stacked": stacked,
    "stacked-quick": partial(stacked, quick=True),
    "stacked-no-anchors": partial(stacked, anchored=False),
    "boosting-labelled": labelled_boosting,
    "catboost-held-out": partial(held_out, catboost),
    "catboost-cross": partial(cross, catboost),
    "catboost-cross-trees": partial(cross, catboost_and_trees),
    "catboost-cqr": partial(conformal_quantiles, catboost_quantiles, ENDS),
    "catboost-uncertainty": partial(held_out, catboost_uncertainty),
    "lightgbm-cqr": partial(
        conformal_quantiles, partial(boosting_quantiles, "lightgbm", "objective", "alpha"), ENDS
    ),
    "hist-boosting-cqr": partial(
        conformal_quantiles, partial(boosting_quantiles, "boosting", "loss", "quantile"), ENDS
    ),
    "quantile-forest-cqr": partial(conformal_quantiles, forest_quantiles, LEVELS),
    "ngboost": partial(held_out, ngboost),
    "extra-trees": partial(held_out, extra_trees),
    "bagged-boosting": partial(held_out, bagged_boosting),
    "gp": partial(held_out, gaussian_process),
}
"""Name of a method to a function of X, y and a seed, which returns the fitted method."""
OURS = ("stacked", "stacked-quick", "stacked-no-anchors", "boosting-labelled")
