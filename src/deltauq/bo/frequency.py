"""How fast an outcome varies, chosen by leaving out one point after the other."""

from __future__ import annotations

import torch
from torch import Tensor

CANDIDATES = tuple(2.0 ** (k / 2) for k in range(-4, 12))
"""Standard deviations of frequencies, in radians per unit of the input."""
NOISE = 1e-4
"""Variance of the noise relative to that of the function; duplicate points stay distinguishable."""


def choose_frequency(x: Tensor, y: Tensor) -> float:
    """Return the frequency at which points left out are predicted best.

    Many random Fourier features with Gaussian frequencies are a Gaussian process with a Gaussian kernel,
    whose predictions of a point from all others have a closed form (Rasmussen and Williams, section 5.4.2).
    The score is their log-density, with the variance of the function fitted.

    Parameters
    ----------
    x, y : tensors of shapes (n, d) and (n, m)
        Standardised points and outcomes.
    """
    x, y = x.double(), y.double()
    square_distances = torch.cdist(x, x).square()
    identity = torch.eye(len(x)).to(x)
    scores = {}
    for frequency in CANDIDATES:
        kernel = torch.exp(-0.5 * frequency**2 * square_distances) + NOISE * identity
        precision = torch.linalg.inv(kernel)
        weights = precision.sum(1, keepdim=True)
        mean = (weights * y).sum(0) / weights.sum()
        variances = 1.0 / precision.diagonal()[:, None]
        errors = variances * (precision @ (y - mean))
        scale = (errors.square() / variances).mean(0)
        scores[frequency] = -float((variances.log() + scale.clamp_min(1e-300).log()).mean())
    return max(scores, key=lambda frequency: scores[frequency])
