"""Prediction intervals and sets from out-of-fold scores, with calibrate="cv"."""

import pickle

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.ensemble import HistGradientBoostingRegressor, RandomForestClassifier
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LinearRegression, LogisticRegression, Ridge
from sklearn.neighbors import KNeighborsRegressor
from sklearn.svm import SVC, LinearSVC

from deltauq import AnchoredClassifier, AnchoredRegressor

COVERAGES = (0.5, 0.8, 0.9)
BOTH_TARGETS = pytest.mark.parametrize("target", ["difference", "value"])


def curve(seed, n=150):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-2, 2, size=(n, 3))
    return X, np.sin(2 * X[:, 0]) + X[:, 1] * X[:, 2] + 0.2 * rng.normal(size=n)


def classes(seed, n=150):
    rng = np.random.default_rng(seed)
    y = rng.integers(3, size=n)
    centres = np.array([[0.0, 0.0], [1.5, 0.0], [0.0, 1.5]])
    return centres[y] + rng.normal(size=(n, 2)), np.array(["blue", "green", "red"])[y]


def regressor(base, **params):
    return AnchoredRegressor(
        base, **{"calibrate": "cv", "n_anchors": 20, "n_train_anchors": 20, "random_state": 0, **params}
    )


def classifier(base, **params):
    return AnchoredClassifier(
        base, **{"calibrate": "cv", "n_anchors": 10, "n_train_anchors": 20, "random_state": 0, **params}
    )


def assert_near_nominal(covered):
    """Coverages of several datasets, of shape (datasets, coverages); slightly above the nominal is fine."""
    excess = np.mean(covered, axis=0) - COVERAGES
    assert np.all(excess > -0.04) and np.all(excess < 0.08), excess


@pytest.mark.parametrize(
    "base",
    [KNeighborsRegressor(), Ridge(), HistGradientBoostingRegressor(max_iter=20)],
    ids=lambda b: type(b).__name__,
)
@pytest.mark.parametrize("center", ["anchored", "estimator"])
@BOTH_TARGETS
def test_coverage_of_intervals(base, center, target):
    covered = []
    for seed in range(4):
        model = regressor(base, target=target, center=center, random_state=seed).fit(*curve(seed))
        X, y = curve(100 + seed, 1000)
        intervals = [model.predict_interval(X, coverage) for coverage in COVERAGES]
        covered.append([np.mean((lower <= y) & (y <= upper)) for lower, upper in intervals])
    assert_near_nominal(covered)


@BOTH_TARGETS
def test_intervals_are_wider_where_sigma_is_larger(target):
    model, (X, _) = regressor(KNeighborsRegressor(), target=target).fit(*curve(0)), curve(1)
    mean, std = model.predict(X), model.posterior(X).std
    slopes = []
    for coverage in COVERAGES:
        lower, upper = model.predict_interval(X, coverage)
        np.testing.assert_allclose((lower + upper) / 2, mean, atol=1e-12)
        slope, smallest = np.polyfit(std, upper - lower, 1)
        np.testing.assert_allclose(upper - lower, slope * std + smallest, rtol=1e-9)
        assert smallest > 0, "a σ of zero does not claim an error of zero"
        slopes.append(slope)
    assert 0 < slopes[0] < slopes[1] < slopes[2]


@BOTH_TARGETS
def test_intervals_of_several_outputs_are_those_of_each(target):
    X, y = curve(0)
    Y = np.column_stack([y, 10 * X[:, 0] ** 2])
    model = regressor(KNeighborsRegressor(), target=target)
    lower, upper = clone(model).fit(X, Y).predict_interval(X)
    assert lower.shape == upper.shape == Y.shape
    for k in range(2):
        alone = clone(model).fit(X, Y[:, k]).predict_interval(X)
        np.testing.assert_allclose([lower[:, k], upper[:, k]], alone, rtol=1e-9)


@BOTH_TARGETS
def test_intervals_have_the_unit_of_the_target(target):
    X, y = curve(0)
    model = regressor(KNeighborsRegressor(), target=target)
    small, large = (clone(model).fit(X, factor * y).predict_interval(X) for factor in (1.0, 8.0))
    np.testing.assert_allclose(large, 8 * np.array(small), rtol=1e-6)


@BOTH_TARGETS
def test_intervals_of_perfect_predictions_have_no_width(target):
    X, _ = curve(0)
    y = X @ [1.0, -2.0, 0.5] + 3
    lower, upper = regressor(LinearRegression(), target=target).fit(X, y).predict_interval(X)
    np.testing.assert_allclose(lower, y, atol=1e-9)
    np.testing.assert_allclose(upper, y, atol=1e-9)


@pytest.mark.parametrize(
    ("model", "method", "data"),
    [
        (regressor(HistGradientBoostingRegressor(max_iter=5)), "predict_interval", curve(0)),
        (regressor(KNeighborsRegressor(), target="value"), "predict_interval", curve(0)),
        (classifier(RandomForestClassifier(5)), "predict_set", classes(0)),
    ],
    ids=["difference", "value", "classifier"],
)
def test_intervals_and_sets_are_reproducible(model, method, data):
    fitted = clone(model).fit(*data)
    expected = getattr(fitted, method)(data[0])
    for other in (clone(fitted).fit(*data), pickle.loads(pickle.dumps(fitted))):
        np.testing.assert_array_equal(getattr(other, method)(data[0]), expected)


@pytest.mark.parametrize(
    ("model", "method", "data"),
    [(regressor(Ridge()), "predict_interval", curve(0)), (classifier(SVC()), "predict_set", classes(0, 60))],
    ids=["regressor", "classifier"],
)
def test_intervals_and_sets_need_out_of_fold_scores(model, method, data):
    X, y = data
    with pytest.raises(NotFittedError, match="not fitted yet"):
        getattr(clone(model), method)(X)
    fitted = clone(model).fit(X, y)
    getattr(fitted, method)(X)
    for calibrate in (None, 2.5):
        fitted.set_params(calibrate=calibrate).fit(X, y)
        with pytest.raises(NotFittedError, match=f"{method} needs out-of-fold scores.*calibrate='cv'"):
            getattr(fitted, method)(X)


@pytest.mark.parametrize(
    ("model", "method", "data"),
    [
        (regressor(Ridge()), "predict_interval", curve(0, 20)),
        (classifier(LogisticRegression()), "predict_set", classes(0, 20)),
    ],
    ids=["regressor", "classifier"],
)
def test_invalid_coverage_and_too_few_rows(model, method, data):
    predict = getattr(clone(model).fit(*data), method)
    for coverage in (0.0, 1.0, 90, "high"):
        with pytest.raises(ValueError, match="coverage must lie between 0 and 1"):
            predict(data[0], coverage)
    with pytest.warns(UserWarning, match="requires at least 49 scored rows, but there are 20"):
        result = predict(data[0], 0.98)
    assert np.all(np.isinf(result)) if method == "predict_interval" else np.all(result)


@pytest.mark.parametrize(
    "base", [RandomForestClassifier(10), LogisticRegression(), LinearSVC()], ids=lambda b: type(b).__name__
)
def test_coverage_of_sets(base):
    covered = []
    for seed in range(4):
        model = classifier(base, random_state=seed).fit(*classes(seed))
        X, y = classes(100 + seed, 1000)
        columns = np.searchsorted(model.classes_, y)
        sets = [model.predict_set(X, coverage) for coverage in COVERAGES]
        assert np.all(sets[0] <= sets[1]) and np.all(sets[1] <= sets[2]), "sets grow with the coverage"
        covered.append([np.mean(chosen[np.arange(len(X)), columns]) for chosen in sets])
    assert_near_nominal(covered)


def test_sets_hold_the_probable_classes():
    model, (X, _) = classifier(LogisticRegression()).fit(*classes(0)), classes(1)
    proba, sets = model.predict_proba(X), model.predict_set(X, 0.5)
    assert sets.dtype == bool and sets.shape == proba.shape
    assert proba[sets].min() >= proba[~sets].max()
    assert not sets.any(axis=1).all(), "where no class is probable enough"
    filled = model.predict_set(X, 0.5, allow_empty=False)
    best = np.eye(3, dtype=bool)[proba.argmax(axis=1)]
    np.testing.assert_array_equal(filled, sets | best)


def test_sets_of_several_outputs_raise():
    X, y = classes(0)
    model = classifier(RandomForestClassifier(3)).fit(X, np.column_stack([y, X[:, 0] > 1]))
    with pytest.raises(ValueError, match="one output"):
        model.predict_set(X)
