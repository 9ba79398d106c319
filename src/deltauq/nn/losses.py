"""Losses for regression, and for anchored networks with several anchors a step."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import torch
from torch import Tensor, nn

from deltauq.nn.anchored import Anchored
from deltauq.nn.inputs import Inputs

TINY = 1e-12
"""Added to squared errors, since the logarithm of an exact fit has no bound."""


def squared_error(outputs: Tensor, targets: Tensor) -> Tensor:
    """Return the mean squared error of outputs and targets of the same shape."""
    check_same_shape(outputs, targets)
    return nn.functional.mse_loss(outputs, targets)


def check_same_shape(outputs: Tensor, targets: Tensor) -> None:
    """Raise an error for targets that would be broadcast against the outputs."""
    if outputs.shape != targets.shape:
        raise ValueError(
            f"targets of shape {tuple(targets.shape)} do not fit outputs of shape {tuple(outputs.shape)}."
        )


def log_squared_error(outputs: Tensor, targets: Tensor) -> Tensor:
    """Return half the logarithm of the mean squared error, of outputs and targets of the same shape.

    It is the negative log-likelihood of normal noise whose deviation fits the batch best. Its gradient does
    not vanish as the fit improves, so that short runs reach a lower error than with the squared error.
    """
    return 0.5 * (squared_error(outputs, targets) + TINY).log()


def anchored_loss(
    net: nn.Module,
    criterion: Callable[[Tensor, Tensor], Tensor],
    x: Tensor,
    y: Tensor,
    *,
    anchors_per_step: int = 1,
    consistency: float = 0.0,
    anchors: Tensor | None = None,
    **kwargs: Any,
) -> Tensor:
    """Return the loss of one training step, in one pass.

    Without options it is ``criterion(net(x, y), y)``.

    Parameters
    ----------
    net : Module
        An `Anchored` network in ``train()``, or one wrapped for parallel training or compiled.
    criterion : callable
        ``criterion(outputs, targets)`` returns a scalar.
    x : tensor of shape (n, ...)
        Inputs.
    y : tensor of shape (n, ...)
        Targets.
    anchors_per_step : int, default=1
        Anchors that every input is paired with in this step. The batch is repeated as often, so an input may,
        rarely, be paired with its own copy; one copy is stored among the anchors.
    consistency : float, default=0
        Weight of the variance of the outputs over these anchors.
    anchors : int tensor of shape (e, n), optional
        Rows of this batch to pair inputs with; the batch is in random order. The first copy of a row is
        paired with these, the k-th with the row k times as many positions away; nothing is masked or stored.
    **kwargs
        Additional inputs of the network, by keyword; row-wise ones are repeated with the batch.

    Returns
    -------
    loss : scalar tensor
    """
    if anchors_per_step < 1:
        raise ValueError(f"anchors_per_step must be at least 1, got {anchors_per_step}.")
    if consistency and anchors_per_step < 2:
        raise ValueError(
            "consistency compares the outputs under several anchors: anchors_per_step must be at least 2."
        )
    anchored, inputs = _unwrapped(net), _repeated(x, kwargs, anchors_per_step)
    targets = torch.cat([y] * anchors_per_step)
    labels = targets if anchored.target.needs_labels else None
    if anchors is not None:
        rows = _repeated_anchors(anchors, len(x), anchors_per_step)
        outputs = net(inputs.x, labels, anchors=rows, **inputs.kwargs)
    else:
        with anchored.repeated_batches(anchors_per_step) if anchors_per_step > 1 else nullcontext():
            outputs = net(inputs.x, labels, **inputs.kwargs)
    loss = criterion(outputs, targets)
    if consistency:
        variance = outputs.unflatten(0, (anchors_per_step, -1)).var(0, correction=0).mean()
        loss = loss + consistency * variance
    return loss


def _repeated(x: Tensor, kwargs: dict[str, Any], n_copies: int) -> Inputs:
    """Return a batch several times over, unless shared tensors could be mistaken for row-wise ones."""
    inputs = Inputs(x, kwargs=kwargs)
    if len(x) == 1:
        inputs = inputs.with_rows_of_one()
    n = n_copies * len(x)
    shared = inputs.of_length(n) if n_copies > 1 else ()
    if shared:
        raise ValueError(
            f"{', '.join(map(repr, shared))} is shared by all rows, but its first dimension {n} is that of "
            f"{n_copies} copies of {len(x)} rows: make it a buffer of the network."
        )
    return inputs.repeat(n_copies)


def _repeated_anchors(anchors: Tensor, n: int, n_copies: int) -> Tensor:
    """Return the anchors of copies of a batch of n rows, of shape (e, n_copies * n)."""
    if anchors.is_floating_point() or anchors.ndim != 2 or anchors.shape[1] != n:
        raise ValueError(
            f"anchors must be rows of the batch, integers of shape (e, {n}), "
            f"got {anchors.dtype} of shape {tuple(anchors.shape)}."
        )
    rows = torch.arange(n, device=anchors.device)
    others = [(rows + k * (anchors - rows)) % n for k in range(2, n_copies + 1)]
    return torch.cat([anchors, *others], dim=1)


def _unwrapped(net: nn.Module) -> Anchored:
    """Return the anchored network inside wrappers such as DistributedDataParallel and torch.compile."""
    for module in net.modules():
        if isinstance(module, Anchored):
            return module
    raise TypeError(f"net must be an Anchored network or a wrapper of one, got {type(net).__name__}.")
