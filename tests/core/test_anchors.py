import warnings

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from deltauq.core import (
    Anchors,
    BalancedPrior,
    DataPrior,
    KMeansPrior,
    NormalPrior,
    SetPrior,
    get_prior,
)
from deltauq.core.anchors import AnchorPrior, draw_rows

NAMESPACES = {"numpy": np.asarray, "torch": torch.asarray}


def rng():
    return np.random.default_rng(0)


@st.composite
def labelled_rows(draw):
    """Rows with targets of one or several columns; the target of a row follows from its first column."""
    n, d, outputs = draw(st.integers(1, 12)), draw(st.integers(1, 3)), draw(st.integers(0, 2))
    X = draw(arrays(np.float64, (n, d), elements=st.floats(-100, 100, width=32)))
    y = 3 * X[:, 0] + 1
    return Anchors(X, np.stack([y, -y], axis=1)[:, :outputs] if outputs else y)


@given(n_rows=st.integers(1, 50), n=st.integers(1, 200), seed=st.integers(0, 1000))
def test_rows_are_drawn_evenly(n_rows, n, seed):
    rows = draw_rows(n_rows, n, np.random.default_rng(seed))
    counts = np.bincount(rows, minlength=n_rows)
    assert len(rows) == n and len(counts) == n_rows
    assert counts.max() - counts.min() <= 1


@given(weights=st.lists(st.integers(0, 4), min_size=1, max_size=20).filter(any), seed=st.integers(0, 100))
def test_a_weight_of_two_equals_a_repeated_row(weights, seed):
    weights = np.array(weights)
    repeated = np.repeat(np.arange(len(weights)), weights)
    by_weight = draw_rows(len(weights), 30, np.random.default_rng(seed), weights.astype(float))
    by_repeat = repeated[draw_rows(len(repeated), 30, np.random.default_rng(seed))]
    np.testing.assert_array_equal(by_weight, by_repeat)


@given(weights=st.lists(st.floats(0, 1, width=32), min_size=2, max_size=9).filter(lambda w: sum(w) > 0.01))
def test_rows_of_weight_zero_are_never_drawn(weights):
    weights = np.array(weights)
    rows = draw_rows(len(weights), 50, rng(), weights)
    assert np.all(weights[rows] > 0)


@given(rows=labelled_rows(), seed=st.integers(0, 100), data=st.data())
def test_taken_anchors_keep_their_targets(rows, seed, data):
    index = np.array(data.draw(st.lists(st.integers(0, len(rows) - 1), min_size=1, max_size=20)))
    taken = rows.take(index)
    by_torch = Anchors(torch.asarray(rows.X), torch.asarray(rows.y)).take(index)
    assert len(taken) == len(by_torch) == len(index)
    for ours, theirs, whole in ((taken.X, by_torch.X, rows.X), (taken.y, by_torch.y, rows.y)):
        np.testing.assert_array_equal(ours, whole[index])
        assert isinstance(theirs, torch.Tensor)
        np.testing.assert_array_equal(theirs, ours)
    assert Anchors(rows.X).take(index).y is None


def test_lists_become_arrays():
    anchors = Anchors([[1, 2], [3, 4]], [5, 6])
    np.testing.assert_array_equal(anchors.X, [[1, 2], [3, 4]])
    np.testing.assert_array_equal(anchors.y, [5, 6])
    assert repr(anchors) == "Anchors(<2 rows>, with targets)"
    assert repr(Anchors(anchors.X)) == "Anchors(<2 rows>)"


@pytest.mark.parametrize("y", [np.ones(3), np.float64(1.0), np.ones((1, 2))], ids=["more", "scalar", "row"])
def test_every_anchor_needs_a_target(y):
    with pytest.raises(ValueError, match=r"one target each: X has shape \(2, 3\)"):
        Anchors(np.ones((2, 3)), y)


@pytest.mark.parametrize("namespace", NAMESPACES)
@pytest.mark.parametrize("name", ["data", "normal", "balanced", "kmeans"])
@pytest.mark.parametrize("shape", [(12, 3), (12, 3, 4, 4)], ids=["vectors", "images"])
def test_number_and_type_of_drawn_anchors(name, namespace, shape):
    x = NAMESPACES[namespace](rng().random(shape).astype(np.float32))
    y = None if name == "normal" else NAMESPACES[namespace](rng().random((12, 2)).astype(np.float32))
    labels = np.arange(12) % 3
    for n in (1, 5, 30):
        anchors = get_prior(name).draw(Anchors(x, y), n, rng(), labels=labels)
        assert type(anchors.X) is type(x) and anchors.X.dtype == x.dtype
        assert tuple(anchors.X.shape) == (n, *shape[1:])
        assert get_prior(name).draw(Anchors(x), n, rng(), labels=labels).y is None
        if y is not None:
            assert type(anchors.y) is type(y) and anchors.y.dtype == y.dtype
            assert tuple(anchors.y.shape) == (n, 2)


@pytest.mark.parametrize("name", ["data", "normal", "balanced", "kmeans"])
def test_numpy_and_torch_draw_the_same_anchors(name):
    x = rng().random((20, 3))
    y = None if name == "normal" else x.sum(axis=1)
    labels = np.arange(20) % 4
    ours = get_prior(name).draw(Anchors(x, y), 8, rng(), labels=labels)
    tensors = Anchors(*(None if a is None else torch.asarray(a) for a in (x, y)))
    theirs = get_prior(name).draw(tensors, 8, rng(), labels=labels)
    np.testing.assert_allclose(ours.X, theirs.X)
    if y is not None:
        np.testing.assert_allclose(ours.y, theirs.y)


@pytest.mark.parametrize("name", ["data", "balanced", "kmeans", "set"])
@given(rows=labelled_rows(), n=st.integers(1, 15), seed=st.integers(0, 20))
@settings(max_examples=20)
def test_drawn_anchors_have_their_own_targets(name, rows, n, seed):
    """A target that is linear in the inputs is so for rows, and for means of rows."""
    prior = SetPrior(rows) if name == "set" else get_prior(name)
    labels = np.arange(len(rows)) % 3
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # k-means of repeated rows
        anchors = prior.draw(rows, n, np.random.default_rng(seed), labels=labels)
    expected = 3 * anchors.X[:, 0] + 1
    targets = anchors.y if anchors.y.ndim == 1 else anchors.y[:, 0]
    np.testing.assert_allclose(targets, expected, rtol=1e-9, atol=1e-9)
    assert anchors.y.shape == (n, *rows.y.shape[1:])


def test_data_anchors_are_training_rows():
    x = rng().random((10, 2))
    anchors = DataPrior().draw(Anchors(x), 10, rng()).X
    np.testing.assert_array_equal(np.sort(anchors, axis=0), np.sort(x, axis=0))


def test_normal_anchors_have_weighted_moments():
    x = rng().normal([5.0, -3.0], [0.1, 10.0], size=(50, 2))
    weights = rng().random(50)
    anchors = NormalPrior().draw(Anchors(x), 40_000, rng(), weights=weights).X
    mean = np.average(x, axis=0, weights=weights)
    std = np.sqrt(np.average((x - mean) ** 2, axis=0, weights=weights))
    np.testing.assert_allclose((anchors.mean(axis=0) - mean) / std, 0.0, atol=0.02)
    np.testing.assert_allclose(anchors.std(axis=0) / std, 1.0, atol=0.02)


def test_standard_normal_anchors_do_not_depend_on_the_data():
    anchors = NormalPrior(standard=True).draw(Anchors(np.full((4, 2), 100)), 20_000, rng()).X
    np.testing.assert_allclose(anchors.mean(axis=0), 0.0, atol=0.03)
    np.testing.assert_allclose(anchors.std(axis=0), 1.0, atol=0.03)
    assert repr(NormalPrior(standard=True)) == "NormalPrior(standard=True)"


def test_normal_anchors_have_no_targets():
    with pytest.raises(ValueError, match=r"no targets: use target='value'"):
        NormalPrior().draw(Anchors(np.ones((3, 1)), np.ones(3)), 2, rng())


@pytest.mark.parametrize("weights", [None, np.arange(100) % 7 + 1.0], ids=["unweighted", "weighted"])
def test_balanced_anchors_come_equally_from_every_class(weights):
    labels = np.repeat([0, 1, 2], [90, 7, 3])
    rows = Anchors(np.column_stack([labels, np.arange(100)]).astype(float))
    anchors = BalancedPrior().draw(rows, 30, rng(), labels=labels, weights=weights)
    np.testing.assert_array_equal(np.bincount(anchors.X[:, 0].astype(int)), [10, 10, 10])


def test_balanced_anchors_need_labels():
    with pytest.raises(ValueError, match="need labels"):
        BalancedPrior().draw(Anchors(np.ones((3, 1))), 2, rng())


def clusters():
    """Three clusters of twenty rows, and an outlier."""
    x = np.concatenate([rng().normal(c, 0.1, size=(20, 2)) for c in (-5, 0, 5)] + [[[100.0, 100.0]]])
    return x, np.repeat([0, 1, 2, 3], [20, 20, 20, 1])


def test_kmeans_anchors_are_centres_and_never_training_rows():
    x, _ = clusters()
    anchors = KMeansPrior().draw(Anchors(x), 25, rng(), weights=np.ones(61)).X
    distances = np.linalg.norm(anchors[:, None] - x[None], axis=-1)
    assert distances.min() > 0
    assert np.all(np.abs(anchors) < 10), "the outlier is a cluster of its own, and would be a training row"


@pytest.mark.parametrize("weights", [None, np.arange(61) % 5 + 1.0], ids=["unweighted", "weighted"])
def test_kmeans_anchors_have_the_mean_target_of_their_cluster(weights):
    x, members = clusters()
    y = rng().normal(size=(61, 2))
    anchors = KMeansPrior().draw(Anchors(x, y), 4, rng(), weights=weights)
    for values, drawn in ((x, anchors.X), (y, anchors.y)):
        expected = [
            np.average(
                values[members == c], axis=0, weights=None if weights is None else weights[members == c]
            )
            for c in range(3)
        ]
        distances = np.abs(drawn[:, None] - np.array(expected)[None]).max(axis=-1)
        assert np.all(distances.min(axis=1) < 1e-9) and set(distances.argmin(axis=1)) == {0, 1, 2}


def test_kmeans_of_a_single_distinct_row_is_that_row():
    anchors = KMeansPrior().draw(Anchors(np.ones((3, 2)), np.array([1, 2, 6])), 4, rng())
    np.testing.assert_array_equal(anchors.X, np.ones((4, 2)))
    np.testing.assert_array_equal(anchors.y, np.full(4, 3.0), err_msg="means of integers are floats")


def test_set_prior_draws_from_its_rows():
    own = np.array([[1.0, 2.0], [3.0, 4.0]])
    for anchors in (own, own.tolist(), torch.asarray(own), Anchors(own, [5.0, 6.0])):
        prior = get_prior(anchors)
        assert isinstance(prior, SetPrior)
        drawn = prior.draw(Anchors(np.zeros((9, 2))), 4, rng())
        np.testing.assert_array_equal(np.unique(np.asarray(drawn.X), axis=0), own)
        assert drawn.y is None, "the rows have no targets, so none are needed"
    assert repr(get_prior(own)) == "SetPrior(Anchors(<2 rows>))"
    assert get_prior(prior) is prior


def test_given_anchors_without_fitting_targets():
    rows = Anchors(np.zeros((9, 2)), np.zeros((9, 3)))
    with pytest.raises(ValueError, match=r"have no targets: give Anchors\(X, y\), or use target='value'"):
        SetPrior(np.ones((4, 2))).draw(rows, 2, rng())
    with pytest.raises(ValueError, match=r"shape \(\) each, but those of the rows have \(3,\)"):
        SetPrior(Anchors(np.ones((4, 2)), np.ones(4))).draw(rows, 2, rng())


def test_invalid_anchors():
    with pytest.raises(ValueError, match="anchors must be one of"):
        get_prior("nearest")
    for empty in (np.ones(3), np.ones((0, 3))):
        with pytest.raises(ValueError, match="at least one row"):
            get_prior(empty)
    with pytest.raises(ValueError, match=r"anchors have shape \(2,\)"):
        get_prior(np.ones((3, 2))).draw(Anchors(np.ones((3, 4))), 1, rng())


def test_support():
    rows = Anchors(np.ones((7, 2)))
    assert DataPrior().support(rows) == 7
    assert SetPrior(np.ones((3, 2))).support(rows) == 3
    assert NormalPrior().support(rows) is None


def test_prior_without_draw():
    with pytest.raises(NotImplementedError):
        AnchorPrior().draw(Anchors(np.ones((2, 2))), 1, rng())
    assert repr(DataPrior()) == "DataPrior()"
