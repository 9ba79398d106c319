from itertools import pairwise

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from mapie.conformity_scores.bounds.std_normalised import StdConformityScore
from mapie.regression import SplitConformalRegressor
from sklearn.base import clone
from sklearn.datasets import load_diabetes
from sklearn.ensemble import RandomForestRegressor
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, WhiteKernel
from sklearn.linear_model import BayesianRidge, LinearRegression
from sklearn.neighbors import KNeighborsRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from deltauq import AnchoredRegressor
from deltauq.baselines import PlainRegressor
from deltauq.calibration import ConformalRegressor, conformal_quantile, regression_scores
from deltauq.core import Posterior


class Precomputed:
    """A model whose inputs are its predictions: the means, then the stds, in columns."""

    def posterior(self, X):
        mean, std = np.hsplit(np.asarray(X, dtype=float), 2)
        if mean.shape[1] == 1:
            mean, std = mean[:, 0], std[:, 0]
        return Posterior(mean, std**2)


def predictions(n, rng, zeros=0.2):
    """Return n inputs of `Precomputed` with inexact stds, a share of them zero, and targets."""
    std = np.exp(1.5 * rng.normal(size=n)) * (rng.random(n) >= zeros)
    mean = rng.normal(size=n)
    return np.column_stack([mean, std]), mean + (0.3 + std * rng.random(n)) * rng.normal(size=n)


def covered(conformal, X, y, coverage):
    lower, upper = conformal.predict_interval(X, coverage)
    return np.mean((lower <= y) & (y <= upper))


def diabetes():
    X, y = load_diabetes(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(X))
    return X[order], y[order]


@pytest.mark.parametrize(
    ("delta", "n", "n_scored", "coverage", "repetitions"),
    [
        (None, 75, 60, 0.9, 200),
        (0.5, 60, 60, 0.9, 200),
        (0.0, 60, 60, 0.9, 200),
        # So few rows that a δ taken from the scored rows themselves would be seen.
        (None, 5, 4, 0.6, 3000),
    ],
)
def test_coverage(delta, n, n_scored, coverage, repetitions):
    rng = np.random.default_rng(0)
    rates = []
    for _ in range(repetitions):
        conformal = ConformalRegressor(Precomputed(), delta=delta).conformalize(*predictions(n, rng))
        assert len(conformal.scores_) == n_scored
        rates.append(covered(conformal, *predictions(100, rng), coverage))
    # With δ = 0 a σ of zero gives infinite scores, which are equal: the coverage may be larger, not smaller.
    expected = np.ceil((n_scored + 1) * coverage) / (n_scored + 1)
    error = np.std(rates) / np.sqrt(repetitions)
    assert np.mean(rates) > expected - 3 * error
    if delta != 0.0:
        assert np.mean(rates) < expected + 3 * error


def test_intervals_match_definition():
    rng = np.random.default_rng(0)
    X, y = predictions(50, rng)
    new, _ = predictions(20, rng)
    lower, upper = ConformalRegressor(Precomputed(), delta=0.3).conformalize(X, y).predict_interval(new, 0.8)
    scores = sorted(np.abs(y - X[:, 0]) / (X[:, 1] + 0.3))
    half = scores[40] * (new[:, 1] + 0.3)  # ⌈51 · 0.8⌉ = 41, the 41st smallest
    np.testing.assert_allclose(lower, new[:, 0] - half)
    np.testing.assert_allclose(upper, new[:, 0] + half)


@pytest.mark.parametrize("coverage", [0.5, 0.8, 0.9, 0.95])
def test_upper_bounds_match_mapie(coverage):
    # Not the lower: there MAPIE takes the rank ⌊(n + 1) · coverage⌋, one short of what the theorem asks for.
    X, y = diabetes()
    model = GaussianProcessRegressor(RBF(0.1) + WhiteKernel(0.1), normalize_y=True).fit(X[:150], y[:150])
    theirs = SplitConformalRegressor(
        model, confidence_level=coverage, conformity_score=StdConformityScore(), prefit=True
    ).conformalize(X[150:300], y[150:300])
    ours = ConformalRegressor(model, delta=0.0).conformalize(X[150:300], y[150:300])
    expected = theirs.predict_interval(X[300:])[1][:, 1, 0]
    np.testing.assert_allclose(ours.predict_interval(X[300:], coverage)[1], expected)


@given(c=st.floats(1e-6, 1e6), unit=st.floats(1e-6, 1e6), seed=st.integers(0, 1000), n=st.integers(2, 80))
def test_units_of_y_and_sigma(c, unit, seed, n):
    rng = np.random.default_rng(seed)
    X, y = predictions(n, rng, zeros=0.0)
    new, _ = predictions(10, rng)
    plain = ConformalRegressor(Precomputed()).conformalize(X, y)
    scaled = ConformalRegressor(Precomputed()).conformalize(X * [c, unit], c * y)
    lower, upper = plain.predict_interval(new, 0.4)
    np.testing.assert_allclose(
        scaled.predict_interval(new * [c, unit], 0.4), [c * lower, c * upper], rtol=1e-6
    )


def test_zero_sigma_gives_constant_width():
    X, y = diabetes()
    linear = LinearRegression().fit(X[:150], y[:150])
    conformal = ConformalRegressor(PlainRegressor(linear).fit(X[:150], y[:150]))
    lower, upper = conformal.conformalize(X[150:324], y[150:324]).predict_interval(X[324:], 0.9)
    rows = np.random.default_rng(0).permutation(174)[34:] + 150  # those that are scored
    errors = np.sort(np.abs(y[rows] - linear.predict(X[rows])))
    np.testing.assert_allclose(upper - lower, 2 * errors[126])  # ⌈141 · 0.9⌉ = 127


def test_sigma_mostly_zero():
    X, y = diabetes()
    X = np.round(StandardScaler().fit_transform(X))
    model = AnchoredRegressor(KNeighborsRegressor(1), n_anchors=20, n_train_anchors=20, random_state=0)
    model.fit(X[:150], y[:150])
    constant = ConformalRegressor(model, delta=1e9).conformalize(X[150:300], y[150:300])
    chosen = ConformalRegressor(model).conformalize(X[150:300], y[150:300])
    widths = [np.mean(np.diff(c.predict_interval(X[300:]), axis=0)) for c in (constant, chosen)]
    assert widths[1] < 1.2 * widths[0]


def test_informative_sigma_narrows_intervals():
    rng = np.random.default_rng(0)
    std = np.exp(rng.normal(size=3000))
    X, y = np.column_stack([np.zeros(3000), std]), std * rng.normal(size=3000)
    constant = ConformalRegressor(Precomputed(), delta=1e9).conformalize(X[:1000], y[:1000])
    chosen = ConformalRegressor(Precomputed()).conformalize(X[:1000], y[:1000])
    widths = [np.mean(np.diff(c.predict_interval(X[1000:]), axis=0)) for c in (constant, chosen)]
    assert widths[1] < 0.85 * widths[0]


def test_uninformative_sigma_gets_large_delta():
    rng = np.random.default_rng(0)
    X, _ = predictions(1000, rng)
    conformal = ConformalRegressor(Precomputed()).conformalize(X, X[:, 0] + rng.normal(size=1000))
    assert conformal.delta_ >= 10 * np.sqrt(np.mean(X[:, 1] ** 2))


def test_delta_depends_on_rows_set_aside_only():
    rng = np.random.default_rng(0)
    X, y = predictions(100, rng)
    coverages = np.random.default_rng(0).permutation(100)[:20]
    other = np.setdiff1d(np.arange(100), coverages)
    X2, y2 = predictions(100, rng)
    X2[coverages], y2[coverages] = X[coverages], y[coverages]
    first, second = (ConformalRegressor(Precomputed()).conformalize(*rows) for rows in ((X, y), (X2, y2)))
    assert first.delta_ == second.delta_
    expected = np.abs(y2 - X2[:, 0])[other] / (X2[other, 1] + second.delta_)
    np.testing.assert_allclose(second.scores_, np.sort(expected))


def test_width_grows_with_coverage_until_infinite():
    rng = np.random.default_rng(0)
    X, y = predictions(20, rng)
    conformal = ConformalRegressor(Precomputed(), delta=0.1).conformalize(X, y)
    widths = [np.diff(conformal.predict_interval(X, c), axis=0) for c in (0.1, 0.5, 0.9, 20 / 21)]
    assert all(np.all(a <= b) for a, b in pairwise(widths))
    with pytest.warns(UserWarning, match="0.96 requires at least 24 scored rows, but there are 20"):
        lower, upper = conformal.predict_interval(X, 0.96)
    assert np.all(lower == -np.inf) and np.all(upper == np.inf)


@pytest.mark.parametrize("coverage", [0.07, 0.29, 0.56, 0.57, 0.7, 0.9, 0.95])
def test_rank_is_not_raised_by_rounding(coverage):
    X = np.column_stack([np.zeros(99), np.ones(99)])
    conformal = ConformalRegressor(Precomputed(), delta=0.0).conformalize(X, np.arange(1.0, 100.0))
    np.testing.assert_allclose(conformal.predict_interval(X[:1], coverage)[1], round(100 * coverage))


def test_zero_sigma_without_delta():
    X = np.array([[0.0, 0.0], [0.0, 1.0], [0.0, 1.0]])
    kept = ConformalRegressor(Precomputed(), delta=0.0).conformalize(X, [0.0, 1.0, 2.0])
    np.testing.assert_array_equal(kept.predict_interval(X, 0.75), [[0, -2, -2], [0, 2, 2]])
    broken = ConformalRegressor(Precomputed(), delta=0.0).conformalize(X, [0.1, 1.0, 2.0])
    np.testing.assert_array_equal(broken.scores_, [1.0, 2.0, np.inf])
    np.testing.assert_array_equal(np.abs(broken.predict_interval(X, 0.75)), np.inf)


def test_perfect_predictions_get_zero_width():
    X = np.column_stack([np.arange(30.0), np.ones(30)])
    for std in (0.0, 1.0):
        X[:, 1] = std
        conformal = ConformalRegressor(Precomputed()).conformalize(X, X[:, 0])
        np.testing.assert_array_equal(conformal.predict_interval(X), [X[:, 0], X[:, 0]])


def test_several_outputs():
    rng = np.random.default_rng(0)
    (X1, y1), (X2, y2) = predictions(100, rng), predictions(100, rng)
    both = np.column_stack([X1[:, 0], X2[:, 0], X1[:, 1], 50 * X2[:, 1]])
    conformal = ConformalRegressor(Precomputed()).conformalize(both, np.column_stack([y1, y2]))
    lower, upper = conformal.predict_interval(both)
    assert lower.shape == (100, 2) and conformal.delta_.shape == (2,) and conformal.scores_.shape == (80, 2)
    for k, (X, y) in enumerate([(X1, y1), (X2 * [1, 50], y2)]):
        alone = ConformalRegressor(Precomputed()).conformalize(X, y)
        np.testing.assert_allclose([lower[:, k], upper[:, k]], alone.predict_interval(X))
    given_each = ConformalRegressor(Precomputed(), delta=[0.1, 2.0]).conformalize(
        both, np.column_stack([y1, y2])
    )
    np.testing.assert_array_equal(given_each.delta_, [0.1, 2.0])


class Network(torch.nn.Module):
    """A network with one output column and a posterior of tensors that carry gradients."""

    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(1))

    def posterior(self, x, link=None):
        return Posterior(x[:, :1] * self.weight, (x[:, 1:] * self.weight) ** 2)


def test_network_intervals():
    rng = np.random.default_rng(0)
    X, y = predictions(100, rng)
    expected = ConformalRegressor(Precomputed()).conformalize(X, y).predict_interval(X)
    conformal = ConformalRegressor(Network())
    tensors = torch.asarray(X), torch.asarray(y)
    lower, upper = conformal.conformalize(*tensors).predict_interval(tensors[0])
    assert isinstance(lower, np.ndarray) and lower.shape == (100, 1)
    np.testing.assert_allclose([lower[:, 0], upper[:, 0]], expected)


@pytest.mark.parametrize(
    "model",
    [
        AnchoredRegressor(RandomForestRegressor(5), n_anchors=20, n_train_anchors=20, random_state=0),
        AnchoredRegressor(
            RandomForestRegressor(5), n_anchors=20, n_train_anchors=20, center="estimator", random_state=0
        ),
        PlainRegressor(RandomForestRegressor(5), random_state=0),
        BayesianRidge(),
        make_pipeline(StandardScaler(), BayesianRidge()),
    ],
    ids=["anchored", "anchored, own centre", "plain", "bayesian ridge", "pipeline"],
)
def test_coverage_of_real_targets(model):
    X, y = diabetes()
    conformal = ConformalRegressor(model.fit(X[:150], y[:150])).conformalize(X[150:300], y[150:300])
    lower, upper = conformal.predict_interval(X[300:], 0.8)
    assert 0.7 < np.mean((lower <= y[300:]) & (y[300:] <= upper)) < 0.92
    np.testing.assert_allclose((lower + upper) / 2, model.predict(X[300:]))


def test_scikit_learn_conventions():
    X, y = diabetes()
    model = BayesianRidge().fit(X[:150], y[:150])
    conformal = ConformalRegressor(FrozenEstimator(model), delta=0.5)
    assert conformal.get_params(deep=False) == {"model": conformal.model, "delta": 0.5}
    copy = clone(conformal.conformalize(X[150:300], y[150:300]))
    with pytest.raises(NotFittedError, match=r"call conformalize\(X, y\) first"):
        copy.predict_interval(X)
    again = copy.conformalize(X[150:300], y[150:300]).predict_interval(X)
    np.testing.assert_array_equal(again, conformal.predict_interval(X))


@pytest.mark.parametrize(
    ("arguments", "rows", "coverage", "error", "message"),
    [
        ({"delta": -1.0}, (9, 9), 0.5, ValueError, "delta must not be negative, got -1.0"),
        ({"delta": np.nan}, (9, 9), 0.5, ValueError, "delta must be finite"),
        ({"delta": [1.0, 2.0]}, (9, 9), 0.5, ValueError, r"have shape \(\), got shape \(2,\)"),
        ({}, (9, 8), 0.5, ValueError, r"shape \(9,\) of the predictions, got \(8,\)"),
        ({}, (1, 1), 0.5, ValueError, "at least two rows"),
        ({}, (9, 9), 0.0, ValueError, "coverage must lie between 0 and 1, got 0.0"),
        ({}, (9, 9), 90, ValueError, "coverage must lie between 0 and 1, got 90"),
    ],
)
def test_bad_input(arguments, rows, coverage, error, message):
    X, y = predictions(max(rows), np.random.default_rng(0))
    with pytest.raises(error, match=message) as caught:
        ConformalRegressor(Precomputed(), **arguments).conformalize(
            X[: rows[0]], y[: rows[1]]
        ).predict_interval(X, coverage)
    assert "\n" not in str(caught.value) and str(caught.value).endswith(".")


class Stacked:
    """A model with an axis too many."""

    def posterior(self, X):
        return Posterior(np.zeros((len(X), 1, 1)), np.zeros((len(X), 1, 1)))


def test_bad_targets_and_models():
    X, y = predictions(20, np.random.default_rng(0))
    y[3] = np.nan
    with pytest.raises(ValueError, match=r"shape \(n,\) or \(n, o\), got \(5, 1, 1\)"):
        ConformalRegressor(Stacked()).conformalize(X[:5], y[:5])
    with pytest.raises(ValueError, match="y must be finite"):
        ConformalRegressor(Precomputed()).conformalize(X, y)
    with pytest.raises(ValueError, match="y must be numeric"):
        ConformalRegressor(Precomputed()).conformalize(X, ["a"] * 20)
    with pytest.raises(TypeError, match="return_std"):
        ConformalRegressor(LinearRegression()).conformalize(X, y)
    with pytest.raises(NotFittedError):
        ConformalRegressor(AnchoredRegressor()).conformalize(X, np.zeros(20))
    conformal = ConformalRegressor(Precomputed()).conformalize(X, np.zeros(20))
    with pytest.raises(ValueError, match="scores were computed for"):
        conformal.predict_interval(np.hstack([X, X]))


@pytest.mark.parametrize("o", [None, 2])
def test_from_scores_equals_conformalize(o):
    rng = np.random.default_rng(0)
    shape = (40,) if o is None else (40, o)
    mean, y, std = rng.normal(size=shape), rng.normal(size=shape), rng.random(shape)
    delta = 0.3 if o is None else [0.3, 0.5]
    inputs = np.column_stack([mean, std])
    conformal = ConformalRegressor(Precomputed(), delta=delta).conformalize(inputs, y)
    scores = regression_scores(y, mean, std, delta)
    np.testing.assert_allclose(scores, conformal.scores_)
    stored = ConformalRegressor.from_scores(rng.permutation(scores), delta)
    np.testing.assert_allclose(stored.interval(mean, std, 0.8), conformal.predict_interval(inputs, 0.8))
    np.testing.assert_array_equal(stored.delta_, conformal.delta_)
    with pytest.raises(TypeError, match="got NoneType"):
        stored.predict_interval(inputs)
    with pytest.raises(ValueError, match="must not be negative"):
        ConformalRegressor.from_scores(scores, -1.0)


def test_quantile_of_unsorted_scores():
    assert conformal_quantile([3.0, 1.0, 2.0, 4.0], 0.6) == 3.0
    with pytest.warns(UserWarning, match="requires at least 9 scored rows, but there are 4"):
        assert conformal_quantile([3.0, 1.0, 2.0, 4.0], 0.9) == np.inf
