import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.ensemble import RandomForestRegressor
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.neighbors import KNeighborsRegressor
from sklearn.svm import SVR

from deltauq import AnchoredRegressor
from deltauq.core import Difference
from deltauq.estimators import _pairing as pairing
from deltauq.estimators._rows import TrainingRows


def rows(n, d=2, weights=None):
    X = np.random.default_rng(0).normal(size=(n, d))
    return TrainingRows(X, X[:, 0], weights, np.zeros(n, dtype=int))


@pytest.mark.parametrize(
    ("n", "anchors"), [(10, 10), (200, 200), (316, 316), (317, 315), (1000, 100), (5000, 20), (100_000, 20)]
)
def test_auto_takes_all_pairs_while_they_are_few_and_never_fewer_than_twenty_anchors(n, anchors):
    assert pairing.count_train_anchors(n, "auto") == anchors
    assert pairing.count_train_anchors(n, 7) == 7


def test_pairs_never_take_more_than_half_a_gigabyte():
    bytes_per_pair = 8 * 2 * 1000
    per_row = pairing.anchors_per_row(5000, 20, bytes_per_pair, None)
    assert 1 <= per_row < 20
    assert 5000 * per_row * bytes_per_pair <= 500_000_000


def test_every_row_is_trained_on_however_many_there_are():
    assert pairing.anchors_per_row(200_000, 20, 8, 10_000) == 1


@given(n=st.integers(1, 30), anchors=st.integers(1, 12), data=st.data())
def test_thinned_pairs_give_each_row_different_anchors_of_the_shared_ones(n, anchors, data):
    per_row = data.draw(st.integers(1, anchors))
    partners = pairing.shared_pairs(n, anchors, per_row, np.random.default_rng(0))
    assert partners.shape == (n, per_row)
    assert all(len(set(row)) == per_row for row in partners)
    assert partners.min() >= 0 and partners.max() < anchors


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_pairs_decode_to_their_rows_in_blocks(dtype, monkeypatch):
    monkeypatch.setattr(pairing, "PAIRS_PER_BLOCK", 7)
    data = rows(11, weights=np.arange(11.0) + 1)
    partners = pairing.shared_pairs(11, 11, 5, np.random.default_rng(0))
    pairs = pairing.form_pairs(data, data.X, data.weights, partners, Difference(), dtype)
    assert pairs.tuples.dtype == dtype and pairs.tuples.shape == (55, 4)
    np.testing.assert_allclose(Difference().decode(pairs.tuples), np.repeat(data.X, 5, axis=0), rtol=1e-5)
    np.testing.assert_allclose(pairs.tuples[:, :2], data.X[partners.reshape(-1)], rtol=1e-6)
    np.testing.assert_allclose(pairs.weights, (np.repeat(np.arange(11), 5) + 1) * (partners.reshape(-1) + 1))


def test_a_kernel_machine_sees_ten_thousand_pairs_over_many_anchors():
    X = np.random.default_rng(0).normal(size=(400, 2))
    model = AnchoredRegressor(
        GaussianProcessRegressor(optimizer=None, alpha=0.1), n_anchors=50, random_state=0
    )
    model.estimator = SVR()
    model.fit(X, X[:, 0])
    assert model.estimator_.shape_fit_[0] == 400 * 25
    assert len(np.unique(model.anchors_, axis=0)) == 50


def test_trees_are_trained_on_the_same_pairs_as_any_base(table):
    """Their tuples are formed in float32; the differences behind them are taken in float64."""
    X, y = table
    X = X + 1e6
    tree = AnchoredRegressor(RandomForestRegressor(1, bootstrap=False, random_state=0), random_state=0).fit(
        X, y
    )
    knn = AnchoredRegressor(KNeighborsRegressor(1), random_state=0).fit(X, y)
    direct = RandomForestRegressor(1, bootstrap=False, random_state=0)
    direct.fit(knn.estimator_._fit_X, np.repeat(y, 60))
    np.testing.assert_array_equal(tree.estimator_[0].tree_.threshold, direct[0].tree_.threshold)


def test_two_anchor_tuples_to_predict_by_are_tuples_trained_with(table):
    X, y = table
    model = AnchoredRegressor(KNeighborsRegressor(), encoding="two-anchor", n_anchors=25, n_train_anchors=30)
    model.set_params(random_state=0).fit(X, y)
    trained = {tuple(row) for row in model.estimator_._fit_X[:, :8]}
    first, second = model.encoding_.tuples(model.anchors_)
    known = [tuple(row) in trained for row in np.hstack([first, second])]
    assert sum(known) >= 24, "all but the pair of the last with the first"
