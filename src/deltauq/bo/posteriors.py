"""Posteriors of surrogates: K functions, or a Gaussian with their mean and covariance."""

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
    """The values of K functions at every point, one for each anchor, member or mask.

    `values` has the shape (..., K, q, m). `variance` is BoTorch's, which divides by K - 1;
    `deltauq.Posterior` and `as_gaussian` divide by K.
    """


class AnchorSampler(IndexSampler):
    """Draws whole functions of an ensemble: the values under one anchor at all points.

    Anchors are drawn without replacement until all have been drawn, and are the same for every t-batch.
    BoTorch's `IndexSampler` draws other ones for every t-batch, which adds noise to the comparison of
    candidates. With K samples each anchor counts once, and an expected utility is exact.

    Parameters
    ----------
    sample_shape : torch.Size
    seed : int, optional
        Random seed.
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
def _make_anchor_sampler(
    posterior: AnchorPosterior, sample_shape: torch.Size, *, seed: int | None = None, **kwargs: Any
) -> AnchorSampler:
    """Return the default sampler of acquisition functions: each anchor at most once."""
    if sample_shape.numel() > posterior.ensemble_size:
        sample_shape = torch.Size([posterior.ensemble_size])
    return AnchorSampler(sample_shape, seed=seed)


def as_gaussian(values: Tensor) -> GPyTorchPosterior:
    """Return the Gaussian with the moments of K functions (dividing by K), values of shape (..., K, q, m)."""
    mean = values.mean(-3)
    deviations = (values - mean.unsqueeze(-3)).flatten(-2)
    return gaussian(mean, deviations.mT @ deviations / values.shape[-3])


def independent(mean: Tensor, variance: Tensor) -> GPyTorchPosterior:
    """Return the Gaussian of independent points and outputs, both parameters of shape (..., q, m)."""
    return gaussian(mean, torch.diag_embed(variance.flatten(-2)))


def gaussian(mean: Tensor, covariance: Tensor) -> GPyTorchPosterior:
    """Return the Gaussian with this mean, of shape (..., q, m), and covariance, (..., q * m, q * m).

    Variances below GPyTorch's minimum (1e-10 in float64) are raised to it. The covariance of K or more points
    is singular, so that 1.5e-8 of the largest variance (in float64) is added to the diagonal of more than one
    value.
    """
    variances = covariance.diagonal(dim1=-2, dim2=-1)
    # A little more than the minimum: a sum may round down.
    added = (1.001 * settings.min_variance.value(mean.dtype) - variances).clamp_min(0)
    if variances.shape[-1] > 1:
        added = added + torch.finfo(mean.dtype).eps ** 0.5 * (variances + added).amax(-1, keepdim=True)
    # A linear operator is factorised only if samples are drawn.
    operator = to_linear_operator(covariance + torch.diag_embed(added))
    if mean.shape[-1] == 1:
        return GPyTorchPosterior(MultivariateNormal(mean.squeeze(-1), operator))
    return GPyTorchPosterior(MultitaskMultivariateNormal(mean, operator))
