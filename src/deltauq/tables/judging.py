"""How good predictions are whose targets are known: row by row, and in numbers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.stats import binom

from deltauq.calibration.conformal import conformal_quantile
from deltauq.metrics import (
    accuracy,
    auroc,
    brier,
    calibration_curve,
    crps,
    ece,
    gaussian_nll,
    mae,
    nll,
    r2,
    rmse,
    spearman,
)
from deltauq.tables.errors import TableError
from deltauq.tables.model import RISK_LEVELS, TableModel, error_probability, error_std
from deltauq.utils.formatting import short_repr

COVERAGES = np.array([0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99])
N_GROUPS = 10
CHANCE = 0.05
"""The probability that groups in all of which the coverage holds are said to have one where it fails."""
OUTLIER_SHARE = 0.01
"""The share of rows, those with the largest errors, that `Judged.trimmed` leaves out."""


@dataclass(frozen=True)
class Judged:
    """What is known of predictions once their targets are.

    Attributes
    ----------
    loss : array of shape (n,)
        The absolute error; of classes 1 for a mistake and 0 otherwise.
    spread : array of shape (n,)
        The standard deviation of errors that the model tells; of classes the root of the summed variances
        over anchors.
    missed : bool array of shape (n,)
        Whether the target lies outside the interval or set.
    size : array of shape (n,)
        The width of the interval, or the number of classes in the set.
    risk : array of n strings
    metrics : dict of str to float
    trimmed : dict of str to float
        Of a regression: the metrics that a few outliers can rule, without the 1 % of rows with the largest
        errors. Empty for classes, and for fewer than 100 rows.
    curve : (claimed, observed), arrays of shape (l,)
        Coverage of intervals; of classes, accuracy where the model is so confident.
    """

    loss: np.ndarray
    spread: np.ndarray
    missed: np.ndarray
    size: np.ndarray
    risk: np.ndarray
    metrics: dict[str, float]
    trimmed: dict[str, float]
    curve: tuple[np.ndarray, np.ndarray]

    __repr__ = short_repr


@dataclass(frozen=True)
class Group:
    """Rows that are about equally uncertain, or whose risk is the same.

    Attributes
    ----------
    rows : int
    low, high : float
        The range of their spread.
    loss, coverage, size : float
        Means over them.
    median_loss : float
    """

    rows: int
    low: float
    high: float
    loss: float
    coverage: float
    size: float
    median_loss: float


def judge_numbers(model: TableModel, y: np.ndarray, columns: dict[str, Any]) -> Judged:
    """Judge the predictions of a regression.

    Parameters
    ----------
    model : TableModel
    y : array of shape (n,)
    columns : dict
        What `TableModel.predict_columns` gives.

    Returns
    -------
    judged : Judged
    """
    prediction, std = (np.asarray(columns[name], dtype=np.float64) for name in ("prediction", "std"))
    lower, upper = columns["lower"], columns["upper"]
    missed = (y < lower) | (y > upper)
    # In the model's unit, so that no square leaves the range of numbers.
    with np.errstate(over="ignore"):
        target, mean = ((values - model.center) / model.unit for values in (y, prediction))
        sigma = std / model.unit
        if not np.all(np.isfinite(target)):
            raise TableError(f"{model.target} has values too far from those that the model was trained on.")
        size = np.abs(target - mean)
        metrics = {
            **_error_metrics(target, mean, sigma, model.unit),
            "median_absolute_error": float(np.median(size)) * model.unit,
            "spearman": spearman(sigma, size),
            "coverage": 1.0 - float(missed.mean()),
            "width": float(np.mean(upper - lower)),
            "median_width": float(np.median(upper - lower)),
        }
        trimmed = {}
        if n_outliers := int(OUTLIER_SHARE * len(size)):
            kept = np.argsort(size, kind="stable")[:-n_outliers]
            trimmed = _error_metrics(target[kept], mean[kept], sigma[kept], model.unit)
    error = np.abs(y - prediction)
    curve = _coverage_curve(model, error, std)
    return Judged(error, std, missed, upper - lower, columns["risk"], metrics, trimmed, curve)


def judge_classes(model: TableModel, y: np.ndarray, columns: dict[str, Any]) -> Judged:
    """Judge the predictions of classes.

    Parameters
    ----------
    model : TableModel
    y : int array of shape (n,)
        Which of `model.classes` each target is.
    columns : dict
        What `TableModel.predict_columns` gives.

    Returns
    -------
    judged : Judged
    """
    classes = model.classes
    proba = np.column_stack([columns[f"probability_{name}"] for name in classes])
    spread = np.sqrt(sum(np.asarray(columns[f"std_{name}"]) ** 2 for name in classes))
    mistaken = proba.argmax(axis=1) != y
    missed = np.array([classes[k] not in members for k, members in zip(y, columns["set"], strict=True)])
    size = np.array([len(members) for members in columns["set"]], dtype=np.float64)
    found = {
        "accuracy": accuracy(y, proba),
        "log_loss": nll(y, proba),
        "brier": brier(y, proba),
        "ece": ece(y, proba),
        "auroc_spread": _auroc(mistaken, spread),
        "auroc_confidence": _auroc(mistaken, error_probability(proba)),
        "coverage": 1.0 - float(missed.mean()),
        "set_size": float(size.mean()),
    }
    curve = calibration_curve(y, proba, N_GROUPS)
    filled = curve.count > 0
    points = curve.confidence[filled], curve.accuracy[filled]
    return Judged(mistaken.astype(np.float64), spread, missed, size, columns["risk"], found, {}, points)


def group(judged: Judged, n_groups: int = N_GROUPS) -> list[Group]:
    """Return groups of equally many rows, the least uncertain first.

    Parameters
    ----------
    judged : Judged
    n_groups : int, default=10
        Fewer where there are fewer rows.

    Returns
    -------
    groups : list of Group
    """
    order = np.argsort(judged.spread, kind="stable")
    return [_group_of(judged, rows) for rows in np.array_split(order, min(n_groups, len(order)))]


def group_by_risk(judged: Judged) -> dict[str, Group]:
    """Return the rows of each level of risk that there are rows of, the lowest first."""
    parts = {level: np.flatnonzero(judged.risk == level) for level in RISK_LEVELS}
    return {level: _group_of(judged, rows) for level, rows in parts.items() if len(rows)}


def find_failing_group(groups: list[Group], coverage: float) -> int | None:
    """Return which group holds the smallest share of its targets, if that is less than promised.

    Of each group a binomial test tells how probable so few targets would be if the coverage held there; the
    probabilities are multiplied by the number of groups (Bonferroni).

    Parameters
    ----------
    groups : list of Group
    coverage : float
        What was promised.

    Returns
    -------
    index : int or None
        None where the smallest probability is above 5 %.
    """
    held = np.array([round(part.coverage * part.rows) for part in groups])
    rows = np.array([part.rows for part in groups])
    failing = np.flatnonzero(binom.cdf(held, rows, coverage) * len(groups) < CHANCE)
    return int(min(failing, key=lambda k: held[k] / rows[k])) if len(failing) else None


def _group_of(judged: Judged, rows: np.ndarray) -> Group:
    return Group(
        len(rows),
        float(judged.spread[rows].min()),
        float(judged.spread[rows].max()),
        float(judged.loss[rows].mean()),
        1.0 - float(judged.missed[rows].mean()),
        float(judged.size[rows].mean()),
        float(np.median(judged.loss[rows])),
    )


def _error_metrics(y: np.ndarray, mean: np.ndarray, std: np.ndarray, unit: float) -> dict[str, float]:
    """Return the metrics that an outlier can rule, of targets in a unit, in the unit of the table."""
    return {
        "mae": mae(y, mean) * unit,
        "rmse": rmse(y, mean) * unit,
        "r2": r2(y, mean),
        "nll": gaussian_nll(y, mean, std) + float(np.log(unit)),
        "crps": crps(y, mean, std) * unit,
    }


def reach(model: TableModel, level: float) -> float:
    """Return how far to either side intervals of a level reach, in units of σ + δ."""
    return float(conformal_quantile(model.fitted.scores, level))


def _coverage_curve(model: TableModel, error: np.ndarray, std: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the levels that held-out rows can promise, and the share of targets in intervals of each."""
    n = len(model.fitted.scores)
    levels = COVERAGES[(n + 1) * COVERAGES <= n + 1e-9]
    unit = error_std(model.fitted.scores, np.ones(1))
    width = np.divide(std, unit, out=np.zeros_like(std), where=unit > 0)
    return levels, np.array([np.mean(error <= reach(model, level) * width) for level in levels])


def _auroc(mistaken: np.ndarray, uncertainty: np.ndarray) -> float:
    """Return how well uncertainty tells mistakes; not a number where all rows are alike."""
    if mistaken.all() or not mistaken.any():
        return float("nan")
    return auroc(uncertainty[~mistaken], uncertainty[mistaken])
