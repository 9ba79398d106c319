"""Trains many small networks at once: ensemble members, seeds, folds.

Their weights are stacked, and trained by batched products. Each network sees the same epochs as alone
(`Epochs` with its own seed), so the result is that of training one after the other, up to rounding.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import replace

import torch
from torch import Tensor, nn
from torch.func import functional_call, stack_module_state

from deltauq.nn.anchored import Anchored
from deltauq.nn.anchors import PAIRINGS
from deltauq.nn.training.engine import check_data, criterion_for, finish
from deltauq.nn.training.loader import BatchPairing, derive_seed, draw_order
from deltauq.nn.training.recipe import Recipe, set_rate


class NotStackableError(ValueError):
    """These networks can only be trained one by one."""


def fit_many(
    nets: Sequence[nn.Module],
    x: Tensor,
    y: Tensor,
    recipe: Recipe,
    criterion: Callable[[Tensor, Tensor], Tensor] | None = None,
    *,
    rows: Tensor | None = None,
    seeds: Sequence[int] | None = None,
    progress: Callable[[int, float], None] | None = None,
) -> list[float]:
    """Train networks of one architecture in place, each on its own rows.

    Parameters
    ----------
    nets : sequence of m Modules
        Networks of one input, on one device, without masks, and without norms that keep running statistics,
        which cannot be stacked.
    x, y : tensors of shape (n, ...)
        Inputs and targets.
    recipe : Recipe
        How to train. Precision, compilation, augmentation and channels-last are ignored.
    criterion : callable, optional
        ``criterion(outputs, targets)``, the mean over the rows of one network. Cross-entropy for integer
        targets, squared error otherwise.
    rows : int tensor of shape (m, r), optional
        The rows that each network is trained on; all of them by default.
    seeds : sequence of m ints, optional
        Random seeds of the order of rows and anchors; `recipe.seed`, +1, +2, ... by default. Dropout masks
        differ between the networks, and from those of each network trained alone.
    progress : callable, optional
        Called with the number of finished epochs and the mean loss of the last one.

    Returns
    -------
    losses : list of float
        Mean over networks of the loss in every epoch.

    Raises
    ------
    NotStackableError
        If the networks can only be trained one by one. They are left as they were.
    """
    y = check_data(x, y)
    criterion = criterion or criterion_for(y)
    check_stackable(nets, recipe)
    first = nets[0]
    device = next(first.parameters()).device
    x, y = x.to(device), y.to(device)
    seeds = list(seeds) if seeds is not None else [recipe.seed + k for k in range(len(nets))]
    if len(seeds) != len(nets):
        raise ValueError(f"{len(nets)} networks need as many seeds, got {len(seeds)}.")
    pairing = BatchPairing.from_network(first)
    for net in nets:
        net.train()
    try:
        params, buffers = stack_module_state(list(nets))
    except RuntimeError as error:
        raise _not_stackable(error) from error
    skeleton = copy.deepcopy(first).to("meta")

    def loss_of(p: dict[str, Tensor], b: dict[str, Tensor], xb: Tensor, yb: Tensor, pairs: Tensor) -> Tensor:
        keywords = {"anchors": pairs} if pairing.anchors_per_tuple else {}
        args = (xb, yb) if pairing.labelled else (xb,)
        return criterion(functional_call(skeleton, (p, b), args, keywords), yb)

    losses_of = torch.vmap(loss_of, randomness="different")
    optimizer = recipe.make_optimizer(params.values(), graphed=False)
    rows = torch.arange(len(x)).expand(len(nets), -1) if rows is None else rows
    rows = rows.to(device)
    n = rows.shape[1]
    member = torch.arange(len(nets), device=device)[:, None]
    history = []
    with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
        for epoch in range(recipe.epochs):
            torch.manual_seed(derive_seed(recipe.seed, epoch))
            orders = [
                draw_order(n, replace(recipe, seed=seed), epoch, pairing, drop_last=recipe.drop_last)
                for seed in seeds
            ]
            # Blocks of shape (steps, m, B) and (steps, m, e, B).
            blocks = [
                tuple(torch.stack([block[k] for block in same], dim=1).to(device) for k in range(2))
                for same in zip(*orders, strict=True)
            ]
            steps = [step for positions, sources in blocks for step in zip(positions, sources, strict=True)]
            total, n_rows = torch.zeros((), device=device), 0
            for k, (positions, sources) in enumerate(steps):
                set_rate(optimizer, recipe.rate(epoch + k / len(steps)))
                r = rows[member, positions]
                optimizer.zero_grad(set_to_none=True)
                try:
                    losses = losses_of(params, buffers, x[r], y[r], sources)
                    losses.sum().backward()
                except RuntimeError as error:
                    raise _not_stackable(error) from error
                optimizer.step()
                total += r.shape[1] * losses.detach().mean()
                n_rows += r.shape[1]
            history.append(float(total) / n_rows)
            if progress is not None:
                progress(epoch + 1, history[-1])
    stacked = {**params, **buffers}
    with torch.no_grad():
        for k, net in enumerate(nets):
            for name, value in [*net.named_parameters(), *net.named_buffers()]:
                value.copy_(stacked[name][k])
    for net, own, seed in zip(nets, rows, seeds, strict=True):
        finish(net, x[own], y[own], seed)
    return history


def check_stackable(nets: Sequence[nn.Module], recipe: Recipe) -> None:
    """Raise an error for networks that have to be trained one by one, where this is known in advance."""
    for net in nets:
        if any(getattr(layer, "running_mean", None) is not None for layer in net.modules()):
            raise NotStackableError(
                "networks with batch norm, or another norm that keeps running statistics, "
                "cannot be trained together: train them one by one."
            )
        if isinstance(net, Anchored) and (net.train_anchors not in PAIRINGS or net.mask or recipe.mask):
            raise NotStackableError("networks trained together take their anchors from the batch, unmasked.")


def _not_stackable(error: RuntimeError) -> NotStackableError:
    """Return an error with the first line of PyTorch's."""
    line = str(error).partition("\n")[0].rstrip(".")
    return NotStackableError(f"the networks cannot be trained together: {line}.")
