"""The rivals of anchoring as BoTorch models: dropout, ensemble, DEUP and the Gaussian process."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
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
from deltauq.baselines.deup_network import error_nll, expected_square
from deltauq.baselines.mc_dropout import add_dropout
from deltauq.bo._surrogate import SampledSurrogate, Surrogate, train_nets
from deltauq.bo.anchored import PAPER_NETWORK, PAPER_RECIPE, MakeNetwork, require_maker
from deltauq.bo.posteriors import independent
from deltauq.bo.transforms import outcome_transform_of
from deltauq.nn.training import Recipe, derive_seed

Tensors = Sequence[Tensor]


class _OfBaseline(SampledSurrogate):
    """A surrogate whose functions are those of a sampled baseline."""

    baseline: Any

    def _values(self, x: Tensor) -> Tensor:
        """Return the values of the functions, of shape (K, n, m), with gradients to x of shape (n, d)."""
        return torch.stack([function(x) for function in self.baseline.functions()])


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
    input_transform, outcome_transform : transform, word or None
        See `Surrogate`.
    """

    recipe: Recipe

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
        self.network, self.recipe = network, recipe
        self.baseline = MCDropout(maker(network, train_X, train_Y), rate, n_samples, seed=recipe.seed)

    def reseed(self, seed: int) -> Self:
        """Have training and masks depend on a further seed."""
        super().reseed(seed)
        self.baseline.seed = self.recipe.seed
        return self

    def _train(self, x: Tensor, y: Tensor) -> None:
        self.baseline.fit(x, y, self.recipe)
        self.net = self.baseline.network_.to(x.device)

    @classmethod
    def _train_together(cls, surrogates: Sequence[Any], xs: Tensors, ys: Tensors) -> None:
        seeds = [s.recipe.seed for s in surrogates]
        nets = [add_dropout(s.baseline.new_network(s.recipe.seed), s.baseline.rate) for s in surrogates]
        train_nets(nets, xs, ys, surrogates[0].recipe, seeds)
        for surrogate, net in zip(surrogates, nets, strict=True):
            surrogate.baseline.network_ = surrogate.net = net

    def _setting(self) -> tuple[Any, ...]:
        return (*super()._setting(), self.network, replace(self.recipe, seed=0), self.baseline.rate)


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
    input_transform, outcome_transform : transform, word or None
        See `Surrogate`.
    """

    recipe: Recipe

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
        self.network, self.recipe = network, recipe
        self.baseline = DeepEnsemble(maker(network, train_X, train_Y), n_members)

    def _train(self, x: Tensor, y: Tensor) -> None:
        self.baseline.fit(x, y, self.recipe)
        self.nets = self.baseline.members_.to(x.device)

    @classmethod
    def _train_together(cls, surrogates: Sequence[Any], xs: Tensors, ys: Tensors) -> None:
        n_members = surrogates[0].baseline.n_members
        seeds = [s.recipe.seed + k for s in surrogates for k in range(n_members)]
        nets = [s.baseline.new_network(s.recipe.seed + k) for s in surrogates for k in range(n_members)]
        train_nets(nets, _repeated(xs, n_members), _repeated(ys, n_members), surrogates[0].recipe, seeds)
        for k, surrogate in enumerate(surrogates):
            members = nn.ModuleList(nets[k * n_members : (k + 1) * n_members])
            surrogate.baseline.members_ = surrogate.nets = members

    def _setting(self) -> tuple[Any, ...]:
        return (*super()._setting(), self.network, replace(self.recipe, seed=0), self.baseline.n_members)


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
    input_transform, outcome_transform : transform, word or None
        See `Surrogate`.
    """

    recipe: Recipe

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
        self.network, self.recipe = network, recipe
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

    @classmethod
    def _train_together(cls, surrogates: Sequence[Any], xs: Tensors, ys: Tensors) -> None:
        recipe = surrogates[0].recipe
        seeds = [s.recipe.seed for s in surrogates]
        held, errors = _errors_in_folds(surrogates, xs, ys)
        nets = [s.baseline.new_network(s.recipe.seed) for s in surrogates]
        train_nets(nets, xs, ys, recipe, seeds)
        tiny = torch.finfo(errors[0].dtype).tiny ** 0.5
        scales = [error.square().mean(0).sqrt().clamp_min(tiny) for error in errors]
        squares = [(error / scale).square() for error, scale in zip(errors, scales, strict=True)]
        error_nets = [s.baseline.new_network(derive_seed(s.recipe.seed, -1)) for s in surrogates]
        train_nets(error_nets, held, squares, recipe, seeds, error_nll)
        for surrogate, net, error_net, scale in zip(surrogates, nets, error_nets, scales, strict=True):
            surrogate.baseline.network_ = surrogate.net = net
            surrogate.baseline.error_network_ = surrogate.error_net = error_net
            surrogate.baseline.scale_ = scale

    def _setting(self) -> tuple[Any, ...]:
        return (*super()._setting(), self.network, replace(self.recipe, seed=0), self.baseline.n_folds)

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
        Those of `SingleTaskGP`; an `outcome_transform` may be "standardize" or "clip", too.
    """

    def __init__(self, train_X: Tensor, train_Y: Tensor, **words: Any) -> None:
        words.setdefault("input_transform", Normalize(train_X.shape[-1]))
        if isinstance(outcomes := words.get("outcome_transform"), str):
            words["outcome_transform"] = outcome_transform_of(outcomes, train_Y.shape[-1])
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


def _repeated(tensors: Tensors, times: int) -> list[Tensor]:
    """Return each tensor several times, one after the other."""
    return [tensor for tensor in tensors for _ in range(times)]


def _errors_in_folds(
    surrogates: Sequence[DEUPSurrogate], xs: Tensors, ys: Tensors
) -> tuple[list[Tensor], list[Tensor]]:
    """Predict points by networks that have not seen them, as `DEUPNetwork` does, for all surrogates at once.

    Parameters
    ----------
    surrogates : sequence of k DEUPSurrogates
    xs, ys : sequences of k tensors of shapes (n, d) and (n, m)

    Returns
    -------
    held, errors : lists of k tensors of shapes (h, d) and (h, m)
        The points that were in a fold, and targets minus predictions there.
    """
    n, n_folds = len(xs[0]), surrogates[0].baseline.n_folds
    size = n // n_folds
    orders = [
        torch.randperm(n, generator=torch.Generator().manual_seed(derive_seed(s.recipe.seed, -2)))
        for s in surrogates
    ]
    parts = [
        (order.roll(-k * size)[size:], order[k * size :][:size]) for order in orders for k in range(n_folds)
    ]
    seeds = [s.recipe.seed + k for s in surrogates for k in range(n_folds)]
    nets = [s.baseline.new_network(s.recipe.seed + k) for s in surrogates for k in range(n_folds)]
    xs, ys = _repeated(xs, n_folds), _repeated(ys, n_folds)
    kept_x = [x[kept] for x, (kept, _) in zip(xs, parts, strict=True)]
    kept_y = [y[kept] for y, (kept, _) in zip(ys, parts, strict=True)]
    train_nets(nets, kept_x, kept_y, surrogates[0].recipe, seeds)
    held = [x[fold] for x, (_, fold) in zip(xs, parts, strict=True)]
    with torch.no_grad():
        errors = [y[fold] - net(x) for net, x, y, (_, fold) in zip(nets, held, ys, parts, strict=True)]
    starts = range(0, len(nets), n_folds)
    return [torch.cat(held[s : s + n_folds]) for s in starts], [
        torch.cat(errors[s : s + n_folds]) for s in starts
    ]
