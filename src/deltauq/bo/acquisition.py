"""The maximum of an acquisition function: many candidates, the best of them refined by gradients."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from inspect import signature
from typing import Any, Literal

import numpy as np
import torch
from botorch.acquisition.acquisition import AcquisitionFunction
from botorch.acquisition.analytic import LogExpectedImprovement
from botorch.acquisition.logei import qLogExpectedImprovement
from botorch.exceptions.errors import UnsupportedError
from botorch.exceptions.warnings import OptimizationWarning
from botorch.models.model import Model
from botorch.optim.optimize import optimize_acqf
from torch import Tensor
from torch.quasirandom import SobolEngine

ACQUISITIONS = {"logei": (LogExpectedImprovement, qLogExpectedImprovement)}
"""Acquisition functions by name: without and with pending points."""
Acquisition = Literal["logei"] | Callable[[Model, Tensor], AcquisitionFunction]
"""``acquisition(model, best_f)``: the function whose maximum is the next point."""

N_GLOBAL = 1024
"""Candidates in the whole unit cube."""
N_LOCAL = 256
RADII = (1e-1, 1e-2, 1e-3, 1e-4)
"""Candidates around the best points, and their distances."""
N_STARTS = 5
"""Candidates of either kind that are refined."""
TOLERANCE = 1e-6
"""Points of the unit cube that differ by less are the same."""


class Float64Acquisition(AcquisitionFunction):
    """An acquisition function of points in float64, whatever the dtype of its model."""

    def __init__(self, acquisition: AcquisitionFunction) -> None:
        super().__init__(acquisition.model)
        self.acquisition = acquisition
        self.reference = reference_tensor(acquisition.model)

    def forward(self, X: Tensor) -> Tensor:
        """Return values of shape (b,) at points of shape (b, 1, d)."""
        values: Tensor = self.acquisition(X.to(self.reference))
        return values.to(X)

    def has_gradients(self, x: Tensor) -> bool:
        """Return whether there are gradients at a point of shape (d,); a scikit-learn model has none."""
        try:
            return bool(self(x.detach().clone().view(1, 1, -1).requires_grad_()).requires_grad)
        except UnsupportedError:
            return False


def make_acquisition(
    acquisition: Acquisition, model: Model, best_f: Tensor, pending: Tensor
) -> AcquisitionFunction:
    """Return the acquisition function of a fitted model, with pending points of shape (p, d).

    "logei" is computed from mean and variance or, with pending points, from joint samples.
    """
    best_f, pending = best_f.to(reference_tensor(model)), pending.to(reference_tensor(model))
    make: Any = ACQUISITIONS[acquisition][len(pending) > 0] if isinstance(acquisition, str) else acquisition
    if isinstance(make, type) and "best_f" not in signature(make).parameters:
        raise ValueError(f"{make.__name__} takes no best_f: give a function of (model, best_f).")
    function = make(model, best_f=best_f) if isinstance(make, type) else make(model, best_f)
    if not isinstance(function, AcquisitionFunction):
        raise TypeError(f"acquisition must return an AcquisitionFunction, got {type(function).__name__}.")
    if len(pending):
        try:
            function.set_X_pending(pending)
        except UnsupportedError as error:
            kind = type(function).__name__
            raise ValueError(f"{kind} does not support pending points: ask for one at a time.") from error
    return function


def find_maximum(
    acquisition: Float64Acquisition, centers: Tensor, known: Tensor, rng: np.random.Generator
) -> Tensor | None:
    """Return the point of the unit cube, of shape (d,), where an acquisition function is largest.

    Candidates are drawn everywhere and around `centers`, good points of shape (k, d). Points of shape (n, d)
    that are `known` are not returned; if all candidates are, the result is None.
    """
    d = centers.shape[1]
    engine = SobolEngine(d, scramble=True, seed=int(rng.integers(2**31)))
    everywhere = engine.draw(N_GLOBAL, dtype=torch.float64)
    number = np.arange(N_LOCAL)
    radii = np.array(RADII)[number // len(centers) % len(RADII), None]
    steps = torch.as_tensor(radii * rng.standard_normal((N_LOCAL, d)))
    nearby = (centers[torch.as_tensor(number % len(centers))] + steps).clamp(0, 1)
    points = torch.cat([everywhere, nearby])
    with torch.no_grad():
        values = acquisition(points.unsqueeze(1)).nan_to_num(nan=-torch.inf)
    if acquisition.has_gradients(points[0]):
        first, second = values.split([N_GLOBAL, N_LOCAL])
        starts = torch.cat([everywhere[first.topk(N_STARTS).indices], nearby[second.topk(N_STARTS).indices]])
        refined, reached = _refine(acquisition, starts)
        points = torch.cat([refined, points])
        values = torch.cat([reached.nan_to_num(nan=-torch.inf), values])
    points = points[torch.argsort(values, descending=True, stable=True)]
    new = are_new(points, known)
    return points[new][0] if new.any() else None


def are_new(points: Tensor, known: Tensor) -> Tensor:
    """Return which points, of shape (n, d) in the unit cube, are not known yet: bools of shape (n,)."""
    if not len(known):
        return torch.ones(len(points), dtype=torch.bool)
    return torch.cdist(points, known, p=torch.inf).amin(1) > TOLERANCE


def reference_tensor(model: Model) -> Tensor:
    """Return a tensor of the dtype and device of a model; float64 if it has no tensors."""
    for tensor in (*model.parameters(), *model.buffers()):
        if tensor.is_floating_point():
            return tensor.detach()
    return torch.empty(0, dtype=torch.float64)


def _refine(acquisition: Float64Acquisition, starts: Tensor) -> tuple[Tensor, Tensor]:
    """Follow the gradient from starts of shape (s, d); return the points reached and their values, (s,)."""
    cube = torch.stack([torch.zeros_like(starts[0]), torch.ones_like(starts[0])])
    with warnings.catch_warnings():
        # A start that fails does not matter: there are others, and the candidates themselves.
        warnings.simplefilter("ignore", OptimizationWarning)
        warnings.simplefilter("ignore", RuntimeWarning)
        ends, values = optimize_acqf(
            acquisition,
            cube,
            q=1,
            num_restarts=len(starts),
            batch_initial_conditions=starts.unsqueeze(1),
            return_best_only=False,
            retry_on_optimization_warning=False,
        )
    assert values is not None  # optimize_acqf returns them by default
    return ends.squeeze(1), values
