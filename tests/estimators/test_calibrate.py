import numpy as np
import pytest
from sklearn.datasets import load_diabetes
from sklearn.ensemble import HistGradientBoostingRegressor, RandomForestRegressor
from sklearn.linear_model import LinearRegression, Ridge
from sklearn.neighbors import KNeighborsRegressor
from sklearn.svm import SVR
from sklearn.tree import DecisionTreeRegressor

from deltauq import AnchoredRegressor
from deltauq.data import gap_curve


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


def test_delta_is_positive_where_the_spread_is_often_zero():
    model = AnchoredRegressor(KNeighborsRegressor(), n_anchors=30, n_train_anchors=30, calibrate="cv")
    assert 0.75 < np.mean([z_rms(model, seed) for seed in range(3)]) < 1.25
    assert model.delta_ > 0


@pytest.mark.parametrize(("target", "ratio"), [("value", 2.0), ("difference", 1.5)])
def test_calibrated_sigma_grows_in_a_gap_of_the_data(target, ratio):
    """Errors of held-out rows do not depend on σ here, so that an unbounded δ would replace it."""
    toy = gap_curve("hill", 40, random_state=0)
    model = AnchoredRegressor(SVR(C=10, gamma=1.0), target=target, calibrate="cv", random_state=0)
    model.fit(toy.X, toy.y)
    x = np.linspace(*toy.limits, 100)
    std = model.predict(x[:, None], return_std=True)[1]
    in_gap = (x > toy.gap[0]) & (x < toy.gap[1])
    assert std[in_gap].mean() > ratio * std[~in_gap].mean()


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
        fitted.predict(fresh, return_std=True)[1],
        fitted.scale_ * (raw.posterior(fresh).std + fitted.delta_),
    )
    assert (raw.scale_, given_.scale_) == (1.0, 2.5)
    assert (raw.delta_, given_.delta_) == (0.0, 0.0)


@pytest.mark.parametrize("base", [KNeighborsRegressor(), RandomForestRegressor(3, random_state=0)])
def test_scale_and_delta_have_the_unit_of_the_target(base, table):
    X, y = table
    model, scaled = (
        AnchoredRegressor(base, calibrate="cv", random_state=0).fit(X, factor * y) for factor in (1.0, 8.0)
    )
    np.testing.assert_allclose([scaled.scale_, scaled.delta_], [model.scale_, 8 * model.delta_], rtol=0.01)


def test_a_constant_target_has_no_uncertainty(table):
    X, _ = table
    model = AnchoredRegressor(DecisionTreeRegressor(), calibrate="cv", random_state=0).fit(X, np.ones(60))
    np.testing.assert_array_equal(model.predict(X, return_std=True)[1], 0.0)


def test_rounding_errors_are_not_a_spread():
    """All pairs fit a plain linear model alike in both blocks: what is left of σ is rounding."""
    X, y = load_diabetes(return_X_y=True)
    model = AnchoredRegressor(LinearRegression(), target="value", calibrate="cv", random_state=0)
    model.fit(X[:200], y[:200])
    mean, std = model.predict(X[200:], return_std=True)
    np.testing.assert_allclose(std, std[0])
    assert 0.85 < np.sqrt(np.mean(((y[200:] - mean) / std) ** 2)) < 1.15
