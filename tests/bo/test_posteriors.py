"""Ensembles of functions and their Gaussians, against direct sums and torch's distributions."""

import pytest
import torch
from torch.distributions import MultivariateNormal

pytest.importorskip("botorch")

from botorch.sampling.get_sampler import get_sampler

from deltauq.bo import AnchorPosterior, AnchorSampler
from deltauq.bo.posteriors import as_gaussian, independent


@pytest.fixture
def values():
    """Seven functions at three points with two outputs, for five t-batches."""
    return torch.randn(5, 7, 3, 2, dtype=torch.float64)


def test_variance_of_ensemble_and_gaussian(values):
    population = values.var(1, correction=0)
    torch.testing.assert_close(AnchorPosterior(values).variance, 7 / 6 * population)
    torch.testing.assert_close(as_gaussian(values).variance, population, rtol=1e-7, atol=1e-7)
    torch.testing.assert_close(as_gaussian(values).mean, values.mean(1))


def test_variance_of_single_point_is_exact(values):
    point = values[:, :, :1, :1]
    torch.testing.assert_close(as_gaussian(point).variance, point.var(1, correction=0), rtol=1e-14, atol=0)


def test_covariance_equals_that_over_functions(values):
    flat = values[0].reshape(7, 6)
    expected = torch.cov(flat.T, correction=0)
    covariance = as_gaussian(values).distribution.covariance_matrix[0]
    torch.testing.assert_close(covariance, expected, rtol=1e-6, atol=1e-6)


def test_log_probability_equals_torch(values):
    one = values[0, :, :, :1]
    point = torch.randn(3, dtype=torch.float64)
    covariance = torch.cov(one[..., 0].T, correction=0)
    theirs = MultivariateNormal(one.mean(0)[:, 0], covariance).log_prob(point)
    torch.testing.assert_close(as_gaussian(one).distribution.log_prob(point), theirs, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_singular_gaussian_can_be_sampled(dtype):
    values = torch.randn(3, 20, 1, dtype=dtype)  # covariance of rank 2
    samples = as_gaussian(values).rsample(torch.Size([4000]))
    assert samples.shape == (4000, 20, 1)
    torch.testing.assert_close(samples.std(0), values.std(0, correction=0), rtol=0.1, atol=0.02)


def test_minimum_variance():
    variance = as_gaussian(torch.ones(4, 1, 1, dtype=torch.float64)).variance
    assert 1e-10 <= variance.item() < 1.1e-10


def test_independent_outputs():
    mean, variance = torch.randn(2, 3, 2), torch.rand(2, 3, 2) + 0.1
    posterior = independent(mean, variance)
    torch.testing.assert_close(posterior.variance, variance, rtol=0, atol=1e-3)
    covariance = posterior.distribution.covariance_matrix
    assert torch.count_nonzero(covariance - torch.diag_embed(covariance.diagonal(dim1=-2, dim2=-1))) == 0


class TestAnchorSampler:
    def test_sample_is_one_function_in_all_batches(self, values):
        sampler = AnchorSampler(torch.Size([4]), seed=3)
        samples = sampler(AnchorPosterior(values))
        assert samples.shape == (4, 5, 3, 2)
        for sample in samples:
            assert any(torch.equal(sample, values[:, k]) for k in range(7))

    def test_functions_are_drawn_equally_often(self, values):
        samples = AnchorSampler(torch.Size([14]), seed=0)(AnchorPosterior(values))
        torch.testing.assert_close(samples.mean(0), values.mean(1))

    def test_samples_do_not_depend_on_other_batches(self, values):
        together = AnchorSampler(torch.Size([4]), seed=1)(AnchorPosterior(values))
        alone = AnchorSampler(torch.Size([4]), seed=1)(AnchorPosterior(values[2]))
        torch.testing.assert_close(together[:, 2], alone, rtol=0, atol=0)

    def test_seeds(self, values):
        posterior = AnchorPosterior(values)
        first, again, other = (AnchorSampler(torch.Size([3]), seed=s)(posterior) for s in (0, 0, 1))
        assert torch.equal(first, again)
        assert not torch.equal(first, other)

    def test_sampler_is_reusable_for_other_batch_shapes(self, values):
        sampler = AnchorSampler(torch.Size([4]), seed=1)
        sampler(AnchorPosterior(values))
        assert sampler(AnchorPosterior(values[:2])).shape == (4, 2, 3, 2)

    @pytest.mark.parametrize(("requested", "drawn"), [(512, 7), (5, 5)])
    def test_default_sampler_draws_each_function_once(self, values, requested, drawn):
        sampler = get_sampler(AnchorPosterior(values), torch.Size([requested]), seed=0)
        assert isinstance(sampler, AnchorSampler) and sampler.sample_shape == (drawn,)
