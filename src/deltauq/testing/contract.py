"""Checks of estimators that return a `Posterior`. They raise AssertionError."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
from sklearn.base import clone


def check_contract(model: Any, X: Any, y: Any, *, rtol: float = 1e-12) -> None:
    """Run every check of this module on an unfitted anchored estimator that predicts the anchored mean.

    Parameters
    ----------
    model : estimator with `fit`, `posterior` and an integer `random_state`
    X : array of shape (n, d), n >= 4
    y : array of shape (n,)
    rtol : float
        Tolerance relative to the largest output. Trees pass with zero.
    """
    fitted = clone(model).fit(X, y)
    check_posterior(fitted, X)
    check_row_independence(fitted, X, rtol=rtol)
    check_same_seed(model, X, y)
    check_pickle(fitted, X)


def check_posterior(model: Any, X: Any) -> None:
    """Check that mean and variance are the population moments of the samples."""
    posterior = model.posterior(X, return_samples=True)
    assert posterior.samples.shape == (len(model.anchors_), *posterior.mean.shape), (
        "expected one sample per anchor"
    )
    scale = np.max(np.abs(posterior.samples))
    np.testing.assert_allclose(posterior.samples.mean(axis=0), posterior.mean, rtol=1e-9, atol=1e-12 * scale)
    np.testing.assert_allclose(posterior.samples.var(axis=0), posterior.var, rtol=1e-6, atol=1e-12 * scale**2)
    np.testing.assert_array_equal(posterior.variance, posterior.var)
    np.testing.assert_allclose(posterior.std**2, posterior.var, rtol=1e-9)


def check_row_independence(model: Any, X: Any, *, rtol: float = 1e-12) -> None:
    """Check that a row's prediction depends on that row and the stored anchors alone."""
    X = np.asarray(X)
    whole = model.posterior(X)
    order = np.random.default_rng(0).permutation(len(X))
    shuffled = model.posterior(X[order])
    _assert_close(shuffled, whole, order, rtol)
    half = len(X) // 2
    for rows in (np.arange(half), np.arange(half, len(X)), np.array([0]), np.array([len(X) - 1])):
        _assert_close(model.posterior(X[rows]), whole, rows, rtol)


def check_same_seed(model: Any, X: Any, y: Any) -> None:
    """Check that fitting twice with one seed gives one result."""
    first, second = (clone(model).fit(X, y).posterior(X) for _ in range(2))
    np.testing.assert_array_equal(first.mean, second.mean)
    np.testing.assert_array_equal(first.var, second.var)


def check_pickle(model: Any, X: Any) -> None:
    """Check that a fitted estimator predicts the same after a round trip through pickle."""
    before, after = model.posterior(X), pickle.loads(pickle.dumps(model)).posterior(X)
    np.testing.assert_array_equal(before.mean, after.mean)
    np.testing.assert_array_equal(before.var, after.var)


def _assert_close(part: Any, whole: Any, rows: np.ndarray, rtol: float) -> None:
    for name in ("mean", "var"):
        expected = getattr(whole, name)
        # The rounding error of the variance is relative to the squared size of the outputs.
        size = np.max(np.abs(whole.mean)) ** (2 if name == "var" else 1)
        np.testing.assert_allclose(
            getattr(part, name), expected[rows], rtol=rtol, atol=rtol * size, err_msg=name
        )
