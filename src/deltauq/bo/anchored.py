"""`AnchoredSurrogate`: one anchored network as a BoTorch ensemble, the anchors being its members."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor, nn

from deltauq.bo._last_layer import refit
from deltauq.bo._surrogate import SampledSurrogate, train_nets
from deltauq.core import AnchorPrior, Encoding, get_encoding, get_prior
from deltauq.nn import MLP, Anchored
from deltauq.nn.training import Recipe

MakeNetwork = Callable[[int, int], nn.Module]
"""``network(d, m)``: a new network of d inputs and m outputs."""

PAPER_NETWORK: MakeNetwork = partial(MLP, hidden=(128, 128, 128))
PAPER_RECIPE = Recipe(epochs=200, lr=1e-3)
"""How the paper trains all its networks in sequential optimisation."""


def fourier_network(d: int, m: int) -> MLP:
    """Return the default network: one layer behind Fourier features, which are what is anchored.

    Their scale, for inputs between -0.5 and 0.5, falls with the number of inputs as points do along each of
    them. It was chosen on functions that are not the paper's.
    """
    return MLP(d, m, (64,), activation="silu", n_frequencies=32, fourier_scale=12.0 / d)


DEFAULT_RECIPE = Recipe(epochs=300, lr=1e-2, schedule="cosine")
"""Long enough for the anchors to agree at the points that were evaluated."""


def default_surrogate(X: Tensor, Y: Tensor) -> AnchoredSurrogate:
    """Return the surrogate of a search for the largest value, unless one says another: clipped outcomes."""
    return AnchoredSurrogate(X, Y, outcome_transform="clip")


PAIRINGS = ("shared", "random")
FEATURES = ("trained", "random")

PAPER: dict[str, Any] = {
    "network": PAPER_NETWORK,
    "recipe": PAPER_RECIPE,
    "n_anchors": 30,
    "pairing": "random",
    "train_anchors": "reverse",
    "calibrate": 1.0,
    "input_transform": "standardize",
}
"""The words of an `AnchoredSurrogate` as the paper has it."""


class AnchoredSurrogate(SampledSurrogate):
    """A network trained on [R, X - R], whose K anchors are the members of a BoTorch ensemble.

    The same anchors serve all points, so that samples at several points are joint: each is one function.

    Parameters
    ----------
    train_X : float tensor of shape (n, d)
        At least two points. The network has its dtype and device.
    train_Y : float tensor of shape (n, m)
    network : callable, or sequence of callables
        ``network(d, m)`` returns a new network; `deltauq.nn.MLP` is one. Without batch norm. By default one
        layer behind Fourier features. Of several, all are trained, and the one is kept to which points that
        are left out come as the least surprise; they must be of one architecture, and need `ridge`.
    recipe : Recipe
        Its seed decides initial weights, pairs and anchors.
    n_anchors : int, default=10
        K; at most as many as there are different anchors.
    anchors : {"data", "normal", "kmeans"}, tensor of shape (k, d) or AnchorPrior
        Where the K anchors come from. A tensor holds points like those of train_X; a prior sees
        transformed ones.
    pairing : {"shared", "random"}
        What points are paired with in training: in every step with all K anchors, the ones that the network
        predicts with; or with other points, anew in every epoch, as in the paper. Shared anchors agree at the
        points that were evaluated much sooner than away from them.
    n_train_anchors : int, default=1
        With random pairing: anchors that each point meets in an epoch, in one step.
    train_anchors : {"derangement", "reverse"}
        With random pairing: the other points in random order, or the batch in reverse order as in the paper.
    encoding : {"difference", "identity", "two-anchor"} or Encoding
    features : {"trained", "random"}
        Whether the layers before the last are trained, or stay as they were drawn; then all training is to
        solve for the last layer, of the recipe only the seed counts, and `ridge` is needed.
    ridge : float or sequence of floats, optional
        Replace the last linear layer by the solution of ridge regression on all points and anchors, after
        the training if there is any. The penalty is relative to the mean square of what the layer sees; of
        several, points left out decide.
    calibrate : float or "left-out", default=4
        Factor on the deviations of the K functions from their mean, and so on σ: the spread over anchors
        ranks errors, but is smaller than they are. "left-out" measures it, for each output, at points left
        out of the ridge regression.
    posterior : {"ensemble", "gaussian"}
        How it answers: the K functions themselves (BoTorch's variance then divides by K - 1), or the Gaussian
        of their mean and their variance (1/K), the paper's way and that of analytic acquisition functions.
    input_transform : InputTransform, "range", "standardize" or None
        "range", the default, puts the evaluated points between -0.5 and 0.5. Where the domain is known,
        BoTorch's ``Normalize(d, bounds=bounds, center=0.0)`` does so for all of it.
    outcome_transform : OutcomeTransform, "standardize", "clip" or None
        "clip" raises outcomes far below the median to a floor (`ClipWorst`) before it standardises: for
        searches of the largest value, and wrong where the smallest is looked for.

    Attributes
    ----------
    net : Anchored
        After `fit`.
    factor : tensor of shape (m,)
        What the deviations are multiplied with, after `fit`.

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

    net: Anchored
    factor: Tensor
    recipe: Recipe

    def __init__(
        self,
        train_X: Tensor,
        train_Y: Tensor,
        *,
        network: MakeNetwork | Sequence[MakeNetwork] = fourier_network,
        recipe: Recipe = DEFAULT_RECIPE,
        n_anchors: int = 10,
        anchors: str | Tensor | AnchorPrior = "data",
        pairing: str = "shared",
        n_train_anchors: int = 1,
        train_anchors: str = "derangement",
        encoding: str | Encoding = "difference",
        features: str = "trained",
        ridge: float | Sequence[float] | None = None,
        calibrate: float | Literal["left-out"] = 4.0,
        input_transform: Any = "range",
        **words: Any,
    ) -> None:
        super().__init__(train_X, train_Y, input_transform=input_transform, **words)
        networks = tuple(network) if isinstance(network, Sequence) else (network,)
        for make in networks:
            require_maker(make)
        if n_anchors < 2:
            raise ValueError(f"n_anchors must be at least 2, got {n_anchors}.")
        if pairing not in PAIRINGS:
            raise ValueError(f"pairing must be one of {list(PAIRINGS)}, got {pairing!r}.")
        if pairing == "shared" and get_encoding(encoding).n_anchors != 1:
            raise ValueError(f"shared pairing is for encodings of one anchor, got {encoding!r}.")
        if ridge is not None and get_encoding(encoding).n_anchors != 1:
            raise ValueError(f"ridge is for encodings of one anchor, got {encoding!r}.")
        if n_train_anchors < 1:
            raise ValueError(f"n_train_anchors must be at least 1, got {n_train_anchors}.")
        ridges = tuple(ridge) if isinstance(ridge, Sequence) else () if ridge is None else (ridge,)
        _check_closed_form(len(networks), features, ridges, calibrate)
        self.networks = networks
        self.recipe = recipe
        self.n_anchors = n_anchors
        self.anchors = anchors
        self.pairing = pairing
        self.n_train_anchors = n_train_anchors
        self.train_anchors = train_anchors
        self.encoding = encoding
        self.features = features
        self.ridges = ridges
        self.calibrate = calibrate
        self.register_buffer("factor", torch.ones(self.num_outputs).to(train_X))

    def _train(self, x: Tensor, y: Tensor) -> None:
        self._train_together([self], [x], [y])

    @classmethod
    def _train_together(cls, surrogates: Sequence[Any], xs: Sequence[Tensor], ys: Sequence[Tensor]) -> None:
        first = surrogates[0]
        nets = [
            surrogate._new_net(network, x)
            for surrogate, x in zip(surrogates, xs, strict=True)
            for network in surrogate.networks
        ]
        c = len(first.networks)
        xs, ys = ([t for t in tensors for _ in range(c)] for tensors in (xs, ys))
        seeds = [surrogate.recipe.seed for surrogate in surrogates for _ in range(c)]
        if first.features == "trained":
            first._train_nets(nets, xs, ys, seeds)
        for j, surrogate in enumerate(surrogates):
            surrogate._keep(nets[c * j : c * (j + 1)], xs[c * j], ys[c * j])

    def _train_nets(
        self, nets: Sequence[Anchored], xs: Sequence[Tensor], ys: Sequence[Tensor], seeds: Sequence[int]
    ) -> None:
        """Train networks at once, each on its points of shape (n, d) and values of shape (n, m)."""
        if self.pairing == "random":
            train_nets(nets, xs, ys, self.recipe, seeds, times=self.n_train_anchors)
            return
        k = len(nets[0].anchors)
        pairs = [_all_pairs(x, net.anchors) for x, net in zip(xs, nets, strict=True)]
        recipe = replace(self.recipe, batch_size=k * self.recipe.batch_size)
        train_nets([_OfPairs(net) for net in nets], pairs, [y.repeat(k, 1) for y in ys], recipe, seeds)

    def _keep(self, nets: Sequence[Anchored], x: Tensor, y: Tensor) -> None:
        """Keep one of the trained networks, and say what its deviations are multiplied with."""
        self.net = nets[0]
        if self.calibrate != "left-out":
            self.factor.fill_(self.calibrate)
        if not self.ridges:
            return
        left_out = [refit(_OfPairs(net), _all_pairs(x, net.anchors), y, self.ridges) for net in nets]
        best = min(range(len(nets)), key=lambda k: left_out[k].surprise)
        self.net = nets[best]
        if self.calibrate == "left-out":
            self.factor.copy_(left_out[best].factor)

    def _setting(self) -> tuple[Any, ...]:
        recipe = replace(self.recipe, seed=0)
        return (
            *super()._setting(),
            self.networks,
            self.features,
            recipe,
            self.n_anchors,
            self.pairing,
            self.n_train_anchors,
            self.train_anchors,
            self.encoding,
        )

    def _values(self, x: Tensor) -> Tensor:
        values: Any = self.net.posterior(x, keep_samples=True).samples
        mean = values.mean(0)
        return mean + self.factor * (values - mean)

    def _new_net(self, network: MakeNetwork, x: Tensor) -> Anchored:
        """Return an untrained network with its K anchors; the random state outside stays."""
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(self.recipe.seed)
            made = network(x.shape[1], self.num_outputs)
            net = Anchored(made, self.n_anchors, encoding=self.encoding, train_anchors=self.train_anchors)
        net = net.to(x)
        anchors = self.anchors
        if isinstance(anchors, Tensor):
            anchors = self.transform_inputs(anchors.to(x))
        prior = get_prior(anchors)
        support = prior.support(x)
        k = self.n_anchors if support is None else min(self.n_anchors, support)
        drawn = prior.draw(x, k, np.random.default_rng(self.recipe.seed))
        net.set_anchors(drawn, k)
        return net


def _check_closed_form(n_networks: int, features: str, ridges: Sequence[float], calibrate: Any) -> None:
    """Refuse what cannot be had of a last layer, or not without solving for it."""
    if n_networks < 1:
        raise ValueError("there is no network to train.")
    if features not in FEATURES:
        raise ValueError(f"features must be one of {list(FEATURES)}, got {features!r}.")
    for ridge in ridges:
        if not 0.0 < ridge < math.inf:
            raise ValueError(f"ridge must be positive, got {ridge}.")
    if isinstance(calibrate, str):
        if calibrate != "left-out":
            raise ValueError(f'calibrate must be a positive number or "left-out", got {calibrate!r}.')
    elif not 0.0 < calibrate < math.inf:
        raise ValueError(f"calibrate must be a positive number, got {calibrate}.")
    if not ridges and features == "random":
        raise ValueError("with random features the last layer is solved for: give ridge.")
    if not ridges and (n_networks > 1 or calibrate == "left-out"):
        raise ValueError("leaving points out needs ridge, which has closed forms for it.")


def require_maker(network: Any) -> None:
    """Refuse a network where a function that makes one is needed."""
    if isinstance(network, nn.Module) or not callable(network):
        raise TypeError(
            f"network must be a function of (d, m) that returns a new network, got {type(network).__name__}."
        )


class _OfPairs(nn.Module):
    """An anchored network as a plain one of rows [X, R], which says itself what is paired with what."""

    def __init__(self, net: Anchored) -> None:
        super().__init__()
        self.net = net

    def forward(self, pairs: Tensor) -> Tensor:
        """Return outputs of shape (p, m) for pairs of shape (p, 2 * d)."""
        x, anchors = pairs.chunk(2, dim=-1)
        outputs: Tensor = self.net(x, anchors=anchors[None])
        return outputs


def _all_pairs(x: Tensor, anchors: Tensor) -> Tensor:
    """Return every point with every anchor, rows [X, R] of shape (k * n, 2 * d), anchor by anchor."""
    return torch.cat([x.repeat(len(anchors), 1), anchors.repeat_interleave(len(x), 0)], dim=1)
