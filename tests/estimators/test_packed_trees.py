"""Packed trees reach scikit-learn's leaves and add scikit-learn's values."""

from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor
from copy import deepcopy
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import is_classifier
from sklearn.ensemble import (
    ExtraTreesClassifier,
    ExtraTreesRegressor,
    GradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.tree import (
    DecisionTreeClassifier,
    DecisionTreeRegressor,
    ExtraTreeClassifier,
    ExtraTreeRegressor,
)

from deltauq import AnchoredRegressor
from deltauq.estimators.base_estimators import has_fast_path, tree_outputs, trees_of

module = pytest.importorskip("deltauq.estimators.packed_trees", reason="numba is not installed")
PackedTrees = module.PackedTrees

D = 4
TREES = [DecisionTreeRegressor, DecisionTreeClassifier, ExtraTreeRegressor, ExtraTreeClassifier]
FORESTS = [RandomForestRegressor, RandomForestClassifier, ExtraTreesRegressor, ExtraTreesClassifier]
ENCODINGS = ["difference", "full", "identity", "two anchors"]
# In groups down to the leaves; as shipped; one by one from the root.
GROUP_LIMITS = [0, module.GROUP_LIMIT, 10**6]


def new(kind, **params):
    return kind(random_state=0, **({"n_estimators": 4} if kind in FORESTS else {}), **params)


def anchor_parts(encoding, R1, R2):
    """Anchor columns and offset, for one anchor or row by row."""
    if encoding == "difference":
        return R1, R1
    if encoding == "full":
        return R1, np.concatenate([np.zeros_like(R1), R1], axis=-1)
    if encoding == "identity":
        return R1, np.zeros_like(R1)
    return np.concatenate([R1, R2], axis=-1), R1 + R2


def tuples(X, columns, offset):
    columns = np.broadcast_to(columns, (len(X), np.shape(columns)[-1]))
    copies = np.tile(X, np.shape(offset)[-1] // X.shape[1])
    return np.hstack([columns, copies - offset])


def sample(rng, shape, step):
    """Values on a grid of the given step, so that differences meet thresholds exactly, or free ones."""
    values = rng.normal(scale=2.0, size=shape)
    return np.round(values / step) * step if step else values


def fitted(estimator, encoding, rng, step, n_pairs=400, n_targets=1, move=lambda values: values):
    X, R1, R2 = (sample(rng, (n_pairs, D), step) for _ in range(3))
    score = np.stack([np.sin(X[:, k]) + X[:, k + 1] * R1[:, k] for k in range(n_targets)], axis=1)
    if is_classifier(estimator):
        # A different number of classes for each target.
        score = np.stack([np.digitize(s, np.linspace(-1, 1, 2 + k)) for k, s in enumerate(score.T)], axis=1)
    Z = tuples(move(X), *anchor_parts(encoding, move(R1), move(R2)))
    return estimator.fit(Z, score[:, 0] if n_targets == 1 else score)


def n_anchor_columns(encoding):
    return 2 * D if encoding == "two anchors" else D


def own_leaves(estimator, Z):
    return np.atleast_2d(estimator.apply(Z).T)


def own_outputs(estimator, Z):
    if is_classifier(estimator):
        actual = estimator.predict_proba(Z)
        return np.hstack(actual) if isinstance(actual, list) else actual
    return estimator.predict(Z).reshape(len(Z), -1)


def reached_leaves(tree, encoding, X, columns, offset):
    """The leaf of each row, as the output of a tree whose values are the numbers of its nodes."""
    numbered = deepcopy(tree)
    numbered.tree_.value[:] = np.arange(tree.tree_.node_count)[:, None, None]
    return PackedTrees(numbered, n_anchor_columns(encoding)).outputs(X, columns, offset)[:, 0]


def assert_same(estimator, encoding, X, R1, R2, group_limits=GROUP_LIMITS):
    packed = PackedTrees(estimator, n_anchor_columns(encoding))
    columns, offset = anchor_parts(encoding, R1, R2)
    Z = tuples(X, columns, offset)
    expected = tree_outputs(estimator, Z)
    for limit in group_limits:
        with patch.object(module, "GROUP_LIMIT", limit):
            leaves = [reached_leaves(tree, encoding, X, columns, offset) for tree in trees_of(estimator)]
            outputs = packed.outputs(X, columns, offset)
        np.testing.assert_array_equal(leaves, own_leaves(estimator, Z))
        assert outputs.dtype == np.float64
        assert outputs.shape == (len(X), packed.n_outputs)
        np.testing.assert_array_equal(outputs, expected)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("encoding", ENCODINGS)
@pytest.mark.parametrize("kind", TREES + FORESTS)
def test_leaves_and_outputs_are_those_of_scikit_learn(kind, encoding, dtype):
    rng = np.random.default_rng(1)
    for step in (0.5, 0.0):
        estimator = fitted(new(kind), encoding, rng, step)
        for n in (1, 2, 9, 300):
            X = sample(rng, (n, D), step / 2).astype(dtype)
            assert_same(estimator, encoding, X, *sample(rng, (2, D), step))


@pytest.mark.parametrize("trained", ["with gaps", "without gaps"])
@pytest.mark.parametrize("encoding", ENCODINGS)
@pytest.mark.parametrize("kind", TREES + FORESTS)
def test_missing_values(kind, encoding, trained):
    rng = np.random.default_rng(1)

    def punched(values, share=0.3):
        return np.where(rng.random(values.shape) < share, np.nan, values)

    move = punched if trained == "with gaps" else lambda values: values
    estimator = fitted(new(kind), encoding, rng, 0.0, move=move)
    sides = np.concatenate([tree.tree_.missing_go_to_left for tree in trees_of(estimator)])
    assert 0 < sides.mean() < 1, "both sides occur"
    for n in (1, 9, 300):
        for gaps in (0.0, 0.3):
            X = punched(sample(rng, (n, D), 0.0), gaps)
            assert_same(estimator, encoding, X, *punched(sample(rng, (2, D), 0.0), 0.4))


def test_grid_data_meets_thresholds_exactly():
    """The test above is worth little if no value equals the threshold it is compared with."""
    rng = np.random.default_rng(1)
    tree = fitted(new(DecisionTreeRegressor), "difference", rng, 0.5)
    Z = tuples(sample(rng, (300, D), 0.25), *anchor_parts("difference", *sample(rng, (2, D), 0.5)))
    path = tree.decision_path(Z).tocoo()
    inner = tree.tree_.feature[path.col] >= 0
    rows, nodes = path.row[inner], path.col[inner]
    ties = Z[rows, tree.tree_.feature[nodes]] == tree.tree_.threshold[nodes]
    assert ties.sum() > 50


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_differences_are_taken_in_float64(dtype):
    """Far from zero, rounding to float32 before the difference leads to other leaves."""
    rng = np.random.default_rng(11)

    def move(values):
        return 1e7 + values

    estimator = fitted(new(RandomForestRegressor), "difference", rng, 0.0, move=move)
    R1, R2 = move(sample(rng, (2, D), 0.0))
    for n in (9, 300):  # rows that do not and rows that do fill a tile
        X = move(sample(rng, (n, D), 0.0)).astype(dtype)
        early = tuples(X.astype(np.float32), R1, R1.astype(np.float32))
        assert (own_leaves(estimator, early) != own_leaves(estimator, tuples(X, R1, R1))).any()
        assert_same(estimator, "difference", X, R1, R2)


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    kind=st.sampled_from(TREES + FORESTS),
    encoding=st.sampled_from(ENCODINGS),
    step=st.sampled_from([0.0, 0.1, 0.5, 1.0]),
    scale=st.sampled_from([1e-5, 1.0, 1e30]),
    shift=st.sampled_from([0.0, 1e6]),  # far from zero, rounding before the difference would show
    n=st.integers(1, 80),
    limit=st.integers(0, 90),
    depth=st.sampled_from([None, 1, 5]),
    dtype=st.sampled_from([np.float64, np.float32]),
    gaps=st.sampled_from([(0.0, 0.0), (0.0, 0.3), (0.3, 0.3)]),  # in training, and when predicting
)
def test_any_data(seed, kind, encoding, step, scale, shift, n, limit, depth, dtype, gaps):
    rng = np.random.default_rng(seed)

    def move(values, share=gaps[0]):
        return np.where(rng.random(values.shape) < share, np.nan, shift + scale * values)

    estimator = fitted(new(kind, max_depth=depth), encoding, rng, step, n_pairs=100, move=move)
    X = move(sample(rng, (n, D), step / 2), gaps[1]).astype(dtype)
    assert_same(estimator, encoding, X, *move(sample(rng, (2, D), step), gaps[1]), [limit])


@pytest.mark.parametrize("kind", TREES + FORESTS)
def test_several_targets(kind):
    rng = np.random.default_rng(2)
    estimator = fitted(new(kind), "difference", rng, 0.5, n_targets=3)
    assert PackedTrees(estimator, D).n_outputs == (3 + 4 + 5 if is_classifier(estimator) else 3)
    assert_same(estimator, "difference", sample(rng, (100, D), 0.25), *sample(rng, (2, D), 0.5))


@pytest.mark.parametrize("n_targets", [1, 3])
@pytest.mark.parametrize("kind", TREES + FORESTS)
def test_tree_outputs_equal_predictions(kind, n_targets):
    rng = np.random.default_rng(3)
    estimator = fitted(new(kind), "difference", rng, 0.5, n_targets=n_targets)
    Z = tuples(sample(rng, (100, D), 0.25), *anchor_parts("difference", *sample(rng, (2, D), 0.5)))
    np.testing.assert_array_equal(tree_outputs(estimator, Z), own_outputs(estimator, Z))
    if kind in FORESTS:
        estimator.set_params(n_jobs=2)
        np.testing.assert_allclose(
            tree_outputs(estimator, Z), own_outputs(estimator, Z), rtol=1e-12, atol=1e-12
        )


@pytest.mark.parametrize("params", [{"max_leaf_nodes": 40}, {"max_depth": 1}, {"min_samples_leaf": 500}])
def test_other_shapes_of_trees(params):
    """Best-first trees number their nodes differently; a tree of too few rows is one leaf."""
    rng = np.random.default_rng(4)
    estimator = fitted(new(RandomForestRegressor, **params), "difference", rng, 0.5)
    assert_same(estimator, "difference", sample(rng, (100, D), 0.25), *sample(rng, (2, D), 0.5))


def test_results_do_not_depend_on_blocks_of_rows(monkeypatch):
    rng = np.random.default_rng(5)
    estimator = fitted(new(RandomForestRegressor), "difference", rng, 0.5)
    monkeypatch.setattr(module, "BLOCK_ROWS", 17)
    for n in (1, 17, 18, 100):
        assert_same(estimator, "difference", sample(rng, (n, D), 0.25), *sample(rng, (2, D), 0.5))


def test_threads():
    rng = np.random.default_rng(6)
    packed = PackedTrees(fitted(new(RandomForestRegressor), "difference", rng, 0.0), D)
    X, anchors = rng.normal(size=(3000, D)), rng.normal(size=(20, D))
    alone = [packed.outputs(X, r, r) for r in anchors]
    with ThreadPoolExecutor(4) as pool:
        together = list(pool.map(lambda r: packed.outputs(X, r, r), anchors))
    np.testing.assert_array_equal(together, alone)


def test_memory_layouts_of_rows():
    rng = np.random.default_rng(7)
    packed = PackedTrees(fitted(new(RandomForestRegressor), "difference", rng, 0.5), D)
    X, (r, _) = sample(rng, (50, D), 1.0), sample(rng, (2, D), 0.5)
    before, expected = X.copy(), packed.outputs(X, r, r)
    np.testing.assert_array_equal(X, before)
    assert X.flags.writeable
    frozen = X.copy()
    frozen.flags.writeable = False
    for other in (frozen, np.asfortranarray(X), np.repeat(X, 2, axis=0)[::2], X.astype(int)):
        np.testing.assert_array_equal(packed.outputs(other, list(r), list(r)), expected)
    assert packed.outputs(X[:0], r, r).shape == (0, 1)


def test_values_beyond_float32():
    rng = np.random.default_rng(8)
    packed = PackedTrees(fitted(new(RandomForestRegressor), "difference", rng, 0.0), D)
    X = rng.choice([-1e308, -1e39, 0.0, 1e39, 1e308], size=(200, D))
    for limit in GROUP_LIMITS:
        with patch.object(module, "GROUP_LIMIT", limit):
            assert np.isfinite(packed.outputs(X, X[0], X[0])).all()


@given(
    threshold=st.floats(allow_nan=False),
    value=st.floats(allow_nan=False, width=32),
    steps=st.integers(-2, 2),
)
def test_a_float32_threshold_compares_like_the_float64_one(threshold, value, steps):
    below = module._float32_below(np.array([threshold]))[0]
    assert below.dtype == np.float32
    near = below
    with np.errstate(all="ignore"):
        for _ in range(abs(steps)):
            near = np.nextafter(near, np.float32(np.inf if steps > 0 else -np.inf))
    for candidate in (np.float32(value), near):
        assert (candidate <= below) == (float(candidate) <= threshold)


def test_only_exact_types_have_a_fast_path():
    class Changed(RandomForestRegressor):
        pass

    assert all(has_fast_path(kind()) for kind in TREES + FORESTS)
    assert not has_fast_path(Changed())
    assert not has_fast_path(GradientBoostingRegressor())
    with pytest.raises(TypeError, match="Changed"):
        PackedTrees(Changed(), 1)


def test_prediction_without_numba_is_the_same(monkeypatch, table):
    X, y = table
    model = AnchoredRegressor(RandomForestRegressor(3), random_state=0).fit(X, y)
    expected = model.posterior(X)
    monkeypatch.setitem(sys.modules, "deltauq.estimators.packed_trees", None)
    without = model.posterior(X)
    np.testing.assert_array_equal(without.mean, expected.mean)
    np.testing.assert_array_equal(without.var, expected.var)
