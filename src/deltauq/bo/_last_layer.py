"""The last layer of an anchored network in closed form, and what it says about points left out.

Given the features in front of it, a linear layer has one best solution, and so has each of the layers that
would come of leaving a point out: errors at points not seen cost no further training.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

LEAST_SHARE = 1e-8
"""Of the variance of the outcomes: spreads below are rounding."""


@dataclass(frozen=True)
class LeftOut:
    """What K functions say at each of n points that was left out.

    Attributes
    ----------
    errors : float64 tensor of shape (k, n, m)
        Values minus predictions, one for each anchor.
    """

    errors: Tensor

    @property
    def factor(self) -> Tensor:
        """What σ has to be multiplied with for squared errors to be as large as it says, of shape (m,)."""
        return (self.errors.mean(0).square() / self._variance()).mean(0).sqrt()

    @property
    def surprise(self) -> float:
        """Mean negative logarithm of the Gaussian density of the values, less a constant, σ multiplied."""
        return float((self._variance().log() / 2).mean() + self.factor.log().mean())

    def _variance(self) -> Tensor:
        """Return the variance over the K functions, of shape (n, m), kept from zero."""
        return self.errors.var(0, correction=0) + LEAST_SHARE


@torch.no_grad()
def refit(net: nn.Module, pairs: Tensor, y: Tensor, ridges: Sequence[float]) -> LeftOut:
    """Replace the last linear layer by the solution of ridge regression on its features.

    Parameters
    ----------
    net : Module
        Of rows [X, R]. Changed in place.
    pairs : tensor of shape (k * n, 2 * d)
        Every point with every anchor, anchor by anchor.
    y : tensor of shape (n, m)
        Of variance about one.
    ridges : sequence of float
        Relative to the mean square of the features; of several, the one of the least surprise is taken.

    Returns
    -------
    left_out : LeftOut
        From the solutions without each of the points, under all its anchors; the features stay.
    """
    layer = last_linear(net)
    features = _features(net, layer, pairs)
    targets = y.double().repeat(len(pairs) // len(y), 1)
    centre, level = features.mean(0), targets.mean(0)
    u, s, vt = torch.linalg.svd(features - centre, full_matrices=False)
    along = u.mT @ (targets - level)
    smallest = torch.finfo(s.dtype).tiny  # features may all be the same
    solutions = []
    for ridge in ridges:
        penalty = ridge * s.square().mean() + smallest
        shrunk = s.square() / (s.square() + penalty)
        weights = (vt.mT * (s / (s.square() + penalty))) @ along
        residuals = targets - level - u @ (shrunk[:, None] * along)
        solutions.append((weights, LeftOut(_left_out(u, shrunk, residuals, len(y)))))
    weights, left_out = min(solutions, key=lambda solution: solution[1].surprise)
    layer.weight.copy_(weights.mT)
    if layer.bias is not None:
        layer.bias.copy_(level - centre @ weights)
    return left_out


def _left_out(u: Tensor, shrunk: Tensor, residuals: Tensor, n: int) -> Tensor:
    """Return errors at points left out, of shape (k, n, m), from those with all points.

    Parameters
    ----------
    u : tensor of shape (k * n, r)
        Left singular vectors of the centred features.
    shrunk : tensor of shape (r,)
        What is left of each direction under the penalty.
    residuals : tensor of shape (k * n, m)
    n : int
    """
    rows = u.unflatten(0, (-1, n)).transpose(0, 1)
    # The mean is a further direction, the same in every row and not penalised.
    hat = (rows * shrunk) @ rows.mT + 1 / len(u)
    eye = torch.eye(hat.shape[-1], dtype=hat.dtype, device=hat.device)
    blocks = residuals.unflatten(0, (-1, n)).transpose(0, 1)
    return torch.linalg.solve(eye - hat, blocks).transpose(0, 1)


def last_linear(net: nn.Module) -> nn.Linear:
    """Return the linear layer registered last; refuse networks without one."""
    layers = [layer for layer in net.modules() if isinstance(layer, nn.Linear)]
    if not layers:
        raise ValueError("a network to be refitted needs a linear layer at its end.")
    return layers[-1]


def _features(net: nn.Module, layer: nn.Linear, pairs: Tensor) -> Tensor:
    """Return what enters a layer, in float64."""
    seen: list[Tensor] = []
    hook = layer.register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0]))
    try:
        net.eval()(pairs)
    finally:
        hook.remove()
    return seen[0].double()
