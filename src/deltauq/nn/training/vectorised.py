"""Trains many small networks at once: ensemble members, seeds, folds.

Their weights are stacked, and one pass of batched products serves them all. Each network sees the epochs that
it would see alone (`Epochs` with its own seed), so the result is that of training one after the other, to
rounding.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn
from torch.func import functional_call, stack_module_state

from deltauq.nn.anchored import Anchored
from deltauq.nn.inputs import check_one_input
from deltauq.nn.pairing import PAIRINGS
from deltauq.nn.training.engine import check_data, check_labels, criterion_for, keep_anchors
from deltauq.nn.training.loader import derive_seed, draw_order
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
        Of one input, without norms that keep running statistics, which cannot be stacked, and without masks.
        On one device, where x is taken too.
    x, y : tensors of shape (n, ...)
    recipe : Recipe
        Precision, compilation, augmentation and channels-last are for single networks and not used here.
    criterion : callable, optional
        ``criterion(outputs, targets)``, the mean over the rows of one network. Cross-entropy for integer
        targets, squared error otherwise.
    rows : int tensor of shape (m, r), optional
        The rows that each network is trained on; all of them by default.
    seeds : sequence of m ints, optional
        Of the order of rows and anchors; `recipe.seed`, +1, +2, ... by default. Dropout differs between the
        networks, but is not what it would be for each alone.

    Returns
    -------
    losses : list of float
        Mean over networks of the loss in every epoch.

    Raises
    ------
    NotStackableError
        Where the networks can only be trained one by one. They are left as they were.
    """
    y = check_data(x, y)
    if criterion is None:
        check_labels(y)
        criterion = criterion_for(y)
    check_stackable(nets, recipe)
    first = nets[0]
    check_one_input(first, "fit_many")
    device = next(first.parameters()).device
    x, y = x.to(device), y.to(device)
    seeds = list(seeds) if seeds is not None else [recipe.seed + k for k in range(len(nets))]
    if len(seeds) != len(nets):
        raise ValueError(f"{len(nets)} networks need as many seeds, got {len(seeds)}.")
    n_sources, reverse = _pairing_of(first)
    for net in nets:
        net.train()
    try:
        params, buffers = stack_module_state(list(nets))
    except RuntimeError as error:
        raise _not_stackable(error) from error
    skeleton = copy.deepcopy(first).to("meta")

    def loss_of(p: dict[str, Tensor], b: dict[str, Tensor], xb: Tensor, yb: Tensor, pairs: Tensor) -> Tensor:
        keywords = {"anchors": pairs} if n_sources else {}
        return criterion(functional_call(skeleton, (p, b), (xb,), keywords), yb)

    losses_of = torch.vmap(loss_of, randomness="different")
    optimizer = recipe.make_optimizer(params.values(), graphed=False)
    rows = torch.arange(len(x)).expand(len(nets), -1) if rows is None else rows
    rows = rows.to(device)
    if min(recipe.batch_size, rows.shape[1]) <= n_sources:
        raise ValueError(f"batches must hold more than {n_sources} row(s), for others to be anchors.")
    member = torch.arange(len(nets), device=device)[:, None]
    history = []
    with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
        for epoch in range(recipe.epochs):
            torch.manual_seed(derive_seed(recipe.seed, epoch))
            orders = [
                draw_order(
                    rows.shape[1],
                    recipe.batch_size,
                    epoch,
                    seed,
                    n_sources=n_sources,
                    reverse=reverse,
                    mask=0.0,
                    drop_last=recipe.drop_last,
                )
                for seed in seeds
            ]
            total, rows_seen, step = torch.zeros((), device=device), 0, 0
            n_steps = sum(len(block) for block in orders[0].rows)
            for blocks in zip(
                *(zip(order.rows, order.sources, strict=True) for order in orders), strict=True
            ):
                places = torch.stack([block for block, _ in blocks], dim=1).to(device)
                sources = torch.stack([pairs for _, pairs in blocks], dim=1).to(device)
                for p, s in zip(places, sources, strict=True):
                    set_rate(optimizer, recipe.rate(epoch + step / n_steps))
                    r = rows[member, p]
                    optimizer.zero_grad(set_to_none=True)
                    try:
                        losses = losses_of(params, buffers, x[r], y[r], s)
                        losses.sum().backward()
                    except RuntimeError as error:
                        raise _not_stackable(error) from error
                    optimizer.step()
                    total += r.shape[1] * losses.detach().mean()
                    rows_seen += r.shape[1]
                    step += 1
            history.append(float(total) / rows_seen)
            if progress is not None:
                progress(epoch + 1, history[-1])
    _give_back(nets, {**params, **buffers})
    for k, net in enumerate(nets):
        if isinstance(net, Anchored):
            keep_anchors(net, x[rows[k]], seeds[k])
        net.eval()
    return history


def check_stackable(nets: Sequence[nn.Module], recipe: Recipe) -> None:
    """Refuse networks that have to be trained one by one, as far as that can be seen beforehand."""
    for net in nets:
        if any(getattr(layer, "running_mean", None) is not None for layer in net.modules()):
            raise NotStackableError(
                "networks with batch norm, or another norm that keeps running statistics, "
                "cannot be trained together: train them one by one."
            )
        if not isinstance(net, Anchored):
            continue
        in_batch = isinstance(net.train_anchors, str) and net.train_anchors in PAIRINGS
        if not in_batch or net.mask or recipe.mask:
            raise NotStackableError("networks trained together take their anchors from the batch, unmasked.")


def _not_stackable(error: RuntimeError) -> NotStackableError:
    """Return what PyTorch said about stacked networks, in one line."""
    line = str(error).partition("\n")[0].rstrip(".")
    return NotStackableError(f"the networks cannot be trained together: {line}.")


def _pairing_of(net: nn.Module) -> tuple[int, bool]:
    """Return how many anchors a tuple holds, 0 for a plain network, and whether batches are reversed."""
    if not isinstance(net, Anchored):
        return 0, False
    return net.encoding.n_anchors, net.train_anchors == "reverse"


@torch.no_grad()
def _give_back(nets: Sequence[nn.Module], stacked: dict[str, Tensor]) -> None:
    """Copy what was trained into the networks, parameters and buffers."""
    for k, net in enumerate(nets):
        for name, own in [*net.named_parameters(), *net.named_buffers()]:
            own.copy_(stacked[name][k])
