"""Anchored networks and scikit-learn regressors as BoTorch ensembles with one member per anchor."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Literal, Self

import numpy as np
import torch
from botorch.exceptions.errors import UnsupportedError
from sklearn.base import clone
from torch import Tensor, nn

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
from deltauq.nn import MLP, Anchored
from deltauq.nn.training import Recipe

PAPER_SETTINGS: dict[str, Any] = {
    "network": PAPER_NETWORK,
    "recipe": PAPER_RECIPE,
    "n_anchors": 30,
    "train_anchors": "reverse",
    "calibrate": 1.0,
    "input_transform": "standardize",
}
"""The parameters of an `AnchoredSurrogate` as in the paper."""

DEFAULT_RECIPE = Recipe(epochs=300, lr=1e-2, schedule="cosine")
"""Long enough for the anchors to agree at the evaluated points."""


def fourier_network(d: int, m: int) -> MLP:
    """Return the default network: one layer behind Fourier features, which are what is anchored.

    The scale, for inputs between -0.5 and 0.5, is divided by the number of inputs, as the density of points
    along each of them is. It was chosen on functions that are not the paper's.
    """
    return MLP(d, m, (64,), activation="silu", n_frequencies=32, fourier_scale=12.0 / d)


class AnchoredSurrogate(NetworkSurrogate, SampledSurrogate):
    """A network trained on [R, X - R], whose K anchors are the members of a BoTorch ensemble.

    The same anchors serve all points, so that samples at several points are joint: each is one function.

    Parameters
    ----------
    train_X : float tensor of shape (n, d)
        At least two points. The network has their dtype and device.
    train_Y : float tensor of shape (n, m)
        Outcomes at these points.
    network : callable
        ``network(d, m)`` returns a new network; `deltauq.nn.MLP` is one. By default one layer behind Fourier
        features.
    recipe : Recipe
        How to train. Its seed determines initial weights, the order of rows and anchors.
    n_anchors : int, default=10
        K, the number of anchors drawn from the evaluated points; at most n.
    train_anchors : {"shared", "derangement", "reverse"}
        Anchors of the points in training. "shared": the K anchors of prediction, each point with all of them
        in every step; they then agree at the evaluated points much sooner than away from them. Otherwise
        other points of the batch: in random order, or the batch in reverse order as in the paper.
    calibrate : float, default=4
        Factor on σ: the standard deviation over anchors ranks errors, but is smaller than they are.
    posterior : {"ensemble", "gaussian"}
        Form of the posterior: the K functions themselves (BoTorch's variance then divides by K - 1), or the
        Gaussian with their mean and variance (dividing by K), as in the paper and for analytic acquisition
        functions.
    input_transform : InputTransform, "range", "standardize" or None
        "range", the default, scales the evaluated points to [-0.5, 0.5]. If the domain is known, BoTorch's
        ``Normalize(d, bounds=bounds, center=0.0)`` does so for all of it.
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

    shared_options = ("n_anchors", "train_anchors")
    net: Anchored

    def __init__(
        self,
        train_X: Tensor,
        train_Y: Tensor,
        *,
        network: MakeNetwork = fourier_network,
        recipe: Recipe = DEFAULT_RECIPE,
        n_anchors: int = 10,
        train_anchors: Literal["shared", "derangement", "reverse"] = "shared",
        calibrate: float = 4.0,
        posterior: Literal["ensemble", "gaussian"] = "ensemble",
        input_transform: Any = "range",
        outcome_transform: Any = "standardize",
    ) -> None:
        super().__init__(
            train_X,
            train_Y,
            network=network,
            recipe=recipe,
            posterior=posterior,
            input_transform=input_transform,
            outcome_transform=outcome_transform,
        )
        if n_anchors < 2:
            raise ValueError(f"n_anchors must be at least 2, got {n_anchors}.")
        if train_anchors not in ("shared", "derangement", "reverse"):
            options = '"shared", "derangement" or "reverse"'
            raise ValueError(f"train_anchors must be {options}, got {train_anchors!r}.")
        if not 0.0 < calibrate < math.inf:
            raise ValueError(f"calibrate must be a positive number, got {calibrate}.")
        self.n_anchors = n_anchors
        self.train_anchors = train_anchors
        self.calibrate = calibrate

    def make_network(self) -> nn.Module:
        """Return an untrained anchored network."""
        in_batch = "reverse" if self.train_anchors == "reverse" else "derangement"
        return Anchored(super().make_network(), self.n_anchors, train_anchors=in_batch)

    @classmethod
    def train_together(cls, surrogates: Sequence[Any], xs: Sequence[Tensor], ys: Sequence[Tensor]) -> None:
        """Train the networks of all surrogates."""
        first = surrogates[0]
        seeds = [surrogate.recipe.seed for surrogate in surrogates]
        nets = [surrogate.seeded_network(seed) for surrogate, seed in zip(surrogates, seeds, strict=True)]
        k = min(first.n_anchors, len(xs[0]))
        for net, x, seed in zip(nets, xs, seeds, strict=True):
            net.set_anchors(get_prior("data").draw(Anchors(x), k, np.random.default_rng(seed)).X)
        if first.train_anchors == "shared":
            # Every point with every anchor, anchor by anchor.
            anchors = [net.anchors.repeat_interleave(len(xs[0]), 0) for net in nets]
            pairs = [torch.cat([x.repeat(k, 1), r], dim=1) for x, r in zip(xs, anchors, strict=True)]
            recipe = replace(first.recipe, batch_size=k * first.recipe.batch_size)
            train_networks([_Paired(net) for net in nets], pairs, [y.repeat(k, 1) for y in ys], recipe, seeds)
        else:
            train_networks(nets, xs, ys, first.recipe, seeds)
        for surrogate, net in zip(surrogates, nets, strict=True):
            surrogate.net = net

    def function_values(self, x: Tensor) -> Tensor:
        """Return values of shape (K, n, m) under each anchor, their deviations multiplied by `calibrate`."""
        values: Any = self.net.posterior(x, keep_samples=True).samples
        mean = values.mean(0)
        return mean + self.calibrate * (values - mean)


default_surrogate = partial(AnchoredSurrogate, outcome_transform="clip")
"""The surrogate that maximises by default."""


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
        `posterior`, `input_transform` and `outcome_transform`; see `AnchoredSurrogate`. Inputs are
        standardised by default.

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
    """An anchored network as a function of rows [X, R], so that the training data contain the pairs."""

    def __init__(self, net: Anchored) -> None:
        super().__init__()
        self.net = net

    def forward(self, pairs: Tensor) -> Tensor:
        """Return outputs of shape (p, m) for pairs of shape (p, 2 * d)."""
        x, anchors = pairs.chunk(2, dim=-1)
        outputs: Tensor = self.net(x, anchors=anchors[None])
        return outputs


def _as_numpy(x: Tensor) -> np.ndarray:
    """Return a tensor as an array of float64."""
    return np.asarray(x.detach().cpu(), dtype=np.float64)
