"""A Gaussian process, BoTorch's own."""

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

from deltauq.baselines._network import BATCH_SIZE, Progress, refuse_link, require_numbers
from deltauq.core import Posterior
from deltauq.nn.training import Recipe, check_data, derive_seed


class GaussianProcess:
    """BoTorch's `SingleTaskGP` with its kernel and priors, in float64, for regression.

    Inputs are scaled to [0, 1] and targets standardised, and the marginal likelihood is maximised. Its time
    grows with the cube of the rows, so that more than `max_rows` are thinned out at random.

    Parameters
    ----------
    max_rows : int, default=2000
    observation_noise : bool, default=False
        Add the variance of the fitted noise to that of the function.

    Attributes
    ----------
    model_ : SingleTaskGP
    rows_ : int tensor of shape (m,)
        The training rows that were used.
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
            Its seed decides which rows are used, where there are too many. Like the other arguments, which
            are here so that all methods are called alike, it has nothing else to decide.

        Returns
        -------
        self
        """
        require_numbers(check_data(x, y), "a Gaussian process")
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
            There is none: regression only.
        batch_size : int, optional
            Rows in one pass.
        """
        refuse_link(link, "a Gaussian process")
        if not hasattr(self, "model_"):
            raise NotFittedError("this GaussianProcess is not fitted yet: call fit first.")
        device = next(self.model_.parameters()).device
        found = [
            self.model_.posterior(rows.to(device).double(), observation_noise=self.observation_noise)
            for rows in x.split(batch_size or BATCH_SIZE)
        ]
        mean, var = (torch.cat([getattr(part, name) for part in found]) for name in ("mean", "variance"))
        return Posterior(mean.to(x.device), var.to(x.device))
