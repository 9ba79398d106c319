"""Anchored networks and scikit-learn regressors as BoTorch ensembles with one member per anchor."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Literal, Self

import numpy as np
import torch
from botorch.exceptions.errors import UnsupportedError
from sklearn.base import clone
from torch import Tensor, nn

from deltauq.baselines.network import seeded_network
from deltauq.bo.frequency import choose_frequency
from deltauq.bo.surrogate import (
    PAPER_NETWORK,
    PAPER_RECIPE,
    MakeNetwork,
    NetworkSurrogate,
    SampledSurrogate,
    train_networks,
)
from deltauq.core import Anchors, get_prior
from deltauq.estimators import AnchoredRegressor
from deltauq.nn import Anchored
from deltauq.nn.networks import FourierFeatures
from deltauq.nn.training import Recipe

DEFAULT_RECIPE = Recipe(epochs=300, lr=1e-2, schedule="cosine")
"""Long enough for the anchors to agree at the evaluated points."""
N_FREQUENCIES = 32
OUTPUT_GAIN = 4.0
"""Factor on the initial weights of the last layer. With it, untrained differences are about half as large as
those of standardised outcomes. Training removes them at the evaluated points; away from these, they remain as
the uncertainty."""


class InputsAndWaves(nn.Module):
    """The inputs themselves, which extrapolate, and random Fourier features, which follow fast changes."""

    def __init__(self, n_in: int, frequency: float) -> None:
        super().__init__()
        self.waves = FourierFeatures(n_in, N_FREQUENCIES, frequency)

    def forward(self, x: Tensor) -> Tensor:
        """Return features of shape (n, n_in + 2 * N_FREQUENCIES)."""
        return torch.cat([x, self.waves(x)], dim=-1)


def default_network(d: int, m: int, frequency: float = 1.0) -> nn.Module:
    """Return the default network: one layer behind the inputs and Fourier features of them."""
    last = nn.Linear(64, m)
    with torch.no_grad():
        last.weight *= OUTPUT_GAIN
    return nn.Sequential(InputsAndWaves(d, frequency), nn.Linear(d + 2 * N_FREQUENCIES, 64), nn.SiLU(), last)


def paper_network(d: int, m: int) -> Anchored:
    """Return the paper's anchored network, which predicts values and takes its anchors from the batch."""
    return Anchored(PAPER_NETWORK(d, m), 30, train_anchors="reverse")


PAPER_SETTINGS: dict[str, Any] = {"network": paper_network, "recipe": PAPER_RECIPE}
"""The parameters of an `AnchoredSurrogate` as in the paper."""


class AnchoredSurrogate(NetworkSurrogate, SampledSurrogate):
    """A network that predicts differences from K evaluated points, which are the members of an ensemble.

    These labelled anchors are the best points and others drawn at random. From each of them the network
    predicts every point as the outcome of the anchor plus a learned difference. The predictions agree at the
    evaluated points, and their spread away from them is the uncertainty. The same anchors serve all points,
    so that samples at several points are joint: each is one function.

    Parameters
    ----------
    train_X : float tensor of shape (n, d)
        At least two points. The network has their dtype and device.
    train_Y : float tensor of shape (n, m)
        Outcomes at these points.
    network : callable, optional
        ``network(d, m)`` returns a new network, such as `deltauq.nn.MLP`. If it returns an `Anchored`
        network, that is used as it is. By default one layer behind the inputs and Fourier features of them,
        whose frequency is chosen from the data: the one that predicts points left out best.
    recipe : Recipe
        How to train. Its seed determines initial weights, the order of rows and anchors. Every batch contains
        the pairs of its points with all anchors.
    n_anchors : int, default=10
        K, the number of anchors, a third of which are the best points; at most n.
    posterior : {"ensemble", "gaussian"}
        Form of the posterior: the K functions themselves (BoTorch's variance then divides by K - 1), or the
        Gaussian with their mean and variance (dividing by K), as in the paper and for analytic acquisition
        functions.
    input_transform : InputTransform, "standardize", "range" or None
        "range" scales the evaluated points to [-0.5, 0.5].
    outcome_transform : OutcomeTransform, "standardize", "clip" or None
        "clip" raises outcomes far below the median to a floor (`ClipWorst`) before standardising: for
        maximisation, and wrong if the smallest value is needed.

    Attributes
    ----------
    net : Anchored
        The trained network.

    Examples
    --------
    >>> import torch
    >>> from botorch.acquisition import qLogExpectedImprovement
    >>> from botorch.optim import optimize_acqf
    >>> from deltauq.bo import AnchoredSurrogate
    >>> X = torch.rand(8, 2, dtype=torch.float64)
    >>> Y = -(X - 0.5).square().sum(-1, keepdim=True)
    >>> model = AnchoredSurrogate(X, Y).fit()
    >>> bounds = torch.tensor([[0.0, 0.0], [1.0, 1.0]], dtype=torch.float64)
    >>> acquisition = qLogExpectedImprovement(model, best_f=Y.max())
    >>> x, _ = optimize_acqf(acquisition, bounds, q=1, num_restarts=2, raw_samples=32)
    >>> x.shape
    torch.Size([1, 2])
    """

    shared_options = ("n_anchors",)
    net: Anchored

    def __init__(
        self,
        train_X: Tensor,
        train_Y: Tensor,
        *,
        network: MakeNetwork | None = None,
        recipe: Recipe = DEFAULT_RECIPE,
        n_anchors: int = 10,
        posterior: Literal["ensemble", "gaussian"] = "ensemble",
        input_transform: Any = "standardize",
        outcome_transform: Any = "standardize",
    ) -> None:
        super().__init__(
            train_X,
            train_Y,
            network=default_network if network is None else network,
            recipe=recipe,
            posterior=posterior,
            input_transform=input_transform,
            outcome_transform=outcome_transform,
        )
        if n_anchors < 2:
            raise ValueError(f"n_anchors must be at least 2, got {n_anchors}.")
        self.n_anchors = n_anchors

    @classmethod
    def train_together(cls, surrogates: Sequence[Any], xs: Sequence[Tensor], ys: Sequence[Tensor]) -> None:
        """Train the networks of all surrogates."""
        recipe, seeds = surrogates[0].recipe, [surrogate.recipe.seed for surrogate in surrogates]
        for surrogate, x, y in zip(surrogates, xs, ys, strict=True):
            surrogate.net = surrogate.untrained(x, y)
        nets = [surrogate.net for surrogate in surrogates]
        if not nets[0].target.needs_labels:
            train_networks(nets, xs, ys, recipe, seeds)
            return
        k = len(nets[0].anchors)
        rows = [_paired(net, x) for net, x in zip(nets, xs, strict=True)]
        recipe = replace(recipe, batch_size=k * recipe.batch_size)
        train_networks([_Paired(net) for net in nets], rows, [y.repeat(k, 1) for y in ys], recipe, seeds)

    def untrained(self, x: Tensor, y: Tensor) -> Anchored:
        """Return an untrained network with its anchors, given transformed points and outcomes."""
        make, d, m = self.network, x.shape[1], y.shape[1]
        if make is default_network:
            make = partial(default_network, frequency=choose_frequency(x, y))

        def anchored() -> Anchored:
            net = make(d, m)
            return net if isinstance(net, Anchored) else Anchored(net, self.n_anchors, target="difference")

        seed = self.recipe.seed
        net: Any = seeded_network(anchored, seed).to(x)
        k, rng = min(net.n_anchors, len(x)), np.random.default_rng(seed)
        if net.target.needs_labels:
            order, n_best = y.mean(1).argsort(descending=True).cpu().numpy(), k // 3
            rows = np.concatenate([order[:n_best], rng.permutation(order[n_best:])[: k - n_best]])
            net.set_anchors(x[rows], y[rows])
        else:
            net.set_anchors(get_prior("data").draw(Anchors(x), k, rng).X)
        return net

    def function_values(self, x: Tensor) -> Tensor:
        """Return values of shape (K, n, m) under each anchor."""
        values: Any = self.net.posterior(x, keep_samples=True).samples
        return values


class SklearnSurrogate(SampledSurrogate):
    """An anchored scikit-learn regressor, whose K anchors are the members of a BoTorch ensemble.

    It has no gradients: call `optimize_acqf` with ``options={"with_grad": False}``, or, for trees, which are
    constant between their thresholds, `optimize_acqf_discrete` with many points.

    Parameters
    ----------
    train_X, train_Y : float tensors of shapes (n, d) and (n, m)
        At least two points and their outcomes.
    regressor : AnchoredRegressor, optional
        Cloned before it is fitted; by default an anchored random forest with random seed 0. Its `center` and
        its calibrated scale are used.
    **options
        `posterior`, `input_transform` and `outcome_transform`; see `AnchoredSurrogate`.

    Attributes
    ----------
    regressor_ : AnchoredRegressor
        The fitted regressor.
    """

    def __init__(
        self, train_X: Tensor, train_Y: Tensor, *, regressor: AnchoredRegressor | None = None, **options: Any
    ) -> None:
        super().__init__(train_X, train_Y, **options)
        if regressor is not None and not isinstance(regressor, AnchoredRegressor):
            raise TypeError(f"regressor must be an AnchoredRegressor, got {type(regressor).__name__}.")
        self.regressor = AnchoredRegressor(random_state=0) if regressor is None else regressor

    def reseed(self, seed: int) -> Self:
        """Replace the random seed of the regressor."""
        self.regressor = clone(self.regressor).set_params(random_state=seed)
        return self

    @classmethod
    def train_together(cls, surrogates: Sequence[Any], xs: Sequence[Tensor], ys: Sequence[Tensor]) -> None:
        """Fit the regressors one by one."""
        for surrogate, x, y in zip(surrogates, xs, ys, strict=True):
            target = y.squeeze(1) if surrogate.num_outputs == 1 else y
            surrogate.regressor_ = clone(surrogate.regressor).fit(_as_numpy(x), _as_numpy(target))

    def function_values(self, x: Tensor) -> Tensor:
        """Return values of shape (K, n, m) under each anchor, with the regressor's mean and scaled σ."""
        if x.requires_grad:
            raise UnsupportedError("there are no gradients: give optimize_acqf options={'with_grad': False}.")
        model: Any = self.regressor_
        posterior = model.posterior(_as_numpy(x), return_samples=True)
        std = posterior.std
        # Where all anchors agree there is nothing to scale.
        factor = np.divide(model.calibrated_std(std), std, out=np.ones_like(std), where=std > 0)
        values = posterior.mean + factor * (posterior.samples - posterior.samples.mean(0))
        return torch.as_tensor(values, dtype=x.dtype, device=x.device).reshape(len(values), len(x), -1)


class _Paired(nn.Module):
    """An anchored network as a function of rows [X, R, y_R], so that the training data contain the pairs."""

    def __init__(self, net: Anchored) -> None:
        super().__init__()
        self.net = net

    def forward(self, pairs: Tensor) -> Tensor:
        """Return predictions of shape (p, m) for pairs of shape (p, 2 * d + m)."""
        d = self.net.anchors.shape[1]
        x, anchors, targets = pairs[:, :d], pairs[:, d : 2 * d], pairs[:, 2 * d :]
        predictions: Tensor = self.net(x, anchors=anchors[None], anchor_targets=targets[None])
        return predictions


def _paired(net: Anchored, x: Tensor) -> Tensor:
    """Return the rows [X, R, y_R] of every point with every anchor, anchor by anchor."""
    anchors = torch.cat([net.anchors, net.anchor_targets], dim=1)
    return torch.cat([x.repeat(len(anchors), 1), anchors.repeat_interleave(len(x), 0)], dim=1)


def _as_numpy(x: Tensor) -> np.ndarray:
    """Return a tensor as an array of float64."""
    return np.asarray(x.detach().cpu(), dtype=np.float64)
