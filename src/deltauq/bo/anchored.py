"""`AnchoredSurrogate`: one anchored network as a BoTorch ensemble, the anchors being its members."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from deltauq.bo._surrogate import SampledSurrogate
from deltauq.core import AnchorPrior, Encoding, get_prior
from deltauq.nn import MLP, Anchored
from deltauq.nn.recipe import Recipe
from deltauq.nn.vectorised import fit_many

MakeNetwork = Callable[[int, int], nn.Module]
"""``network(d, m)``: a new network of d inputs and m outputs."""

PAPER_NETWORK: MakeNetwork = partial(MLP, hidden=(128, 128, 128))
PAPER_RECIPE = Recipe(epochs=200, lr=1e-3)
"""How the paper trains all its networks in sequential optimisation."""


class AnchoredSurrogate(SampledSurrogate):
    """A network trained on [R, X - R], whose K anchors are the members of a BoTorch ensemble.

    The same anchors serve all points, so that samples at several points are joint: each is one function.

    Parameters
    ----------
    train_X : float tensor of shape (n, d)
        At least two points. The network has its dtype and device.
    train_Y : float tensor of shape (n, m)
    network : callable
        ``network(d, m)`` returns a new network; `deltauq.nn.MLP` is one. Without batch norm.
    recipe : Recipe
        Its seed decides initial weights, pairs and anchors.
    n_anchors : int, default=30
        K; at most as many as there are different anchors.
    anchors : {"data", "normal", "kmeans"}, tensor of shape (k, d) or AnchorPrior
        Where the K anchors come from. A tensor holds points like those of train_X; a prior sees
        transformed ones.
    n_train_anchors : int, default=1
        Anchors that each point meets in an epoch, in one step.
    train_anchors : {"derangement", "reverse"}
        How points are paired in training: at random, or as in the paper.
    encoding : {"difference", "identity", "two-anchor"} or Encoding
    posterior : {"ensemble", "gaussian"}
        How it answers: the K functions themselves (BoTorch's variance then divides by K - 1), or the Gaussian
        of their mean and their variance (1/K), the paper's way and that of analytic acquisition functions.
    input_transform : InputTransform, "standardize" or None
    outcome_transform : OutcomeTransform, "standardize" or None

    Attributes
    ----------
    net : Anchored
        After `fit`.

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

    def __init__(
        self,
        train_X: Tensor,
        train_Y: Tensor,
        *,
        network: MakeNetwork = PAPER_NETWORK,
        recipe: Recipe = PAPER_RECIPE,
        n_anchors: int = 30,
        anchors: str | Tensor | AnchorPrior = "data",
        n_train_anchors: int = 1,
        train_anchors: str = "derangement",
        encoding: str | Encoding = "difference",
        **words: Any,
    ) -> None:
        super().__init__(train_X, train_Y, **words)
        require_maker(network)
        if n_anchors < 2:
            raise ValueError(f"n_anchors must be at least 2, got {n_anchors}.")
        if n_train_anchors < 1:
            raise ValueError(f"n_train_anchors must be at least 1, got {n_train_anchors}.")
        self.network = network
        self.recipe = recipe
        self.n_anchors = n_anchors
        self.anchors = anchors
        self.n_train_anchors = n_train_anchors
        self.train_anchors = train_anchors
        self.encoding = encoding

    def _train(self, x: Tensor, y: Tensor) -> None:
        self.net = self._new_net(x)
        _train_nets([self], [x], [y])

    def _values(self, x: Tensor) -> Tensor:
        samples: Any = self.net.posterior(x, keep_samples=True).samples
        return samples

    def _new_net(self, x: Tensor) -> Anchored:
        """Return the untrained network; the random state outside stays."""
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(self.recipe.seed)
            network = self.network(x.shape[1], self.num_outputs)
            net = Anchored(network, self.n_anchors, encoding=self.encoding, train_anchors=self.train_anchors)
        return net.to(x)

    def _set_anchors(self, x: Tensor) -> None:
        """Give the network its K anchors, given all transformed points."""
        anchors = self.anchors
        if isinstance(anchors, Tensor):
            anchors = self.transform_inputs(anchors.to(x))
        prior = get_prior(anchors)
        support = prior.support(x)
        k = self.n_anchors if support is None else min(self.n_anchors, support)
        drawn = prior.draw(x, k, np.random.default_rng(self.recipe.seed))
        self.net.set_anchors(drawn, k)


def require_maker(network: Any) -> None:
    """Refuse a network where a function that makes one is needed."""
    if isinstance(network, nn.Module) or not callable(network):
        raise TypeError(
            f"network must be a function of (d, m) that returns a new network, got {type(network).__name__}."
        )


def fit_together(surrogates: Sequence[AnchoredSurrogate]) -> None:
    """Train surrogates of one setting at once: several seeds, or several runs of a study.

    Each becomes what its own `fit` would make of it, to rounding, in little more time than one takes.

    Parameters
    ----------
    surrogates : sequence of AnchoredSurrogate
        Alike in the number of points, inputs and outputs, and in everything but data, transforms, anchors and
        the seed of their recipe.
    """
    if not surrogates:
        raise ValueError("there is no surrogate to train.")
    first = surrogates[0]
    for surrogate in surrogates:
        if _setting(surrogate) != _setting(first):
            raise ValueError("surrogates are trained together only if they differ in data and seed alone.")
    data = [surrogate._transformed_data() for surrogate in surrogates]
    for surrogate, (x, _) in zip(surrogates, data, strict=True):
        surrogate.net = surrogate._new_net(x)
    _train_nets(surrogates, [x for x, _ in data], [y for _, y in data])
    for surrogate in surrogates:
        surrogate._finished()


def _setting(surrogate: AnchoredSurrogate) -> tuple[Any, ...]:
    """Return what surrogates that are trained together have in common."""
    x = surrogate.train_inputs[0]
    return (
        x.shape,
        x.dtype,
        x.device,
        surrogate.num_outputs,
        surrogate.network,
        replace(surrogate.recipe, seed=0),
        surrogate.n_train_anchors,
        surrogate.train_anchors,
        surrogate.encoding,
    )


def _train_nets(surrogates: Sequence[AnchoredSurrogate], xs: Sequence[Tensor], ys: Sequence[Tensor]) -> None:
    """Train the networks of surrogates of one setting on their own rows, and set their anchors."""
    first, n = surrogates[0], len(xs[0])
    # A row that stands several times in an epoch meets an anchor each time.
    times = first.n_train_anchors
    rows = torch.arange(len(xs) * n).view(-1, n).repeat(1, times)
    recipe = replace(first.recipe, batch_size=first.recipe.batch_size * times)
    nets = [surrogate.net for surrogate in surrogates]
    seeds = [surrogate.recipe.seed for surrogate in surrogates]
    fit_many(nets, torch.cat(list(xs)), torch.cat(list(ys)), recipe, rows=rows, seeds=seeds)
    for surrogate, x in zip(surrogates, xs, strict=True):
        surrogate._set_anchors(x)
