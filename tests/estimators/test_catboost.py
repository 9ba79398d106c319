"""CatBoost as the base estimator, on real tables."""

import numpy as np
import pytest
from sklearn.datasets import load_diabetes, load_wine
from sklearn.model_selection import train_test_split

from deltauq import AnchoredClassifier, AnchoredRegressor
from deltauq.metrics import accuracy, mae, nll, spearman
from deltauq.testing import check_contract

catboost = pytest.importorskip("catboost")
PARAMS = {
    "iterations": 100,
    "thread_count": 1,
    "verbose": False,
    "allow_writing_files": False,
    "random_state": 0,
}


def split(table):
    """Return X, X_test, y, y_test."""
    return train_test_split(*table(return_X_y=True), train_size=100, random_state=0)


def anchored(kind, base, **params):
    return kind(base(**PARAMS), n_anchors=20, n_train_anchors=10, random_state=0, **params)


def test_regressor():
    X, X_test, y, y_test = split(load_diabetes)
    model = anchored(AnchoredRegressor, catboost.CatBoostRegressor, calibrate="cv").fit(X, y)
    posterior = model.posterior(X_test)
    plain = catboost.CatBoostRegressor(**PARAMS).fit(X, y)
    assert mae(y_test, posterior.mean) < 1.05 * mae(y_test, plain.predict(X_test))
    assert spearman(posterior.std, y_test - posterior.mean) > 0
    mean, std = model.predict(X_test, return_std=True)
    np.testing.assert_array_equal(mean, posterior.mean)
    np.testing.assert_allclose(std, model.calibrated_std(posterior.std))
    lower, upper = model.predict_interval(X_test, coverage=0.9)
    assert 0.84 < np.mean((lower <= y_test) & (y_test <= upper)) < 0.97


def test_classifier():
    X, X_test, y, y_test = split(load_wine)
    model = anchored(AnchoredClassifier, catboost.CatBoostClassifier).fit(X, y)
    proba, std = model.predict_proba(X_test, return_std=True)
    assert accuracy(y_test, proba) > 0.93 and nll(y_test, proba) < 0.25
    np.testing.assert_array_equal(model.predict(X_test), proba.argmax(axis=1))
    posterior = model.posterior(X_test)
    np.testing.assert_allclose(posterior.mean, proba)
    np.testing.assert_allclose(posterior.std, std)
    wrong = model.predict(X_test) != y_test
    assert std.max(axis=1)[wrong].mean() > std.max(axis=1)[~wrong].mean()


@pytest.mark.parametrize(
    ("kind", "base", "table"),
    [
        (AnchoredRegressor, catboost.CatBoostRegressor, load_diabetes),
        (AnchoredClassifier, catboost.CatBoostClassifier, load_wine),
    ],
)
def test_contract(kind, base, table):
    X, _, y, _ = split(table)
    check_contract(anchored(kind, base), X, y)
    first, second = (anchored(kind, base).set_params(random_state=seed).fit(X, y) for seed in (0, 1))
    assert np.any(first.posterior(X).mean != second.posterior(X).mean)
