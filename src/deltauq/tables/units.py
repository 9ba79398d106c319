"""Columns of numbers, rid of their units without rounding."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, OneToOneFeatureMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted, validate_data

USUAL = (-10, 60)
"""Powers of two between which a standard deviation is left alone."""


class UnitScaler(OneToOneFeatureMixin, TransformerMixin, BaseEstimator):
    """Divide columns of very small or very large numbers by the power of two nearest to their spread.

    Trees are said not to mind units, but scikit-learn's take values within 1e-7 of each other for the same,
    and none beyond 1e38. A power of two divides without rounding, so that equal differences of rows and
    anchors stay equal.

    Attributes
    ----------
    scale_ : array of shape (d,)
    """

    def fit(self, X: Any, y: Any = None) -> UnitScaler:
        """Look at columns of shape (n, d)."""
        X = validate_data(self, X, dtype=np.float64)
        largest = np.abs(X).max(axis=0)
        largest[largest == 0.0] = 1.0
        spread = (X / largest).std(axis=0)  # of numbers whose squares are none too large
        spread[spread == 0.0] = 1.0 / largest[spread == 0.0]
        exponents = np.round(np.log2(spread) + np.log2(largest))
        usual = (exponents >= USUAL[0]) & (exponents <= USUAL[1])
        self.scale_ = np.exp2(np.where(usual, 0.0, np.clip(exponents, -1000, 1000)))
        return self

    def transform(self, X: Any) -> np.ndarray:
        """Return columns of shape (n, d) without their units."""
        check_is_fitted(self)
        return np.asarray(validate_data(self, X, dtype=np.float64, reset=False) / self.scale_)
