"""Where an acquisition function is largest: many candidates, the best of them refined by gradients."""

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

Acquisition = Literal["logei"] | Callable[[Model, Tensor], AcquisitionFunction]
"""``acquisition(model, best_f)``: what is to be large at the next point."""

N_EVERYWHERE = 1024
N_NEARBY = 256
RADII = (1e-1, 1e-2, 1e-3, 1e-4)
N_STARTS = 5
"""Candidates all over the unit cube; those around the best points, and how far; how many to refine."""

SAME = 1e-6
"""Points of the unit cube that differ by less count as one."""


class InFloat64(AcquisitionFunction):
    """An acquisition function of points in float64, whatever its model works in.

    Parameters
    ----------
    acquisition : AcquisitionFunction
    """

    def __init__(self, acquisition: AcquisitionFunction) -> None:
        super().__init__(acquisition.model)
        self.acquisition = acquisition
        self.like = like(acquisition.model)

    def forward(self, X: Tensor) -> Tensor:
        """Return values of shape (b,) at points of shape (b, 1, d)."""
        values: Tensor = self.acquisition(X.to(self.like))
        return values.to(X)

    def has_gradients(self, x: Tensor) -> bool:
        """Return whether points such as x, of shape (d,), have gradients: a scikit-learn model gives none."""
        try:
            return bool(self(x.detach().clone().view(1, 1, -1).requires_grad_()).requires_grad)
        except UnsupportedError:
            return False


def make_acquisition(
    acquisition: Acquisition, model: Model, best_f: Tensor, pending: Tensor
) -> AcquisitionFunction:
    """Return the acquisition function of a fitted model.

    Parameters
    ----------
    acquisition : "logei" or callable
        "logei" is computed from mean and variance; with points pending, from joint samples.
    model : Model
    best_f : tensor of shape ()
    pending : float64 tensor of shape (p, d)
        Points whose values are not known yet.

    Returns
    -------
    acquisition : AcquisitionFunction
    """
    best_f, pending = best_f.to(like(model)), pending.to(like(model))
    if acquisition == "logei":
        acquisition = qLogExpectedImprovement if len(pending) else LogExpectedImprovement
    made = _called(acquisition, model, best_f)
    if not isinstance(made, AcquisitionFunction):
        raise TypeError(f"acquisition must return an AcquisitionFunction, got {type(made).__name__}.")
    if len(pending):
        try:
            made.set_X_pending(pending)
        except UnsupportedError as error:
            raise ValueError(
                f"{type(made).__name__} knows no pending points: ask for one point at a time, "
                "or take an acquisition function of several points."
            ) from error
    return made


def _called(acquisition: Any, model: Model, best_f: Tensor) -> Any:
    """Return what a callable makes of a model; a class has to have a best_f, which is not always second."""
    if not isinstance(acquisition, type):
        return acquisition(model, best_f)
    if "best_f" not in signature(acquisition).parameters:
        raise ValueError(
            f"{acquisition.__name__} takes no best_f: give a function of (model, best_f) that makes one."
        )
    return acquisition(model, best_f=best_f)


def find_largest(
    acquisition: InFloat64, centres: Tensor, taken: Tensor, rng: np.random.Generator
) -> Tensor | None:
    """Return the point of the unit cube where an acquisition function is largest.

    Parameters
    ----------
    acquisition : InFloat64
    centres : float64 tensor of shape (k, d)
        Good points, around which to look as well.
    taken : float64 tensor of shape (n, d)
        Points that are not to be returned again.
    rng : Generator

    Returns
    -------
    x : float64 tensor of shape (d,), or None where nothing was left to choose
    """
    everywhere = sobol(N_EVERYWHERE, centres.shape[1], rng)
    nearby = around(centres, N_NEARBY, rng)
    points = torch.cat([everywhere, nearby])
    with torch.no_grad():
        values = acquisition(points.unsqueeze(1)).nan_to_num(nan=-torch.inf)
    if acquisition.has_gradients(points[0]):
        first, second = values.split([N_EVERYWHERE, N_NEARBY])
        starts = torch.cat([everywhere[first.topk(N_STARTS).indices], nearby[second.topk(N_STARTS).indices]])
        refined, reached = refine(acquisition, starts)
        points = torch.cat([refined, points])
        values = torch.cat([reached.nan_to_num(nan=-torch.inf), values])
    points = points[torch.argsort(values, descending=True, stable=True)]
    new = are_new(points, taken)
    return points[new][0] if new.any() else None


def are_new(points: Tensor, taken: Tensor) -> Tensor:
    """Return which points, of shape (n, d) in the unit cube, are none of those taken: bools of shape (n,)."""
    if not len(taken):
        return torch.ones(len(points), dtype=torch.bool)
    return torch.cdist(points, taken, p=torch.inf).amin(1) > SAME


def refine(acquisition: InFloat64, starts: Tensor) -> tuple[Tensor, Tensor]:
    """Follow the gradient from starts of shape (s, d); return where it leads and the values there, (s,)."""
    cube = torch.stack([torch.zeros_like(starts[0]), torch.ones_like(starts[0])])
    with warnings.catch_warnings():
        # A start that leads nowhere is no matter: there are others, and the candidates themselves.
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
    assert values is not None  # they are returned unless one asks for none
    return ends.squeeze(1), values


def sobol(n: int, d: int, rng: np.random.Generator) -> Tensor:
    """Return n points spread evenly over the unit cube, of shape (n, d)."""
    engine = SobolEngine(d, scramble=True, seed=int(rng.integers(2**31)))
    return engine.draw(n, dtype=torch.float64)


def around(centres: Tensor, n: int, rng: np.random.Generator) -> Tensor:
    """Return n points of the unit cube around centres, of shape (n, d), at distances of several orders."""
    number = np.arange(n)
    radii = np.array(RADII)[number // len(centres) % len(RADII), None]
    steps = torch.as_tensor(radii * rng.standard_normal((n, centres.shape[1])))
    return (centres[torch.as_tensor(number % len(centres))] + steps).clamp(0, 1)


def like(model: Model) -> Tensor:
    """Return a tensor of the dtype and on the device that a model works in; float64 where it has none."""
    for tensor in (*model.parameters(), *model.buffers()):
        if tensor.is_floating_point():
            return tensor.detach()
    return torch.empty(0, dtype=torch.float64)
