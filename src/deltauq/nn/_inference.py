"""Passes of many inputs with many anchors, a block of pairs at a time, under a memory budget."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

from deltauq.core import Posterior, StreamingPosterior
from deltauq.core.posterior import LINKS
from deltauq.nn._inputs import Inputs
from deltauq.nn._pairing import AnchorShare

DEFAULT_BUDGET = {"cpu": 64 * 2**20}
"""Bytes for activations in one pass; on a CPU, small blocks that stay near its caches are also the faster."""
ACCELERATOR_BUDGET = 2 * 2**30

Pass = Callable[[Inputs, AnchorShare, bool], Tensor]
"""``run(inputs, share, repeated)``: the outputs of shape (n_readings * k * n, ...), anchor by anchor."""
Shares = Callable[[int], Iterator[AnchorShare]]
"""``shares(k)``: what the anchors contribute, at most k of them at a time, computed when it is their turn."""
MISFITS = (RuntimeError, ValueError, IndexError, TypeError, AssertionError)
"""What a network raises at tensors that do not fit."""


@dataclass(frozen=True)
class Plan:
    """How a network is run with many anchors at once.

    Attributes
    ----------
    repeated : bool
        Whether x enters the network once per anchor and reading. Otherwise it enters once and is multiplied
        at the anchored layer, which a network that carries something past it may not bear. Row-wise further
        inputs are repeated either way: they belong to what follows that layer.
    row_bytes : int
        Bytes of activations that one pair of input and anchor takes, all readings together.
    row_wise : frozenset of int and str, optional
        Places and keywords of the row-wise further inputs.
    """

    repeated: bool
    row_bytes: int
    row_wise: frozenset[int | str] | None

    def pairs(self, budget: int | None, device: torch.device) -> int:
        """Return how many pairs fit into one pass."""
        if budget is None:
            budget = DEFAULT_BUDGET.get(device.type, ACCELERATOR_BUDGET)
        return max(1, budget // self.row_bytes)


def check_budget(budget: int | None) -> None:
    """Refuse what is no number of bytes."""
    if budget is None:
        return
    if not isinstance(budget, int):
        raise TypeError(f"memory_budget must be a whole number of bytes, got {budget!r}.")
    if budget < 1:
        raise ValueError(f"memory_budget must be at least 1 byte, got {budget}.")


def make_plan(run: Pass, network: nn.Module, inputs: Inputs, share: AnchorShare) -> Plan:
    """Try both ways on a few rows: the fast one is taken if it says the same.

    Parameters
    ----------
    run : callable
    network : Module
    inputs : Inputs
    share : AnchorShare
        Of one anchor or two.
    """
    inputs = inputs.rows(0, 2)
    x = inputs.x
    if x.is_floating_point():
        inputs = replace(inputs, x=x.nan_to_num(0.0, 0.0, 0.0))
    with torch.no_grad(), torch.autocast(x.device.type, enabled=False):
        with _recorded_bytes(network) as sizes:
            plain = run(inputs, share, True)
        row_bytes = max(sizes, default=0) // max(1, len(share) * x.shape[0])
        try:
            fast = run(inputs, share, False)
        except MISFITS:
            return Plan(True, max(1, row_bytes), inputs.row_wise)
    return Plan(not _agree(fast, plain), max(1, row_bytes), inputs.row_wise)


def _agree(fast: Tensor, plain: Tensor) -> bool:
    """Tell whether two ways say the same; where they say no number at all, that is not known."""
    finite = plain[plain.isfinite()]
    if plain.numel() and not finite.numel():
        return False
    scale = float(finite.abs().max()) if finite.numel() else 0.0
    near = torch.finfo(torch.promote_types(plain.dtype, torch.float16)).eps ** 0.5
    return fast.shape == plain.shape and torch.allclose(
        fast, plain, rtol=near, atol=near * scale, equal_nan=True
    )


@contextmanager
def _recorded_bytes(network: nn.Module) -> Iterator[list[int]]:
    """Record how many bytes enter and leave each layer, in passes of this thread."""
    sizes: list[int] = []
    ours = threading.get_ident()

    def hook(layer: nn.Module, args: tuple[Any, ...], output: Any) -> None:
        if threading.get_ident() != ours:
            return
        tensors = [t for t in (*args, output) if isinstance(t, Tensor)]
        sizes.append(sum(t.numel() * t.element_size() for t in tensors))

    handles = [layer.register_forward_hook(hook) for layer in network.modules()]
    try:
        yield sizes
    finally:
        for handle in handles:
            handle.remove()


def blocks(n_anchors: int, pairs: int) -> tuple[int, int]:
    """Return how many inputs and how many anchors meet in one pass.

    All anchors at once as long as they fit, so that what comes before the anchored layer is computed once
    per input.
    """
    return max(1, pairs // n_anchors), min(n_anchors, pairs)


def mean_over_anchors(
    run: Pass, plan: Plan, inputs: Inputs, n_anchors: int, shares: Shares, pairs: int
) -> Tensor:
    """Return the mean of the outputs, of shape (n, ...), summed in float32 at least."""
    n_rows, n_parts = blocks(n_anchors, pairs)
    rows = inputs.split(n_rows)
    totals: list[Any] = [0.0] * len(rows)
    for share in shares(n_parts):
        for k, block in enumerate(rows):
            outputs = run(block, share, plan.repeated)
            dtype = outputs.dtype if outputs.is_floating_point() else torch.get_default_dtype()
            totals[k] = totals[k] + under_anchors(outputs, share).sum(0)
    return (torch.cat(totals) / n_anchors).to(dtype)


def posterior_over_anchors(
    run: Pass,
    plan: Plan,
    inputs: Inputs,
    n_anchors: int,
    shares: Shares,
    pairs: int,
    *,
    link: str | None,
    keep_samples: bool,
) -> Posterior:
    """Return the moments of the outputs; without gradients, memory does not grow with the anchors.

    Anchors are the outer loop: their share is computed once, and only that of one block is held.
    """
    n_rows, n_parts = blocks(n_anchors, pairs)
    rows = inputs.split(n_rows)
    # A graph holds every output anyway.
    streaming = not torch.is_grad_enabled()
    streams = [StreamingPosterior(link, keep_samples) for _ in rows]

    def outputs_of(block: Inputs, share: AnchorShare) -> Tensor:
        outputs = under_anchors(run(block, share, plan.repeated), share)
        _check_link(link, outputs[0])
        return outputs

    # One anchor after the other keeps a GPU waiting longer than the network does; a CPU is faster so.
    if streaming and inputs.x.is_cuda and n_parts == n_anchors:
        (share,) = shares(n_parts)
        return _joined([_from_samples(outputs_of(block, share), link, keep_samples) for block in rows])
    samples: list[list[Tensor]] = [[] for _ in rows]
    for share in shares(n_parts):
        for k, block in enumerate(rows):
            outputs = outputs_of(block, share)
            if not streaming:
                samples[k].append(outputs)
                continue
            for output in outputs.unbind():
                streams[k].update(output)
    if streaming:
        return _joined([stream.posterior() for stream in streams])
    return _joined([_from_samples(torch.cat(outputs), link, keep_samples) for outputs in samples])


def under_anchors(outputs: Tensor, share: AnchorShare) -> Tensor:
    """Return the outputs of a pass under each anchor, of shape (k, n, ...): the mean of its readings.

    In float32 at least: sums over anchors overflow in less.
    """
    precise = outputs.to(torch.promote_types(outputs.dtype, torch.float32))
    if share.n_readings == 1:
        return precise.unflatten(0, (len(share), -1))
    return precise.unflatten(0, (share.n_readings, len(share), -1)).mean(0)


def _check_link(link: str | None, outputs: Tensor) -> None:
    """Refuse a softmax over what need not be classes."""
    if link == "softmax" and outputs.ndim != 2:
        raise ValueError(
            f"link='softmax' takes outputs of shape (n, classes), got {tuple(outputs.shape)}: "
            "ask for keep_samples=True and take it over the axis you mean."
        )


def _from_samples(samples: Tensor, link: str | None, keep_samples: bool) -> Posterior:
    """Return the moments of outputs of shape (K, n, ...) that are all there, gradients included."""
    var, mean = torch.var_mean(samples, 0, correction=0)
    kept = samples if keep_samples else None
    if link is None:
        return Posterior(mean, var, samples=kept)
    link_var, link_mean = torch.var_mean(LINKS[link](samples), 0, correction=0)
    return Posterior(mean, var, link_mean, link_var, kept, link)


def _joined(parts: list[Posterior]) -> Posterior:
    """Join posteriors of different rows."""

    def join(name: str, dim: int = 0) -> Tensor | None:
        values = [getattr(part, name) for part in parts]
        return None if values[0] is None else torch.cat(values, dim)

    return Posterior(
        join("mean"), join("var"), join("link_mean"), join("link_var"), join("samples", 1), parts[0].link
    )


@contextmanager
def evaluating(network: nn.Module) -> Iterator[None]:
    """Switch every layer to evaluation, and back to what it was."""
    were = [(layer, layer.training) for layer in network.modules()]
    network.eval()
    try:
        yield
    finally:
        for layer, training in were:
            layer.training = training


@contextmanager
def norms_evaluating(network: nn.Module) -> Iterator[None]:
    """Switch normalisations to their running statistics, and back to what they were."""
    norms = [m for m in network.modules() if isinstance(m, nn.modules.batchnorm._NormBase) and m.training]
    for norm in norms:
        norm.training = False
    try:
        yield
    finally:
        for norm in norms:
            norm.training = True
