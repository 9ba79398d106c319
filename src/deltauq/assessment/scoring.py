"""The metrics of predictions with known targets: what they are called, computed and printed."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.stats import trim1

from deltauq import metrics
from deltauq.utils.formatting import short_repr

TRIMMED = 0.05
"""The share of the errors, the largest, that the trimmed MAE leaves out."""


@dataclass(frozen=True)
class Predictions:
    """Predictions for n rows.

    Attributes
    ----------
    value : array of shape (n,)
        The predicted number, or the index of the predicted class.
    spread : array of shape (n,), or None
        σ. For classes, the variance of the probabilities summed over classes, or its root.
    lower, upper : arrays of shape (n,), or None
        Calibrated intervals of the nominal coverage.
    proba : array of shape (n, c), or None
        Probabilities of the classes.
    error_score : array of shape (n,), or None
        One minus the largest probability; minus the margin for a classifier that has decision scores only.
    sets : bool array of shape (n, c), or None
        Prediction sets of the nominal coverage.
    """

    value: np.ndarray
    spread: np.ndarray | None = None
    lower: np.ndarray | None = None
    upper: np.ndarray | None = None
    proba: np.ndarray | None = None
    error_score: np.ndarray | None = None
    sets: np.ndarray | None = None

    __repr__ = short_repr

    def standardized(self, center: float, unit: float) -> Predictions:
        """Return the predictions for targets ``(y - center) / unit``."""
        values = {name: getattr(self, name) for name in ("value", "lower", "upper")}
        scaled = {name: (array - center) / unit for name, array in values.items() if array is not None}
        return replace(self, spread=None if self.spread is None else self.spread / unit, **scaled)

    def covers(self, y: np.ndarray) -> np.ndarray:
        """Return whether the interval or set of each row contains its target, of shape (n,)."""
        if self.sets is not None:
            return np.asarray(self.sets[np.arange(len(y)), y])
        assert self.lower is not None and self.upper is not None
        return np.asarray((self.lower <= y) & (y <= self.upper))

    def sizes(self) -> np.ndarray:
        """Return the widths of the intervals, or the numbers of classes in the sets, of shape (n,)."""
        if self.sets is not None:
            return self.sets.sum(axis=1, dtype=np.float64)
        assert self.lower is not None and self.upper is not None
        return np.asarray(self.upper - self.lower)


@dataclass(frozen=True)
class Metric:
    """A metric and how it is presented.

    Attributes
    ----------
    header : str
        A short name, for the header of a column; "{}" stands for the nominal coverage.
    meaning : str
        A longer name.
    compute : callable, or None
        Of targets, `Predictions` and the nominal coverage.
    format : str
        Format of the value; by default three significant digits.
    scale : float
        Factor of the value in text.
    """

    header: str
    meaning: str
    compute: Callable[[np.ndarray, Any, float], Any] | None = None
    format: str = ""
    scale: float = 1.0

    def text(self, value: float) -> str:
        """Return a value as text; a dash for NaN."""
        value *= self.scale
        return self.format.format(value) if self.format and math.isfinite(value) else number(value)


def compute(
    names: Iterable[str], y: np.ndarray, predictions: Predictions, coverage: float
) -> dict[str, float]:
    """Return metrics of predictions, by keys of `METRICS`; NaN for what cannot be computed.

    Targets are numbers, or indices of classes.
    """
    return {name: float(METRICS[name].compute(y, predictions, coverage)) for name in names}  # type: ignore[misc]


def rescale(values: Mapping[str, Any], unit: float) -> dict[str, Any]:
    """Return metrics as they are for targets ``unit`` times as large."""
    rescaled = {n: unit * value if n in IN_TARGET_UNIT else value for n, value in values.items()}
    if "nll" in rescaled:
        rescaled["nll"] = rescaled["nll"] + math.log(unit)
    return rescaled


def number(value: float) -> str:
    """Return three significant digits, or all digits before the decimal point; a dash for NaN."""
    if not math.isfinite(value):
        return "–"
    return f"{value:,.0f}" if 1e3 <= abs(value) < 1e12 else f"{value:.3g}"


def _std_coverage(y: np.ndarray, p: Predictions, coverage: float) -> float:
    if p.spread is None or not np.any(p.spread > 0):
        return math.nan
    return metrics.coverage(y, p.value, p.spread, coverage)


def _auroc_of_misclassified(y: np.ndarray, p: Predictions, uncertainty: np.ndarray | None) -> float:
    misclassified = p.value != y
    if uncertainty is None or np.all(misclassified) or not np.any(misclassified):
        return math.nan
    return metrics.auroc(uncertainty[~misclassified], uncertainty[misclassified])


def _of_proba(metric: Callable[..., float]) -> Callable[[np.ndarray, Predictions, float], float]:
    return lambda y, p, _: math.nan if p.proba is None else metric(y, p.proba)


METRICS = {
    "median_absolute_error": Metric(
        "median |error|", "median absolute error", lambda y, p, _: np.median(np.abs(y - p.value))
    ),
    "mae": Metric("MAE", "mean absolute error", lambda y, p, _: metrics.mae(y, p.value)),
    "trimmed_mae": Metric(
        "trimmed MAE",
        f"mean absolute error without the largest {TRIMMED:.0%}",
        lambda y, p, _: np.mean(trim1(np.abs(y - p.value), TRIMMED)),
    ),
    "rmse": Metric("RMSE", "root mean squared error", lambda y, p, _: metrics.rmse(y, p.value)),
    "r2": Metric("R²", "R², explained share of the variance", lambda y, p, _: metrics.r2(y, p.value)),
    "accuracy": Metric("accuracy", "accuracy", lambda y, p, _: np.mean(p.value == y), "{:.1%}"),
    "brier": Metric("Brier score", "Brier score, from 0 to 2", _of_proba(metrics.brier)),
    "log_loss": Metric("log loss", "log loss, in nats", _of_proba(metrics.nll)),
    "ece": Metric("ECE", "expected calibration error", _of_proba(metrics.ece)),
    "spearman": Metric(
        "Spearman",
        "Spearman correlation of σ and |error|",
        lambda y, p, _: metrics.spearman(p.spread, y - p.value),
        "{:.2f}",
    ),
    "auroc_spread": Metric(
        "AUROC σ",
        "AUROC of σ for misclassifications",
        lambda y, p, _: _auroc_of_misclassified(y, p, p.spread),
        "{:.2f}",
    ),
    "auroc_confidence": Metric(
        "AUROC conf.",
        "AUROC of 1 − largest probability for misclassifications",
        lambda y, p, _: _auroc_of_misclassified(y, p, p.error_score),
        "{:.2f}",
    ),
    "coverage_raw": Metric("uncal. {}", "uncalibrated coverage (nominal {})", _std_coverage, "{:.1%}"),
    "coverage": Metric("cal. {}", "coverage (nominal {})", lambda y, p, _: np.mean(p.covers(y)), "{:.1%}"),
    "median_width": Metric("median width", "median width of intervals", lambda y, p, _: np.median(p.sizes())),
    "width": Metric("width", "mean width of intervals", lambda y, p, _: np.mean(p.sizes())),
    "set_size": Metric("set size", "mean number of classes in a set", lambda y, p, _: np.mean(p.sizes())),
    "nll": Metric(
        "NLL",
        "negative log-likelihood of normal errors, in nats",
        lambda y, p, _: metrics.gaussian_nll(y, p.value, p.spread),
    ),
    "crps": Metric(
        "CRPS", "continuous ranked probability score", lambda y, p, _: metrics.crps(y, p.value, p.spread)
    ),
    "fit_seconds": Metric("fit s", "seconds to fit", format="{:.2g}"),
    "row_seconds": Metric("µs/row", "microseconds to predict one row", scale=1e6),
}
"""Every metric by its key, in the order of tables."""
IN_TARGET_UNIT = ("median_absolute_error", "mae", "trimmed_mae", "rmse", "median_width", "width", "crps")
