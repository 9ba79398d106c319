"""Losses: of numbers, and of anchored networks with several anchors a step, consistency, uniform targets."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import torch
from torch import Tensor, nn

from deltauq.nn.anchored import Anchored
from deltauq.nn.inputs import Inputs

MASKED_TARGETS = ("label", "uniform")


TINY = 1e-12
"""Squared error that counts as none: the logarithm of an exact fit would have no bound."""


def squared_error(outputs: Tensor, targets: Tensor) -> Tensor:
    """Return the mean squared error of outputs and targets of the same shape."""
    check_same_shape(outputs, targets)
    return nn.functional.mse_loss(outputs, targets)


def check_same_shape(outputs: Tensor, targets: Tensor) -> None:
    """Refuse targets that would be broadcast against the outputs."""
    if outputs.shape != targets.shape:
        raise ValueError(
            f"targets of shape {tuple(targets.shape)} do not fit outputs of shape {tuple(outputs.shape)}."
        )


def log_squared_error(outputs: Tensor, targets: Tensor) -> Tensor:
    """Return half the logarithm of the mean squared error, a criterion for numbers.

    It is the negative log-likelihood of normal noise whose deviation fits the batch best. Its slope does not
    fade as the fit gets better, while adaptive optimisers remember the larger slopes of the beginning: short
    runs come further with it than with the squared error.

    Parameters
    ----------
    outputs, targets : tensors of the same shape

    Returns
    -------
    loss : scalar tensor
    """
    return 0.5 * (squared_error(outputs, targets) + TINY).log()


def anchored_loss(
    net: nn.Module,
    criterion: Callable[[Tensor, Tensor], Tensor],
    x: Tensor,
    y: Tensor,
    *,
    n_anchors: int = 1,
    consistency: float = 0.0,
    masked_target: str = "label",
    anchors: Tensor | None = None,
    **kwargs: Any,
) -> Tensor:
    """Return the loss of one training step, in one pass.

    Without options it is ``criterion(net(x), y)``.

    Parameters
    ----------
    net : Module
        An `Anchored` network in ``train()``, or one wrapped for parallel training or compiled.
    criterion : callable
        ``criterion(outputs, targets)`` gives a scalar.
    x : tensor of shape (n, ...)
    y : tensor of shape (n, ...)
    n_anchors : int, default=1
        Anchors that every input meets in this step. The batch is repeated as often, so with several of them
        an input may, rarely, meet its own copy; one copy is remembered among the stored anchors.
    consistency : float, default=0
        Weight of the variance of the outputs over these anchors: the network is asked to agree with itself.
    masked_target : {"label", "uniform"}
        What a masked batch is trained to: its own targets, or, for logits over classes, equal
        probabilities. The latter is for whole batches, since a criterion gives no losses of single rows.
    anchors : int tensor of shape (e, n), optional
        For those who pair inputs themselves: rows of this batch, which is in random order. The first copy of
        a row meets these, the k-th the row that is k times as far from it; nothing is masked or remembered.
    **kwargs
        Further inputs of the network, by keyword; row-wise ones are repeated with the batch.

    Returns
    -------
    loss : scalar tensor
    """
    if n_anchors < 1:
        raise ValueError(f"n_anchors must be at least 1, got {n_anchors}.")
    if consistency and n_anchors < 2:
        raise ValueError(
            "consistency compares the outputs under several anchors: n_anchors must be at least 2."
        )
    if masked_target not in MASKED_TARGETS:
        raise ValueError(f"masked_target must be one of {list(MASKED_TARGETS)}, got {masked_target!r}.")
    if anchors is not None and masked_target != "label":
        raise ValueError("with anchors given nothing is masked: masked_target must be 'label'.")
    if masked_target == "uniform" and _unwrapped(net).mask_by != "batch":
        raise ValueError("masked_target='uniform' needs a network with mask_by='batch'.")
    inputs = _copies(x, kwargs, n_anchors)
    if anchors is not None:
        outputs = net(inputs.x, anchors=_of_copies(anchors, len(x), n_anchors), **inputs.kwargs)
    else:
        with _unwrapped(net).repeated_batches(n_anchors) if n_anchors > 1 else nullcontext():
            outputs = net(inputs.x, **inputs.kwargs)
    loss = criterion(outputs, torch.cat([y] * n_anchors))
    if masked_target == "uniform":
        to_uniform = -outputs.log_softmax(dim=1).mean()
        loss = torch.where(_unwrapped(net).masked.to(loss.device), to_uniform, loss)
    if consistency:
        spread = outputs.unflatten(0, (n_anchors, -1)).var(0, correction=0).mean()
        loss = loss + consistency * spread
    return loss


def _copies(x: Tensor, kwargs: dict[str, Any], n_copies: int) -> Inputs:
    """Return a batch several times over, refusing shared tensors that would pass for copies of rows."""
    inputs = Inputs(x, kwargs=kwargs)
    if len(x) == 1:
        inputs = inputs.with_rows_of_one()
    n = n_copies * len(x)
    taken = inputs.of_length(n) if n_copies > 1 else ()
    if taken:
        raise ValueError(
            f"{', '.join(map(repr, taken))} is shared by all rows, but its first dimension {n} is that of "
            f"{n_copies} copies of {len(x)} rows: make it a buffer of the network."
        )
    return inputs.repeat(n_copies)


def _of_copies(anchors: Tensor, n: int, n_copies: int) -> Tensor:
    """Return the rows that copies of a batch of n rows meet, of shape (e, n_copies * n)."""
    if anchors.is_floating_point() or anchors.ndim != 2 or anchors.shape[1] != n:
        raise ValueError(
            f"anchors must be rows of the batch, integers of shape (e, {n}), "
            f"got {anchors.dtype} of shape {tuple(anchors.shape)}."
        )
    here = torch.arange(n, device=anchors.device)
    further = [(here + k * (anchors - here)) % n for k in range(2, n_copies + 1)]
    return torch.cat([anchors, *further], dim=1)


def _unwrapped(net: nn.Module) -> Anchored:
    """Return the anchored network inside wrappers such as DistributedDataParallel's and the compiler's."""
    found = next((inner for inner in net.modules() if isinstance(inner, Anchored)), None)
    if found is None:
        raise TypeError(f"net must be an Anchored network or a wrapper of one, got {type(net).__name__}.")
    return found
