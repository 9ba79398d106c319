"""Levels of risk of a row: by the expected size of its error, and by how far it is from the training rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

RISK_LEVELS = ("low", "moderate", "high")
RISK_FRACTIONS = (0.20, 0.05)
"""Of rows like the training data, at most these shares have a moderate or high, and a high risk."""
SECOND_FRACTION = 0.2
"""The part of these rows for the second of two measures: the first one ranks errors better."""
ROUNDING = 1e-9
"""Numbers that were written to a file and read again may be this far beyond a range, in its unit."""


@dataclass(frozen=True)
class RiskScale:
    """The limits beyond which the risk of a row is moderate, and high.

    Attributes
    ----------
    limits : dict of str to (float, float)
        For each measure of risk: `size`, the expected size of the error, or for classification 1 minus the
        probability of the predicted class; and `beyond`, the distance from the range of the training rows.
    """

    limits: dict[str, tuple[float, float]]

    @classmethod
    def from_measures(cls, measures: Mapping[str, np.ndarray]) -> RiskScale:
        """Return the limits that a new row exceeds with a probability of at most `RISK_FRACTIONS`.

        This is conformal prediction: if n rows and a new row are exchangeable, the new row exceeds the a-th
        largest value of the n with a probability of at most a / (n + 1). Both measures share the rows that
        may exceed a limit. Where n is too small, the limit is the largest float. A measure is an array of
        shape (n,), of rows that were not used to compute it.
        """
        limits: dict[str, list[float]] = {name: [] for name in measures}
        for share in RISK_FRACTIONS:
            for k, (name, values) in enumerate(measures.items()):
                part = (1.0 - SECOND_FRACTION, SECOND_FRACTION)[k] * share
                n, allowed = len(values), int(part * (len(values) + 1) + 1e-9)
                limits[name].append(
                    float(np.sort(values)[n - allowed]) if allowed > 0 else np.finfo(np.float64).max
                )
        return cls({name: (moderate, high) for name, (moderate, high) in limits.items()})

    def levels(self, measures: Mapping[str, np.ndarray]) -> np.ndarray:
        """Return the `RISK_LEVELS` of n rows, by the measure with the higher level."""
        steps = [np.searchsorted(limits, measures[name]) for name, limits in self.limits.items()]
        return np.array(RISK_LEVELS, dtype=object)[np.max(steps, axis=0)]


@dataclass(frozen=True)
class ColumnRanges:
    """The ranges of the columns of training rows; missing values are never beyond them.

    Attributes
    ----------
    low, high : arrays of shape (d,)
        The smallest and largest values.
    unit : array of shape (d,)
        The standard deviations, or 1 for constant columns.
    """

    low: np.ndarray
    high: np.ndarray
    unit: np.ndarray

    @classmethod
    def of(cls, X: np.ndarray) -> ColumnRanges:
        """Return the ranges of n rows."""
        X = np.where(np.isnan(X).all(axis=0), 0.0, X)  # a column without any value
        low, high = np.nanmin(X, axis=0), np.nanmax(X, axis=0)
        # The standard deviation of a constant column may be a rounding error.
        return cls(low, high, np.where(low < high, np.nanstd(X, axis=0), 1.0))

    def beyond(self, X: np.ndarray) -> np.ndarray:
        """Return how far rows are beyond the range, in standard deviations of the farthest column."""
        return self._distance(X, self.low, self.high)

    def beyond_others(self, X: np.ndarray) -> np.ndarray:
        """Return how far each of the training rows is beyond the range of the others."""
        return self._distance(X, _smallest_of_others(X), -_smallest_of_others(-X))

    def _distance(self, X: np.ndarray, low: np.ndarray, high: np.ndarray) -> np.ndarray:
        distance = np.maximum(low - X, X - high) / self.unit
        return np.max(np.where(distance > ROUNDING, distance, 0.0), axis=1)  # false for NaN


def _smallest_of_others(X: np.ndarray) -> np.ndarray:
    """Return, for each value of a column, the smallest of the others; NaN if there is none."""
    ordered = np.sort(X, axis=0)  # NaN is last
    return np.where(ordered[0] == X, ordered[min(1, len(X) - 1)], ordered[0])
