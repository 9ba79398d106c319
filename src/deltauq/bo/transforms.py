"""Transforms of outcomes: `ClipWorst`, for maximisation, and the transforms that can be given by name."""

from __future__ import annotations

from functools import partial
from typing import Any, Literal

import torch
from botorch.models.transforms.input import InputStandardize, Normalize
from botorch.models.transforms.outcome import ChainedOutcomeTransform, OutcomeTransform, Standardize
from botorch.posteriors.posterior import Posterior
from torch import Tensor


class ClipWorst(OutcomeTransform):
    """Raise outcomes far below the median to a floor; the others do not change.

    If values decrease by orders of magnitude, standardised values are nearly equal around the maximum, and a
    model spends its capacity on the lowest ones. Predictions are not transformed back: they are of the
    clipped function, which equals the true one above the floor. For maximisation, as in BoTorch.

    Parameters
    ----------
    m : int
        Number of outputs, each of which has its own floor.
    reach : float, default=3
        The floor lies `reach` times as far below the median as the best outcome lies above it. If more than
        half of the outcomes equal the best, there is no floor.

    Attributes
    ----------
    floor : tensor of shape (..., 1, m)
        Fitted to the outcomes in training mode.
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
        """Clip outcomes of shape (..., n, m); in training mode, fit the floor first."""
        if Y.shape[-1] != self.m:
            raise ValueError(f"ClipWorst({self.m}) was given {Y.shape[-1]} outputs.")
        if self.training:
            # Not torch.median, which takes the lower of two in the middle.
            median = Y.quantile(0.5, dim=-2, keepdim=True)
            height = Y.amax(-2, keepdim=True) - median
            self.floor = torch.where(height > 0, median - self.reach * height, -torch.inf)
        return Y.clamp(min=self.floor), Yvar

    def untransform(
        self, Y: Tensor, Yvar: Tensor | None = None, X: Tensor | None = None
    ) -> tuple[Tensor, Tensor | None]:
        """Return outcomes unchanged."""
        return Y, Yvar

    def untransform_posterior(self, posterior: Posterior, X: Tensor | None = None) -> Posterior:
        """Return a posterior unchanged."""
        return posterior

    @property
    def _is_linear(self) -> bool:
        """True, for BoTorch: a Gaussian stays Gaussian, since nothing is transformed back."""
        return True

    def subset_output(self, idcs: list[int]) -> ClipWorst:
        """Return the transform of some of the outputs."""
        subset = ClipWorst(len(idcs), self.reach)
        subset.floor = self.floor[..., idcs]
        return subset.train(self.training)


def clip_and_standardize(m: int, reach: float = 3.0) -> OutcomeTransform:
    """Return the transform that clips m outputs and then standardises them; see `ClipWorst`."""
    return ChainedOutcomeTransform(clip=ClipWorst(m, reach), standardize=Standardize(m))


NAMED: dict[str, dict[str, Any]] = {
    "input": {"standardize": InputStandardize, "range": partial(Normalize, center=0.0)},
    "outcome": {"standardize": Standardize, "clip": clip_and_standardize},
}


def make_transform(kind: Literal["input", "outcome"], transform: Any, size: int) -> Any:
    """Return a transform of inputs or outcomes, of this many columns, given itself or by name."""
    if not isinstance(transform, str):
        return transform
    names = NAMED[kind]
    if transform not in names:
        options = f"a transform of BoTorch, one of {list(names)} or None"
        raise ValueError(f"{kind}_transform must be {options}, got {transform!r}.")
    return names[transform](size)
