import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays

from deltauq.core import Difference, Encoding, Full, Identity, TwoAnchor, get_encoding

ENCODINGS = [Difference(), Full(), Identity(), TwoAnchor()]
NAMESPACES = {"numpy": np.asarray, "torch": torch.asarray}


@st.composite
def inputs_and_anchors(draw, n_anchors):
    """Inputs and anchors of one shape: vectors, or anything with a channel axis."""
    shape = draw(array_shapes(min_dims=2, max_dims=4, min_side=1, max_side=4))
    values = st.floats(-1e6, 1e6, allow_subnormal=False)
    return [draw(arrays(np.float64, shape, elements=values)) for _ in range(n_anchors + 1)]


@pytest.mark.parametrize("namespace", NAMESPACES)
@pytest.mark.parametrize("encoding", ENCODINGS, ids=repr)
@given(data=st.data())
def test_decode_inverts_encode(encoding, namespace, data):
    x, *anchors = (
        NAMESPACES[namespace](a) for a in data.draw(inputs_and_anchors(encoding.anchors_per_tuple))
    )
    tuples = encoding.encode(x, *anchors)
    assert tuples.shape[1] == encoding.width * x.shape[1]
    size = max(float(abs(a).max()) for a in (x, *anchors))
    np.testing.assert_allclose(encoding.decode(tuples), x, rtol=0, atol=8 * np.finfo(float).eps * size)


@pytest.mark.parametrize("encoding", ENCODINGS, ids=repr)
@given(data=st.data())
def test_tuples_are_anchors_and_inputs_minus_offsets(encoding, data):
    """Fast prediction relies on it; and NumPy and PyTorch agree to the last bit."""
    x, *anchors = data.draw(inputs_and_anchors(encoding.anchors_per_tuple))
    tuples = encoding.encode(x, *anchors)
    offsets = encoding.offsets(*anchors)
    assert len(offsets) == encoding.inputs_per_tuple
    expected = np.concatenate([*anchors, *(x - offset for offset in offsets)], axis=1)
    np.testing.assert_array_equal(tuples, expected)
    np.testing.assert_array_equal(encoding.encode(*map(torch.asarray, (x, *anchors))), tuples)


@given(data=st.data())
def test_the_full_tuple_contains_those_of_difference_and_identity(data):
    x, r = data.draw(inputs_and_anchors(1))
    d = x.shape[1]
    tuples = Full().encode(x, r)
    np.testing.assert_array_equal(tuples[:, : 2 * d], Identity().encode(x, r))
    np.testing.assert_array_equal(np.delete(tuples, np.s_[d : 2 * d], axis=1), Difference().encode(x, r))


def test_missing_values_are_kept():
    x, r = np.array([[1.0, np.nan, 3.0]]), np.array([[5.0, 6.0, np.nan]])
    np.testing.assert_array_equal(Full().encode(x, r), [[5, 6, np.nan, 1, np.nan, 3, -4, np.nan, np.nan]])


@pytest.mark.parametrize("namespace", NAMESPACES)
def test_tuples_of_each_encoding(namespace):
    as_array = NAMESPACES[namespace]
    x, r, s = as_array([[5.0, 7.0]]), as_array([[1.0, 2.0]]), as_array([[10.0, 20.0]])
    np.testing.assert_array_equal(Difference().encode(x, r), [[1, 2, 4, 5]])
    np.testing.assert_array_equal(Full().encode(x, r), [[1, 2, 5, 7, 4, 5]])
    np.testing.assert_array_equal(Identity().encode(x, r), [[1, 2, 5, 7]])
    np.testing.assert_array_equal(TwoAnchor().encode(x, r, s), [[1, 2, 10, 20, -6, -15]])


@pytest.mark.parametrize("dtype", ["uint8", "int8", "bool"])
@pytest.mark.parametrize("namespace", NAMESPACES)
def test_integers_and_booleans_are_cast_to_float(namespace, dtype):
    x = NAMESPACES[namespace](np.array([[0, 1]], dtype=dtype))
    r = NAMESPACES[namespace](np.array([[1, 0]], dtype=dtype))
    np.testing.assert_array_equal(Full().encode(x, r), [[1.0, 0.0, 0.0, 1.0, -1.0, 1.0]])


def test_float32_and_float64_give_float64():
    tuples = Difference().encode(np.float32([[0.1]]), np.array([[0.1]]))
    assert tuples.dtype == np.float64
    assert tuples[0, 1] == np.float64(np.float32(0.1)) - 0.1


@pytest.mark.parametrize("namespace", NAMESPACES)
def test_images_are_concatenated_on_channels(namespace):
    rng = np.random.default_rng(0)
    x, r = NAMESPACES[namespace](rng.random((5, 3, 8, 8))), NAMESPACES[namespace](rng.random((1, 3, 8, 8)))
    tuples = Full().encode(x, r)
    assert tuple(tuples.shape) == (5, 9, 8, 8)
    np.testing.assert_array_equal(tuples[4, :3], r[0])
    np.testing.assert_allclose(Full().decode(tuples), x)


def test_channels_last():
    x, r = np.ones((2, 4, 4, 3)), np.zeros((2, 4, 4, 3))
    tuples = Difference().encode(x, r, axis=-1)
    assert tuples.shape == (2, 4, 4, 6)
    np.testing.assert_array_equal(Difference().decode(tuples, axis=-1), x)


def test_tuples_pair_each_anchor_with_its_successor():
    anchors = np.arange(6.0).reshape(3, 2)
    (only,) = Difference().tuples(anchors)
    np.testing.assert_array_equal(only, anchors)
    first, second = TwoAnchor().tuples(anchors)
    np.testing.assert_array_equal(first, anchors)
    np.testing.assert_array_equal(second, anchors[[1, 2, 0]])


def test_wrong_number_of_anchors():
    x = np.ones((2, 3))
    with pytest.raises(ValueError, match="takes 2 anchor"):
        TwoAnchor().encode(x, x)


def test_decode_of_invalid_width():
    with pytest.raises(ValueError, match="not a multiple of 2"):
        Difference().decode(np.ones((2, 5)))


def test_get_encoding():
    assert get_encoding("two-anchor") == TwoAnchor()
    assert get_encoding("full") == Full() and Full().width == 3
    assert get_encoding("difference") != Identity()
    assert len({Difference(), Difference(), Identity()}) == 2
    own = TwoAnchor()
    assert get_encoding(own) is own
    for wrong in ("minus", 3):
        with pytest.raises(ValueError, match="encoding must be one of"):
            get_encoding(wrong)


def test_encoding_without_offsets():
    with pytest.raises(NotImplementedError):
        Encoding().offsets(np.ones(2))
