"""What was measured, fold by fold, and when a difference between two methods is more than noise."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from scipy.stats import t as student

CONFIDENCE = 0.95
"""One-sided: a difference counts when noise alone would reach it in one case out of twenty."""

PREDICTED_ROWS = 1000
"""The rows whose prediction is part of what a method costs."""

LABELS = {
    "plain": "plain",
    "anchored": "anchored",
    "center": "anchored, σ only",
    "tree-spread": "spread of its trees",
    "own-std": "its own std",
    "ensemble": "ensemble of 3",
    "baseline": "baseline",
}
BASELINE = "baseline"
"""Predicts the same for every row: the mean of y, or the class frequencies."""
RIVALS = ("tree-spread", "own-std", "ensemble")


@dataclass(frozen=True)
class Measures:
    """Every method's measures in every fold.

    Attributes
    ----------
    task : {"regression", "classification"}
    scores : mapping of method to mapping of measure to array of shape (f,)
        One value a fold; NaN where a method cannot say. For both tasks `fit_seconds` and `row_seconds`;
        for regression `mae`, `trimmed_mae`, `rmse`, `spearman`, `coverage_raw`, `coverage`, `width`; for
        classification `accuracy`, `brier`, `log_loss`, `ece`, `auroc_spread`, `auroc_confidence`.
    overlap : float
        Test rows over training rows of a fold.
    level : float
        The nominal coverage.
    rows_per_fold : float
        The mean number of test rows.
    """

    task: str
    scores: Mapping[str, Mapping[str, np.ndarray]]
    overlap: float
    level: float = 0.9
    rows_per_fold: float = np.inf

    def rivals(self) -> list[str]:
        """Return the methods that compete with the anchored ones."""
        return [name for name in RIVALS if name in self.scores]

    def values(self, method: str, name: str) -> np.ndarray:
        """Return a measure in every fold, of shape (f,).

        Of `spearman`, a fold without one counts as zero: σ that is the same everywhere ranks nothing. NaN
        remains where no fold has one.
        """
        values = self.scores[method][name]
        if name == "spearman" and np.any(np.isfinite(values)):
            return np.nan_to_num(values, nan=0.0)
        return values

    def mean(self, method: str, name: str) -> float:
        """Return a measure's mean over the folds that have it (see `values`); NaN where none has.

        Of seconds the median: the first fold may pay for compiling.
        """
        values = self.values(method, name)
        values = values[np.isfinite(values)]
        if len(values) == 0:
            return float("nan")
        return float(np.median(values) if name.endswith("_seconds") else np.mean(values))

    def error_names(self) -> tuple[str, ...]:
        """Return the measures of the prediction itself."""
        if self.task == "regression":
            return ("mae", "trimmed_mae", "rmse")
        return ("accuracy", "log_loss", "brier")

    def errors(self, method: str, name: str) -> np.ndarray:
        """Return one of `error_names` so that less is better, of shape (f,)."""
        values = self.scores[method][name]
        return 1.0 - values if name == "accuracy" else values

    def mean_error(self, method: str, name: str) -> float:
        """Return the mean of `errors`; NaN where no fold has one."""
        mean = self.mean(method, name)
        return 1.0 - mean if name == "accuracy" else mean

    def label(self, method: str) -> str:
        """Return a method's name for people."""
        if self.task == "regression" and method == "plain":
            return "plain, one width"
        if method == BASELINE:
            return "mean of y" if self.task == "regression" else "class frequencies"
        return LABELS[method]

    def rank_name(self, method: str) -> str:
        """Return the measure that tells how well a method ranks its errors.

        A classifier may be judged by the spread of its probabilities or by the largest of them: by the one
        that does better.
        """
        if self.task == "regression":
            return "spearman"
        means = {name: self.mean(method, name) for name in ("auroc_confidence", "auroc_spread")}
        return max(means, key=lambda name: -np.inf if np.isnan(means[name]) else means[name])

    def ranks(self, method: str) -> np.ndarray:
        """Return how well a method ranks its errors, of shape (f,): 1 is perfect, 0 is chance.

        Spearman's correlation of σ and |error|, zero where there is none; or 2 AUROC − 1, which is NaN in a
        fold where a classifier is always or never right.
        """
        values = self.values(method, self.rank_name(method))
        return np.nan_to_num(values, nan=0.0) if self.task == "regression" else 2.0 * values - 1.0

    def mean_rank(self, method: str) -> float:
        """Return the mean of `ranks`; zero where no fold has one."""
        values = self.ranks(method)
        values = values[np.isfinite(values)]
        return float(np.mean(values)) if len(values) > 0 else 0.0

    def has_ranking(self, method: str) -> bool:
        """Tell whether it was measured in any fold how well a method ranks its errors."""
        return bool(np.any(np.isfinite(self.scores[method][self.rank_name(method)])))

    def cost(self, method: str) -> float:
        """Return the seconds it takes to fit, and to predict a thousand rows."""
        return self.mean(method, "fit_seconds") + PREDICTED_ROWS * self.mean(method, "row_seconds")

    def mean_and_error(self, gain: np.ndarray) -> tuple[float, float]:
        """Return the mean of a paired difference, and its standard error.

        Training parts of different folds share rows, so the squared standard error is
        (1/f + overlap) · variance, as Nadeau and Bengio (2003) correct it.

        Parameters
        ----------
        gain : array of shape (f,)
            One difference a fold; NaN is left out.

        Returns
        -------
        mean, error : float
            NaN where fewer than two folds have a difference.
        """
        gain = gain[np.isfinite(gain)]
        if len(gain) < 2:
            return float("nan"), float("nan")
        variance = (1.0 / len(gain) + self.overlap) * float(np.var(gain, ddof=1))
        return float(np.mean(gain)), float(np.sqrt(variance))

    def exceeds(self, gain: np.ndarray, margin: float) -> bool:
        """Tell whether a paired difference is above a margin, and above what noise would do.

        Its mean must be larger than its standard error (`mean_and_error`) by Student's 95 % quantile, which
        is 2.1 for five folds.

        Parameters
        ----------
        gain : array of shape (f,)
            One difference a fold; NaN is left out.
        margin : float

        Returns
        -------
        exceeds : bool
        """
        mean, error = self.mean_and_error(gain)
        factor = float(student.ppf(CONFIDENCE, max(1, int(np.sum(np.isfinite(gain))) - 1)))
        return mean > margin and mean > factor * error
