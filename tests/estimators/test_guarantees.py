"""The guarantees of the estimators."""

import tracemalloc
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.datasets import load_diabetes
from sklearn.ensemble import HistGradientBoostingRegressor, RandomForestRegressor
from sklearn.linear_model import LinearRegression, Ridge
from sklearn.neighbors import KNeighborsRegressor
from sklearn.svm import SVR
from sklearn.tree import DecisionTreeRegressor

from deltauq import AnchoredRegressor
from deltauq.core.encoding import ENCODINGS
from deltauq.core.target import TARGETS
from deltauq.estimators import _delta_model

ALL_ENCODINGS = pytest.mark.parametrize("encoding", list(ENCODINGS))
BOTH_TARGETS = pytest.mark.parametrize("target", list(TARGETS))
BASES = {
    "tree": DecisionTreeRegressor(max_depth=6),
    "forest": RandomForestRegressor(3),
    "boosting": HistGradientBoostingRegressor(max_iter=5),
    "svr": SVR(C=10),
}


def problem(seed, n=30, d=3):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    return X, np.sin(X[:, 0]) + X[:, 1] * X[:, -1]


@cache
def fitted(name, target="difference", encoding="auto"):
    model = AnchoredRegressor(
        BASES[name], target=target, encoding=encoding, n_anchors=12, n_train_anchors=20, random_state=0
    )
    return model.fit(*problem(0))


@pytest.mark.parametrize("name", BASES)
@ALL_ENCODINGS
@BOTH_TARGETS
@given(seed=st.integers(0, 1000), n=st.integers(1, 40))
@settings(max_examples=10)
def test_predictions_do_not_depend_on_the_batch(name, target, encoding, seed, n):
    model = fitted(name, target, encoding)
    X = np.random.default_rng(seed).normal(size=(n, 3))
    whole = model.posterior(X)
    pick = seed % n
    alone = model.posterior(X[pick : pick + 1])
    backwards = model.posterior(X[::-1])
    rtol = 0 if name in ("tree", "forest") else 1e-12
    np.testing.assert_allclose(alone.mean, whole.mean[[pick]], rtol=rtol, atol=rtol)
    np.testing.assert_allclose(alone.var, whole.var[[pick]], rtol=rtol, atol=rtol)
    np.testing.assert_allclose(backwards.mean[::-1], whole.mean, rtol=rtol, atol=rtol)
    np.testing.assert_allclose(backwards.var[::-1], whole.var, rtol=rtol, atol=rtol)


@pytest.mark.parametrize("name", BASES)
@pytest.mark.parametrize("rows_per_call", [1, 7, 64])
@pytest.mark.parametrize("n_jobs", [1, 2])
@BOTH_TARGETS
def test_predictions_do_not_depend_on_chunks_and_threads(name, target, rows_per_call, n_jobs, monkeypatch):
    model = fitted(name, target)
    X = np.random.default_rng(1).normal(size=(53, 3))
    whole = model.posterior(X)
    for constant in ("ROWS_PER_CALL", "KERNEL_ROWS_PER_CALL", "PACKED_ROWS_PER_BLOCK"):
        monkeypatch.setattr(_delta_model, constant, rows_per_call)
    monkeypatch.setattr(model, "n_jobs", n_jobs)
    chunked = model.posterior(X, return_samples=True)
    rtol = 0 if name in ("tree", "forest") else 1e-12
    np.testing.assert_allclose(chunked.mean, whole.mean, rtol=rtol, atol=rtol)
    np.testing.assert_allclose(chunked.var, whole.var, rtol=rtol, atol=rtol)
    assert chunked.samples.shape == (12, 53)


@pytest.mark.parametrize("name", BASES)
@BOTH_TARGETS
def test_float32_rows_predict_as_their_float64_copies(name, target):
    X = np.random.default_rng(2).normal(size=(20, 3)).astype(np.float32)
    ours, theirs = (fitted(name, target).posterior(rows) for rows in (X, X.astype(np.float64)))
    np.testing.assert_allclose(ours.mean, theirs.mean, rtol=1e-6)
    np.testing.assert_allclose(ours.var, theirs.var, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("encoding", ["difference", "full"])
@BOTH_TARGETS
@given(seed=st.integers(0, 1000), alpha=st.floats(0.01, 100))
@settings(max_examples=25)
def test_the_spread_of_a_linear_model_is_its_closed_form(target, encoding, seed, alpha):
    """f = k·R + m·X + κ·(X−R) + b, with y_R added to a difference.

    So σ is the standard deviation over anchors of (k−κ)·R, or of y_R + (k−κ)·R, whatever the input.
    """
    X, y = problem(seed)
    model = AnchoredRegressor(
        Ridge(alpha), target=target, encoding=encoding, n_anchors=20, random_state=seed
    ).fit(X, y)
    k, *_, kappa = np.split(model.estimator_.coef_, model.encoding_.width)
    labels = model.anchors_.y if target == "difference" else 0.0
    sigma = np.std(labels + model.anchors_.X @ (k - kappa))
    posterior = model.posterior(np.random.default_rng(seed).normal(size=(5, 3)))
    np.testing.assert_allclose(posterior.std, sigma, rtol=1e-6, atol=1e-9)


@ALL_ENCODINGS
@BOTH_TARGETS
def test_an_exact_linear_fit_has_no_spread(target, encoding):
    X, _ = problem(3)
    y = X @ [1.0, -2.0, 0.5] + 3
    model = AnchoredRegressor(LinearRegression(), target=target, encoding=encoding, random_state=0)
    mean, std = model.fit(X, y).predict(X, return_std=True)
    np.testing.assert_allclose(mean, y, atol=1e-9)
    np.testing.assert_allclose(std, 0.0, atol=1e-9)


@BOTH_TARGETS
def test_same_seed_same_result_and_another_seed_another(target):
    X, y = problem(4)
    model = AnchoredRegressor(RandomForestRegressor(3), target=target, n_train_anchors=5)
    first, again, other = (
        clone(model).set_params(random_state=seed).fit(X, y).posterior(X) for seed in (7, 7, 8)
    )
    np.testing.assert_array_equal(first.mean, again.mean)
    np.testing.assert_array_equal(first.var, again.var)
    assert not np.array_equal(first.mean, other.mean)


@pytest.mark.parametrize("base", [HistGradientBoostingRegressor(max_iter=3), Ridge()])
@BOTH_TARGETS
def test_memory_does_not_grow_with_the_number_of_anchors(base, target):
    X, y = problem(5)
    rows = np.random.default_rng(0).normal(size=(3000, 3))

    def peak(n_anchors):
        # Equal anchors would be predicted once.
        model = AnchoredRegressor(base, target=target, random_state=0).fit(X, y)
        anchors = np.random.default_rng(1).normal(size=(n_anchors, 3))
        model.set_anchors(anchors, anchors[:, 0]).posterior(rows[:10])
        tracemalloc.start()
        model.posterior(rows)
        highest = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return highest

    assert peak(300) < 1.5 * peak(20)


def test_integers_predict_as_floats():
    rng = np.random.default_rng(0)
    X = rng.integers(0, 255, size=(40, 3), dtype=np.uint8)
    y = X[:, 0].astype(float)
    by_integer = AnchoredRegressor(DecisionTreeRegressor(), random_state=0).fit(X, y)
    by_float = AnchoredRegressor(DecisionTreeRegressor(), random_state=0).fit(X.astype(float), y)
    np.testing.assert_array_equal(by_integer.predict(X), by_float.predict(X.astype(float)))
    # A wrapped difference would be a number between 0 and 255; the true one is negative half of the time.
    assert by_integer.estimator_.tree_.threshold[by_integer.estimator_.tree_.feature >= 3].min() < 0


def test_more_anchors_than_rows_repeat_them():
    X, y = problem(6, n=8)
    model = AnchoredRegressor(KNeighborsRegressor(2), n_anchors=100, random_state=0).fit(X, y)
    assert model.anchors_.X.shape == (100, 3) and model.anchors_.y.shape == (100,)
    counts = np.unique(model.anchors_.X, axis=0, return_counts=True)[1]
    assert len(counts) == 8 and counts.max() - counts.min() <= 1


def test_uncertainty_correlates_with_errors():
    X, y = load_diabetes(return_X_y=True)
    correlations = []
    for seed in range(3):
        order = np.random.default_rng(seed).permutation(len(X))
        train, test = order[:200], order[200:]
        model = AnchoredRegressor(RandomForestRegressor(5), random_state=seed).fit(X[train], y[train])
        mean, std = model.predict(X[test], return_std=True)
        correlations.append(np.corrcoef(std, np.abs(y[test] - mean))[0, 1])
    assert np.mean(correlations) > 0.05
