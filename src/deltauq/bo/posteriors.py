"""What surrogates answer: K values at every point, or a Gaussian of mean and variance."""

from __future__ import annotations

from typing import Any

import torch
from botorch.posteriors.ensemble import EnsemblePosterior
from botorch.posteriors.gpytorch import GPyTorchPosterior
from botorch.sampling.get_sampler import GetSampler
from botorch.sampling.index_sampler import IndexSampler
from gpytorch import settings
from gpytorch.distributions import MultitaskMultivariateNormal, MultivariateNormal
from linear_operator import to_linear_operator
from torch import Tensor


class AnchorPosterior(EnsemblePosterior):
    """K values at every point, one for each anchor, member or mask, which is the same for all points.

    Its `variance` is BoTorch's, which divides by K - 1: K / (K - 1) times the population variance that
    `deltauq.Posterior` and the Gaussian of `as_gaussian` have.

    Parameters
    ----------
    values : tensor of shape (..., K, q, m)
    """


class AnchorSampler(IndexSampler):
    """Takes whole functions out of an ensemble: the values under one anchor, at all points.

    Anchors are drawn without replacement as far as that goes, and every t-batch has the same ones. BoTorch's
    `IndexSampler` draws them anew for every t-batch, so that candidates are told apart by luck as well; with
    K samples of this one each anchor counts once, and an expected utility is exact.

    Parameters
    ----------
    sample_shape : torch.Size
    seed : int, optional
    """

    def _construct_base_samples(self, posterior: EnsemblePosterior) -> None:
        shape = self.sample_shape + posterior.batch_shape
        if self.base_samples is not None and self.base_samples.shape == shape:
            return
        n, n_members = self.sample_shape.numel(), posterior.ensemble_size
        generator = torch.Generator().manual_seed(self.seed)
        order = torch.randperm(n_members, generator=generator)[torch.arange(n) % n_members]
        shared = order.view(*self.sample_shape, *[1] * len(posterior.batch_shape))
        self.register_buffer("base_samples", shared.to(posterior.device).expand(shape))


@GetSampler.register(AnchorPosterior)
def _sampler_of_anchors(
    posterior: AnchorPosterior, sample_shape: torch.Size, *, seed: int | None = None, **kwargs: Any
) -> AnchorSampler:
    """Return the sampler of acquisition functions that are given none: every anchor once is enough."""
    if sample_shape.numel() > posterior.ensemble_size:
        sample_shape = torch.Size([posterior.ensemble_size])
    return AnchorSampler(sample_shape, seed=seed)


def as_gaussian(values: Tensor) -> GPyTorchPosterior:
    """Return the Gaussian with the moments of K functions, as the paper treats them.

    Points and outputs covary as they do over the functions; moments are those of the population (1/K).

    Parameters
    ----------
    values : tensor of shape (..., K, q, m)

    Returns
    -------
    posterior : GPyTorchPosterior over (..., q, m)
    """
    mean = values.mean(-3)
    deviations = (values - mean.unsqueeze(-3)).flatten(-2)
    return gaussian(mean, deviations.mT @ deviations / values.shape[-3])


def independent(mean: Tensor, variance: Tensor) -> GPyTorchPosterior:
    """Return the Gaussian of points and outputs that are independent, both of shape (..., q, m)."""
    return gaussian(mean, torch.diag_embed(variance.flatten(-2)))


def gaussian(mean: Tensor, covariance: Tensor) -> GPyTorchPosterior:
    """Return a Gaussian posterior.

    Parameters
    ----------
    mean : tensor of shape (..., q, m)
    covariance : tensor of shape (..., q * m, q * m)
        Of all outputs of the first point, then of the second. Variances below the least that GPyTorch works
        with (1e-10 in float64) are raised to it. K functions leave the covariance of K points and more
        singular, so that what is no single number gets a little on its diagonal: 1.5e-8 of the largest
        variance in float64.

    Returns
    -------
    posterior : GPyTorchPosterior
    """
    variances = covariance.diagonal(dim1=-2, dim2=-1)
    # A little more than the least: a sum may round down.
    added = (1.001 * settings.min_variance.value(mean.dtype) - variances).clamp_min(0)
    if variances.shape[-1] > 1:
        added = added + torch.finfo(mean.dtype).eps ** 0.5 * (variances + added).amax(-1, keepdim=True)
    # As an operator it is factorised only where samples are drawn.
    operator = to_linear_operator(covariance + torch.diag_embed(added))
    if mean.shape[-1] == 1:
        return GPyTorchPosterior(MultivariateNormal(mean.squeeze(-1), operator))
    return GPyTorchPosterior(MultitaskMultivariateNormal(mean, operator))
