"""Regressors combined by out-of-fold predictions."""

import pickle
from functools import cache

import numpy as np
import pandas as pd
import pytest
import scoringrules
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog
from scipy.stats import norm, spearmanr
from sklearn.base import clone
from sklearn.datasets import load_diabetes
from sklearn.dummy import DummyRegressor
from sklearn.ensemble import (
    BaggingRegressor,
    ExtraTreesRegressor,
    HistGradientBoostingRegressor,
    RandomForestRegressor,
)
from sklearn.exceptions import NotFittedError
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LinearRegression, LogisticRegression, Ridge
from sklearn.metrics import mean_absolute_error
from sklearn.model_selection import KFold, cross_val_predict
from sklearn.neighbors import KNeighborsRegressor
from sklearn.pipeline import make_pipeline
from sklearn.tree import DecisionTreeRegressor

from deltauq import AnchoredRegressor, StackedRegressor
from deltauq.calibration import conformal_quantile
from deltauq.data import load_uci
from deltauq.estimators import _stacking
from deltauq.estimators._stacking import numbers_of_kept
from deltauq.estimators.stacked_regressor import fit_weights

MEMBERS = [("tree", ExtraTreesRegressor(10)), ("ridge", Ridge())]
COVERAGES = np.array([0.5, 0.8, 0.9])


def stacked(members=MEMBERS, **params):
    return StackedRegressor(members, **{"random_state": 0, **params})


def noise(kind, X, rng):
    """Return noise whose size depends on X, is skewed, or neither."""
    if kind == "skewed":
        return 0.5 * rng.exponential(size=len(X))
    return (0.4 if kind == "constant" else 0.1 + 0.8 * (X[:, 1] > 0)) * rng.normal(size=len(X))


def problem(seed, n=200, kind="constant"):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-2, 2, size=(n, 3))
    return X, np.sin(X[:, 0]) + X[:, 1] + noise(kind, X, rng)


@cache
def fitted(kind="constant", n=200):
    return stacked().fit(*problem(0, n, kind))


def coverages(model, X, y):
    """Return the share of targets in intervals, for each coverage."""
    intervals = [model.predict_interval(X, float(coverage)) for coverage in COVERAGES]
    return [np.mean((lower <= y) & (y <= upper)) for lower, upper in intervals]


def allow_folds_up_to(monkeypatch, n_rows):
    monkeypatch.setattr(_stacking, "MAX_FOLD_ROWS", n_rows)


# -- coverage and width ----------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["constant", "growing", "skewed"])
def test_coverage_with_folds(kind):
    rates = []
    for seed in range(4):
        model = stacked(random_state=seed).fit(*problem(seed, 200, kind))
        rates.append(coverages(model, *problem(100 + seed, 2000, kind)))
    excess = np.mean(rates, axis=0) - COVERAGES
    assert np.all(excess > -0.04) and np.all(excess < 0.08), excess


@pytest.mark.parametrize("kind", ["growing", "skewed"])
def test_coverage_with_held_out_rows(kind, monkeypatch):
    allow_folds_up_to(monkeypatch, 300)
    rates = []
    for seed in range(6):
        model = stacked(random_state=seed).fit(*problem(seed, 400, kind))
        assert len(model.scores_) == model.n_scored_ == 50
        rates.append(coverages(model, *problem(100 + seed, 1000, kind)))
    error = 3 * np.sqrt(COVERAGES * (1 - COVERAGES) / 50 / len(rates))
    excess = np.mean(rates, axis=0) - COVERAGES
    # Both tails are at least covered, and by at most one score more.
    assert np.all(excess > -error) and np.all(excess < 2 / 51 + error), excess


@pytest.mark.slow
@pytest.mark.parametrize("name", ["boston", "concrete", "energy", "wine", "yacht"])
@pytest.mark.usefixtures("data_dir")
def test_coverage_on_real_data(name):
    boosting = HistGradientBoostingRegressor(max_iter=30)
    members = [("boosting", boosting), ("forest", ExtraTreesRegressor(30)), ("ridge", Ridge())]
    table, rates, scores = load_uci(name), [], []
    for seed, (train, test) in enumerate(table.splits[:3]):
        model = stacked(members, random_state=seed).fit(table.X[train], table.y[train])
        rates.append(coverages(model, table.X[test], table.y[test]))
        lower, upper = model.predict_interval(table.X[test])
        # Intervals of constant width, from the same errors.
        mean, ends = model.predict(table.X[test]), np.quantile(model.scores_ * model.sizes_, [0.05, 0.95])
        scores.append(
            [
                np.mean(scoringrules.interval_score(table.y[test], low, high, 0.1))
                for low, high in [(lower, upper), (mean + ends[0], mean + ends[1])]
            ]
        )
    n = sum(len(test) for _, test in table.splits[:3])
    excess = np.mean(rates, axis=0) - COVERAGES
    assert np.all(np.abs(excess) < 0.03 + 3 * np.sqrt(COVERAGES * (1 - COVERAGES) / n)), excess
    ours, constant = np.mean(scores, axis=0)
    assert ours < constant


def test_widths_follow_the_noise():
    model, (X, y) = fitted("growing", 400), problem(1, 1000, "growing")
    lower, upper = model.predict_interval(X)
    noisy, width = X[:, 1] > 0, upper - lower
    assert np.median(width[noisy]) > 3 * np.median(width[~noisy])
    for rows in (noisy, ~noisy):
        assert np.mean((lower <= y)[rows] & (y <= upper)[rows]) == pytest.approx(0.9, abs=0.08)
    mean, std = model.predict(X, return_std=True)
    constant = [mean + end for end in np.quantile(model.scores_ * model.sizes_, [0.05, 0.95])]
    scores = [scoringrules.interval_score(y, *ends, 0.1).mean() for ends in [(lower, upper), constant]]
    assert scores[0] < 0.85 * scores[1]
    assert spearmanr(std, width)[0] == pytest.approx(1.0)


def test_widths_follow_the_noise_by_the_inputs_alone():
    """A single linear model has no variance and no disagreement."""
    model, (X, _) = stacked(MEMBERS[1:]).fit(*problem(0, 400, "growing")), problem(1, 1000)
    assert model.difficulty_.weights_.tolist() == [0.0, 0.0]
    lower, upper = model.predict_interval(X)
    # The linear model misses the sine, by the same everywhere.
    assert np.median((upper - lower)[X[:, 1] > 0]) > 1.5 * np.median((upper - lower)[X[:, 1] < 0])


def test_intervals_of_skewed_noise_are_not_symmetric():
    model, (X, y) = fitted("skewed", 400), problem(1, 2000, "skewed")
    lower, upper = model.predict_interval(X)
    mean = model.predict(X)
    assert np.median(upper - mean) > 1.4 * np.median(mean - lower)
    assert np.mean(y < lower) == pytest.approx(0.05, abs=0.03)
    assert np.mean(y > upper) == pytest.approx(0.05, abs=0.03)


def test_shares_below_quantiles():
    levels, shares = [0.1, 0.25, 0.5, 0.75, 0.9], []
    for seed in range(4):
        model = stacked(random_state=seed).fit(*problem(seed, 200, "growing"))
        X, y = problem(100 + seed, 1000, "growing")
        quantiles = model.predict_quantiles(X, levels)
        assert quantiles.shape == (1000, 5) and np.all(np.diff(quantiles, axis=1) >= 0)
        shares.append(np.mean(y[:, None] < quantiles, axis=0))
    np.testing.assert_allclose(np.mean(shares, axis=0), levels, atol=0.05)


def test_intervals_lie_between_quantiles():
    model, (X, _) = fitted(), problem(1)
    np.testing.assert_array_equal(
        np.transpose(model.predict_interval(X, 0.8)), model.predict_quantiles(X, [0.1, 0.9])
    )


def test_quantiles_match_their_definition():
    model, (X, _) = fitted(), problem(1)
    mean, sizes = model.predict_sizes(X)
    # Of 200 scores, ⌈201 · 0.95⌉ = 191 are at most the quantile of 0.95, and ⌊201 · 0.05⌋ = 10 that of 0.05.
    scores = np.sort(model.scores_)
    np.testing.assert_allclose(
        model.predict_quantiles(X, [0.05, 0.95]), mean[:, None] + sizes[:, None] * scores[[9, 190]]
    )
    np.testing.assert_array_equal(mean, model.predict(X))


def test_std_is_that_of_intervals_of_ninety_percent():
    model, (X, _) = fitted(), problem(1)
    mean, std = model.predict(X, return_std=True)
    half = conformal_quantile(np.abs(model.scores_), 0.9) * model.predict_sizes(X)[1]
    np.testing.assert_allclose(std, half / norm.ppf(0.95))
    posterior = model.posterior(X)
    np.testing.assert_array_equal(posterior.mean, mean)
    np.testing.assert_allclose(posterior.var, std**2)


def test_too_few_scores_give_infinite_ends_with_a_warning():
    model = stacked().fit(*problem(0, 18))
    with pytest.warns(UserWarning, match="18 scored rows are too few"):
        lower, upper = model.predict_interval(problem(1)[0], 0.9)
    assert np.all(lower == -np.inf) and np.all(upper == np.inf)


# -- where spreads vanish --------------------------------------------------------------------------


DEGENERATE = {
    "constant columns": lambda rng, X, y: (np.ones_like(X), y),
    "duplicated rows": lambda rng, X, y: (X[rng.integers(5, size=len(X))], y),
    "few values": lambda rng, X, y: (rng.integers(4, size=(len(X), 1)).astype(float), y),
    "one other row": lambda rng, X, y: (
        np.where(np.arange(len(X)) == 7, 1.5, rng.integers(4, size=len(X)))[:, None],
        y,
    ),
    "few targets": lambda rng, X, y: (X, (y > 1.5).astype(float)),
    "mostly zero targets": lambda rng, X, y: (X, np.maximum(y - 1.5, 0.0)),
    "one outlier": lambda rng, X, y: (X, np.where(np.arange(len(y)) == 3, 1e6, y)),
    "no noise": lambda rng, X, y: (X, np.floor(X[:, 0])),
}


@pytest.mark.parametrize("members", [MEMBERS, MEMBERS[:1]], ids=["two", "one"])
@pytest.mark.parametrize("name", DEGENERATE)
def test_intervals_never_explode(name, members):
    """New rows between those of the training data have a spread where these have none."""
    rng = np.random.default_rng(0)
    X, y = DEGENERATE[name](rng, *problem(0))
    model = stacked(members).fit(X, y)
    new = np.concatenate([X, rng.uniform(-3, 6, size=(300, X.shape[1]))])
    lower, upper = model.predict_interval(new)
    mean, std = model.predict(new, return_std=True)
    assert np.all(np.isfinite([lower, upper, mean, std])) and np.all(lower <= upper) and np.all(std >= 0)
    assert np.max(upper - lower) <= 6 * np.ptp(y)
    covered = np.mean((lower[: len(y)] <= y) & (y <= upper[: len(y)]))
    assert covered >= 0.8


@pytest.mark.slow
@pytest.mark.usefixtures("data_dir")
def test_intervals_of_a_real_table_of_few_distinct_rows():
    table = load_uci("energy")
    X, y = table.X[:, :4].round(-1), table.y  # most rows have an equal one
    model = stacked([("tree", ExtraTreesRegressor(50)), ("knn", KNeighborsRegressor())]).fit(X, y)
    new = X + np.random.default_rng(0).normal(size=X.shape) * X.std(axis=0)
    lower, upper = model.predict_interval(new)
    assert np.max(upper - lower) < 4 * np.ptp(y)


def test_a_constant_target_has_no_width():
    X, _ = problem(0)
    for value in (0.0, 0.1, -1e300):
        model = stacked().fit(X, np.full(200, value))
        mean, std = model.predict(X, return_std=True)
        np.testing.assert_array_equal([mean, *model.predict_interval(X)], value)
        np.testing.assert_array_equal(std, 0.0)


def test_perfect_members():
    X, _ = problem(0)
    y = X @ [1.0, -2.0, 0.5] + 3
    model = stacked([("tree", ExtraTreesRegressor(10)), ("linear", LinearRegression())]).fit(X, y)
    assert model.names_ == ["linear"] and model.error_ < 1e-12
    lower, upper = model.predict_interval(X)
    np.testing.assert_allclose([lower, upper], [y, y], atol=1e-9)


# -- units -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("power", [-900, -3, 5, 900])
def test_targets_times_a_power_of_two(power):
    (X, y), rows = problem(0), problem(1)[0]
    model = stacked().fit(X, np.ldexp(y, power))
    with np.errstate(all="raise", under="ignore"):
        results = [
            model.predict(rows),
            model.predict(rows, return_std=True)[1],
            *model.predict_interval(rows),
        ]
    expected = [
        fitted().predict(rows),
        fitted().predict(rows, return_std=True)[1],
        *fitted().predict_interval(rows),
    ]
    np.testing.assert_allclose(results, np.ldexp(expected, power), rtol=1e-9)


def test_targets_times_a_number_plus_another():
    (X, y), (rows, _) = problem(0), problem(1, 1000)
    # Splits of deep trees are equally good, so that rounding chooses one of them.
    model = stacked([("knn", KNeighborsRegressor()), *MEMBERS[1:]])
    expected = 1e6 * (np.array(model.fit(X, y).predict_interval(rows)) / 3) + 7e5
    found = model.fit(X, 1e6 * (y / 3) + 7e5).predict_interval(rows)
    off = np.abs(found - expected) / 1e6
    # Those of the forest of `Difficulty` may be as well, but rarely.
    assert np.median(off) < 1e-9 and np.max(off) < 0.1


def test_huge_targets_do_not_overflow():
    (X, y), (rows, _) = problem(0), problem(1)
    scale = 1e307 / np.abs(y).max()
    with np.errstate(over="raise", invalid="raise"):
        model = stacked().fit(X, y * scale)
        lower, upper = model.predict_interval(rows)
    assert np.all(np.isfinite([lower, upper, *model.predict(rows, return_std=True)]))
    np.testing.assert_allclose(
        np.median(upper - lower) / scale,
        np.median(np.diff(fitted().predict_interval(rows), axis=0)),
        rtol=0.05,
    )


# -- weights ---------------------------------------------------------------------------------------


def smallest_mean_error(y, means):
    """Return the smallest mean absolute error of weights on the simplex, by linear programming."""
    (m, n), residuals = means.shape, (means - y).T
    # Variables: m weights, n bounds of the absolute errors.
    above = np.block([[residuals, -np.eye(n)], [-residuals, -np.eye(n)]])
    sums = np.concatenate([np.ones(m), np.zeros(n)])[None]
    result = linprog(np.r_[np.zeros(m), np.full(n, 1 / n)], above, np.zeros(2 * n), sums, [1.0])
    assert result.success
    return result.fun


def member_predictions(seed, n, sizes):
    rng = np.random.default_rng(seed)
    y = rng.normal(size=n)
    return y, y + np.array(sizes)[:, None] * rng.standard_t(3, size=(len(sizes), n))


@given(
    seed=st.integers(0, 1000),
    n=st.integers(20, 80),
    sizes=st.lists(st.sampled_from([0.1, 0.3, 1.0, 3.0]), min_size=1, max_size=5),
    unit=st.sampled_from([1e-9, 1.0, 1e9]),
)
@settings(max_examples=25)
def test_weights_have_the_smallest_mean_absolute_error(seed, n, sizes, unit):
    y, means = member_predictions(seed, n, sizes)
    weights = fit_weights(unit * y, unit * means)
    assert np.all(weights >= 0) and weights.sum() == pytest.approx(1.0)
    # Slightly more because of the smoothing, and because no weight is exactly zero.
    assert np.mean(np.abs(weights @ means - y)) <= 1.03 * smallest_mean_error(y, means) + 1e-12


@given(seed=st.integers(0, 1000), scale=st.sampled_from([-1e-7, 1e-3, -1.0, 1e7]), shift=st.floats(-10, 10))
@settings(max_examples=20)
def test_weights_do_not_depend_on_units_and_order(seed, scale, shift):
    y, means = member_predictions(seed, 50, [0.5, 1.0, 2.0])
    weights = fit_weights(y, means)
    np.testing.assert_allclose(fit_weights(scale * (y + shift), scale * (means + shift)), weights, atol=1e-3)
    np.testing.assert_allclose(fit_weights(y, means[[2, 0, 1]]), weights[[2, 0, 1]], atol=1e-3)


@pytest.mark.parametrize("size", [1e-12, 1e-3, 1.0])
def test_a_perfect_member_has_nearly_all_the_weight(size):
    y, means = member_predictions(0, 100, [size, 0.0, size])
    assert fit_weights(y, means)[1] > 0.99


def test_equal_members_have_equal_weights():
    y, means = member_predictions(0, 100, [1.0])
    np.testing.assert_allclose(fit_weights(y, np.repeat(means, 4, axis=0)), 0.25)
    np.testing.assert_array_equal(fit_weights(y, np.repeat(y[None], 2, axis=0)), 0.5)


def test_useless_members_are_dropped():
    X, y = problem(0)
    members = [
        ("mean", DummyRegressor()),
        ("wrong", DummyRegressor(strategy="constant", constant=50.0)),
        *MEMBERS,
    ]
    model = stacked(members).fit(X, y)
    assert set(model.names_) <= {"tree", "ridge"} and len(model.estimators_) == len(model.names_)
    assert model.weights_.shape == (len(model.names_),) and model.weights_.sum() == pytest.approx(1.0)
    assert list(model.member_errors_) == ["mean", "wrong", "tree", "ridge"]
    assert model.error_ <= 1.01 * min(model.member_errors_.values())


def test_many_equally_good_members_are_kept():
    members = [(f"ridge {k}", Ridge()) for k in range(21)]
    assert len(stacked(members, quick=True).fit(*problem(0, 40)).names_) == 21


def test_small_shares_are_dropped():
    assert numbers_of_kept(np.array([0.96, 0.04])) == [0]
    assert numbers_of_kept(3.0 * np.array([0.04, 0.9, 0.06])) == [1, 2]
    assert numbers_of_kept(np.full(100, 0.01)) == list(range(100))
    assert numbers_of_kept(np.array([1.0])) == [0]


# -- out-of-fold predictions -----------------------------------------------------------------------


def test_errors_and_scores_are_those_of_out_of_fold_predictions(monkeypatch):
    X, y = problem(0)
    folds = list(KFold(4, shuffle=True, random_state=3).split(X))
    monkeypatch.setattr(StackedRegressor, "_splits", lambda self, y, rng, groups: folds)
    members = [("ridge", Ridge(1e-6)), ("knn", KNeighborsRegressor(3))]
    model = stacked(members).fit(X, y)
    predicted = {name: cross_val_predict(member, X, y, cv=folds) for name, member in members}
    for name, mean in predicted.items():
        assert model.member_errors_[name] == pytest.approx(mean_absolute_error(y, mean))
    assert model.names_ == ["ridge", "knn"]
    mean = model.weights_ @ list(predicted.values())
    assert model.error_ == pytest.approx(mean_absolute_error(y, mean))
    rows = np.concatenate([test for _, test in folds])
    np.testing.assert_allclose(model.scores_ * model.sizes_, (y - mean)[rows], atol=1e-9)
    fitted_members = [clone(member).fit(X, y) for _, member in members]
    expected = model.weights_ @ [member.predict(X) for member in fitted_members]
    np.testing.assert_allclose(model.predict(X), expected)


@pytest.mark.parametrize(("quick", "n", "n_folds"), [(False, 40, 5), (True, 40, 3), (False, 4, 4)])
def test_every_row_is_predicted_once(quick, n, n_folds):
    splits = stacked(quick=quick)._splits(np.zeros(n), np.random.RandomState(0))
    assert len(splits) == n_folds
    assert sorted(np.concatenate([test for _, test in splits])) == list(range(n))
    for train, test in splits:
        assert sorted([*train, *test]) == list(range(n))


def test_held_out_rows_train_nothing(monkeypatch):
    """Their targets change the scores, and neither the members nor their predictions."""
    allow_folds_up_to(monkeypatch, 100)
    X, y = problem(0)
    model = stacked(MEMBERS[1:])
    train, test = model._splits(y, np.random.RandomState(0))[0]
    assert (len(train), len(test)) == (150, 50) and not set(train) & set(test)
    monkeypatch.setattr(StackedRegressor, "_splits", lambda self, y, rng, groups: [(train, test)])
    model.fit(X, y)
    alone = Ridge().fit(X[train], (y[train] - y.mean()) / y.std())
    np.testing.assert_allclose(model.estimators_[0].coef_, alone.coef_)
    half = {round(error, 9) for error in model.scores_ * model.sizes_}
    errors = y[test] - model.predict(X[test])
    assert len(half) == 25 and half <= {round(error, 9) for error in errors}


def test_variances_are_those_of_trees_and_of_anchors():
    X, y = problem(0, 80)
    members = [
        ("forest", ExtraTreesRegressor(10)),
        ("anchored", AnchoredRegressor(DecisionTreeRegressor(max_depth=3), n_anchors=10)),
        ("bagging", BaggingRegressor(Ridge(), 5, max_features=0.7)),
        ("ridge", Ridge()),
    ]
    model = stacked(members).fit(X, y)
    model.target_range_ = (-np.inf, np.inf)
    forest, anchored, bagging, ridge = (clone(member).fit(X, y) for _, member in members)
    mean, var = model._moments(forest, X)
    np.testing.assert_allclose(mean, forest.predict(X))
    outputs = [tree.predict(X) for tree in forest.estimators_]
    np.testing.assert_allclose(var, np.var(outputs, axis=0), atol=1e-12)
    mean, var = model._moments(anchored, X)
    np.testing.assert_array_equal([mean, var], [anchored.posterior(X).mean, anchored.posterior(X).var])
    mean, var = model._moments(bagging, X)
    np.testing.assert_allclose(mean, bagging.predict(X))
    assert np.all(var > 0)
    mean, var = model._moments(ridge, X)
    np.testing.assert_array_equal([mean, var], [ridge.predict(X), np.zeros(80)])


@pytest.mark.parametrize(
    "member",
    [ExtraTreesRegressor(10), RandomForestRegressor(10), HistGradientBoostingRegressor(max_iter=10)],
    ids=lambda member: type(member).__name__,
)
def test_members_predict_missing_values_as_they_do_alone(member):
    X, y = problem(0)
    X[::5, 2] = X[3, :2] = np.nan
    model = stacked([("member", member)]).fit(X, y)
    alone = model.estimators_[0].predict(X)
    np.testing.assert_allclose(model.predict(X), y.mean() + y.std() * alone, rtol=1e-9)


def test_predictions_far_from_the_data_are_limited():
    X, y = problem(0)
    model = stacked([("linear", LinearRegression())]).fit(X, y)
    mean = model.predict(np.array([[1e9, 0.0, 0.0], [-1e9, 0.0, 0.0]]))
    limits = [2 * y.max() - y.min(), 2 * y.min() - y.max()]
    np.testing.assert_allclose(mean, limits if model.estimators_[0].coef_[0] > 0 else limits[::-1])


# -- reproducibility -------------------------------------------------------------------------------


def everything(model, X):
    return np.column_stack([*model.predict_sizes(X), *model.predict_interval(X)])


def test_predictions_do_not_depend_on_batch_order_and_threads(monkeypatch):
    model, (X, _) = pickle.loads(pickle.dumps(fitted())), problem(1, 60)
    whole = everything(model, X)
    order = np.random.default_rng(0).permutation(60)
    np.testing.assert_allclose(everything(model, X[order]), whole[order], rtol=1e-9)
    for rows in ([5], [59], range(10, 37)):
        np.testing.assert_allclose(everything(model, X[rows]), whole[rows], rtol=1e-9)
    monkeypatch.setattr(_stacking, "MIN_BLOCK_ROWS", 7)
    for n_jobs in (1, 2, 3):
        model.set_jobs(n_jobs)
        np.testing.assert_allclose(everything(model, X), whole, rtol=1e-9)


@pytest.mark.parametrize("limit", [100, 1000], ids=["held out", "folds"])
def test_same_seed_same_result_and_another_seed_another(limit, monkeypatch):
    allow_folds_up_to(monkeypatch, limit)
    (X, y), (rows, _) = problem(0, 160), problem(1)
    first = stacked().fit(X, y)
    expected = everything(first, rows)
    generator = stacked(random_state=np.random.RandomState(0))
    for same in (first.fit(X, y), generator.fit(X, y), pickle.loads(pickle.dumps(first))):
        np.testing.assert_array_equal(everything(same, rows), expected)
    assert not np.allclose(everything(stacked(random_state=1).fit(X, y), rows), expected)


@pytest.mark.slow
def test_processes_do_not_change_the_result():
    (X, y), (rows, _) = problem(0), problem(1)
    model = stacked(n_jobs=2).fit(X, y)
    np.testing.assert_allclose(everything(model, rows), everything(fitted(), rows), rtol=1e-9)


def test_members_are_left_as_they_are():
    tree = ExtraTreesRegressor(10)
    model = stacked([("tree", tree)]).fit(*problem(0))
    assert not hasattr(tree, "estimators_") and tree.random_state is None
    assert model.estimators[0][1] is tree and model.estimators_[0] is not tree


def test_parameters_and_text():
    model = stacked(quick=True, n_jobs=2)
    assert model.get_params(deep=False) == {
        "estimators": MEMBERS,
        "quick": True,
        "random_state": 0,
        "n_jobs": 2,
    }
    assert clone(model).set_params(quick=False, n_jobs=None).get_params()["quick"] is False
    assert repr(model) == "StackedRegressor(estimators=<list of 2>, n_jobs=2, quick=True, random_state=0)"


@pytest.mark.parametrize("limit", [20_000, 100])
def test_groups_are_not_divided(limit, monkeypatch):
    """Copies of rows hide errors unless they are predicted together."""
    monkeypatch.setattr(_stacking, "MAX_FOLD_ROWS", limit)
    X, y = problem(0, 100)
    X, y, groups = np.repeat(X, 4, axis=0), np.repeat(y, 4), np.repeat(np.arange(100), 4)
    X_new, y_new = problem(1, 2000)
    divided, whole = stacked().fit(X, y), stacked().fit(X, y, groups)
    error = mean_absolute_error(y_new, whole.predict(X_new))
    assert divided.error_ < 0.7 * error
    assert 0.6 * error < whole.error_ < 1.6 * error
    lower, upper = whole.predict_interval(X_new)
    assert np.mean((lower <= y_new) & (y_new <= upper)) > 0.8


def test_invalid_groups():
    X, y = problem(0, 40)
    with pytest.raises(ValueError, match="at least two"):
        stacked().fit(X, y, np.zeros(40))
    with pytest.raises(ValueError, match="inconsistent"):
        stacked().fit(X, y, np.arange(39))


def test_columns_without_values_in_a_fold():
    X, y = problem(0, 60)
    X = np.column_stack([X, np.full(60, np.nan), np.full(60, np.nan)])
    X[0, 3] = 1.0
    boosting = HistGradientBoostingRegressor(max_iter=10, random_state=0)
    plain, model = (stacked([("boosting", boosting)]).fit(part, y) for part in (X[:, :3], X))
    np.testing.assert_allclose(model.predict(X[1:]), plain.predict(X[1:, :3]))


@pytest.mark.parametrize("limit", [100, 1000], ids=["held out", "folds"])
def test_progress_rises_to_the_total(limit, monkeypatch):
    allow_folds_up_to(monkeypatch, limit)
    calls = []
    members = [*MEMBERS, ("mean", DummyRegressor())]
    stacked(members).fit(*problem(0), progress=lambda done, total: calls.append((done, total)))
    total = 3 if limit == 100 else 18
    assert calls == [(k, total) for k in range(1, total + 1)]


# -- inputs ----------------------------------------------------------------------------------------


def test_data_frames_and_feature_names():
    X, y = problem(0)
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    model = stacked().fit(frame, pd.Series(y))
    assert model.feature_names_in_.tolist() == ["a", "b", "c"] and model.n_features_in_ == 3
    np.testing.assert_array_equal(everything(model, frame), everything(fitted(), X))
    with pytest.raises(ValueError, match="feature names"):
        model.predict(frame[["b", "a", "c"]])
    with pytest.raises(ValueError, match="X has 2 features, but StackedRegressor is expecting 3"):
        fitted().predict(X[:, :2])


def test_missing_values_where_members_accept_them():
    X, y = problem(0)
    X[::5, 2] = np.nan
    members = [
        ("boosting", HistGradientBoostingRegressor(max_iter=10)),
        ("ridge", make_pipeline(SimpleImputer(), Ridge())),
    ]
    model = stacked(members).fit(X, y)
    assert np.all(np.isfinite(everything(model, X)))


@pytest.mark.parametrize("member", [Ridge(), AnchoredRegressor(Ridge()), make_pipeline(Ridge())])
def test_missing_values_where_a_member_does_not_accept_them(member):
    X, y = problem(0)
    X[3, 1] = np.nan
    with pytest.raises(ValueError, match=r"X contains NaN, which .* does not accept: fill it first"):
        stacked([MEMBERS[0], ("other", member)]).fit(X, y)


def test_missing_values_of_new_rows_where_the_dropped_member_does_not_accept_them():
    X, y = problem(0)
    model = stacked([MEMBERS[0], ("ridge", Ridge(1e9))]).fit(X, y)
    assert model.names_ == ["tree"] and not model.__sklearn_tags__().input_tags.allow_nan
    with pytest.raises(ValueError, match="X contains NaN"):
        model.predict(np.where(X > 1, np.nan, X))
    assert StackedRegressor().__sklearn_tags__().input_tags.allow_nan


@pytest.mark.parametrize("n", [1, 2, 3])
def test_too_few_rows(n):
    with pytest.raises(ValueError, match=f"{n} sample.*minimum of 4 is required"):
        stacked().fit(*problem(0, n))


@pytest.mark.parametrize("n", [4, 5, 6, 11])
def test_few_rows(n):
    X, y = problem(0, n)
    model = stacked().fit(X, y)
    mean, std = model.predict(problem(1)[0], return_std=True)
    assert len(model.scores_) == n and np.all(np.isfinite(mean)) and np.all(std > 0)


@pytest.mark.parametrize(
    ("members", "error", "message"),
    [
        ([], ValueError, "estimators must have different names, and at least one"),
        ([MEMBERS[0], MEMBERS[0]], ValueError, r"different names.*\['tree', 'tree'\]"),
        ([Ridge()], ValueError, "must be a list of pairs"),
        ([("ridge", Ridge(), 1)], ValueError, "must be a list of pairs"),
        ([(1, Ridge())], ValueError, "must be a list of pairs"),
        ([("ridge", Ridge)], TypeError, "'ridge' has no fit, get_params or predict"),
        ([("scaler", SimpleImputer())], TypeError, "'scaler' has no fit, get_params or predict"),
        ([("logistic", LogisticRegression())], ValueError, "Unknown label type"),
        ("all", ValueError, "'estimators' parameter of StackedRegressor must be"),
        (Ridge(), ValueError, "'estimators' parameter of StackedRegressor must be"),
    ],
)
def test_invalid_members(members, error, message):
    with pytest.raises(error, match=message):
        stacked(members).fit(*problem(0, 20))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda X, y: (X, np.where(y > 1, np.inf, y)), "y contains infinity"),
        (lambda X, y: (X, np.where(y > 1, -np.inf, y).astype(object)), "y contains infinity"),
        (lambda X, y: (X, np.where(y > 1, np.nan, y)), "y contains NaN"),
        (lambda X, y: (np.where(X > 1, np.inf, X), y), "X contains infinity"),
        (lambda X, y: (X, np.column_stack([y, y])), "y should be a 1d array"),
        (lambda X, y: (X, np.where(y > 1, "high", "low")), "could not convert string to float"),
        (lambda X, y: (X, y[:-1]), "inconsistent numbers of samples"),
        (
            lambda X, y: (pd.DataFrame({"when": pd.date_range("2024", periods=len(X))}), y),
            "columns of dates, .'when'",
        ),
    ],
)
def test_invalid_data(change, message):
    with pytest.raises(ValueError, match=message):
        stacked().fit(*change(*problem(0)))


@pytest.mark.parametrize("coverage", [0.0, 1.0, 90, "high"])
def test_invalid_coverage(coverage):
    with pytest.raises(ValueError, match="coverage must lie between 0 and 1"):
        fitted().predict_interval(problem(1)[0], coverage)


def test_a_failed_fit_leaves_the_model_as_it_was():
    X, _ = problem(0)
    model = pickle.loads(pickle.dumps(fitted()))
    expected = everything(model, X)
    with pytest.raises(ValueError, match="infinity"):
        model.fit(X, np.full(200, np.inf))
    np.testing.assert_array_equal(everything(model, X), expected)
    with pytest.raises(NotFittedError):
        stacked().predict(X)


# -- the default members ---------------------------------------------------------------------------


@pytest.mark.slow
def test_default_members_on_real_data():
    X, y = load_diabetes(return_X_y=True)
    X = X.copy()
    X[::9, 2] = np.nan
    model = StackedRegressor(quick=True, random_state=0).fit(X[:300], y[:300])
    assert model.error_ <= 1.01 * min(model.member_errors_.values())
    assert mean_absolute_error(y[300:], model.predict(X[300:])) < 48  # of the mean: 65
    lower, upper = model.predict_interval(X[300:])
    assert np.mean((lower <= y[300:]) & (y[300:] <= upper)) == pytest.approx(0.9, abs=0.08)


@pytest.mark.slow
@pytest.mark.parametrize("n", [4, 5, 12])
def test_default_members_with_few_rows(n):
    X, y = problem(0, n)
    model = StackedRegressor(quick=True, random_state=0).fit(X, y)
    assert np.all(np.isfinite(model.predict(X, return_std=True)))
