"""The expected size of errors."""

import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize
from scipy.stats import spearmanr
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from deltauq.calibration import Difficulty, quantiles_of_scores
from deltauq.calibration.difficulty import PENALTY


def errors_with_variances(seed, n=1000, weights=(2.0, 0.5), constant=0.1):
    """Return inputs and predictions that say nothing, two variances, Laplace errors, and their scale."""
    rng = np.random.default_rng(seed)
    variances = rng.exponential(size=(n, 2)) ** 2
    scale = np.sqrt(constant + variances @ weights)
    return rng.normal(size=(n, 2)), rng.normal(size=n), variances, np.abs(rng.laplace(0.0, scale)), scale


def errors_with_inputs(seed, n=1000):
    """Return the same, of normal errors whose size depends on an input; the variances say nothing."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(size=(n, 2))
    scale = np.where(X[:, 0] > 0.5, 2.0, 0.2)
    return X, rng.normal(size=n), rng.exponential(size=(n, 1)), np.abs(rng.normal(0.0, scale)), scale


def fitted(X, mean, variances, errors):
    return Difficulty(random_state=0).fit(X, mean, variances, errors)


def test_sizes_are_near_the_true_scales():
    difficulty = fitted(*errors_with_variances(0, 3000)[:4])
    X, mean, variances, _, scale = errors_with_variances(1)
    sizes = difficulty.predict(X, mean, variances)
    assert spearmanr(sizes, scale)[0] > 0.95
    assert np.median(np.abs(sizes / scale - 1.0)) < 0.15


def test_weights_have_the_largest_penalised_likelihood():
    X, mean, variances, errors, _ = errors_with_variances(0, 300)
    difficulty = fitted(X, mean, variances, errors)
    terms = np.column_stack([variances / variances.mean(axis=0), np.ones(len(errors))])

    def loss(logs):
        scale = np.sqrt(terms @ np.exp(logs))
        # Of a Laplace distribution with this scale times the factor of the largest likelihood.
        likelihood = np.mean(np.log(scale)) + np.log(np.mean(errors / scale))
        return likelihood + PENALTY * np.var(logs)

    best = minimize(loss, np.zeros(3), method="Nelder-Mead", options={"maxiter": 5000, "fatol": 1e-12})
    found = np.log([*(difficulty.weights_ * variances.mean(axis=0)), difficulty.constant_])
    assert np.all(np.abs(best.x - best.x.mean()) < 4), "the bounds do not matter here"
    np.testing.assert_allclose(found - found.mean(), best.x - best.x.mean(), atol=0.02)
    assert loss(found) < best.fun + 1e-6


def test_the_mean_error_over_scale_is_one():
    X, mean, variances, errors, _ = errors_with_variances(0, 300)
    difficulty = fitted(X, mean, variances, errors)
    scale = np.sqrt(difficulty.constant_ + variances @ difficulty.weights_)
    assert np.mean(errors / scale) == pytest.approx(1.0)


def test_the_inputs_correct_variances_that_say_nothing():
    difficulty = fitted(*errors_with_inputs(0, 10_000)[:4])
    X, mean, variances, errors, scale = errors_with_inputs(1)
    sizes = difficulty.predict(X, mean, variances)
    for value in (0.2, 2.0):
        rows = scale == value
        assert np.mean(sizes[rows]) == pytest.approx(np.mean(errors[rows]), rel=0.15)


def test_few_rows_are_not_trusted():
    X, mean, _, errors, _ = errors_with_inputs(0, 25)
    difficulty = fitted(X, mean, np.zeros((25, 1)), errors)
    assert np.all(
        np.abs(difficulty.sizes_ - errors.mean()) <= 25 / 125 * np.abs(errors - errors.mean()).max()
    )


@pytest.mark.parametrize("data", [errors_with_variances, errors_with_inputs])
def test_scores_of_fitted_rows_are_those_of_new_rows(data):
    """In-bag predictions of the forest would be too near the errors."""
    fitted_scores, new_scores, in_bag = [], [], []
    for seed in range(4):
        X, mean, variances, errors, _ = data(seed, 400)
        difficulty = fitted(X, mean, variances, errors)
        fitted_scores.append(errors / difficulty.sizes_)
        in_bag.append(errors / difficulty.predict(X, mean, variances))
        *new, new_errors, _ = data(100 + seed, 4000)
        new_scores.append(new_errors / difficulty.predict(*new))
    quantile = quantiles_of_scores(np.concatenate(fitted_scores), [0.9])[0]
    assert np.mean(np.concatenate(new_scores) <= quantile) == pytest.approx(0.9, abs=0.025)
    assert quantiles_of_scores(np.concatenate(in_bag), [0.9])[0] < 0.95 * quantile


@given(factor=st.floats(1e-6, 1e6), unit=st.floats(1e-3, 1e3), seed=st.integers(0, 100))
@settings(max_examples=5)
def test_units_of_errors_and_of_a_variance(factor, unit, seed):
    X, mean, variances, errors, _ = errors_with_variances(seed, 60)
    small = fitted(X, mean, variances, errors)
    # The prediction is left as it is: its scaling may change the last digits by which the forest splits.
    large = fitted(X, mean, variances * [unit * factor**2, factor**2], factor * errors)
    np.testing.assert_allclose(large.weights_, small.weights_ / [unit, 1.0], rtol=1e-3)
    assert large.constant_ == pytest.approx(factor**2 * small.constant_, rel=1e-3)
    np.testing.assert_allclose(large.sizes_, factor * small.sizes_, rtol=0.05)


@given(
    seed=st.integers(0, 1000),
    n=st.integers(2, 60),
    spread=st.sampled_from([0.0, 1e-300, 1e-32, 1e-9, 1.0, 1e20]),
    share=st.floats(0.0, 1.0),
)
@settings(max_examples=15)
def test_sizes_are_positive_and_at_most_the_largest_error(seed, n, spread, share):
    """Also where variances vanish for most of the fitted rows, or all of them, and for no new row."""
    rng = np.random.default_rng(seed)
    X, mean, errors = rng.normal(size=(n, 2)), rng.normal(size=n), rng.exponential(size=n)
    variances = spread * rng.exponential(size=(n, 2)) * (rng.random((n, 2)) < share)
    difficulty = fitted(X, mean, variances, errors)
    new = difficulty.predict(X, mean, rng.exponential(size=(n, 2)) * 10.0 ** rng.integers(-3, 3, size=(n, 1)))
    for sizes in (difficulty.sizes_, new):
        assert np.all(sizes > 0) and np.all(sizes <= errors.max())


@pytest.mark.parametrize("spread", [0.0, 1e-32])
def test_variances_that_vanish_get_no_weight(spread):
    X, mean, _, errors, _ = errors_with_variances(0, 300)
    variances = np.zeros((300, 2))
    variances[::7] = spread  # rounding errors
    difficulty = fitted(X, mean, variances, errors)
    assert difficulty.weights_.tolist() == [0.0, 0.0]
    assert np.sqrt(difficulty.constant_) == pytest.approx(errors.mean())
    np.testing.assert_array_equal(
        difficulty.predict(X, mean, variances), difficulty.predict(X, mean, np.ones((300, 2)))
    )


def test_no_errors():
    X, mean, variances, errors, _ = errors_with_variances(0, 50)
    difficulty = fitted(X, mean, variances, 0.0 * errors)
    for sizes in (difficulty.sizes_, difficulty.predict(X, mean, variances)):
        assert np.all(np.isfinite(sizes)) and np.all(sizes > 0)


def test_a_single_outlier_does_not_change_the_order_of_sizes():
    X, mean, variances, errors, _ = errors_with_variances(0)
    errors[0] = 100 * errors.mean()
    difficulty = fitted(X, mean, variances, errors)
    X, mean, variances, _, scale = errors_with_variances(1)
    assert spearmanr(difficulty.predict(X, mean, variances), scale)[0] > 0.9


def test_a_variance_that_says_nothing_has_a_small_share():
    rng = np.random.default_rng(0)
    X, mean, variances, errors, _ = errors_with_variances(0, 3000)
    useless = rng.exponential(size=3000) ** 2
    weights = fitted(X, mean, np.column_stack([variances, useless]), errors).weights_
    assert weights[2] < 0.2 * weights[0]


def test_missing_values():
    X, mean, variances, errors, _ = errors_with_inputs(0)
    X[::3, 1] = np.nan
    difficulty = fitted(X, mean, variances, errors)
    sizes = difficulty.predict(X, mean, variances)
    assert np.all(np.isfinite(sizes)) and sizes[X[:, 0] > 0.5].min() > sizes[X[:, 0] < 0.4].max()


def test_same_seed_same_result_whatever_the_jobs_and_the_batch():
    X, mean, variances, errors, _ = errors_with_variances(0, 200)
    first = fitted(X, mean, variances, errors)
    expected = first.predict(X, mean, variances)
    again = clone(first).set_params(n_jobs=2).fit(X, mean, variances, errors)
    for other in (again, pickle.loads(pickle.dumps(first))):
        np.testing.assert_allclose(other.sizes_, first.sizes_, rtol=1e-12)
        np.testing.assert_allclose(other.predict(X, mean, variances), expected, rtol=1e-12)
    np.testing.assert_allclose(first.predict(X[7:9], mean[7:9], variances[7:9]), expected[7:9], rtol=1e-12)
    other = clone(first).set_params(random_state=1).fit(X, mean, variances, errors)
    assert not np.allclose(other.sizes_, first.sizes_)


def test_lists_are_accepted_and_fit_is_required():
    X, mean, variances, errors, _ = errors_with_variances(0, 30)
    with pytest.raises(NotFittedError):
        Difficulty().predict(X, mean, variances)
    lists = [part.tolist() for part in (X, mean, variances, errors)]
    np.testing.assert_array_equal(fitted(*lists).sizes_, fitted(X, mean, variances, errors).sizes_)
    np.testing.assert_array_equal(
        fitted(*lists).predict(*lists[:3]), fitted(X, mean, variances, errors).predict(X, mean, variances)
    )


@pytest.mark.parametrize(
    ("variances", "errors"),
    [(np.ones(5), np.ones(5)), (-np.ones((5, 1)), np.ones(5)), (np.ones((5, 1)), -np.ones(5))],
    ids=["shape", "negative variance", "negative error"],
)
def test_invalid_measures(variances, errors):
    with pytest.raises(ValueError, match="variances must have shape"):
        Difficulty().fit(np.zeros((5, 1)), np.zeros(5), variances, errors)


def test_lengths_must_agree():
    with pytest.raises(ValueError, match="inconsistent"):
        Difficulty().fit(np.zeros((5, 1)), np.zeros(4), np.ones((5, 1)), np.ones(5))
