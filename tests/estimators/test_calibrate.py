import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.datasets import load_diabetes
from sklearn.ensemble import HistGradientBoostingRegressor, RandomForestRegressor
from sklearn.linear_model import LinearRegression, Ridge
from sklearn.neighbors import KNeighborsRegressor
from sklearn.tree import DecisionTreeRegressor

from deltauq import AnchoredRegressor
from deltauq.estimators._scale import unit_rms_scale


def z_rms(model, seed):
    """Fit on half of the diabetes table and return the RMS of z-scores on the other half."""
    X, y = load_diabetes(return_X_y=True)
    order = np.random.default_rng(seed).permutation(len(X))
    train, test = order[:221], order[221:]
    mean, std = model.set_params(random_state=seed).fit(X[train], y[train]).predict(X[test], return_std=True)
    return np.sqrt(np.mean(((y[test] - mean) / std) ** 2))


@pytest.mark.parametrize(
    "base",
    [
        DecisionTreeRegressor(),
        RandomForestRegressor(5),
        Ridge(0.1),
        HistGradientBoostingRegressor(max_iter=30),
    ],
    ids=lambda b: type(b).__name__,
)
@pytest.mark.parametrize("center", ["anchored", "estimator"])
def test_z_scores_on_fresh_rows_have_unit_rms(base, center):
    model = AnchoredRegressor(base, n_anchors=30, n_train_anchors=30, center=center, calibrate="cv")
    assert 0.85 < np.mean([z_rms(model, seed) for seed in range(3)]) < 1.15


def test_the_documented_example_is_calibrated():
    assert 0.85 < z_rms(AnchoredRegressor(RandomForestRegressor(5), calibrate="cv"), seed=0) < 1.15


def test_a_spread_that_is_often_zero_is_floored():
    model = AnchoredRegressor(KNeighborsRegressor(), n_anchors=30, n_train_anchors=30, calibrate="cv")
    assert 0.75 < np.mean([z_rms(model, seed) for seed in range(3)]) < 1.25
    assert model.std_floor_ > 0


def test_only_the_returned_std_is_scaled(table):
    X, y = table
    raw = AnchoredRegressor(RandomForestRegressor(3), random_state=0).fit(X, y)
    fitted = AnchoredRegressor(RandomForestRegressor(3), calibrate="cv", random_state=0).fit(X, y)
    given_ = AnchoredRegressor(RandomForestRegressor(3), calibrate=2.5, random_state=0).fit(X, y)
    fresh = np.random.default_rng(1).normal(size=(40, 4))
    np.testing.assert_array_equal(raw.posterior(fresh).std, fitted.posterior(fresh).std)
    np.testing.assert_array_equal(raw.predict(fresh), fitted.predict(fresh))
    np.testing.assert_allclose(given_.predict(fresh, return_std=True)[1], 2.5 * raw.posterior(fresh).std)
    np.testing.assert_allclose(
        fitted.predict(fresh, return_std=True)[1], fitted.scale_ * raw.posterior(fresh).std
    )
    assert (raw.scale_, given_.scale_) == (1.0, 2.5)


@given(seed=st.integers(0, 1000), factor=st.floats(0.01, 100))
def test_the_scale_makes_z_scores_unit_and_follows_the_units(seed, factor):
    rng = np.random.default_rng(seed)
    stds = rng.lognormal(size=(50, 2))
    residuals = stds * rng.normal(size=(50, 2)) * [1.0, 7.0]
    weights = rng.random(50)
    scale, floor = unit_rms_scale(residuals, stds, weights)
    z = residuals / (scale * np.maximum(stds, floor))
    np.testing.assert_allclose(np.average(z**2, axis=0, weights=weights), 1.0)
    scaled, _ = unit_rms_scale(factor * residuals, stds, weights)
    np.testing.assert_allclose(scaled, factor * scale)


def test_without_any_spread_the_typical_error_is_the_error_bar():
    scale, floor = unit_rms_scale(np.array([[3.0], [-4.0]]), np.zeros((2, 1)), np.ones(2))
    np.testing.assert_allclose(scale * floor, np.sqrt(12.5))


def test_rounding_is_not_taken_for_a_spread():
    """All pairs fit a plain linear model alike in both blocks: what is left of σ is rounding."""
    X, y = load_diabetes(return_X_y=True)
    model = AnchoredRegressor(LinearRegression(), calibrate="cv", random_state=0).fit(X[:200], y[:200])
    mean, std = model.predict(X[200:], return_std=True)
    np.testing.assert_allclose(std, std[0])
    assert 0.85 < np.sqrt(np.mean(((y[200:] - mean) / std) ** 2)) < 1.15
