"""The rivals of anchoring as BoTorch models: dropout, ensemble, DEUP and the Gaussian process."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self

import torch
from botorch.acquisition.objective import PosteriorTransform
from botorch.fit import fit_gpytorch_mll
from botorch.models import SingleTaskGP
from botorch.models.transforms import Normalize
from botorch.posteriors.posterior import Posterior
from gpytorch.mlls import ExactMarginalLogLikelihood
from torch import Tensor, nn

from deltauq.baselines import DeepEnsemble, DEUPNetwork, MCDropout
from deltauq.baselines.deup_network import expected_square
from deltauq.bo._surrogate import SampledSurrogate, Surrogate
from deltauq.bo.anchored import PAPER_NETWORK, PAPER_RECIPE, MakeNetwork, require_maker
from deltauq.bo.posteriors import independent
from deltauq.nn.recipe import Recipe


class _OfBaseline(SampledSurrogate):
    """A surrogate whose functions are those of a sampled baseline."""

    baseline: Any

    def _values(self, x: Tensor) -> Tensor:
        """Return the values of the functions, of shape (K, n, m), with gradients to x of shape (n, d)."""
        return torch.stack([function(x) for function in self.baseline._functions()])


class DropoutSurrogate(_OfBaseline):
    """MC dropout: K masks of one network are K functions.

    Parameters
    ----------
    train_X : float tensor of shape (n, d)
    train_Y : float tensor of shape (n, m)
    network : callable
        ``network(d, m)`` returns a new network.
    recipe : Recipe
    rate : float, default=0.3
    n_samples : int, default=30
        K.
    posterior : {"ensemble", "gaussian"}
    input_transform, outcome_transform : transform, "standardize" or None
    """

    def __init__(
        self,
        train_X: Tensor,
        train_Y: Tensor,
        *,
        network: MakeNetwork = PAPER_NETWORK,
        recipe: Recipe = PAPER_RECIPE,
        rate: float = 0.3,
        n_samples: int = 30,
        **words: Any,
    ) -> None:
        super().__init__(train_X, train_Y, **words)
        self.recipe = recipe
        self.baseline = MCDropout(maker(network, train_X, train_Y), rate, n_samples, seed=recipe.seed)

    def _train(self, x: Tensor, y: Tensor) -> None:
        self.baseline.fit(x, y, self.recipe)
        self.net = self.baseline.network_.to(x.device)


class EnsembleSurrogate(_OfBaseline):
    """A deep ensemble: M networks are M functions, trained at once.

    Parameters
    ----------
    train_X : float tensor of shape (n, d)
    train_Y : float tensor of shape (n, m)
    network : callable
        ``network(d, m)`` returns a new network.
    recipe : Recipe
    n_members : int, default=3
        M.
    posterior : {"ensemble", "gaussian"}
    input_transform, outcome_transform : transform, "standardize" or None
    """

    def __init__(
        self,
        train_X: Tensor,
        train_Y: Tensor,
        *,
        network: MakeNetwork = PAPER_NETWORK,
        recipe: Recipe = PAPER_RECIPE,
        n_members: int = 3,
        **words: Any,
    ) -> None:
        super().__init__(train_X, train_Y, **words)
        self.recipe = recipe
        self.baseline = DeepEnsemble(maker(network, train_X, train_Y), n_members)

    def _train(self, x: Tensor, y: Tensor) -> None:
        self.baseline.fit(x, y, self.recipe)
        self.nets = self.baseline.members_.to(x.device)


class DEUPSurrogate(Surrogate):
    """DEUP: one network predicts, a second one the squared error of the first, together a Gaussian.

    Points are independent of each other: DEUP says nothing about how their errors go together.

    Parameters
    ----------
    train_X : float tensor of shape (n, d)
    train_Y : float tensor of shape (n, m)
    network : callable
        ``network(d, m)`` returns a new network.
    recipe : Recipe
    n_folds : int, default=5
        Folds that errors are measured in; n where there are fewer points.
    input_transform, outcome_transform : transform, "standardize" or None
    """

    def __init__(
        self,
        train_X: Tensor,
        train_Y: Tensor,
        *,
        network: MakeNetwork = PAPER_NETWORK,
        recipe: Recipe = PAPER_RECIPE,
        n_folds: int = 5,
        **transforms: Any,
    ) -> None:
        super().__init__(train_X, train_Y, **transforms)
        self.recipe = recipe
        self.baseline = DEUPNetwork(maker(network, train_X, train_Y), min(n_folds, len(train_X)))

    def posterior(
        self,
        X: Tensor,
        output_indices: list[int] | None = None,
        observation_noise: bool | Tensor = False,
        posterior_transform: PosteriorTransform | None = None,
    ) -> Posterior:
        """Return the Gaussian of prediction and expected squared error.

        Parameters
        ----------
        X : tensor of shape (..., q, d)
        output_indices : list of int, optional
            The outputs to speak of; all by default.
        observation_noise : bool or tensor
            Makes no difference: noise is part of the errors that DEUP has learned.
        posterior_transform : PosteriorTransform, optional

        Returns
        -------
        posterior : Posterior over (..., q, m)
        """
        self._check_points(X)
        self.eval()
        x = self.transform_inputs(X)
        rows = x.reshape(-1, x.shape[-1])
        shape = (*x.shape[:-1], self.num_outputs)
        answer: Any = independent(self.net(rows).reshape(shape), self._variance(rows).reshape(shape))
        if hasattr(self, "outcome_transform"):
            answer = self.outcome_transform.untransform_posterior(answer, X=X)
        if output_indices is not None:
            answer = independent(answer.mean[..., output_indices], answer.variance[..., output_indices])
        return answer if posterior_transform is None else posterior_transform(posterior=answer, X=X)

    def _train(self, x: Tensor, y: Tensor) -> None:
        self.baseline.fit(x, y, self.recipe)
        self.net = self.baseline.network_.to(x.device)
        self.error_net = self.baseline.error_network_.to(x.device)

    def _variance(self, x: Tensor) -> Tensor:
        """Return the expected squared errors, of shape (n, m), at transformed points of shape (n, d)."""
        return self.baseline.scale_.to(x).square() * expected_square(self.error_net(x))


class GPSurrogate(SingleTaskGP):
    """BoTorch's Gaussian process as it is, inputs scaled to [0, 1] and outcomes standardised, with a `fit`.

    Parameters
    ----------
    train_X : float tensor of shape (n, d)
    train_Y : float tensor of shape (n, m)
    **words
        Those of `SingleTaskGP`.
    """

    def __init__(self, train_X: Tensor, train_Y: Tensor, **words: Any) -> None:
        words.setdefault("input_transform", Normalize(train_X.shape[-1]))
        super().__init__(train_X, train_Y, **words)

    def fit(self) -> Self:
        """Maximise the marginal likelihood."""
        fit_gpytorch_mll(ExactMarginalLogLikelihood(self.likelihood, self))
        return self


def maker(network: MakeNetwork, x: Tensor, y: Tensor) -> Callable[[], nn.Module]:
    """Return a function that makes a new network for these data, in their dtype."""
    require_maker(network)

    def make_network() -> nn.Module:
        return network(x.shape[1], y.shape[1]).to(x.dtype)

    return make_network
