"""Regression: the methods compared, and the measures of one fold."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.stats import norm, trim1
from sklearn.base import BaseEstimator
from sklearn.dummy import DummyRegressor
from sklearn.ensemble import ExtraTreesRegressor, RandomForestRegressor

from deltauq.assessment.anchoring import Anchoring
from deltauq.baselines import EnsembleRegressor, PlainRegressor, TreeSpreadRegressor
from deltauq.calibration import ConformalRegressor
from deltauq.core import Posterior
from deltauq.estimators import AnchoredRegressor
from deltauq.metrics import coverage, mae, rmse, spearman, width
from deltauq.utils.formatting import short_repr

FORESTS = (RandomForestRegressor, ExtraTreesRegressor)
ROUNDING = 1e-9
"""A spread, or a difference between spreads, below this share of what it belongs to is mere rounding."""

TRIMMED = 0.05
"""The share of the errors, the largest, that the trimmed MAE leaves out."""


class OwnStdRegressor(PlainRegressor):
    """A model whose `predict` returns standard deviations, with these."""

    def posterior(self, X: Any) -> Posterior:
        """Return the model's own mean and variance, of shape (n,)."""
        mean, std = self.estimator_.predict(X, return_std=True)
        return Posterior(np.asarray(mean, dtype=np.float64), np.asarray(std, dtype=np.float64) ** 2)


@dataclass(frozen=True)
class Interval:
    """What a method says about n rows.

    Attributes
    ----------
    mean, std : arrays of shape (n,)
    calibrated : array of shape (n,), or None before calibration
        Standard deviations whose Gaussian intervals have the nominal coverage on rows left out.
    """

    mean: np.ndarray
    std: np.ndarray
    calibrated: np.ndarray | None = None

    __repr__ = short_repr

    def rescaled(self, unit: float) -> Interval:
        """Return the same for targets ``unit`` times as large."""
        calibrated = None if self.calibrated is None else unit * self.calibrated
        return Interval(unit * self.mean, unit * self.std, calibrated)


class Recorded:
    """A model that repeats what was said before; its inputs are row numbers."""

    def __init__(self, *parts: Interval) -> None:
        self.mean = np.concatenate([part.mean for part in parts])
        self.std = np.concatenate([part.std for part in parts])

    def posterior(self, rows: np.ndarray) -> Posterior:
        """Return mean and variance of the rows of these numbers."""
        return Posterior(self.mean[rows], self.std[rows] ** 2)


class Regression:
    """The comparison of regressors.

    Parameters
    ----------
    level : float
        The nominal coverage of intervals.
    """

    name = "regression"

    def __init__(self, level: float) -> None:
        self.level = level

    def methods(self, model: BaseEstimator, anchoring: Anchoring) -> dict[str, Callable[[int], Any]]:
        """Return the methods that can be fitted for a model: name to a function of the seed.

        "center" is missing: it is put together of "plain" and "anchored".
        """
        found: dict[str, Callable[[int], Any]] = {
            "plain": lambda seed: PlainRegressor(model, random_state=seed),
            "anchored": lambda seed: AnchoredRegressor(model, random_state=seed, **anchoring.words()),
        }
        if isinstance(model, FORESTS):
            found["tree-spread"] = lambda seed: TreeSpreadRegressor(model, random_state=seed)
        if "return_std" in inspect.signature(model.predict).parameters:
            found["own-std"] = lambda seed: OwnStdRegressor(model, random_state=seed)
        if has_seed(model):
            found["ensemble"] = lambda seed: EnsembleRegressor(model, random_state=seed)
        found["baseline"] = lambda seed: PlainRegressor(DummyRegressor())
        return found

    def ask(self, fitted: Any, X: np.ndarray) -> Interval:
        """Return a fitted method's prediction for X of shape (n, d), without spread that is mere rounding."""
        posterior = fitted.posterior(X)
        mean, std = np.asarray(posterior.mean), np.asarray(posterior.std)
        if np.max(std) <= ROUNDING * np.sqrt(np.mean(mean**2)):
            return Interval(mean, np.zeros_like(std))
        # A linear model's σ is the same for all inputs, but for its last digits.
        if np.ptp(std) <= ROUNDING * np.max(std):
            return Interval(mean, np.full_like(std, std[0]))
        return Interval(mean, std)

    def center(self, plain: Interval, anchored: Interval) -> Interval:
        """Return the plain model's prediction with the spread over anchors."""
        return Interval(plain.mean, anchored.std)

    def calibrate(self, test: Interval, held: Interval, y_held: np.ndarray) -> Interval:
        """Scale σ so that intervals hold the nominal share of targets.

        Every method gets this same treatment: `ConformalRegressor` on rows that were not fitted to. Where σ
        is zero everywhere, as the plain model's is, all intervals get one width.

        Parameters
        ----------
        test, held : Interval
            Predictions for n test rows, and for m rows that the model was not fitted to either.
        y_held : array of shape (m,)
            m must be at least `rows_needed`.

        Returns
        -------
        calibrated : Interval
            Standard deviations whose Gaussian intervals are the conformal ones.
        """
        rows = np.arange(len(y_held) + len(test.mean))
        conformal = ConformalRegressor(Recorded(held, test)).conformalize(rows[: len(y_held)], y_held)
        lower, upper = conformal.predict_interval(rows[len(y_held) :], self.level)
        return replace(test, calibrated=(upper - lower) / 2.0 / norm.ppf((1.0 + self.level) / 2.0))

    def rows_needed(self) -> int:
        """Return how many rows must be left out to calibrate intervals of the nominal coverage.

        `ConformalRegressor` scores four fifths of them.
        """
        return math.ceil(1.25 * math.ceil(self.level / (1.0 - self.level) - ROUNDING))

    def measure(self, y: np.ndarray, answer: Interval) -> dict[str, float]:
        """Return the measures of one method in one fold.

        Parameters
        ----------
        y : array of shape (n,)
        answer : Interval
            Calibrated.

        Returns
        -------
        measures : dict of str to float
            NaN for `spearman` where σ is the same everywhere, and for `coverage_raw` where it is zero.
        """
        assert answer.calibrated is not None
        silent = not np.any(answer.std > 0)
        return {
            "mae": mae(y, answer.mean),
            "trimmed_mae": float(np.mean(trim1(np.abs(y - answer.mean), TRIMMED))),
            "rmse": rmse(y, answer.mean),
            "spearman": spearman(answer.std, y - answer.mean),
            "coverage_raw": math.nan if silent else coverage(y, answer.mean, answer.std, self.level),
            "coverage": coverage(y, answer.mean, answer.calibrated, self.level),
            "width": width(answer.calibrated, self.level),
        }


def has_seed(model: BaseEstimator) -> bool:
    """Tell whether a model has a random state, without which an ensemble's members are all the same."""
    return any(name.split("__")[-1] == "random_state" for name in model.get_params(deep=True))
