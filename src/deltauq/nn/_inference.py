"""Passes of many inputs with many anchors, a block of pairs at a time, under a memory budget."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from deltauq.core import Posterior, StreamingPosterior
from deltauq.core.posterior import LINKS

DEFAULT_BUDGET = {"cpu": 64 * 2**20}
"""Bytes for activations in one pass; on a CPU, small blocks that stay near its caches are also the faster."""
ACCELERATOR_BUDGET = 2 * 2**30

Pass = Callable[[Tensor, Tensor, bool], Tensor]
"""``run(x, anchor_part, repeated)``: the outputs of shape (k * n, ...), anchor by anchor."""


@dataclass(frozen=True)
class Plan:
    """How a network is run with many anchors at once.

    Attributes
    ----------
    repeated : bool
        Whether inputs enter the network once per anchor. Otherwise they enter once and are multiplied at the
        anchored layer, which a network that carries something past that layer may not bear.
    row_bytes : int
        Bytes of activations that one pair of input and anchor takes.
    """

    repeated: bool
    row_bytes: int

    def pairs(self, budget: int | None, device: torch.device) -> int:
        """Return how many pairs fit into one pass."""
        if budget is None:
            budget = DEFAULT_BUDGET.get(device.type, ACCELERATOR_BUDGET)
        return max(1, budget // self.row_bytes)


def make_plan(run: Pass, network: nn.Module, x: Tensor, anchor_part: Tensor) -> Plan:
    """Try both ways on a few rows: the fast one is taken if it says the same.

    Parameters
    ----------
    run : callable
    network : Module
    x : tensor of shape (n, ...)
    anchor_part : tensor of shape (K, ...)
    """
    x, anchor_part = x[:2], anchor_part[:2]
    with torch.no_grad(), torch.autocast(x.device.type, enabled=False):
        with _recorded_bytes(network) as sizes:
            plain = run(x, anchor_part, True)
        row_bytes = max(sizes, default=0) // max(1, plain.shape[0])
        try:
            fast = run(x, anchor_part, False)
        except (RuntimeError, ValueError, IndexError, TypeError):
            return Plan(True, max(1, row_bytes))
    scale = float(plain.abs().max()) if plain.numel() else 0.0
    near = torch.finfo(plain.dtype).eps ** 0.5
    same = fast.shape == plain.shape and torch.allclose(fast, plain, rtol=near, atol=near * scale)
    return Plan(not same, max(1, row_bytes))


@contextmanager
def _recorded_bytes(network: nn.Module) -> Iterator[list[int]]:
    """Record how many bytes enter and leave each layer."""
    sizes: list[int] = []

    def hook(layer: nn.Module, args: tuple[Any, ...], output: Any) -> None:
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


def mean_over_anchors(run: Pass, plan: Plan, x: Tensor, anchor_part: Tensor, pairs: int) -> Tensor:
    """Return the mean of the outputs, of shape (n, ...)."""
    n_anchors = anchor_part.shape[0]
    n_rows, n_parts = blocks(n_anchors, pairs)
    means = []
    for rows in x.split(n_rows):
        total: Any = 0.0
        for part in anchor_part.split(n_parts):
            total = total + run(rows, part, plan.repeated).unflatten(0, (part.shape[0], -1)).sum(0)
        means.append(total / n_anchors)
    return torch.cat(means)


def posterior_over_anchors(
    run: Pass,
    plan: Plan,
    x: Tensor,
    anchor_part: Tensor,
    pairs: int,
    *,
    link: str | None,
    keep_samples: bool,
) -> Posterior:
    """Return the moments of the outputs; without gradients, memory does not grow with the anchors."""
    n_rows, n_parts = blocks(anchor_part.shape[0], pairs)
    # A graph holds every output anyway.
    streaming = not torch.is_grad_enabled()
    found = []
    for rows in x.split(n_rows):
        stream, samples = StreamingPosterior(link, keep_samples), []
        for part in anchor_part.split(n_parts):
            outputs = run(rows, part, plan.repeated).unflatten(0, (part.shape[0], -1))
            outputs = outputs.to(torch.promote_types(outputs.dtype, torch.float32))
            if not streaming:
                samples.append(outputs)
                continue
            for output in outputs.unbind():
                stream.update(output)
        found.append(
            stream.posterior() if streaming else _from_samples(torch.cat(samples), link, keep_samples)
        )
    return _joined(found)


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
