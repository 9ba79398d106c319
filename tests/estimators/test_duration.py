"""Estimates of how long a fit takes."""

import warnings

import numpy as np
import pytest
from sklearn.base import BaseEstimator, RegressorMixin

from deltauq import AnchoredRegressor
from deltauq.estimators import _delta_model
from deltauq.estimators._delta_model import estimate_seconds

clock = [0.0]


@pytest.fixture(autouse=True)
def a_clock_that_models_move(monkeypatch, request):
    if "a_slow_fit" not in request.node.name:
        monkeypatch.setattr(_delta_model.time, "perf_counter", lambda: clock[0])


class Slow(RegressorMixin, BaseEstimator):
    """Takes a second for 100 pairs, and for more in proportion to a power of their number."""

    def __init__(self, power=1.0):
        self.power = power

    def fit(self, X, y):
        clock[0] += (len(X) / 100) ** self.power
        return self

    def predict(self, X):
        return np.zeros(len(X))


@pytest.mark.parametrize("power", [0.5, 1.0, 2.0])
def test_estimate_of_several_complexities(power):
    tuples = np.zeros((51_200, 2))
    seconds = estimate_seconds(Slow(power=power), tuples, np.zeros(51_200), {})
    assert seconds == pytest.approx(512**power)


def test_few_pairs_are_not_timed():
    assert estimate_seconds(Slow(), np.zeros((40_000, 2)), np.zeros(40_000), {}) == 0.0


@pytest.mark.parametrize("error", [ValueError, RuntimeError])
def test_no_estimate_if_a_part_cannot_be_fitted(error):
    class Refuses(Slow):
        def fit(self, X, y):
            raise error("too few rows")

    assert estimate_seconds(Refuses(), np.zeros((51_200, 2)), np.zeros(51_200), {}) == 0.0


@pytest.mark.parametrize(("limit", "warned"), [(0.0, True), (np.inf, False)])
def test_a_slow_fit_warns_once(limit, warned, monkeypatch):
    monkeypatch.setattr(_delta_model, "SLOW_SECONDS", limit)
    X = np.random.default_rng(0).normal(size=(300, 3))
    model = AnchoredRegressor(random_state=0, calibrate="cv").set_params(n_train_anchors=300)
    model.set_params(estimator=_tree())
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        mean = model.fit(X, X[:, 0]).predict(X[:5])
    texts = [str(w.message) for w in caught]
    assert sum("90,000 pairs" in text for text in texts) == warned
    np.testing.assert_array_equal(mean, _quiet(model, X).predict(X[:5]))


def _tree():
    from sklearn.tree import DecisionTreeRegressor

    return DecisionTreeRegressor(max_depth=4)


def _quiet(model, X):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return model.fit(X, X[:, 0])
