"""Watches the first pass through an anchored network, to see whether the right layer was anchored."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn

from deltauq.nn._site import AnchoredEntry, first_tensor
from deltauq.nn._surgery import holds_parameters, some

NORMS = (
    nn.modules.batchnorm._NormBase,
    nn.GroupNorm,
    nn.LayerNorm,
    nn.RMSNorm,
)
"""They keep what enters them recognisable, so they may come before the layer that takes the input."""


@dataclass(frozen=True, eq=False)
class Call:
    """One call of a layer: its name, the layer, and the tensor that entered."""

    name: str
    layer: nn.Module
    tensor: Tensor

    @property
    def holds_parameters(self) -> bool:
        """Whether the layer has parameters of its own."""
        return holds_parameters(self.layer)


@contextmanager
def recorded_calls(network: nn.Module) -> Iterator[list[Call]]:
    """Record the calls of layers by this thread, in their order, while the context is open."""
    calls: list[Call] = []
    ours = threading.get_ident()

    def watch(name: str) -> Any:
        def hook(layer: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
            tensor = first_tensor(args, kwargs)
            if tensor is not None and threading.get_ident() == ours:
                calls.append(Call(name, layer, tensor))

        return hook

    handles = [
        layer.register_forward_pre_hook(watch(name), with_kwargs=True)
        for name, layer in network.named_modules()
    ]
    try:
        yield calls
    finally:
        for handle in handles:
            handle.remove()


def check_calls(calls: list[Call], site: str, n: int) -> None:
    """Refuse a network where the anchored layer is not the one that all of the input passes through, once.

    Parameters
    ----------
    calls : list of Call
        Of one pass.
    site : str
        Name of the anchored layer.
    n : int
        Rows of the input.
    """
    seen = some([f"{c.name or 'itself'} ({type(c.layer).__name__})" for c in calls if c.holds_parameters])
    ours = [k for k, call in enumerate(calls) if call.name == site]
    if len(ours) != 1:
        times = "never" if not ours else f"{len(ours)} times"
        raise ValueError(
            f"the anchored layer {site!r} was called {times} in one pass: name a layer that is called once, "
            f"by stem= (to widen it) or at= (to put a projection in front); layers seen: {seen}."
        )
    call, before = calls[ours[0]], calls[: ours[0]]
    if call.tensor.shape[0] != n:
        raise ValueError(
            f"{n} inputs reach the anchored layer as {call.tensor.shape[0]} rows: anchors are paired with "
            f"inputs, so its first axis must be theirs; name another layer by at=; layers seen: {seen}."
        )
    if not isinstance(call.layer, AnchoredEntry):
        earlier = [
            c
            for c in before
            if c.holds_parameters and not isinstance(c.layer, NORMS) and not _holds(c.name, site)
        ]
        if earlier:
            first = earlier[0]
            raise ValueError(
                f"the input first reaches {first.name!r} ({type(first.layer).__name__}), not the widened "
                f"layer {site!r}: name the layer to widen by stem=, or a later one to put a projection in "
                f"front of by at=; layers seen: {seen}."
            )
    others = [c.name for c in calls if c.tensor is call.tensor and not _related(c.name, site)]
    if others:
        raise ValueError(
            f"the tensor that enters {site!r} also enters {some(others)}, where it would pass without "
            f"anchors: name a layer that all of it passes through by at=; layers seen: {seen}."
        )


def _related(one: str, other: str) -> bool:
    """Whether one layer holds the other."""
    return _holds(one, other) or _holds(other, one)


def _holds(outer: str, inner: str) -> bool:
    """Whether a layer is the other or has it inside."""
    return not outer or f"{inner}.".startswith(f"{outer}.")
