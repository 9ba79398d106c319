"""The metrics of every method in every fold, and when one method counts as better than another."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from scipy.stats import t as student

from deltauq.assessment.scoring import METRICS
from deltauq.assessment.thresholds import (
    ACCURACY_MARGIN,
    CONFIDENCE,
    COST_FACTOR,
    ERROR_MARGIN,
    MAX_WIDTH_RATIO,
    NOTABLE_ACCURACY_MARGIN,
    NOTABLE_ERROR_MARGIN,
    PREDICTED_ROWS,
    RANK_MARGIN,
    USEFUL_RANK,
)

SENSITIVE_TO_OUTLIERS = ("rmse", "log_loss")
"""Errors whose mean may depend on a few rows: a difference that is not significant does not count."""
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
"""Predicts the same for every row: the mean of y, or the class priors."""
ALTERNATIVES = ("tree-spread", "own-std", "ensemble")
ERRORS = {
    "regression": ("mae", "trimmed_mae", "rmse"),
    "classification": ("accuracy", "log_loss", "brier"),
}
"""The metrics of the prediction itself."""


@dataclass(frozen=True)
class FoldMetrics:
    """Every method's metrics in every fold.

    Attributes
    ----------
    task : {"regression", "classification"}
    scores : mapping of method to mapping of metric to array of shape (f,)
        One value per fold; NaN where a metric is not defined.
    overlap : float
        Test rows over training rows of a fold.
    coverage : float
        The nominal coverage.
    rows_per_fold : float
        The mean number of test rows.
    """

    task: str
    scores: Mapping[str, Mapping[str, np.ndarray]]
    overlap: float
    coverage: float = 0.9
    rows_per_fold: float = np.inf

    # Values

    @property
    def errors(self) -> tuple[str, ...]:
        """The metrics of the prediction itself."""
        return ERRORS[self.task]

    @property
    def n_folds(self) -> int:
        """The number of folds."""
        return len(self.scores["plain"]["fit_seconds"])

    def values(self, method: str, name: str) -> np.ndarray:
        """Return a metric in every fold, of shape (f,).

        A fold without a Spearman correlation counts as zero: a constant σ does not rank the errors. NaN
        remains where no fold has one.
        """
        values = self.scores[method][name]
        if name == "spearman" and np.any(np.isfinite(values)):
            return np.nan_to_num(values, nan=0.0)
        return values

    def mean(self, method: str, name: str) -> float:
        """Return a metric's mean over the folds that have it; NaN where none has.

        Of seconds the median: the first fold may include compilation.
        """
        values = self.values(method, name)
        values = values[np.isfinite(values)]
        if len(values) == 0:
            return float("nan")
        return float(np.median(values) if name.endswith("_seconds") else np.mean(values))

    def losses(self, method: str, name: str) -> np.ndarray:
        """Return one of `errors` so that less is better, of shape (f,)."""
        values = self.scores[method][name]
        return 1.0 - values if name == "accuracy" else values

    def mean_loss(self, method: str, name: str) -> float:
        """Return the mean of `losses`; NaN where no fold has one."""
        mean = self.mean(method, name)
        return 1.0 - mean if name == "accuracy" else mean

    def rank_name(self, method: str) -> str:
        """Return the metric of how well a method ranks its errors.

        For a classifier, the larger AUROC of the spread and of the largest probability.
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
        return float(np.nanmean(self.ranks(method))) if self.has_ranking(method) else 0.0

    def has_ranking(self, method: str) -> bool:
        """Return whether any fold has a metric of how well a method ranks its errors."""
        return bool(np.any(np.isfinite(self.scores[method][self.rank_name(method)])))

    def cost(self, method: str) -> float:
        """Return the seconds to fit, and to predict a thousand rows."""
        return self.mean(method, "fit_seconds") + PREDICTED_ROWS * self.mean(method, "row_seconds")

    # Text

    def label(self, method: str) -> str:
        """Return a method's name as it is printed."""
        if self.task == "regression" and method == "plain":
            return "plain, constant width"
        if method == BASELINE:
            return "mean of y" if self.task == "regression" else "class priors"
        return LABELS[method]

    def text(self, method: str, name: str) -> str:
        """Return the mean of a metric as it is printed in the table."""
        return METRICS[name].text(self.mean(method, name))

    def cell(self, method: str, name: str) -> str:
        """Return `text` after an arrow where it differs significantly from the plain model's."""
        arrow = {"higher": "↑ ", "lower": "↓ ", "tie": ""}[self.change(method, name)]
        return arrow + self.text(method, name)

    # Statistics

    def mean_and_error(self, gain: np.ndarray) -> tuple[float, float]:
        """Return the mean of a paired difference of shape (f,), and its standard error.

        Training parts of different folds share rows, so the squared standard error is
        (1/f + overlap) · variance, as Nadeau and Bengio (2003) correct it. NaN is left out; both are NaN
        where fewer than two folds have a difference.
        """
        gain = gain[np.isfinite(gain)]
        if len(gain) < 2:
            return float("nan"), float("nan")
        error = sample_std(gain) * float(np.sqrt(1.0 / len(gain) + self.overlap))
        return float(np.mean(gain)), error

    def exceeds(self, gain: np.ndarray, margin: float) -> bool:
        """Return whether a paired difference of shape (f,) is above a margin, and significant.

        It is significant if its mean is larger than its standard error (`mean_and_error`) by Student's
        quantile for `CONFIDENCE`, which is 2.1 for five folds.
        """
        mean, error = self.mean_and_error(gain)
        factor = float(student.ppf(CONFIDENCE, max(1, int(np.sum(np.isfinite(gain))) - 1)))
        return mean > margin and mean > factor * error

    # Comparisons of two methods

    def ranks_better(self, a: str, b: str) -> bool:
        """Return whether method `a` ranks its errors significantly better than `b` ranks its own."""
        if self.mean_rank(a) < USEFUL_RANK:
            return False
        return self.exceeds(self.ranks(a) - self.ranks(b), RANK_MARGIN)

    def is_larger(self, name: str, a: str, b: str) -> bool:
        """Return whether one error is significantly larger for method `a` than for `b`."""
        smaller = min(self.mean_loss(a, name), self.mean_loss(b, name))
        margin = max(ERROR_MARGIN * smaller, ACCURACY_MARGIN if name == "accuracy" else 0.0)
        return self.exceeds(self.losses(a, name) - self.losses(b, name), margin)

    def is_notably_larger(self, name: str, a: str, b: str) -> bool:
        """Return whether the mean of one error is notably larger for `a` than for `b`, significant or not."""
        error, other = self.mean_loss(a, name), self.mean_loss(b, name)
        return error - other > max(
            NOTABLE_ERROR_MARGIN * other, NOTABLE_ACCURACY_MARGIN if name == "accuracy" else 0.0
        )

    def larger_errors(self, a: str, b: str) -> list[str]:
        """Return the errors that are significantly larger for `a` than for `b`."""
        return [name for name in self.errors if self.is_larger(name, a, b)]

    def possibly_larger_errors(self, a: str, b: str) -> list[str]:
        """Return the errors that are notably, but not significantly, larger for `a` than for `b`."""
        names = [name for name in self.errors if name not in SENSITIVE_TO_OUTLIERS]
        return [n for n in names if self.is_notably_larger(n, a, b) and not self.is_larger(n, a, b)]

    def is_not_less_accurate(self, a: str, b: str) -> bool:
        """Return whether no error is larger for `a` than for `b`, be it significantly or notably."""
        return not self.larger_errors(a, b) and not self.possibly_larger_errors(a, b)

    def is_more_accurate(self, a: str, b: str) -> bool:
        """Return whether an error is significantly smaller for `a` than for `b`, and none is larger."""
        return bool(self.larger_errors(b, a)) and self.is_not_less_accurate(a, b)

    def errors_against_baseline(self, method: str) -> tuple[str, ...]:
        """Return the errors by which a method is compared with the trivial baseline.

        For classes the Brier score alone, or the accuracy of a method without probabilities: the log loss
        may depend on a few rows whose class got a probability near zero, and where one class is frequent, no
        classifier may have a larger accuracy.
        """
        if self.task == "regression":
            return self.errors
        return ("brier",) if np.any(np.isfinite(self.losses(method, "brier"))) else ("accuracy",)

    def beats_baseline(self, method: str) -> bool:
        """Return whether a method predicts better than the mean of y, or than the class priors."""
        if self.task == "regression":
            return self.is_more_accurate(method, BASELINE)
        return any(self.is_larger(name, BASELINE, method) for name in self.errors_against_baseline(method))

    def alternatives(self) -> list[str]:
        """Return the methods other than the plain and the anchored ones that may be recommended."""
        names = [name for name in ALTERNATIVES if name in self.scores and self.beats_baseline(name)]
        if self.task == "regression":  # intervals are too wide where σ is zero for some rows
            widest = MAX_WIDTH_RATIO * self.mean("plain", "width")
            names = [name for name in names if not self.mean(name, "width") > widest]
        return [name for name in names if self.is_not_less_accurate(name, "plain")]

    def change(self, method: str, name: str) -> str:
        """Return whether a metric is significantly "higher" or "lower" than the plain model's, or a "tie"."""
        if name in self.errors:
            more, less = self.is_larger(name, method, "plain"), self.is_larger(name, "plain", method)
            higher, lower = (less, more) if name == "accuracy" else (more, less)
        elif name == self.rank_name(method):
            higher, lower = self.ranks_better(method, "plain"), self.ranks_better("plain", method)
        else:
            return "tie"
        return "higher" if higher else "lower" if lower else "tie"

    def is_cheaper(self, a: str, b: str) -> bool:
        """Return whether method `a` costs clearly less than `b`."""
        return COST_FACTOR * self.cost(a) < self.cost(b)


def sample_std(values: np.ndarray) -> float:
    """Return the sample standard deviation of the finite values; NaN for fewer than two."""
    values = values[np.isfinite(values)]
    if len(values) < 2:
        return float("nan")
    scale = np.max(np.abs(values)) or 1.0  # the squares of very large values would overflow
    return float(scale * np.std(values / scale, ddof=1))
