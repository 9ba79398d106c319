"""A spread turned into a standard deviation of the target: scaled, and with the noise no model can see."""

from __future__ import annotations

from typing import Self

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import minimize
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from deltauq.calibration._arrays import to_numbers


class GaussianScaler(BaseEstimator):
    """Standard deviations sqrt((scale · σ)² + noise²) of the target, fitted by likelihood on held-out rows.

    A spread over anchors, members or samples says how far the model doubts its own output; the target also
    has noise. Both numbers are fitted on rows that the model was not trained on.

    Parameters
    ----------
    fit_scale : bool, default=True
        Otherwise σ is taken as it is, and only the noise is fitted.

    Attributes
    ----------
    scale_, noise_ : float

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> std = rng.uniform(0.1, 1.0, 5000)
    >>> y = rng.normal(0.0, np.sqrt((2 * std) ** 2 + 0.5**2))
    >>> scaler = GaussianScaler().fit(y, np.zeros(5000), std)
    >>> print(f"{scaler.scale_:.1f} {scaler.noise_:.1f}")
    2.0 0.5
    """

    scale_: float
    noise_: float

    def __init__(self, fit_scale: bool = True) -> None:
        self.fit_scale = fit_scale

    def fit(self, y: ArrayLike, mean: ArrayLike, std: ArrayLike) -> Self:
        """Fit to held-out rows.

        Parameters
        ----------
        y, mean, std : array-like of shape (n,)

        Returns
        -------
        self
        """
        named = {"y": y, "mean": mean, "std": std}
        y, mean, std = (to_numbers(values, name) for name, values in named.items())
        if np.any(std < 0.0):
            raise ValueError("std must not be negative.")
        if y.ndim != 1 or not y.shape == mean.shape == std.shape or len(y) == 0:
            raise ValueError(
                f"y, mean and std must be of one shape (n,), got {y.shape}, {mean.shape} and {std.shape}."
            )
        squares = (y - mean) ** 2
        unit = float(np.sqrt(squares.mean()))
        if unit == 0.0:
            self.scale_, self.noise_ = 0.0 if self.fit_scale else 1.0, 0.0
            return self
        spread = float(np.sqrt(np.mean(std**2))) or unit
        # In units of error and spread both numbers are about one, and logarithms keep them positive.
        squares, variance = squares / unit**2, (std / spread) ** 2
        fixed = 2 * np.log(spread / unit)

        def loss(logs: np.ndarray) -> tuple[float, np.ndarray]:
            scaled = np.exp(logs[1] if self.fit_scale else fixed) * variance
            noise = np.exp(logs[0])
            total = scaled + noise
            slope = 0.5 * (1 / total - squares / total**2)
            gradient = [np.mean(slope * noise), np.mean(slope * scaled)][: len(logs)]
            return float(np.mean(0.5 * (np.log(total) + squares / total))), np.array(gradient)

        # From either end: all noise, or all spread. The likelihood can have a maximum at each.
        starts = [(0.0, -6.0), (-6.0, 0.0), (-0.7, -0.7)] if self.fit_scale else [(0.0,), (-6.0,)]
        bounds = [(-30.0, 5.0)] * len(starts[0])
        best = min(
            (minimize(loss, start, jac=True, method="L-BFGS-B", bounds=bounds) for start in starts),
            key=lambda result: result.fun,
        )
        self.noise_ = unit * float(np.exp(0.5 * best.x[0]))
        self.scale_ = unit / spread * float(np.exp(0.5 * best.x[1])) if self.fit_scale else 1.0
        return self

    def transform(self, std: ArrayLike) -> np.ndarray:
        """Return standard deviations of the target, of shape (n,), for spreads of shape (n,)."""
        check_is_fitted(self)
        return np.hypot(self.scale_ * to_numbers(std, "std"), self.noise_)
