"""Scaling of σ: δ for values near zero, and a standard deviation that includes the noise of the target."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import minimize
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from deltauq.calibration._arrays import to_numbers
from deltauq.core import Posterior

DELTAS = (100.0, 30.0, 10.0, 3.0, 1.0, 0.3)
"""Candidates for δ, in units of the root mean square of σ. With the first, σ + δ is nearly constant."""
TIE = 1e-9
"""Losses that differ by less are equal."""
ROUNDING = 1e-9
"""A σ below this share of the root mean square of the outputs is a rounding error, and counts as zero."""


def choose_delta(
    errors: ArrayLike, std: ArrayLike, weights: np.ndarray | None = None, *, largest: float = DELTAS[0]
) -> Any:
    """Return δ, the number added to σ so that a σ near zero does not claim an error near zero.

    A model may have σ = 0 on rows that it predicts wrongly: a σ near zero is no evidence of a small error.
    Everything that divides errors by σ, or that makes intervals from it, therefore uses σ + δ. Of a few
    multiples of the root mean square of σ, the one with the largest likelihood is chosen, for errors that
    have a Laplace distribution with scale b · (σ + δ) and the best b. If σ is not informative, δ is large.

    Parameters
    ----------
    errors : array-like of shape (n,) or (n, o)
        Absolute errors of rows that the model was not trained on.
    std : array-like of the same shape
        σ of these rows.
    weights : array of shape (n,), optional
        Weights of the rows.
    largest : float, default=100.0
        Largest multiple that may be chosen. If it is small, σ + δ still grows where σ does, as far from the
        data, although the errors of these rows do not depend on σ.

    Returns
    -------
    delta : float, or array of shape (o,)
        Positive. For each output separately.
    """
    errors, std = np.asarray(errors), np.asarray(std)
    columns = zip(errors.reshape(len(errors), -1).T, std.reshape(len(std), -1).T, strict=True)
    shares = [share for share in DELTAS if share <= largest]
    deltas = [_likeliest_delta(*column, weights, shares) for column in columns]
    return np.reshape(deltas, errors.shape[1:])[()]


def _likeliest_delta(
    errors: np.ndarray, std: np.ndarray, weights: np.ndarray | None, shares: list[float]
) -> float:
    error = float(np.average(errors, weights=weights))
    rms = float(np.sqrt(np.average(std**2, weights=weights)))
    if rms == 0.0 or error == 0.0:
        # σ carries no information: any δ of the right unit will do.
        return error or rms or 1.0
    scales = [std + share * rms for share in shares]
    losses = np.array(
        [
            np.average(np.log(scale), weights=weights) + np.log(np.average(errors / scale, weights=weights))
            for scale in scales
        ]
    )
    # The largest of equals, so that rounding does not decide: with a single row all of them are equal.
    return shares[int(np.argmax(losses <= losses.min() + TIE))] * rms


def permuted_features(X: np.ndarray, rng: np.random.Generator, n: int = 256) -> np.ndarray:
    """Return inputs whose features come from two random rows each.

    The size of σ can differ between two models of the same data: that of a linear model depends on how the
    fit happens to divide its coefficients between anchor and difference. The `typical_std` on inputs like
    these makes such models comparable. On training rows it would not, since σ of a tree is zero there.

    Parameters
    ----------
    X : array of shape (n_rows, d)
        Training rows.
    rng : numpy.random.Generator
    n : int, default=256
        Number of inputs.

    Returns
    -------
    inputs : array of shape (n, d)
    """
    first, second = rng.integers(len(X), size=(2, n))
    return np.where(rng.random((n, X.shape[1])) < 0.5, X[first], X[second])


def significant_std(posterior: Posterior) -> np.ndarray:
    """Return σ of shape (n, ...), with zero in place of rounding errors of the outputs."""
    size = np.sqrt(np.mean(posterior.mean**2, axis=0))
    return np.where(posterior.std > ROUNDING * size, posterior.std, 0.0)


def typical_std(posterior: Posterior) -> Any:
    """Return the root mean square of σ for each output, or one where σ is zero everywhere."""
    rms = np.sqrt(np.mean(significant_std(posterior) ** 2, axis=0))
    return np.where(rms > 0, rms, 1.0)[()]


class GaussianScaler(BaseEstimator):
    """Standard deviations sqrt((scale · σ)² + noise²) of the target, fitted by likelihood on held-out rows.

    A spread over anchors, members or samples is the uncertainty of the model; the target also has noise. Both
    numbers are fitted on rows that the model was not trained on.

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
