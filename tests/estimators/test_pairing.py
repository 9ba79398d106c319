import pickle
import tracemalloc
from dataclasses import replace
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from lightgbm import LGBMRegressor
from sklearn.base import is_classifier
from sklearn.compose import TransformedTargetRegressor
from sklearn.datasets import make_friedman1
from sklearn.dummy import DummyRegressor
from sklearn.ensemble import (
    BaggingRegressor,
    ExtraTreesRegressor,
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
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
from xgboost import XGBClassifier, XGBRegressor

from deltauq import AnchoredClassifier, AnchoredRegressor
from deltauq.core import (
    Anchors,
    DataPrior,
    Difference,
    DifferenceTarget,
    Full,
    Identity,
    TwoAnchor,
    ValueTarget,
)
from deltauq.estimators import pairing
from deltauq.estimators.pairing import TrainingRows


def training_rows(n, d=2):
    X = np.random.default_rng(0).normal(size=(n, d))
    return TrainingRows(X, X[:, 0], None, np.zeros(n, dtype=int))


@pytest.mark.parametrize(
    ("n", "anchors"), [(10, 10), (200, 200), (316, 316), (317, 315), (1000, 100), (5000, 20), (100_000, 10)]
)
def test_auto_n_train_anchors_of_a_tree(n, anchors):
    assert pairing.count_train_anchors(n, "auto", DecisionTreeRegressor()) == anchors
    assert pairing.count_train_anchors(n, "auto", RandomForestRegressor(1)) == anchors
    assert pairing.count_train_anchors(n, 7, DecisionTreeRegressor()) == 7


@pytest.mark.parametrize(
    ("n", "anchors"), [(10, 10), (50, 50), (51, 50), (2000, 50), (2500, 40), (5000, 20), (100_000, 20)]
)
@pytest.mark.parametrize("base", [Ridge(), make_pipeline(SVR())], ids=str)
def test_auto_n_train_anchors_of_other_estimators(base, n, anchors):
    assert pairing.count_train_anchors(n, "auto", base) == anchors
    assert pairing.count_train_anchors(n, 300, base) == 300


@pytest.mark.parametrize(("n", "anchors"), [(10, 10), (200, 50), (1000, 20), (8000, 5), (100_000, 5)])
@pytest.mark.parametrize(
    "base", [HistGradientBoostingRegressor(), make_pipeline(HistGradientBoostingClassifier())], ids=str
)
def test_auto_n_train_anchors_of_boosting(base, n, anchors):
    assert pairing.count_train_anchors(n, "auto", base) == anchors
    assert pairing.count_train_anchors(n, 300, base) == 300


@pytest.mark.parametrize(
    ("base", "larger"),
    [
        (HistGradientBoostingRegressor(max_iter=7), {"max_iter": 14, "max_leaf_nodes": 62}),
        (HistGradientBoostingRegressor(max_leaf_nodes=None), {"max_iter": 200, "max_leaf_nodes": None}),
        (HistGradientBoostingClassifier(max_iter=7), {"max_iter": 14, "max_leaf_nodes": 31}),
        (LGBMRegressor(n_estimators=7, verbose=-1), {"n_estimators": 14, "num_leaves": 62}),
        (XGBRegressor(n_estimators=7), {"n_estimators": 14, "max_depth": 7}),
        (XGBRegressor(n_estimators=7, max_depth=3), {"n_estimators": 14, "max_depth": 4}),
        (XGBRegressor(n_estimators=7, booster="gblinear"), {"n_estimators": 14, "max_depth": None}),
        (XGBClassifier(n_estimators=7), {"n_estimators": 14, "max_depth": None}),
        (
            TransformedTargetRegressor(HistGradientBoostingRegressor(max_iter=7)),
            {"regressor__max_iter": 14, "regressor__max_leaf_nodes": 62},
        ),
    ],
    ids=str,
)
def test_auto_gives_boosting_the_size_that_pairs_need(base, larger):
    X, y = make_friedman1(60, 5, random_state=0)
    kind, y = (AnchoredClassifier, y > 14) if is_classifier(base) else (AnchoredRegressor, y)
    for n_train_anchors, expected in (
        ("auto", larger),
        (5, {name: base.get_params()[name] for name in larger}),
    ):
        model = kind(base, n_train_anchors=n_train_anchors, n_anchors=5, random_state=0).fit(X, y)
        params = getattr(model.estimator_, "regressor_", model.estimator_).get_params()
        assert {name: params[name.removeprefix("regressor__")] for name in larger} == expected


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
        (RandomForestRegressor(0), 200, 50),
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


@pytest.mark.parametrize(
    ("encoding", "given", "used"), [("full", 1.0, 0.5), ("full", 0.9, 0.9), ("difference", 1.0, 1.0)]
)
def test_auto_chooses_splits_of_the_full_encoding_among_half_of_the_columns(encoding, given, used):
    X, y = make_friedman1(40, 5, random_state=0)
    forest = RandomForestRegressor(2, max_features=given)
    model = AnchoredRegressor(forest, encoding=encoding, random_state=0).fit(X, y)
    assert model.estimator_.max_features == used and forest.max_features == given


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
@pytest.mark.parametrize("encoding", [Difference(), Full(), Identity()], ids=str)
@pytest.mark.parametrize("target", [DifferenceTarget(), ValueTarget()], ids=str)
def test_pairs_decode_to_their_rows_in_blocks(dtype, encoding, target, monkeypatch):
    monkeypatch.setattr(pairing, "PAIRS_PER_BLOCK", 7)
    data, rng = training_rows(11), np.random.default_rng(0)
    rows, partners = np.repeat(np.arange(11), 5), pairing.shared_pairs(11, 11, 5, rng).reshape(-1)
    anchors = data.as_anchors(target)
    tuples, learned = pairing.encode_pairs(data, anchors, rows, partners, encoding, target, rng, dtype)
    assert tuples.dtype == dtype and tuples.shape == (55, 2 * encoding.width)
    np.testing.assert_allclose(encoding.decode(tuples), data.X[rows], rtol=1e-5)
    np.testing.assert_allclose(tuples[:, :2], data.X[partners], rtol=1e-6)
    np.testing.assert_allclose(target.decode(learned, data.y[partners]), data.y[rows], atol=1e-15)
    assert np.array_equal(learned, data.y[rows]) == (not target.needs_labels)


def test_targets_of_pairs_with_two_anchors():
    """Without a model: the mean target of both anchors, whichever the second one is, is taken off."""
    data, rng = training_rows(9), np.random.default_rng(0)
    data = replace(data, y=np.stack([3 * data.X[:, 0] + 1, -data.X[:, 1]], axis=1))
    rows, partners = np.repeat(np.arange(9), 9), np.tile(np.arange(9), 9)
    tuples, learned = pairing.encode_pairs(
        data, data.as_anchors(DifferenceTarget()), rows, partners, TwoAnchor(), DifferenceTarget(), rng
    )
    first, second, _ = np.split(tuples, 3, axis=1)
    middle = (first + second) / 2
    expected = data.y[rows] - np.stack([3 * middle[:, 0] + 1, -middle[:, 1]], axis=1)
    np.testing.assert_allclose(learned, expected, atol=1e-12)


def test_pairs_of_kernel_machines_are_limited():
    X = np.random.default_rng(0).normal(size=(400, 2))
    model = AnchoredRegressor(
        GaussianProcessRegressor(optimizer=None, alpha=0.1), n_anchors=50, random_state=0
    )
    model.estimator = SVR()
    model.fit(X, X[:, 0])
    assert model.estimator_.shape_fit_[0] == 400 * 25
    assert len(np.unique(model.anchors_.X, axis=0)) == 50


@pytest.mark.parametrize("encoding", ["difference", "full"])
def test_pairs_of_trees(encoding, table):
    """Their tuples are formed in float32; the differences behind them are taken in float64."""
    X, y = table
    X = X + 1e6
    forest = RandomForestRegressor(1, bootstrap=False, random_state=0)
    params = {"encoding": encoding, "n_train_anchors": 60, "random_state": 0}
    tree = AnchoredRegressor(forest, **params).fit(X, y)
    knn = AnchoredRegressor(KNeighborsRegressor(1), **params).fit(X, y)
    direct = RandomForestRegressor(1, bootstrap=False, random_state=0)
    direct.fit(knn.estimator_._fit_X, knn.estimator_._y)
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


def test_support_limits_training_anchors(table):
    X, y = table
    by_data = AnchoredRegressor(KNeighborsRegressor(), n_train_anchors=1000, random_state=0).fit(X, y)
    assert by_data.estimator_.n_samples_fit_ == 60 * 60
    by_set = AnchoredRegressor(KNeighborsRegressor(), anchors=Anchors(X[:5], y[:5]), random_state=0).fit(X, y)
    assert by_set.estimator_.n_samples_fit_ == 60 * 5


def test_drawn_anchors_are_validated(table):
    class Broken(DataPrior):
        def draw(self, rows, n, rng, **_):
            return Anchors(np.full((n, rows.X.shape[1]), np.nan), rows.y[:n])

    class Narrow(DataPrior):
        def draw(self, rows, n, rng, **_):
            return Anchors(rows.X[:n, :2], rows.y[:n])

    class Unlabelled(DataPrior):
        def draw(self, rows, n, rng, **_):
            return Anchors(rows.X[:n])

    class Wide(DataPrior):
        def draw(self, rows, n, rng, **_):
            return Anchors(rows.X[:n], np.stack([rows.y[:n]] * 2, axis=1))

    with pytest.raises(ValueError, match="anchors contains NaN"):
        AnchoredRegressor(Ridge(), anchors=Broken()).fit(*table)
    with pytest.raises(ValueError, match=r"anchors drawn by Narrow.*shape"):
        AnchoredRegressor(Ridge(), anchors=Narrow()).fit(*table)
    for prior in (Unlabelled(), Wide()):
        with pytest.raises(ValueError, match="need one target each"):
            AnchoredRegressor(Ridge(), anchors=prior).fit(*table)
    AnchoredRegressor(Ridge(), anchors=Unlabelled(), target="value").fit(*table)


@pytest.mark.parametrize("n_train_anchors", ["auto", 3000])
@pytest.mark.parametrize("target", ["difference", "value"])
def test_memory_of_fitting(target, n_train_anchors):
    """The cap and the blocks are made twenty times smaller, so that the test itself stays small."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(3000, 40))
    model = AnchoredRegressor(
        DummyRegressor(), target=target, n_train_anchors=n_train_anchors, n_anchors=2, random_state=0
    )
    with (
        patch.object(pairing, "MAX_PAIR_BYTES", 25_000_000),
        patch.object(pairing, "PAIRS_PER_BLOCK", pairing.PAIRS_PER_BLOCK // 20),
    ):
        tracemalloc.start()
        model.fit(X, X[:, 0])
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert peak < 35_000_000
