"""Checks of estimators that return a `Posterior`. They raise AssertionError."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
from sklearn.base import clone, is_classifier


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


_WEIGHTS = "check_sample_weight_equivalence_on_dense_data"

_NO_WEIGHTS = dict.fromkeys(
    [
        _WEIGHTS,
        "check_sample_weights_pandas_series",
        "check_sample_weights_not_an_array",
        "check_sample_weights_list",
        "check_sample_weights_shape",
        "check_sample_weights_not_overwritten",
    ],
    "k-nearest neighbours take no sample weights",
)
_FOREST = "the bootstrap of the forest ignores weights: the forest alone fails this check too"
_SVM = "gamma='scale' and the stopping tolerance ignore weights: the SVM alone fails this check too"
_BOOSTING = "its bins and min_samples_leaf ignore weights: a bagging ensemble of it fails this check too"
_EPOCHS = (
    "each row, also a repeated one, gets a new anchor in every epoch: a bagging ensemble of it fails too"
)

EXPECTED_FAILED_CHECKS: dict[str, dict[str, str]] = {
    "DecisionTreeRegressor": {},
    "DecisionTreeClassifier": {},
    "RandomForestRegressor": {_WEIGHTS: _FOREST},
    "RandomForestClassifier": {_WEIGHTS: _FOREST},
    "KNeighborsRegressor": _NO_WEIGHTS,
    "KNeighborsClassifier": {
        **_NO_WEIGHTS,
        "check_classifiers_one_label_sample_weights": _NO_WEIGHTS[_WEIGHTS],
    },
    "SVR": {_WEIGHTS: _SVM},
    "SVC": {_WEIGHTS: _SVM + "; and cross-validation needs two rows per class, regardless of weights"},
    "HistGradientBoostingRegressor": {_WEIGHTS: _BOOSTING},
    "HistGradientBoostingClassifier": {_WEIGHTS: _BOOSTING},
    "MLPRegressor": {_WEIGHTS: _EPOCHS},
    "MLPClassifier": {_WEIGHTS: _EPOCHS},
}
"""Name of the base estimator -> name of the check -> reason of the failure."""


def expected_failed_checks(model: Any) -> dict[str, str]:
    """Return the checks that an anchored estimator is expected to fail, for `check_estimator`.

    Parameters
    ----------
    model : AnchoredRegressor or AnchoredClassifier

    Returns
    -------
    reasons : dict of check name to reason
        Empty for a base estimator that is not listed.
    """
    default = "RandomForestClassifier" if is_classifier(model) else "RandomForestRegressor"
    name = default if model.estimator is None else type(model.estimator).__name__
    return dict(EXPECTED_FAILED_CHECKS.get(name, {}))
