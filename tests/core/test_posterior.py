import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays
from scipy.special import expit
from scipy.special import softmax as scipy_softmax

from deltauq.core import Moments, Posterior, StreamingPosterior
from deltauq.core.posterior import sigmoid, softmax

SAMPLES = arrays(
    np.float64, array_shapes(min_dims=2, max_dims=3, max_side=6), elements=st.floats(-1e3, 1e3, width=32)
)


@given(samples=SAMPLES)
def test_moments_equal_those_of_the_samples(samples):
    moments = Moments()
    for sample in samples:
        moments.update(sample)
    np.testing.assert_allclose(moments.mean, samples.mean(axis=0), rtol=1e-12, atol=1e-9)
    np.testing.assert_allclose(moments.var, samples.var(axis=0, ddof=0), rtol=1e-9, atol=1e-6)


@given(samples=SAMPLES, times=st.integers(1, 5))
def test_update_with_times(samples, times):
    stream, repeated = StreamingPosterior(keep_samples=True), np.repeat(samples, times, axis=0)
    for sample in samples:
        stream.update(sample, times)
    posterior = stream.posterior()
    np.testing.assert_array_equal(posterior.samples, repeated)
    np.testing.assert_allclose(posterior.mean, repeated.mean(axis=0), rtol=1e-12, atol=1e-9)
    np.testing.assert_allclose(posterior.var, repeated.var(axis=0), rtol=1e-9, atol=1e-6)


def test_equal_samples_have_zero_variance():
    moments = Moments()
    for _ in range(10):
        moments.update(np.array([0.1, 1e8 / 3]))
    np.testing.assert_array_equal(moments.var, 0.0)


def test_moments_with_a_large_mean():
    moments = Moments()
    for value in (1e9, 1e9 + 1, 1e9 + 2):
        moments.update(np.array([value]))
    np.testing.assert_allclose(moments.var, 2 / 3)


def test_the_first_sample_is_not_changed_by_later_ones():
    first = np.zeros(3)
    moments = Moments()
    moments.update(first)
    moments.update(np.ones(3))
    np.testing.assert_array_equal(first, 0.0)


def test_no_anchor_raises():
    for name in ("mean", "var"):
        with pytest.raises(ValueError, match="at least one anchor"):
            getattr(Moments(), name)


def test_links_match_scipy_and_do_not_overflow():
    logits = np.array([[-800.0, 0.0, 800.0], [1.0, -2.0, 0.5]])
    np.testing.assert_allclose(sigmoid(logits), expit(logits), atol=1e-15)
    np.testing.assert_allclose(softmax(logits), scipy_softmax(logits, axis=-1), atol=1e-15)


@pytest.mark.parametrize("as_array", [np.asarray, torch.asarray], ids=["numpy", "torch"])
@pytest.mark.parametrize("link", ["sigmoid", "softmax"])
def test_link_moments(link, as_array):
    samples = np.random.default_rng(0).normal(size=(7, 4, 3))
    stream = StreamingPosterior(link=link, keep_samples=True)
    for sample in samples:
        stream.update(as_array(sample))
    posterior = stream.posterior()
    linked = expit(samples) if link == "sigmoid" else scipy_softmax(samples, axis=-1)
    np.testing.assert_allclose(posterior.mean, samples.mean(axis=0))
    np.testing.assert_allclose(posterior.link_mean, linked.mean(axis=0))
    np.testing.assert_allclose(posterior.link_var, linked.var(axis=0))
    np.testing.assert_array_equal(posterior.samples, samples)
    assert posterior.link == link


def test_link_moments_and_samples_are_none_by_default():
    stream = StreamingPosterior()
    stream.update(np.ones(2))
    posterior = stream.posterior()
    assert posterior.link_mean is None and posterior.link_var is None and posterior.samples is None


def test_unknown_link():
    with pytest.raises(ValueError, match="link must be one of"):
        StreamingPosterior(link="probit")


def test_std_and_variance_follow_var():
    posterior = Posterior(np.zeros(2), np.array([4.0, 9.0]))
    np.testing.assert_array_equal(posterior.std, [2.0, 3.0])
    assert posterior.variance is posterior.var
