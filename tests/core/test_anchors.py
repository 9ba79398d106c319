import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from deltauq.core import BalancedPrior, DataPrior, KMeansPrior, NormalPrior, SetPrior, get_prior
from deltauq.core.anchors import AnchorPrior, draw_rows

NAMESPACES = {"numpy": np.asarray, "torch": torch.asarray}


def rng():
    return np.random.default_rng(0)


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


@pytest.mark.parametrize("namespace", NAMESPACES)
@pytest.mark.parametrize("name", ["data", "normal", "balanced", "kmeans"])
@pytest.mark.parametrize("shape", [(12, 3), (12, 3, 4, 4)], ids=["vectors", "images"])
def test_number_and_type_of_drawn_anchors(name, namespace, shape):
    x = NAMESPACES[namespace](rng().random(shape).astype(np.float32))
    labels = np.arange(12) % 3
    for n in (1, 5, 30):
        anchors = get_prior(name).draw(x, n, rng(), labels=labels)
        assert type(anchors) is type(x)
        assert anchors.dtype == x.dtype
        assert tuple(anchors.shape) == (n, *shape[1:])


@pytest.mark.parametrize("name", ["data", "normal", "balanced", "kmeans"])
def test_numpy_and_torch_draw_the_same_anchors(name):
    x = rng().random((20, 3))
    labels = np.arange(20) % 4
    ours = get_prior(name).draw(x, 8, rng(), labels=labels)
    theirs = get_prior(name).draw(torch.asarray(x), 8, rng(), labels=labels)
    np.testing.assert_allclose(ours, theirs)


def test_data_anchors_are_training_rows():
    x = rng().random((10, 2))
    anchors = DataPrior().draw(x, 10, rng())
    np.testing.assert_array_equal(np.sort(anchors, axis=0), np.sort(x, axis=0))


def test_normal_anchors_have_weighted_moments():
    x = rng().normal([5.0, -3.0], [0.1, 10.0], size=(50, 2))
    weights = rng().random(50)
    anchors = NormalPrior().draw(x, 40_000, rng(), weights=weights)
    mean = np.average(x, axis=0, weights=weights)
    std = np.sqrt(np.average((x - mean) ** 2, axis=0, weights=weights))
    np.testing.assert_allclose((anchors.mean(axis=0) - mean) / std, 0.0, atol=0.02)
    np.testing.assert_allclose(anchors.std(axis=0) / std, 1.0, atol=0.02)


def test_standard_normal_anchors_do_not_depend_on_the_data():
    anchors = NormalPrior(standard=True).draw(np.full((4, 2), 100), 20_000, rng())
    np.testing.assert_allclose(anchors.mean(axis=0), 0.0, atol=0.03)
    np.testing.assert_allclose(anchors.std(axis=0), 1.0, atol=0.03)
    assert repr(NormalPrior(standard=True)) == "NormalPrior(standard=True)"


@pytest.mark.parametrize("weights", [None, np.arange(100) % 7 + 1.0], ids=["unweighted", "weighted"])
def test_balanced_anchors_come_equally_from_every_class(weights):
    labels = np.repeat([0, 1, 2], [90, 7, 3])
    x = np.column_stack([labels, np.arange(100)]).astype(float)
    anchors = BalancedPrior().draw(x, 30, rng(), labels=labels, weights=weights)
    np.testing.assert_array_equal(np.bincount(anchors[:, 0].astype(int)), [10, 10, 10])


def test_balanced_anchors_need_labels():
    with pytest.raises(ValueError, match="need labels"):
        BalancedPrior().draw(np.ones((3, 1)), 2, rng())


def test_kmeans_anchors_are_centres_and_never_training_rows():
    x = np.concatenate([rng().normal(c, 0.1, size=(20, 2)) for c in (-5, 0, 5)] + [[[100.0, 100.0]]])
    anchors = KMeansPrior().draw(x, 25, rng(), weights=np.ones(61))
    distances = np.linalg.norm(anchors[:, None] - x[None], axis=-1)
    assert distances.min() > 0
    assert np.all(np.abs(anchors) < 10), "the outlier is a cluster of its own, and would be a training row"


def test_kmeans_of_a_single_distinct_row_is_that_row():
    anchors = KMeansPrior().draw(np.ones((3, 2)), 4, rng())
    np.testing.assert_array_equal(anchors, np.ones((4, 2)))


def test_set_prior_draws_from_its_rows():
    own = np.array([[1.0, 2.0], [3.0, 4.0]])
    for anchors in (own, own.tolist(), torch.asarray(own)):
        prior = get_prior(anchors)
        assert isinstance(prior, SetPrior)
        drawn = np.asarray(prior.draw(np.zeros((9, 2)), 4, rng()))
        np.testing.assert_array_equal(np.unique(drawn, axis=0), own)
    assert repr(get_prior(own)) == "SetPrior(<2 rows>)"
    assert get_prior(prior) is prior


def test_invalid_anchors():
    with pytest.raises(ValueError, match="anchors must be one of"):
        get_prior("nearest")
    for empty in (np.ones(3), np.ones((0, 3))):
        with pytest.raises(ValueError, match="at least one row"):
            get_prior(empty)
    with pytest.raises(ValueError, match=r"anchors have shape \(2,\)"):
        get_prior(np.ones((3, 2))).draw(np.ones((3, 4)), 1, rng())


def test_support():
    x = np.ones((7, 2))
    assert DataPrior().support(x) == 7
    assert SetPrior(np.ones((3, 2))).support(x) == 3
    assert NormalPrior().support(x) is None


def test_prior_without_draw():
    with pytest.raises(NotImplementedError):
        AnchorPrior().draw(np.ones((2, 2)), 1, rng())
    assert repr(DataPrior()) == "DataPrior()"
