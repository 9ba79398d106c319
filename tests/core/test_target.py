import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays

from deltauq.core import DifferenceTarget, Target, ValueTarget, get_target

NAMESPACES = {"numpy": np.asarray, "torch": torch.asarray}


@st.composite
def targets(draw, n_anchors):
    """Targets of inputs and of anchors: of one or several outputs, or of one anchor for all inputs."""
    shape = draw(array_shapes(min_dims=1, max_dims=2, max_side=5))
    values = st.floats(-1e6, 1e6, allow_subnormal=False)
    shared = draw(st.booleans())
    shapes = [shape, *[shape[1:] if shared else shape] * n_anchors]
    return [draw(arrays(np.float64, s, elements=values)) for s in shapes]


@pytest.mark.parametrize("namespace", NAMESPACES)
@pytest.mark.parametrize("n_anchors", [1, 2, 3])
@pytest.mark.parametrize("target", [ValueTarget(), DifferenceTarget()], ids=repr)
@given(data=st.data())
def test_decode_inverts_encode(target, n_anchors, namespace, data):
    y, *of_anchors = map(NAMESPACES[namespace], data.draw(targets(n_anchors)))
    decoded = target.decode(target.encode(y, *of_anchors), *of_anchors)
    assert type(decoded) is type(y)
    size = max(float(abs(a).max()) for a in (y, *of_anchors))
    np.testing.assert_allclose(decoded, y, rtol=0, atol=8 * np.finfo(float).eps * size)


@given(data=st.data(), n_anchors=st.integers(1, 3))
def test_numpy_and_torch_agree(data, n_anchors):
    arrays_ = data.draw(targets(n_anchors))
    for name in ("encode", "decode"):
        ours = getattr(DifferenceTarget(), name)(*arrays_)
        np.testing.assert_array_equal(getattr(DifferenceTarget(), name)(*map(torch.asarray, arrays_)), ours)


@pytest.mark.parametrize("namespace", NAMESPACES)
def test_difference_from_the_mean_target_of_the_anchors(namespace):
    y, r, s = map(NAMESPACES[namespace], ([5.0, 7.0], [1.0, 2.0], [3.0, 10.0]))
    np.testing.assert_array_equal(DifferenceTarget().encode(y, r), [4.0, 5.0])
    np.testing.assert_array_equal(DifferenceTarget().encode(y, r, s), [3.0, 1.0])
    np.testing.assert_array_equal(DifferenceTarget().decode(y, r, s), [7.0, 13.0])
    assert DifferenceTarget().needs_labels


def test_value_ignores_the_targets_of_anchors():
    y = np.array(["a", "b"])
    assert ValueTarget().encode(y) is y and ValueTarget().decode(y, None) is y
    assert not ValueTarget().needs_labels


@pytest.mark.parametrize("namespace", NAMESPACES)
@pytest.mark.parametrize("dtype", ["uint8", "int8", "bool"])
def test_integers_and_booleans_do_not_wrap(namespace, dtype):
    y, r, s = (NAMESPACES[namespace](np.array(v, dtype=dtype)) for v in ([0, 1], [1, 0], [1, 1]))
    np.testing.assert_array_equal(DifferenceTarget().encode(y, r), [-1.0, 1.0])
    np.testing.assert_array_equal(DifferenceTarget().encode(y, r, s), [-1.0, 0.5])


def test_the_first_target_of_several_anchors_is_not_changed():
    r, s = np.ones(2), np.full(2, 3.0)
    DifferenceTarget().encode(np.zeros(2), r, s)
    np.testing.assert_array_equal(r, 1.0)


def test_get_target():
    assert get_target("value") == ValueTarget() and get_target("difference") == DifferenceTarget()
    assert get_target("value") != DifferenceTarget()
    assert len({ValueTarget(), ValueTarget(), DifferenceTarget()}) == 2
    own = DifferenceTarget()
    assert get_target(own) is own
    for wrong in ("minus", 3):
        with pytest.raises(ValueError, match=r"target must be one of .*'difference', 'value'"):
            get_target(wrong)


def test_target_without_a_form():
    for name in ("encode", "decode"):
        with pytest.raises(NotImplementedError):
            getattr(Target(), name)(np.ones(2))
