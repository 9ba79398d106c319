"""Transforms of outcomes: `ClipWorst`, for searches of the largest value, and words for the usual ones."""

from __future__ import annotations

import torch
from botorch.models.transforms.outcome import ChainedOutcomeTransform, OutcomeTransform, Standardize
from botorch.posteriors.posterior import Posterior
from torch import Tensor


class ClipWorst(OutcomeTransform):
    """Raise outcomes that are far below the median to a floor; the others, and the best above all, stay.

    Where values fall off by orders of magnitude, standardised ones are next to equal around the maximum, and
    a model spends itself on the depths. Predictions need no way back: they are about the clipped function,
    which is the true one wherever that is worth looking at. For outcomes that are to be large, as BoTorch has
    them.

    Parameters
    ----------
    m : int
        Outputs, each of which has its own floor.
    reach : float, default=3
        The floor lies as many times deeper below the median as the best lies above it. Outcomes of which more
        than half are equal to the best have no floor.

    Attributes
    ----------
    floor : tensor of shape (..., 1, m)
        After outcomes were seen in training.
    """

    floor: Tensor

    def __init__(self, m: int, reach: float = 3.0) -> None:
        super().__init__()
        if not 0.0 < reach < torch.inf:
            raise ValueError(f"reach must be a positive number, got {reach}.")
        self.m = m
        self.reach = reach
        self.register_buffer("floor", torch.full((1, m), -torch.inf))

    def forward(
        self, Y: Tensor, Yvar: Tensor | None = None, X: Tensor | None = None
    ) -> tuple[Tensor, Tensor | None]:
        """Clip outcomes of shape (..., n, m); in training, find the floor first."""
        if Y.shape[-1] != self.m:
            raise ValueError(f"ClipWorst({self.m}) was given {Y.shape[-1]} outputs.")
        if self.training:
            # Not torch.median, which takes the lower of two in the middle.
            middle = Y.quantile(0.5, dim=-2, keepdim=True)
            height = Y.amax(-2, keepdim=True) - middle
            self.floor = torch.where(height > 0, middle - self.reach * height, -torch.inf)
        return Y.clamp(min=self.floor), Yvar

    def untransform(
        self, Y: Tensor, Yvar: Tensor | None = None, X: Tensor | None = None
    ) -> tuple[Tensor, Tensor | None]:
        """Return outcomes as they are."""
        return Y, Yvar

    def untransform_posterior(self, posterior: Posterior, X: Tensor | None = None) -> Posterior:
        """Return a posterior as it is."""
        return posterior

    @property
    def _is_linear(self) -> bool:
        """Say to BoTorch that a Gaussian stays one: there is no way back to go."""
        return True

    def extra_repr(self) -> str:
        """Return the settings, for people."""
        return f"{self.m}, reach={self.reach}"

    def subset_output(self, idcs: list[int]) -> ClipWorst:
        """Return the transform of some of the outputs."""
        subset = ClipWorst(len(idcs), self.reach)
        subset.floor = self.floor[..., idcs]
        return subset.train(self.training)


def clipped(m: int, reach: float = 3.0) -> OutcomeTransform:
    """Return the transform that clips m outputs and then standardises them; see `ClipWorst`."""
    return ChainedOutcomeTransform(clip=ClipWorst(m, reach), standardize=Standardize(m))


def outcome_transform_of(word: str, m: int) -> OutcomeTransform:
    """Return the transform of m outputs that a word stands for."""
    if word == "standardize":
        return Standardize(m)
    if word == "clip":
        return clipped(m)
    raise no_transform("outcome_transform", '"standardize", "clip"', word)


def no_transform(name: str, words: str, got: str) -> ValueError:
    """Return the error for a word that stands for no transform."""
    return ValueError(f"{name} must be a transform of BoTorch, {words} or None, got {got!r}.")
