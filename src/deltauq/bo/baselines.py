"""Baselines as BoTorch models: dropout, ensemble, DEUP and the Gaussian process."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import torch
from botorch.acquisition.objective import PosteriorTransform
from botorch.fit import fit_gpytorch_mll
from botorch.models import SingleTaskGP
from botorch.models.transforms import Normalize
from botorch.posteriors.posterior import Posterior
from gpytorch.mlls import ExactMarginalLogLikelihood
from torch import Tensor, nn

from deltauq.baselines import MCDropout
from deltauq.baselines.deup_network import error_nll, expected_square, scaled_squares, split_folds
from deltauq.baselines.mc_dropout import add_dropout
from deltauq.bo.posteriors import independent
from deltauq.bo.surrogate import NetworkSurrogate, SampledSurrogate, train_networks
from deltauq.bo.transforms import make_transform
from deltauq.nn.training import derive_seed

Tensors = Sequence[Tensor]


class DropoutSurrogate(NetworkSurrogate, SampledSurrogate):
    """Monte Carlo dropout: K masks of one network are K functions.

    Parameters
    ----------
    train_X, train_Y : float tensors of shapes (n, d) and (n, m)
        Points and outcomes.
    rate : float, default=0.3
        Probability that a feature is dropped.
    n_samples : int, default=30
        K, the number of masks.
    **options
        `network`, `recipe`, `posterior`, `input_transform` and `outcome_transform`; see `AnchoredSurrogate`.
        By default the paper's network and recipe, and standardised inputs.
    """

    shared_options = ("rate",)

    def __init__(
        self, train_X: Tensor, train_Y: Tensor, *, rate: float = 0.3, n_samples: int = 30, **options: Any
    ) -> None:
        super().__init__(train_X, train_Y, **options)
        self.rate = rate
        self.baseline = MCDropout(self.make_network, rate, n_samples)

    @classmethod
    def train_together(cls, surrogates: Sequence[Any], xs: Tensors, ys: Tensors) -> None:
        """Train the networks of all surrogates."""
        seeds = [s.recipe.seed for s in surrogates]
        nets = [add_dropout(s.seeded_network(s.recipe.seed), s.rate) for s in surrogates]
        train_networks(nets, xs, ys, surrogates[0].recipe, seeds)
        for surrogate, net in zip(surrogates, nets, strict=True):
            surrogate.baseline.network_ = surrogate.net = net
            surrogate.baseline.seed = surrogate.recipe.seed

    def function_values(self, x: Tensor) -> Tensor:
        """Return values of shape (K, n, m) under each mask."""
        return torch.stack([function(x) for function in self.baseline.functions()])


class EnsembleSurrogate(NetworkSurrogate, SampledSurrogate):
    """A deep ensemble: M networks, trained at once, are M functions.

    Parameters
    ----------
    train_X, train_Y : float tensors of shapes (n, d) and (n, m)
        Points and outcomes.
    n_members : int, default=3
        M, the number of networks.
    **options
        `network`, `recipe`, `posterior`, `input_transform` and `outcome_transform`; see `AnchoredSurrogate`.
        By default the paper's network and recipe, and standardised inputs.
    """

    shared_options = ("n_members",)
    nets: nn.ModuleList

    def __init__(self, train_X: Tensor, train_Y: Tensor, *, n_members: int = 3, **options: Any) -> None:
        super().__init__(train_X, train_Y, **options)
        if n_members < 1:
            raise ValueError(f"n_members must be at least 1, got {n_members}.")
        self.n_members = n_members

    @classmethod
    def train_together(cls, surrogates: Sequence[Any], xs: Tensors, ys: Tensors) -> None:
        """Train the members of all surrogates."""
        m = surrogates[0].n_members
        seeds = [s.recipe.seed + k for s in surrogates for k in range(m)]
        nets = [s.seeded_network(s.recipe.seed + k) for s in surrogates for k in range(m)]
        xs, ys = ([t for t in tensors for _ in range(m)] for tensors in (xs, ys))
        train_networks(nets, xs, ys, surrogates[0].recipe, seeds)
        for k, surrogate in enumerate(surrogates):
            surrogate.nets = nn.ModuleList(nets[k * m : (k + 1) * m])

    def function_values(self, x: Tensor) -> Tensor:
        """Return values of shape (M, n, m) of each network."""
        return torch.stack([net(x) for net in self.nets])


class DEUPSurrogate(NetworkSurrogate):
    """DEUP: one network predicts, a second one the squared error of the first; together a Gaussian.

    Points are independent of each other: DEUP has no covariance of their errors.

    Parameters
    ----------
    train_X, train_Y : float tensors of shapes (n, d) and (n, m)
        Points and outcomes.
    n_folds : int, default=5
        Number of folds of the out-of-fold errors; n if there are fewer points.
    **options
        `network`, `recipe`, `input_transform` and `outcome_transform`; see `AnchoredSurrogate`. By default
        the paper's network and recipe, and standardised inputs.
    """

    shared_options = ("n_folds",)
    net: nn.Module
    error_net: nn.Module
    scale: Tensor

    def __init__(self, train_X: Tensor, train_Y: Tensor, *, n_folds: int = 5, **options: Any) -> None:
        super().__init__(train_X, train_Y, **options)
        if n_folds < 2:
            raise ValueError(f"n_folds must be at least 2, got {n_folds}.")
        self.n_folds = min(n_folds, len(train_X))

    def posterior(
        self,
        X: Tensor,
        output_indices: list[int] | None = None,
        observation_noise: bool | Tensor = False,
        posterior_transform: PosteriorTransform | None = None,
    ) -> Posterior:
        """Return the Gaussian of prediction and expected squared error at X, of shape (..., q, d).

        `observation_noise` is ignored: noise is part of the errors that DEUP has learned.
        """
        self._check_points(X)
        self.eval()
        x = self.transform_inputs(X)
        rows, shape = x.reshape(-1, x.shape[-1]), (*x.shape[:-1], self.num_outputs)
        variance = self.scale.square() * expected_square(self.error_net(rows))
        posterior: Any = independent(self.net(rows).reshape(shape), variance.reshape(shape))
        if hasattr(self, "outcome_transform"):
            posterior = self.outcome_transform.untransform_posterior(posterior, X=X)
        if output_indices is not None:
            mean, variance = (t[..., output_indices] for t in (posterior.mean, posterior.variance))
            posterior = independent(mean, variance)
        return posterior if posterior_transform is None else posterior_transform(posterior=posterior, X=X)

    @classmethod
    def train_together(cls, surrogates: Sequence[Any], xs: Tensors, ys: Tensors) -> None:
        """Train both networks of all surrogates, as `deltauq.baselines.DEUPNetwork` does for one."""
        recipe = surrogates[0].recipe
        seeds = [s.recipe.seed for s in surrogates]
        held_out, errors = _out_of_fold_errors(surrogates, xs, ys)
        nets = [s.seeded_network(s.recipe.seed) for s in surrogates]
        train_networks(nets, xs, ys, recipe, seeds)
        scales, squares = scaled_squares(errors)
        error_nets = [s.seeded_network(derive_seed(s.recipe.seed, -1)) for s in surrogates]
        train_networks(error_nets, list(held_out), list(squares), recipe, seeds, error_nll)
        for surrogate, net, error_net, scale in zip(surrogates, nets, error_nets, scales, strict=True):
            surrogate.net, surrogate.error_net, surrogate.scale = net, error_net, scale


class GPSurrogate(SingleTaskGP):
    """BoTorch's `SingleTaskGP` with a method `fit`; inputs are scaled to [0, 1] and outcomes standardised.

    All options are those of `SingleTaskGP`; `outcome_transform` may also be "standardize" or "clip".
    """

    def __init__(self, train_X: Tensor, train_Y: Tensor, **options: Any) -> None:
        options.setdefault("input_transform", Normalize(train_X.shape[-1]))
        if (transform := options.get("outcome_transform")) is not None:
            options["outcome_transform"] = make_transform("outcome", transform, train_Y.shape[-1])
        super().__init__(train_X, train_Y, **options)

    def fit(self) -> Self:
        """Maximise the marginal likelihood."""
        fit_gpytorch_mll(ExactMarginalLogLikelihood(self.likelihood, self))
        return self


def _out_of_fold_errors(
    surrogates: Sequence[DEUPSurrogate], xs: Tensors, ys: Tensors
) -> tuple[Tensor, Tensor]:
    """Return held-out points and their errors, of shapes (k, h, d) and (k, h, m), for k surrogates."""
    n, n_folds = len(xs[0]), surrogates[0].n_folds
    nets, seeds, training, held_out = [], [], [], []
    for surrogate, x, y in zip(surrogates, xs, ys, strict=True):
        seed = surrogate.recipe.seed
        for k, (fold, others) in enumerate(zip(*split_folds(n, n_folds, seed), strict=True)):
            seeds.append(seed + k)
            nets.append(surrogate.seeded_network(seed + k))
            training.append((x[others], y[others]))
            held_out.append((x[fold], y[fold]))
    train_networks(nets, [x for x, _ in training], [y for _, y in training], surrogates[0].recipe, seeds)
    with torch.no_grad():
        errors = torch.cat([y - net(x) for net, (x, y) in zip(nets, held_out, strict=True)])
    points = torch.cat([x for x, _ in held_out])
    return tuple(rows.unflatten(0, (len(surrogates), -1)) for rows in (points, errors))
