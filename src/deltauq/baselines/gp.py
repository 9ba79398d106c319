"""A Gaussian process of BoTorch."""

from __future__ import annotations

import torch
from botorch.fit import fit_gpytorch_mll
from botorch.models import SingleTaskGP
from botorch.models.transforms import Normalize, Standardize
from gpytorch.mlls import ExactMarginalLogLikelihood
from torch import Tensor

from deltauq.baselines.network import (
    BATCH_SIZE,
    TensorBaseline,
    Training,
    check_no_criterion,
    check_no_link,
    check_regression,
    shuffled_rows,
)
from deltauq.core import Posterior


class GaussianProcess(TensorBaseline):
    """BoTorch's `SingleTaskGP` with its kernel and priors, in float64, for regression.

    Inputs are scaled to [0, 1], targets are standardised, and the marginal likelihood is maximised. The time
    of a fit grows with the cube of the number of rows. Only the seed of the recipe is used, for the
    subsample; the other options of training are ignored.

    Parameters
    ----------
    max_rows : int, default=2000
        Larger training sets are subsampled at random to this number of rows.
    observation_noise : bool, default=False
        Whether the variance includes that of the fitted noise.

    Attributes
    ----------
    model_ : SingleTaskGP
    rows_ : int tensor of shape (m,)
        Indices of the training rows that were used.
    """

    fitted_module = "model_"

    def __init__(self, max_rows: int = 2000, *, observation_noise: bool = False) -> None:
        if max_rows < 2:
            raise ValueError(f"max_rows must be at least 2, got {max_rows}.")
        self.max_rows = max_rows
        self.observation_noise = observation_noise

    def _fit(self, x: Tensor, y: Tensor, training: Training) -> None:
        check_no_criterion(training, "a Gaussian process")
        check_regression(y, "a Gaussian process")
        if x.ndim != 2 or y.ndim != 2:
            shapes = f"{tuple(x.shape)} and {tuple(y.shape)}"
            raise ValueError(f"x and y must have shapes (n, d) and (n, n_outputs), got {shapes}.")
        self.rows_ = shuffled_rows(len(x), training.recipe.seed)[: self.max_rows]
        rows = self.rows_.to(x.device)
        x, y = x[rows].double(), y[rows].double()
        self.model_ = SingleTaskGP(
            x, y, input_transform=Normalize(x.shape[1]), outcome_transform=Standardize(y.shape[1])
        )
        fit_gpytorch_mll(ExactMarginalLogLikelihood(self.model_.likelihood, self.model_))

    @torch.no_grad()
    def posterior(self, x: Tensor, link: str | None = None, batch_size: int | None = None) -> Posterior:
        """Return mean and variance of shape (n, n_outputs), in float64 and on the device of x; no link."""
        check_no_link(link, "a Gaussian process")
        model, device = self._fitted(), self._device
        posteriors = [
            model.posterior(rows.to(device).double(), observation_noise=self.observation_noise)
            for rows in x.split(batch_size or BATCH_SIZE)
        ]
        mean, var = (torch.cat([getattr(part, name) for part in posteriors]) for name in ("mean", "variance"))
        return Posterior(mean.to(x.device), var.to(x.device))
