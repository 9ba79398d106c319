"""What surrogates share: training data, transforms, and the ways in which they answer."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Literal, NoReturn, Self

import torch
from botorch.acquisition.objective import PosteriorTransform
from botorch.exceptions.errors import UnsupportedError
from botorch.models.ensemble import EnsembleModel
from botorch.models.model import Model
from botorch.models.transforms.input import InputStandardize, InputTransform, Normalize
from botorch.models.transforms.outcome import OutcomeTransform
from botorch.posteriors.posterior import Posterior
from sklearn.exceptions import NotFittedError
from torch import Tensor, nn

from deltauq.bo.posteriors import AnchorPosterior, as_gaussian
from deltauq.bo.transforms import no_transform, outcome_transform_of
from deltauq.nn.training import Recipe, derive_seed, fit_many

Kind = Literal["ensemble", "gaussian"]
KINDS = ("ensemble", "gaussian")


class Surrogate(Model):
    """A BoTorch model of n evaluated points, to be trained by `fit`.

    Parameters
    ----------
    train_X : float tensor of shape (n, d)
        At least two points. Its dtype and device are the model's.
    train_Y : float tensor of shape (n, m)
    input_transform : InputTransform, "standardize", "range" or None
        "standardize": zero mean and unit variance of the evaluated points; "range": all of them between -0.5
        and 0.5.
    outcome_transform : OutcomeTransform, "standardize", "clip" or None
        "clip": `ClipWorst`, then zero mean and unit variance; for outcomes that are to be large.

    Attributes
    ----------
    train_inputs : tuple of one tensor of shape (n, d)
    train_targets : tensor of shape (n, m)
        Both as they were given, whatever the transforms.
    """

    recipe: Recipe | None = None

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
        if isinstance(input_transform, str):
            input_transform = _input_transform(input_transform, train_X.shape[1])
        if isinstance(outcome_transform, str):
            outcome_transform = outcome_transform_of(outcome_transform, train_Y.shape[1])
        if input_transform is not None:
            self.input_transform = input_transform.to(train_X)
        if outcome_transform is not None:
            self.outcome_transform = outcome_transform.to(train_X)
        self._is_fitted = False

    @property
    def num_outputs(self) -> int:
        """The number m of outputs."""
        return self.train_targets.shape[1]

    @property
    def batch_shape(self) -> torch.Size:
        """Of the model, not of the points it is asked about: one model, so empty."""
        return torch.Size([])

    def reseed(self, seed: int) -> Self:
        """Have the next training depend on a further seed, beside that of the recipe.

        A loop calls it with another one in every step, so that no two steps repeat the accidents of one
        network.
        """
        if self.recipe is not None:
            self.recipe = replace(self.recipe, seed=derive_seed(self.recipe.seed, seed))
        return self

    def fit(self) -> Self:
        """Train on the evaluated points, from the beginning."""
        x, y = self._transformed_data()
        self._train(x, y)
        return self._finished()

    def condition_on_observations(self, X: Tensor, Y: Tensor, **kwargs: Any) -> NoReturn:
        """Refuse: a trained network knows no conditioning."""
        raise UnsupportedError(
            f"{type(self).__name__} cannot be conditioned on observations: "
            "make a new one of all points and fit it."
        )

    @abstractmethod
    def _train(self, x: Tensor, y: Tensor) -> None:
        """Train on transformed points of shape (n, d) and values of shape (n, m)."""

    @classmethod
    def _train_together(cls, surrogates: Sequence[Any], xs: Sequence[Tensor], ys: Sequence[Tensor]) -> None:
        """Train surrogates of one setting on their transformed data; one by one where nothing is saved."""
        for surrogate, x, y in zip(surrogates, xs, ys, strict=True):
            surrogate._train(x, y)

    def _setting(self) -> tuple[Any, ...]:
        """Return what surrogates that are trained together have in common."""
        x = self.train_inputs[0]
        return (type(self), x.shape, x.dtype, x.device, self.num_outputs)

    @torch.no_grad()
    def _transformed_data(self) -> tuple[Tensor, Tensor]:
        """Return the training data as the model sees it; transforms learn from it."""
        x, y = self.train_inputs[0], self.train_targets
        if hasattr(self, "input_transform"):
            x = self.input_transform.train()(x)
            self.input_transform.eval()
        if hasattr(self, "outcome_transform"):
            y, _ = self.outcome_transform.train()(y, X=self.train_inputs[0])
            self.outcome_transform.eval()
        return x, y

    def _finished(self) -> Self:
        """Close the training: only points have gradients from now on."""
        self._is_fitted = True
        return self.eval().requires_grad_(False)

    def _check_points(self, X: Tensor) -> None:
        """Refuse what cannot be predicted, or not yet."""
        if not self._is_fitted:
            raise NotFittedError(f"this {type(self).__name__} is not fitted yet: call fit first.")
        d = self.train_inputs[0].shape[1]
        if X.ndim < 2 or X.shape[-1] != d:
            raise ValueError(f"points must have shape (..., q, {d}), got {tuple(X.shape)}.")

    def _set_transformed_inputs(self) -> None:
        """Leave the training inputs as they were given; BoTorch would keep them transformed in eval()."""


class SampledSurrogate(Surrogate, EnsembleModel):
    """A surrogate that says K values at every point, all from the same K functions.

    Parameters
    ----------
    train_X : float tensor of shape (n, d)
    train_Y : float tensor of shape (n, m)
    posterior : {"ensemble", "gaussian"}
        How it answers: the K functions themselves (BoTorch's variance then divides by K - 1), or the Gaussian
        of their mean and their variance (1/K), which analytic acquisition functions mean.
    **transforms
        `input_transform` and `outcome_transform`, see `Surrogate`.
    """

    def __init__(
        self, train_X: Tensor, train_Y: Tensor, *, posterior: Kind = "ensemble", **transforms: Any
    ) -> None:
        super().__init__(train_X, train_Y, **transforms)
        if posterior not in KINDS:
            raise ValueError(f"posterior must be one of {list(KINDS)}, got {posterior!r}.")
        self.posterior_kind = posterior

    def forward(self, X: Tensor) -> Tensor:
        """Return the values of all K functions, before the outcome transform is undone.

        Parameters
        ----------
        X : tensor of shape (..., q, d)
            Transformed points.

        Returns
        -------
        values : tensor of shape (..., K, q, m)
        """
        self._check_points(X)
        values = self._values(X.reshape(-1, X.shape[-1]))
        return values.unflatten(1, X.shape[:-1]).movedim(0, -3)

    # BoTorch's own two signatures, that of a model and that of an ensemble, disagree.
    def posterior(  # type: ignore[override]
        self,
        X: Tensor,
        output_indices: list[int] | None = None,
        posterior_transform: PosteriorTransform | None = None,
        **kwargs: Any,
    ) -> Posterior:
        """Return what the surrogate says about points jointly.

        Parameters
        ----------
        X : tensor of shape (..., q, d)
        output_indices : list of int, optional
            The outputs to speak of; all by default.
        posterior_transform : PosteriorTransform, optional
        **kwargs
            BoTorch's further words; there is no observation noise, and ``True`` is passed over.

        Returns
        -------
        posterior : AnchorPosterior or GPyTorchPosterior over (..., q, m)
        """
        self._check_points(X)
        values = super().posterior(X, output_indices, **kwargs).values
        answer = as_gaussian(values) if self.posterior_kind == "gaussian" else AnchorPosterior(values)
        return answer if posterior_transform is None else posterior_transform(posterior=answer, X=X)

    @abstractmethod
    def _values(self, x: Tensor) -> Tensor:
        """Return values of shape (K, n, m) at transformed points of shape (n, d)."""


def fit_together(surrogates: Sequence[Surrogate]) -> None:
    """Train surrogates of one setting at once: several seeds, or several runs of a study.

    Each becomes what its own `fit` would make of it, to rounding, in little more time than one takes. Only
    the masks of dropout in training depend on how many are trained together.

    Parameters
    ----------
    surrogates : sequence of Surrogate
        Of one class, alike in the number of points, inputs and outputs, and in everything but data,
        transforms, anchors and the seed of their recipe.
    """
    if not surrogates:
        raise ValueError("there is no surrogate to train.")
    first = surrogates[0]
    if any(surrogate._setting() != first._setting() for surrogate in surrogates):
        raise ValueError("surrogates are trained together only if they differ in data and seed alone.")
    data = [surrogate._transformed_data() for surrogate in surrogates]
    first._train_together(surrogates, [x for x, _ in data], [y for _, y in data])
    for surrogate in surrogates:
        surrogate._finished()


def train_nets(
    nets: Sequence[nn.Module],
    xs: Sequence[Tensor],
    ys: Sequence[Tensor],
    recipe: Recipe,
    seeds: Sequence[int],
    criterion: Callable[[Tensor, Tensor], Tensor] | None = None,
    *,
    times: int = 1,
) -> None:
    """Train networks of one architecture at once, each on data of its own.

    Parameters
    ----------
    nets : sequence of k Modules
    xs, ys : sequences of k tensors of shapes (n, d) and (n, m)
    recipe : Recipe
    seeds : sequence of k ints
        Of the order of rows and anchors.
    criterion : callable, optional
        Squared error by default.
    times : int, default=1
        How often every row stands in a batch; an anchored network meets another anchor each time.
    """
    n = len(xs[0])
    rows = torch.arange(len(xs) * n).view(-1, n).repeat(1, times)
    recipe = replace(recipe, batch_size=recipe.batch_size * times)
    fit_many(nets, torch.cat(list(xs)), torch.cat(list(ys)), recipe, criterion, rows=rows, seeds=seeds)


def _input_transform(word: str, d: int) -> InputTransform:
    """Return the transform of d inputs that a word stands for."""
    if word == "standardize":
        return InputStandardize(d)
    if word == "range":
        return Normalize(d, center=0.0)
    raise no_transform("input_transform", '"standardize", "range"', word)


def _check_training_data(x: Tensor, y: Tensor) -> None:
    """Refuse training data that no surrogate can be made of."""
    if not (isinstance(x, Tensor) and isinstance(y, Tensor)):
        raise TypeError(
            f"train_X and train_Y must be tensors, got {type(x).__name__} and {type(y).__name__}."
        )
    if x.ndim != 2 or y.ndim != 2 or len(x) != len(y) or 0 in (x.shape[1], y.shape[1]):
        raise ValueError(
            "train_X and train_Y must have shapes (n, d) and (n, m), "
            f"got {tuple(x.shape)} and {tuple(y.shape)}."
        )
    if len(x) < 2:
        raise ValueError(f"a surrogate needs at least two points, got {len(x)}.")
    if not x.is_floating_point() or x.dtype != y.dtype or x.device != y.device:
        raise ValueError(
            "train_X and train_Y must be floats of one dtype on one device, "
            f"got {x.dtype} on {x.device} and {y.dtype} on {y.device}."
        )
    for name, values in (("train_X", x), ("train_Y", y)):
        if not values.isfinite().all():
            raise ValueError(f"{name} holds values that are not finite.")
