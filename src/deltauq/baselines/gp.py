"""A Gaussian process of BoTorch."""

from __future__ import annotations

import os
from typing import Any

import torch
from botorch.fit import fit_gpytorch_mll
from botorch.models import SingleTaskGP
from botorch.models.transforms import Normalize, Standardize
from gpytorch.mlls import ExactMarginalLogLikelihood
from sklearn.exceptions import NotFittedError
from torch import Tensor

from deltauq.baselines.network import BATCH_SIZE, Progress, check_no_link, check_regression
from deltauq.core import Posterior
from deltauq.nn.training import Recipe, check_data, derive_seed


class GaussianProcess:
    """BoTorch's `SingleTaskGP` with its kernel and priors, in float64, for regression.

    Inputs are scaled to [0, 1], targets are standardised, and the marginal likelihood is maximised. The time
    of a fit grows with the cube of the number of rows.

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

    def __init__(self, max_rows: int = 2000, *, observation_noise: bool = False) -> None:
        if max_rows < 2:
            raise ValueError(f"max_rows must be at least 2, got {max_rows}.")
        self.max_rows = max_rows
        self.observation_noise = observation_noise

    def fit(
        self,
        x: Tensor,
        y: Tensor,
        recipe: Recipe,
        *,
        fabric: Any = None,
        normalise: tuple[Tensor, Tensor] | None = None,
        checkpoint: str | os.PathLike[str] | None = None,
        progress: Progress | None = None,
    ) -> GaussianProcess:
        """Fit the kernel, on the device of x.

        Parameters
        ----------
        x : tensor of shape (n, d)
        y : tensor of shape (n, n_outputs)
        recipe : Recipe
            Its seed determines the subsample. Everything else, and all other arguments, are ignored: they
            exist so that all baselines are called in the same way.

        Returns
        -------
        self
        """
        check_regression(check_data(x, y), "a Gaussian process")
        if x.ndim != 2 or y.ndim != 2 or len(x) != len(y):
            raise ValueError(
                "a Gaussian process needs x of shape (n, d) and y of shape (n, n_outputs), "
                f"got {tuple(x.shape)} and {tuple(y.shape)}."
            )
        generator = torch.Generator().manual_seed(derive_seed(recipe.seed, -2))
        self.rows_ = torch.randperm(len(x), generator=generator)[: self.max_rows]
        rows = self.rows_.to(x.device)
        x, y = x[rows].double(), y[rows].double()
        self.model_ = SingleTaskGP(
            x, y, input_transform=Normalize(x.shape[1]), outcome_transform=Standardize(y.shape[1])
        )
        fit_gpytorch_mll(ExactMarginalLogLikelihood(self.model_.likelihood, self.model_))
        return self

    @torch.no_grad()
    def posterior(self, x: Tensor, link: str | None = None, batch_size: int | None = None) -> Posterior:
        """Return mean and variance of shape (n, n_outputs), in float64 and on the device of x.

        Parameters
        ----------
        x : tensor of shape (n, d)
        link : None
            Regression has no link.
        batch_size : int, optional
            Rows in one pass.
        """
        check_no_link(link, "a Gaussian process")
        if not hasattr(self, "model_"):
            raise NotFittedError("this GaussianProcess is not fitted yet: call fit first.")
        device = next(self.model_.parameters()).device
        posteriors = [
            self.model_.posterior(rows.to(device).double(), observation_noise=self.observation_noise)
            for rows in x.split(batch_size or BATCH_SIZE)
        ]
        mean, var = (torch.cat([getattr(part, name) for part in posteriors]) for name in ("mean", "variance"))
        return Posterior(mean.to(x.device), var.to(x.device))
