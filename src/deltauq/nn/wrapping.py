"""Replaces a layer of a network by an anchored one, and checks in the first pass that it is the right one."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _NormBase
from torch.nn.modules.conv import _ConvNd
from torch.nn.parameter import is_lazy
from torch.nn.utils.parametrize import is_parametrized

from deltauq.core import Encoding
from deltauq.nn.layer import AnchoredLayer, decoding_weight, projected, widened

WIDENABLE = (nn.Linear, nn.Conv1d, nn.Conv2d, nn.Conv3d)
NORMS = (_NormBase, nn.GroupNorm, nn.LayerNorm, nn.RMSNorm)
"""Norms may come before the layer that takes the input."""
INITS = ("pretrained", "random")
CHANNELS: dict[type[nn.Module], tuple[str, int]] = {
    nn.Linear: ("in_features", -1),
    _ConvNd: ("in_channels", 1),
    _NormBase: ("num_features", 1),
    nn.GroupNorm: ("num_channels", 1),
    nn.LayerNorm: ("normalized_shape", -1),
    nn.RMSNorm: ("normalized_shape", -1),
    nn.MultiheadAttention: ("embed_dim", -1),
    nn.RNNBase: ("input_size", -1),
}
"""Attributes with the number of input channels, and the axis of the channels."""
_SEQUENCES = (nn.RNNBase, nn.MultiheadAttention, nn.TransformerEncoderLayer, nn.TransformerEncoder)
_NAMES = ", ".join(kind.__name__ for kind in WIDENABLE)


def anchor_layer(
    network: nn.Module,
    encoding: Encoding,
    *,
    at: str | None = None,
    stem: str | None = None,
    init: str = "random",
) -> tuple[nn.Module, str]:
    """Put a projection of tuples in front of the layer called `at`, or widen the layer called `stem`.

    By default the first Linear or Conv in the order of registration is widened. Return the network, which is
    changed in place unless it is that layer itself, and the layer's name.
    """
    _check_network(network)
    if at is not None:
        name, layer = at, _layer_named(network, at, "at")
        anchored = projected(layer, encoding, *_input_channels(layer, at))
    else:
        name = _first_widenable(network) if stem is None else stem
        anchored = _widened_layer(network, name, encoding, init)
    anchored.train(network.training)
    if not name:
        return anchored, name
    network.set_submodule(name, anchored)
    path = name.split(".")
    for depth in range(len(path)):
        outer = network.get_submodule(".".join(path[:depth]))
        if isinstance(outer, nn.TransformerEncoderLayer):
            # Its fast path reads weights and calls no layers; only this disables it.
            outer.activation_relu_or_gelu = 0
    return network, name


def _widened_layer(network: nn.Module, name: str, encoding: Encoding, init: str) -> AnchoredLayer:
    layer: Any = _layer_named(network, name, "stem")
    if isinstance(layer, WIDENABLE):
        _check_own_weight(network, name, layer)
    if type(layer) not in WIDENABLE:
        raise ValueError(
            f"layer {name!r} is a {type(layer).__name__}, and only {_NAMES} can be widened: "
            f"name another by stem=, or put a projection in front of this one by at={name!r}."
        )
    anchored = widened(layer, encoding)
    if init == "pretrained":
        for key, parameter in anchored.wide.named_parameters():
            old = getattr(layer, key)
            with torch.no_grad():
                parameter.copy_(decoding_weight(encoding, old) if key == "weight" else old)
            parameter.requires_grad_(old.requires_grad)
    return anchored


def join_names(names: list[str]) -> str:
    """Return names as one line, the first ten of them where there are more."""
    more = f", and {len(names) - 10} more" if len(names) > 10 else ""
    return (", ".join(names[:10]) or "none") + more


def _has_parameters(layer: nn.Module) -> bool:
    """Whether a layer has parameters of its own, or computes them from others."""
    own = next(layer.parameters(recurse=False), None)
    return own is not None or is_parametrized(layer) or isinstance(layer, AnchoredLayer)


def _first_widenable(network: nn.Module) -> str:
    for name, layer in network.named_modules():
        if type(layer) in WIDENABLE or (is_parametrized(layer) and isinstance(layer, WIDENABLE)):
            return name
    raise ValueError(
        f"no {_NAMES} layer to widen was found: name the layer to anchor by at=; "
        f"layers with parameters: {_layers_of(network.named_modules())}."
    )


def _layers_of(layers: Iterable[tuple[str, nn.Module]]) -> str:
    """Return the names of those layers that have parameters, as one line."""
    named = [
        f"{name or 'itself'} ({type(layer).__name__})" for name, layer in layers if _has_parameters(layer)
    ]
    return join_names(named)


def _layer_named(network: nn.Module, name: str, option: str) -> nn.Module:
    try:
        return network.get_submodule(name)
    except AttributeError:
        children = [child for child, _ in network.named_children()]
        raise ValueError(
            f"{option}={name!r} names no layer of the network: its children are {join_names(children)}; "
            f"layers with parameters: {_layers_of(network.named_modules())}."
        ) from None


def _check_network(network: nn.Module) -> None:
    """Raise an error for a network that is anchored already, or whose layers cannot be changed."""
    for name, layer in network.named_modules():
        name = name or "itself"
        if isinstance(layer, AnchoredLayer):
            raise ValueError(f"the network is anchored already, at {name!r}.")
        if isinstance(layer, torch.jit.ScriptModule):
            raise ValueError(
                f"layer {name!r} is scripted, and its layers cannot be changed: anchor the network first."
            )
        if any(is_lazy(parameter) for parameter in layer.parameters(recurse=False)):
            raise ValueError(
                f"layer {name!r} ({type(layer).__name__}) is lazy and has no shape yet: "
                "run one batch through the network first."
            )


def _check_own_weight(network: nn.Module, name: str, layer: nn.Module) -> None:
    """Raise an error for a weight that is shared or computed: widening would silently undo that."""
    weight = dict(layer.named_parameters(recurse=False)).get("weight")
    if weight is None:
        reason = "is computed from other parameters"
    elif sum(p is weight for m in network.modules() for p in m.parameters(recurse=False)) > 1:
        reason = "is shared with another layer"
    else:
        return
    raise ValueError(
        f"the weight of layer {name!r} {reason}, so it cannot be widened: "
        f"put a projection in front of the layer by at={name!r}."
    )


def _input_channels(layer: nn.Module, at: str) -> tuple[int, int, Tensor]:
    """Return the channels that enter a layer, their axis, and a tensor of the layer's device and dtype."""
    if isinstance(layer, _SEQUENCES) and not all(getattr(m, "batch_first", True) for m in layer.modules()):
        raise ValueError(
            f"layer {at!r} ({type(layer).__name__}) takes time on its first axis, where anchors are "
            "paired with inputs: construct it with batch_first=True."
        )
    for inner in layer.modules():
        if isinstance(inner, nn.Embedding | nn.EmbeddingBag):
            raise ValueError(f"layer {at!r} begins with an embedding of integers: name a later layer by at=.")
        like = next(inner.parameters(), None)
        for kind, (attribute, axis) in CHANNELS.items():
            if isinstance(inner, kind) and like is not None:
                value = getattr(inner, attribute)
                return value[-1] if isinstance(value, tuple) else value, axis, like
    raise ValueError(
        f"the number of channels that enter layer {at!r} ({type(layer).__name__}) is not known: "
        "name a layer that contains a Linear, a Conv or a norm."
    )


class LayerCall(NamedTuple):
    """One call of a layer."""

    name: str
    layer: nn.Module
    tensor: Tensor
    """The first tensor that entered."""
    n_bytes: int
    """Size of all tensors that entered and left."""


@contextmanager
def recorded_calls(network: nn.Module) -> Iterator[list[LayerCall]]:
    """Record the calls of layers by this thread that take a tensor, in the order in which they end."""
    calls: list[LayerCall] = []
    thread = threading.get_ident()

    def recorder(name: str) -> Any:
        def hook(layer: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], output: Any) -> None:
            tensors = [value for value in (*args, *kwargs.values()) if isinstance(value, Tensor)]
            if tensors and threading.get_ident() == thread:
                outputs = [output] if isinstance(output, Tensor) else []
                n_bytes = sum(t.numel() * t.element_size() for t in (*tensors, *outputs))
                calls.append(LayerCall(name, layer, tensors[0], n_bytes))

        return hook

    handles = [
        layer.register_forward_hook(recorder(name), with_kwargs=True)
        for name, layer in network.named_modules()
    ]
    try:
        yield calls
    finally:
        for handle in handles:
            handle.remove()


def check_calls(calls: list[LayerCall], anchored: str, n: int) -> None:
    """Raise an error unless all n rows of the input pass through the layer `anchored`, exactly once."""
    # What runs inside the anchored layer is no other layer, and neither is what contains it.
    calls = [c for c in calls if c.name == anchored or not _contains(anchored, c.name)]
    layers = _layers_of((call.name, call.layer) for call in calls)
    positions = [k for k, call in enumerate(calls) if call.name == anchored]
    if len(positions) != 1:
        times = "never" if not positions else f"{len(positions)} times"
        raise ValueError(
            f"the anchored layer {anchored!r} was called {times} in one pass: name a layer that is called "
            "once, by stem= (to widen it) or at= (to put a projection in front); "
            f"layers called: {layers}."
        )
    call = calls[positions[0]]
    if call.tensor.shape[0] != n:
        raise ValueError(
            f"{n} inputs reach the anchored layer as {call.tensor.shape[0]} rows: anchors are paired with "
            f"inputs, so its first axis must be theirs; name another layer by at=; layers called: {layers}."
        )
    taken = [c for c in calls[: positions[0]] if not _contains(c.name, anchored)]
    before = [c for c in taken if _has_parameters(c.layer) and not isinstance(c.layer, NORMS)]
    if before and call.layer.following is None:
        raise ValueError(
            f"the input first reaches {before[0].name!r} ({type(before[0].layer).__name__}), not the widened "
            f"layer {anchored!r}: name the layer to widen by stem=, or a later one to put a projection in "
            f"front of by at=; layers called: {layers}."
        )
    consumers = [c.name for c in calls if c.tensor is call.tensor and not _contains(c.name, anchored)]
    if consumers:
        raise ValueError(
            f"the tensor that enters {anchored!r} also enters {join_names(consumers)}, where it would pass "
            f"without anchors: name a layer that all of it passes through by at=; layers called: {layers}."
        )


def _contains(outer: str, inner: str) -> bool:
    """Whether a layer is the other or contains it."""
    return not outer or f"{inner}.".startswith(f"{outer}.")
