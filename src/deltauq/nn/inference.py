"""Evaluates many inputs with many anchors, a block of pairs at a time, under a memory budget."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from deltauq.core import Posterior, StreamingPosterior
from deltauq.core.posterior import LINKS
from deltauq.nn.inputs import Inputs
from deltauq.nn.layer import AnchorContribution
from deltauq.nn.wrapping import recorded_calls

CPU_BUDGET, ACCELERATOR_BUDGET = 64 * 2**20, 2 * 2**30
"""Bytes of activations in one pass. On a CPU, small blocks that fit its caches are also faster."""
SHAPE_ERRORS = (RuntimeError, ValueError, IndexError, TypeError, AssertionError)
"""Errors that networks raise at tensors of unexpected shape."""

Run = Callable[[Inputs, AnchorContribution], Tensor]
"""``run(inputs, contribution)`` returns outputs of shape (n_variants * k * n, ...), anchor by anchor."""


@dataclass(frozen=True)
class InferencePlan:
    """How a network is evaluated with many anchors at once."""

    repeated: bool
    """Whether x enters the network once per anchor. Otherwise it enters once and is multiplied at the
    anchored layer, which does not work for networks that carry something past it. Row-wise additional
    inputs are repeated either way: they belong to what follows the layer."""
    row_bytes: int
    """Bytes of activations for one pair of input and anchor."""
    row_wise: frozenset[int | str] | None
    """Positions and keywords of the row-wise additional inputs."""

    def batch_pairs(self, budget: int | None, device: torch.device) -> int:
        """Return how many pairs fit into one pass."""
        if budget is None:
            budget = CPU_BUDGET if device.type == "cpu" else ACCELERATOR_BUDGET
        return max(1, budget // self.row_bytes)


def make_plan(
    run: Run, network: nn.Module, inputs: Inputs, contribution: AnchorContribution
) -> InferencePlan:
    """Evaluate two rows in both ways, and choose the fast one if its outputs are equal."""
    inputs = inputs.rows(0, 2)
    x = inputs.x
    if x.is_floating_point():
        inputs = replace(inputs, x=x.nan_to_num(0.0, 0.0, 0.0))
    with torch.no_grad():
        with recorded_calls(network) as calls:
            expected = run(inputs, replace(contribution, repeated=True))
        n_bytes = max((call.n_bytes for call in calls), default=0)
        row_bytes = max(1, n_bytes // max(1, len(contribution) * x.shape[0]))
        try:
            repeated = not _equal(run(inputs, contribution), expected)
        except torch.OutOfMemoryError:
            raise
        except SHAPE_ERRORS:
            repeated = True
    return InferencePlan(repeated, row_bytes, inputs.row_wise)


def _equal(outputs: Tensor, expected: Tensor) -> bool:
    """Return whether outputs are equal up to rounding; without any finite number, they are not."""
    finite = expected[expected.isfinite()]
    if not finite.numel():
        return False
    scale = float(finite.abs().max())
    tolerance = torch.finfo(torch.promote_types(expected.dtype, torch.float16)).eps ** 0.5
    return outputs.shape == expected.shape and torch.allclose(
        outputs, expected, rtol=tolerance, atol=tolerance * scale, equal_nan=True
    )


def under_anchors(outputs: Tensor, contribution: AnchorContribution) -> Tensor:
    """Return the predictions of a pass under each anchor, of shape (k, n, ...): the mean of its variants.

    In float32 at least: sums over anchors overflow in less.
    """
    precise = outputs.to(torch.promote_types(outputs.dtype, torch.float32))
    variants = precise.unflatten(0, (contribution.n_variants, len(contribution), -1))
    if contribution.targets is None:
        return variants.mean(0)
    corrections = antisymmetric(*variants.chunk(2)).mean(0)
    return targets_like(contribution.targets, corrections[:, 0]).unsqueeze(1) + corrections


def antisymmetric(outputs: Tensor, swapped: Tensor) -> Tensor:
    """Return ½[g(R, X - R) - g(X, R - X)], which is zero at X = R."""
    return 0.5 * (outputs - swapped)


def targets_like(targets: Tensor, outputs: Tensor) -> Tensor:
    """Return the targets of anchors in the shape of outputs, such as (n, 1) for targets of shape (n,)."""
    if targets.shape[0] != outputs.shape[0] or targets.numel() != outputs.numel():
        raise ValueError(
            f"targets of anchors have shape {tuple(targets.shape[1:])} each, "
            f"but the outputs of the network {tuple(outputs.shape[1:])}."
        )
    return targets.reshape(outputs.shape)


def mean_over_anchors(passes: Iterable[tuple[int, Tensor, AnchorContribution]], n_anchors: int) -> Tensor:
    """Return the mean of the outputs, of shape (n, ...), from passes: (block of rows, outputs, contribution).

    Blocks of rows are numbered from 0, and come once for each block of anchors.
    """
    totals: dict[int, Tensor] = {}
    for block, outputs, contribution in passes:
        dtype = outputs.dtype if outputs.is_floating_point() else torch.get_default_dtype()
        if contribution.targets is not None:
            dtype = torch.promote_types(dtype, contribution.targets.dtype)
        total = under_anchors(outputs, contribution).sum(0)
        totals[block] = totals[block] + total if block in totals else total
    return (torch.cat(list(totals.values())) / n_anchors).to(dtype)


def posterior_over_anchors(
    passes: Iterable[tuple[int, Tensor, AnchorContribution]],
    n_anchors: int,
    link: str | None,
    keep_samples: bool,
) -> Posterior:
    """Return the moments of the outputs; see `mean_over_anchors`. Memory does not grow with the anchors."""
    if link is not None and link not in LINKS:
        raise ValueError(f"link must be one of {sorted(LINKS)} or None, got {link!r}.")
    streams: dict[int, StreamingPosterior] = {}
    parts: dict[int, Posterior] = {}
    for block, outputs, contribution in passes:
        samples = under_anchors(outputs, contribution)
        if link == "softmax" and samples.ndim != 3:
            raise ValueError(
                f"link='softmax' takes outputs of shape (n, classes), got {tuple(samples.shape[1:])}: "
                "use keep_samples=True and apply it along the axis you need."
            )
        # Streaming is slow on a GPU and makes graphs long; on a CPU it is faster.
        if len(samples) == n_anchors and (samples.is_cuda or samples.requires_grad):
            parts[block] = _posterior_of(samples, link, keep_samples)
            continue
        stream = streams.setdefault(block, StreamingPosterior(link, keep_samples))
        for sample in samples.unbind():
            stream.update(sample)
    parts.update((block, stream.posterior()) for block, stream in streams.items())

    def join(name: str, dim: int = 0) -> Tensor | None:
        values = [getattr(part, name) for part in parts.values()]
        return None if values[0] is None else torch.cat(values, dim)

    return Posterior(join("mean"), join("var"), join("link_mean"), join("link_var"), join("samples", 1), link)


def _posterior_of(samples: Tensor, link: str | None, keep_samples: bool) -> Posterior:
    """Return the moments of samples of shape (K, n, ...)."""
    var, mean = torch.var_mean(samples, 0, correction=0)
    stored = samples if keep_samples else None
    if link is None:
        return Posterior(mean, var, samples=stored)
    link_var, link_mean = torch.var_mean(LINKS[link](samples), 0, correction=0)
    return Posterior(mean, var, link_mean, link_var, stored, link)


@contextmanager
def evaluation_mode(network: nn.Module, kind: type[nn.Module] = nn.Module) -> Iterator[None]:
    """Switch every layer, or those of one kind, to evaluation mode, and back to its mode before."""
    layers = [layer for layer in network.modules() if isinstance(layer, kind) and layer.training]
    for layer in layers:
        layer.training = False
    try:
        yield
    finally:
        for layer in layers:
            layer.training = True
