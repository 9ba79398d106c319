"""Baselines for tables, each against something independent."""

import sys

import numpy as np
import pytest
from sklearn.ensemble import RandomForestRegressor
from sklearn.linear_model import LinearRegression
from sklearn.neighbors import KNeighborsRegressor
from sklearn.tree import DecisionTreeRegressor

from deltauq.baselines import (
    DEUPRegressor,
    EnsembleRegressor,
    NGBoostRegressor,
    PlainRegressor,
    QuantileForestRegressor,
    TreeSpreadRegressor,
)


def heteroscedastic(n, seed=0):
    """A line whose noise grows from nothing on the left to one on the right."""
    rng = np.random.default_rng(seed)
    x = rng.uniform(0, 1, size=(n, 1))
    return x, 3 * x[:, 0] + x[:, 0] * rng.normal(size=n)


def test_plain_has_zero_variance(table):
    X, y = table
    posterior = PlainRegressor(LinearRegression()).fit(X, y).posterior(X)
    np.testing.assert_allclose(posterior.mean, LinearRegression().fit(X, y).predict(X))
    np.testing.assert_array_equal(posterior.std, 0.0)


def test_ensemble_posterior_is_moments_of_members(table):
    X, y = table
    model = EnsembleRegressor(RandomForestRegressor(3), n_members=4, random_state=0).fit(X, y)
    members = np.array([member.predict(X) for member in model.estimators_])
    assert len({member.random_state for member in model.estimators_}) == 4
    mean, std = model.predict(X, return_std=True)
    np.testing.assert_allclose(mean, members.mean(axis=0))
    np.testing.assert_allclose(std, members.std(axis=0), atol=1e-12)
    np.testing.assert_array_equal(model.predict(X), mean)


def test_tree_spread_is_moments_of_trees(table):
    X, y = table
    model = TreeSpreadRegressor(RandomForestRegressor(6), random_state=0).fit(X, y)
    trees = np.array([tree.predict(X) for tree in model.estimator_.estimators_])
    posterior = model.posterior(X)
    np.testing.assert_allclose(posterior.mean, model.estimator_.predict(X))
    np.testing.assert_allclose(posterior.var, trees.var(axis=0), atol=1e-12)


def test_deup_learns_the_absolute_error():
    X, y = heteroscedastic(2000)
    X_validation, y_validation = heteroscedastic(2000, seed=1)
    model = DEUPRegressor(KNeighborsRegressor(100)).fit(X, y, X_validation, y_validation)
    grid = np.array([[0.1], [0.5], [0.9]])
    # The mean absolute error of normal noise of size s is s times the square root of 2 / π.
    np.testing.assert_allclose(model.posterior(grid).std, grid[:, 0] * np.sqrt(2 / np.pi), rtol=0.25)


def test_deup_holds_out_rows_by_default():
    X, y = heteroscedastic(300)
    model = DEUPRegressor(DecisionTreeRegressor(), random_state=0).fit(X, y)
    assert model.estimator_.tree_.n_node_samples[0] == 200
    assert model.error_estimator_.tree_.n_node_samples[0] == 100


@pytest.mark.parametrize(
    "model", [QuantileForestRegressor(random_state=0), NGBoostRegressor(300, random_state=0)]
)
def test_wrapped_libraries_learn_heteroscedastic_noise(model):
    X, y = heteroscedastic(1000)
    posterior = model.fit(X, y).posterior(np.array([[0.1], [0.9]]))
    np.testing.assert_allclose(posterior.mean, [0.3, 2.7], atol=0.7)
    assert posterior.std[1] > 2 * posterior.std[0]


@pytest.mark.parametrize("factor", [1e-4, 1e4])
def test_ngboost_is_equivariant_to_target_units(factor):
    X, y = heteroscedastic(300)
    ours = NGBoostRegressor(30, random_state=0).fit(X, y).posterior(X)
    scaled = NGBoostRegressor(30, random_state=0).fit(X, factor * y).posterior(X)
    np.testing.assert_allclose(scaled.mean, factor * ours.mean, rtol=1e-3, atol=1e-3 * factor)


@pytest.mark.parametrize(
    ("library", "model"), [("quantile_forest", QuantileForestRegressor()), ("ngboost", NGBoostRegressor())]
)
def test_missing_library_error_names_the_extra(library, model, monkeypatch):
    monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(ImportError, match=r"\[compare\]"):
        model.fit(*heteroscedastic(20))
