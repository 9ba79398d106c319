import pickle
import tracemalloc
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.compose import TransformedTargetRegressor
from sklearn.datasets import make_friedman1
from sklearn.dummy import DummyRegressor
from sklearn.ensemble import (
    BaggingRegressor,
    ExtraTreesRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.linear_model import Ridge
from sklearn.neighbors import KNeighborsRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVR
from sklearn.tree import DecisionTreeRegressor

from deltauq import AnchoredRegressor
from deltauq.core import DataPrior, Difference
from deltauq.estimators import pairing
from deltauq.estimators.pairing import TrainingRows


def rows(n, d=2):
    X = np.random.default_rng(0).normal(size=(n, d))
    return TrainingRows(X, X[:, 0], None, np.zeros(n, dtype=int))


@pytest.mark.parametrize(
    ("n", "anchors"), [(10, 10), (200, 200), (316, 316), (317, 315), (1000, 100), (5000, 20), (100_000, 20)]
)
def test_auto_n_train_anchors(n, anchors):
    assert pairing.count_train_anchors(n, "auto", DecisionTreeRegressor()) == anchors
    assert pairing.count_train_anchors(n, 7, DecisionTreeRegressor()) == 7


@pytest.mark.parametrize(
    ("forest", "n", "anchors"),
    [
        (RandomForestRegressor(5), 200, 200),
        (RandomForestRegressor(50), 200, 100),
        (RandomForestRegressor(50), 2000, 10),
        (make_pipeline(StandardScaler(), ExtraTreesRegressor(50)), 100_000, 10),
        (RandomForestClassifier(50), 2000, 20),
        (RandomForestClassifier(5), 2000, 50),
        (TransformedTargetRegressor(RandomForestRegressor(50)), 2000, 10),
        (BaggingRegressor(DecisionTreeRegressor(), 50), 2000, 10),
        (RandomForestRegressor(0), 200, 200),
    ],
)
def test_auto_n_train_anchors_of_forests(forest, n, anchors):
    assert pairing.count_train_anchors(n, "auto", forest) == anchors
    assert pairing.count_train_anchors(n, 300, forest) == 300


@pytest.mark.parametrize(("n_train_anchors", "smallest_leaf"), [("auto", 3), (40, 1)])
def test_auto_limits_the_pairs_and_the_leaves_of_a_forest(n_train_anchors, smallest_leaf):
    X, y = make_friedman1(500, 5, noise=1.0, random_state=0)
    forest = RandomForestRegressor(50, bootstrap=False)
    model = AnchoredRegressor(forest, n_train_anchors=n_train_anchors, random_state=0).fit(X, y)
    tree = model.estimator_.estimators_[0].tree_
    assert tree.n_node_samples[0] == 500 * 40
    assert tree.n_node_samples.min() == smallest_leaf
    assert forest.min_samples_leaf == 1


@pytest.mark.slow
def test_an_anchored_forest_of_2000_rows_is_small():
    X, y = make_friedman1(2000, 20, noise=1.0, random_state=0)
    model = AnchoredRegressor(RandomForestRegressor(50), random_state=0).fit(X, y)
    assert len(pickle.dumps(model)) < 40e6


def test_size_of_pairs_is_limited():
    bytes_per_pair = 8 * 2 * 1000
    per_row = pairing.count_anchors_per_row(5000, 20, bytes_per_pair, None)
    assert 1 <= per_row < 20
    assert 5000 * per_row * bytes_per_pair <= 500_000_000


def test_every_row_has_a_pair():
    assert pairing.count_anchors_per_row(200_000, 20, 8, 10_000) == 1


@given(n=st.integers(1, 30), anchors=st.integers(1, 12), data=st.data())
def test_shared_pairs_with_few_anchors_per_row(n, anchors, data):
    per_row = data.draw(st.integers(1, anchors))
    partners = pairing.shared_pairs(n, anchors, per_row, np.random.default_rng(0))
    assert partners.shape == (n, per_row)
    assert all(len(set(row)) == per_row for row in partners)
    assert partners.min() >= 0 and partners.max() < anchors


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_pairs_decode_to_their_rows_in_blocks(dtype, monkeypatch):
    monkeypatch.setattr(pairing, "PAIRS_PER_BLOCK", 7)
    data = rows(11)
    partners = pairing.shared_pairs(11, 11, 5, np.random.default_rng(0))
    tuples = pairing.encode_pairs(data.X, data.X, partners, Difference(), dtype, np.random.default_rng(0))
    assert tuples.dtype == dtype and tuples.shape == (55, 4)
    np.testing.assert_allclose(Difference().decode(tuples), np.repeat(data.X, 5, axis=0), rtol=1e-5)
    np.testing.assert_allclose(tuples[:, :2], data.X[partners.reshape(-1)], rtol=1e-6)


def test_pairs_of_kernel_machines_are_limited():
    X = np.random.default_rng(0).normal(size=(400, 2))
    model = AnchoredRegressor(
        GaussianProcessRegressor(optimizer=None, alpha=0.1), n_anchors=50, random_state=0
    )
    model.estimator = SVR()
    model.fit(X, X[:, 0])
    assert model.estimator_.shape_fit_[0] == 400 * 25
    assert len(np.unique(model.anchors_, axis=0)) == 50


def test_pairs_of_trees(table):
    """Their tuples are formed in float32; the differences behind them are taken in float64."""
    X, y = table
    X = X + 1e6
    forest = RandomForestRegressor(1, bootstrap=False, random_state=0)
    tree = AnchoredRegressor(forest, n_train_anchors=60, random_state=0).fit(X, y)
    knn = AnchoredRegressor(KNeighborsRegressor(1), random_state=0).fit(X, y)
    direct = RandomForestRegressor(1, bootstrap=False, random_state=0)
    direct.fit(knn.estimator_._fit_X, np.repeat(y, 60))
    np.testing.assert_array_equal(tree.estimator_[0].tree_.threshold, direct[0].tree_.threshold)


def test_second_anchors_are_independent(table):
    X, y = table
    model = AnchoredRegressor(
        KNeighborsRegressor(), encoding="two-anchor", n_train_anchors=30, random_state=0
    )
    model.fit(X, y)
    first, second, _ = np.split(model.estimator_._fit_X, 3, axis=1)
    partners = {}
    for a, b in zip(first[:, 0], second[:, 0], strict=True):
        partners.setdefault(a, set()).add(b)
    assert len(partners) == 30 and min(len(met) for met in partners.values()) > 15


@pytest.mark.parametrize("n_train_anchors", [1, 3])
def test_random_pairs(table, n_train_anchors):
    X, y = table
    model = AnchoredRegressor(KNeighborsRegressor(), pairing="random", n_train_anchors=n_train_anchors)
    model.set_params(random_state=0, n_anchors=50).fit(X, y)
    differences = model.estimator_._fit_X[:, 4:]
    assert (differences == 0).all(axis=1).mean() < 0.1
    assert len(np.unique(model.anchors_, axis=0)) == 50
    assert model.predict(X, return_std=True)[1].min() > 0


def test_support_limits_training_anchors(table):
    X, y = table
    by_data = AnchoredRegressor(KNeighborsRegressor(), n_train_anchors=1000, random_state=0).fit(X, y)
    assert by_data.estimator_.n_samples_fit_ == 60 * 60
    by_set = AnchoredRegressor(KNeighborsRegressor(), anchors=X[:5], random_state=0).fit(X, y)
    assert by_set.estimator_.n_samples_fit_ == 60 * 5


def test_drawn_anchors_are_validated(table):
    class Broken(DataPrior):
        def draw(self, x, n, rng, **_):
            return np.full((n, x.shape[1]), np.nan)

    class Narrow(DataPrior):
        def draw(self, x, n, rng, **_):
            return x[:n, :2]

    with pytest.raises(ValueError, match="anchors contains NaN"):
        AnchoredRegressor(Ridge(), anchors=Broken()).fit(*table)
    with pytest.raises(ValueError, match=r"anchors drawn by Narrow.*shape"):
        AnchoredRegressor(Ridge(), anchors=Narrow()).fit(*table)


@pytest.mark.parametrize("params", [{}, {"pairing": "random"}, {"n_train_anchors": 3000}], ids=str)
def test_memory_of_fitting(params):
    """The cap is lowered twentyfold, so that the test itself stays small."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(3000, 40))
    with patch.object(pairing, "MAX_PAIR_BYTES", 25_000_000):
        tracemalloc.start()
        AnchoredRegressor(DummyRegressor(), random_state=0, n_anchors=2, **params).fit(X, X[:, 0])
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert peak < 60_000_000
