"""A linear model of the columns, and of Gaussian kernels of several widths around training rows."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from scipy.linalg import svd
from scipy.special import expit, softmax
from sklearn.base import BaseEstimator, TransformerMixin, is_classifier
from sklearn.impute import SimpleImputer
from sklearn.metrics.pairwise import euclidean_distances
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils import check_random_state

N_WIDTHS = 4
WIDEST = 1 / 27
"""Of squared distances, relative to the number of columns. Each width has three times the factor of the
previous one: its kernel is then the third power."""
SMALLEST_EIGENVALUE = 1e-12
BLOCK_ROWS = 2048


class GaussianKernels(TransformerMixin, BaseEstimator):
    """The columns, and kernels of four widths around random rows, made uncorrelated on these rows.

    These are `sklearn.kernel_approximation.Nystroem` features of each width, around the same rows.

    Parameters
    ----------
    n_kernels : int, default=100
        Number of rows; at most half of the rows are used.
    random_state : int, RandomState or None, default=None
        Random seed.

    Attributes
    ----------
    centers_ : array of shape (m, d)
        The rows.
    normalizations_ : array of shape (4, m, m)
        For each width, what kernels are multiplied by.
    """

    def __init__(self, n_kernels: int = 100, random_state: int | np.random.RandomState | None = None) -> None:
        self.n_kernels = n_kernels
        self.random_state = random_state

    def fit(self, X: np.ndarray, y: Any = None) -> Self:
        """Draw rows; `y` is not used."""
        order = check_random_state(self.random_state).permutation(len(X))
        self.centers_ = X[order[: min(self.n_kernels, len(X) // 2)]]
        self.normalizations_ = np.stack([_inverse_root(kernel) for kernel in self.kernels(self.centers_)])
        return self

    def transform(self, X: np.ndarray) -> np.ndarray:
        """Return features of n rows, of shape (n, d + 4 m)."""
        parts = zip(self.kernels(X), self.normalizations_, strict=True)
        return np.hstack([X, *(kernel @ normalization for kernel, normalization in parts)])

    def kernels(self, X: np.ndarray) -> Any:
        """Yield the kernels of each width, of shape (n, m). Each replaces the previous one in memory."""
        kernel = euclidean_distances(X, self.centers_, squared=True)
        kernel *= -WIDEST / X.shape[1]
        np.exp(kernel, out=kernel)
        yield kernel
        for _ in range(N_WIDTHS - 1):
            kernel *= kernel**2
            yield kernel


class SmoothPipeline(Pipeline):
    """A pipeline with `GaussianKernels`, whose linear steps are combined to predict.

    Predictions are those of the pipeline but for rounding, in a fraction of the time. `smooth_pipeline` makes
    one.
    """

    def fit(self, X: Any, y: Any = None, **params: Any) -> Self:
        """Fit the steps, and combine those that are linear."""
        super().fit(X, y, **params)
        kernels, scaler, linear = self["kernels"], self["scale"], self["linear"]
        weights = np.atleast_2d(linear.coef_).T / scaler.scale_[:, None]
        self.intercept_ = np.atleast_1d(linear.intercept_) - scaler.mean_ @ weights
        d, n_outputs = kernels.centers_.shape[1], weights.shape[1]
        self.column_weights_ = weights[:d]
        by_width = weights[d:].reshape(N_WIDTHS, -1, n_outputs)
        self.kernel_weights_ = kernels.normalizations_ @ by_width
        return self

    def outputs(self, X: Any) -> np.ndarray:
        """Return the outputs of the linear model for n rows, of shape (n, o)."""
        X = np.asarray(X, dtype=np.float64)
        outputs = np.empty((len(X), len(self.intercept_)))
        for start in range(0, len(X), BLOCK_ROWS):
            rows = slice(start, start + BLOCK_ROWS)
            Z = self["standardize"].transform(self["impute"].transform(X[rows]))
            outputs[rows] = self.intercept_ + Z @ self.column_weights_
            for kernel, weights in zip(self["kernels"].kernels(Z), self.kernel_weights_, strict=True):
                outputs[rows] += kernel @ weights
        return outputs

    def predict(self, X: Any, **params: Any) -> np.ndarray:
        """Return predictions, or the most probable classes."""
        if is_classifier(self):
            return np.asarray(self["linear"].classes_[self.predict_proba(X).argmax(axis=1)])
        return self.outputs(X)[:, 0]

    def predict_proba(self, X: Any, **params: Any) -> np.ndarray:
        """Return the probabilities of the classes, of shape (n, c)."""
        outputs = self.outputs(X)
        if outputs.shape[1] > 1:
            return np.asarray(softmax(outputs, axis=1))
        second = expit(outputs)
        return np.hstack([1.0 - second, second])


def smooth_pipeline(linear: BaseEstimator, n_kernels: int) -> SmoothPipeline:
    """Return an unfitted linear model of scaled columns and of kernels around `n_kernels` rows."""
    return SmoothPipeline(
        [
            ("impute", SimpleImputer(strategy="median", keep_empty_features=True)),
            ("standardize", StandardScaler()),
            ("kernels", GaussianKernels(n_kernels)),
            ("scale", StandardScaler()),
            ("linear", linear),
        ]
    )


def _inverse_root(kernel: np.ndarray) -> np.ndarray:
    """Return the inverse square root of a symmetric positive matrix."""
    left, values, _ = svd(kernel)
    return np.asarray((left / np.sqrt(np.maximum(values, SMALLEST_EIGENVALUE))) @ left.T)
