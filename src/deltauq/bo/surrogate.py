"""What all surrogates share: training data, transforms, training several at once, and posteriors."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, ClassVar, Literal, Self

import torch
from botorch.acquisition.objective import PosteriorTransform
from botorch.models.ensemble import EnsembleModel
from botorch.models.model import Model
from botorch.models.transforms.input import InputTransform
from botorch.models.transforms.outcome import OutcomeTransform
from botorch.posteriors.posterior import Posterior
from sklearn.exceptions import NotFittedError
from torch import Tensor, nn

from deltauq.baselines.network import check_factory, seeded_network
from deltauq.bo.posteriors import AnchorPosterior, as_gaussian
from deltauq.bo.transforms import make_transform
from deltauq.nn import MLP
from deltauq.nn.training import NotStackableError, Recipe, derive_seed, fit, fit_many, supervised

MakeNetwork = Callable[[int, int], nn.Module]
"""``network(d, m)``: a new network of d inputs and m outputs."""

PAPER_NETWORK: MakeNetwork = partial(MLP, hidden=(128, 128, 128))
PAPER_RECIPE = Recipe(epochs=200, lr=1e-3)
"""How the paper trains all its networks in sequential optimisation."""


class Surrogate(Model):
    """A BoTorch model of n evaluated points, with the parameters of `AnchoredSurrogate`. Call `fit` first."""

    shared_options: ClassVar[tuple[str, ...]] = ()
    """Attributes that are equal in surrogates trained together."""

    def __init__(
        self,
        train_X: Tensor,
        train_Y: Tensor,
        *,
        input_transform: InputTransform | Literal["standardize", "range"] | None = "standardize",
        outcome_transform: OutcomeTransform | Literal["standardize", "clip"] | None = "standardize",
    ) -> None:
        super().__init__()
        _check_training_data(train_X, train_Y)
        self.train_inputs = (train_X.detach(),)
        self.train_targets = train_Y.detach()
        d, m = train_X.shape[1], train_Y.shape[1]
        if input_transform is not None:
            self.input_transform = make_transform("input", input_transform, d).to(train_X)
        if outcome_transform is not None:
            self.outcome_transform = make_transform("outcome", outcome_transform, m).to(train_X)
        self.is_fitted = False

    @property
    def num_outputs(self) -> int:
        """The number m of outputs."""
        return self.train_targets.shape[1]

    batch_shape = torch.Size([])

    def fit(self) -> Self:
        """Train from scratch on the evaluated points."""
        fit_together([self])
        return self

    def reseed(self, seed: int) -> Self:
        """Change the seed of the next training: no two steps of a loop share the initial weights."""
        return self

    @classmethod
    @abstractmethod
    def train_together(cls, surrogates: Sequence[Any], xs: Sequence[Tensor], ys: Sequence[Tensor]) -> None:
        """Train surrogates with equal options, each on transformed points (n, d) and outcomes (n, m)."""

    def options(self) -> tuple[Any, ...]:
        """Return what surrogates have in common that can be trained together."""
        x = self.train_inputs[0]
        shared = [getattr(self, name) for name in self.shared_options]
        return (type(self), x.shape, x.dtype, x.device, self.num_outputs, *shared)

    @torch.no_grad()
    def transform_training_data(self) -> tuple[Tensor, Tensor]:
        """Fit the transforms and return the transformed points and outcomes."""
        x, y = self.train_inputs[0], self.train_targets
        if hasattr(self, "input_transform"):
            x = self.input_transform.train()(x)
            self.input_transform.eval()
        if hasattr(self, "outcome_transform"):
            y, _ = self.outcome_transform.train()(y, X=self.train_inputs[0])
            self.outcome_transform.eval()
        return x, y

    def _check_points(self, X: Tensor) -> None:
        """Raise an error if X cannot be predicted."""
        if not self.is_fitted:
            raise NotFittedError(f"this {type(self).__name__} is not fitted yet: call fit first.")
        d = self.train_inputs[0].shape[1]
        if X.ndim < 2 or X.shape[-1] != d:
            raise ValueError(f"points must have shape (..., q, {d}), got {tuple(X.shape)}.")

    def _set_transformed_inputs(self) -> None:
        """Keep the training inputs untransformed; BoTorch would transform them in eval()."""


class NetworkSurrogate(Surrogate):
    """A surrogate that trains networks; by default the paper's network, as in the paper."""

    def __init__(
        self,
        train_X: Tensor,
        train_Y: Tensor,
        *,
        network: MakeNetwork = PAPER_NETWORK,
        recipe: Recipe = PAPER_RECIPE,
        **options: Any,
    ) -> None:
        super().__init__(train_X, train_Y, **options)
        check_factory("network", network)
        self.network = network
        self.recipe = recipe

    def reseed(self, seed: int) -> Self:
        """Add another seed to that of the recipe; see `Surrogate.reseed`."""
        self.recipe = replace(self.recipe, seed=derive_seed(self.recipe.seed, seed))
        return self

    def make_network(self) -> nn.Module:
        """Return an untrained network."""
        return self.network(self.train_inputs[0].shape[1], self.num_outputs)

    def seeded_network(self, seed: int) -> Any:
        """Return a network with initial weights of this seed."""
        return seeded_network(self.make_network, seed).to(self.train_inputs[0])

    def options(self) -> tuple[Any, ...]:
        """Return what surrogates have in common that can be trained together."""
        return (*super().options(), self.network, replace(self.recipe, seed=0))


class SampledSurrogate(Surrogate, EnsembleModel):
    """A surrogate whose posterior consists of K functions, the same for all points."""

    def __init__(
        self,
        train_X: Tensor,
        train_Y: Tensor,
        *,
        posterior: Literal["ensemble", "gaussian"] = "ensemble",
        **options: Any,
    ) -> None:
        super().__init__(train_X, train_Y, **options)
        if posterior not in ("ensemble", "gaussian"):
            raise ValueError(f'posterior must be "ensemble" or "gaussian", got {posterior!r}.')
        self.posterior_kind = posterior

    def forward(self, X: Tensor) -> Tensor:
        """Return values of shape (..., K, q, m), before the outcome transform is undone, at transformed X."""
        self._check_points(X)
        values = self.function_values(X.reshape(-1, X.shape[-1]))
        return values.unflatten(1, X.shape[:-1]).movedim(0, -3)

    # The signatures of BoTorch's Model and EnsembleModel differ.
    def posterior(  # type: ignore[override]
        self,
        X: Tensor,
        output_indices: list[int] | None = None,
        posterior_transform: PosteriorTransform | None = None,
        **kwargs: Any,
    ) -> Posterior:
        """Return the joint posterior at X, of shape (..., q, d); parameters are those of BoTorch.

        There is no observation noise: ``observation_noise=True`` is ignored.
        """
        self._check_points(X)
        values = super().posterior(X, output_indices, **kwargs).values
        posterior = as_gaussian(values) if self.posterior_kind == "gaussian" else AnchorPosterior(values)
        return posterior if posterior_transform is None else posterior_transform(posterior=posterior, X=X)

    @abstractmethod
    def function_values(self, x: Tensor) -> Tensor:
        """Return values of shape (K, n, m) at transformed points of shape (n, d)."""


def fit_together(surrogates: Sequence[Any]) -> None:
    """Fit surrogates with equal options all at once, such as several seeds or several runs of a study.

    The networks are trained in one vectorised pass, which takes little longer than one of them. The result
    is that of fitting one by one, up to rounding; only dropout masks in training depend on how many are
    trained together. Other BoTorch models with a method `fit` are fitted one by one.

    Parameters
    ----------
    surrogates : sequence of Surrogate
        Of one class, with equal numbers of points, inputs and outputs and equal options. Data, transforms and
        the seed of the recipe may differ.
    """
    if not surrogates:
        raise ValueError("there is no surrogate to train.")
    first = surrogates[0]
    if not isinstance(first, Surrogate):
        for surrogate in surrogates:
            surrogate.fit()
        return
    if any(surrogate.options() != first.options() for surrogate in surrogates):
        raise ValueError("surrogates are trained together only if they differ in data and seed alone.")
    data = [surrogate.transform_training_data() for surrogate in surrogates]
    first.train_together(surrogates, [x for x, _ in data], [y for _, y in data])
    for surrogate in surrogates:
        surrogate.is_fitted = True
        surrogate.eval().requires_grad_(False)


def train_networks(
    nets: Sequence[nn.Module],
    xs: Sequence[Tensor],
    ys: Sequence[Tensor],
    recipe: Recipe,
    seeds: Sequence[int],
    criterion: Callable[[Tensor, Tensor], Tensor] | None = None,
) -> None:
    """Train networks of one architecture in place, each on its own data; all at once if they can be stacked.

    Each network has its own rows, of shapes (n, d) and (n, m), and its own random seed. The criterion is the
    squared error by default.
    """
    n = len(xs[0])
    rows = torch.arange(len(xs) * n).view(-1, n)
    try:
        fit_many(nets, torch.cat(list(xs)), torch.cat(list(ys)), recipe, criterion, rows=rows, seeds=seeds)
    except NotStackableError:
        objective = None if criterion is None else supervised(criterion)
        for net, x, y, seed in zip(nets, xs, ys, seeds, strict=True):
            fit(net, x, y, replace(recipe, seed=seed), objective)
            net.to(x.device)


def _check_training_data(x: Tensor, y: Tensor) -> None:
    """Raise an error for training data that cannot be used."""
    if not (isinstance(x, Tensor) and isinstance(y, Tensor)):
        raise TypeError(f"train_X and train_Y must be tensors, got {type(x).__name__}, {type(y).__name__}.")
    if x.ndim != 2 or y.ndim != 2 or len(x) != len(y) or 0 in (x.shape[1], y.shape[1]):
        shapes = f"{tuple(x.shape)} and {tuple(y.shape)}"
        raise ValueError(f"train_X and train_Y must have shapes (n, d) and (n, m), got {shapes}.")
    if len(x) < 2:
        raise ValueError(f"a surrogate needs at least two points, got {len(x)}.")
    if not x.is_floating_point() or x.dtype != y.dtype or x.device != y.device:
        kinds = f"{x.dtype} on {x.device} and {y.dtype} on {y.device}"
        raise ValueError(f"train_X and train_Y must be floats of one dtype on one device, got {kinds}.")
    if not (x.isfinite().all() and y.isfinite().all()):
        raise ValueError("train_X or train_Y contains values that are not finite.")
