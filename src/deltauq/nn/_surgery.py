"""Finds the layer to anchor in a network and puts an anchored one in its place."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy
from torch.nn.utils.parametrize import is_parametrized

from deltauq.core import Encoding
from deltauq.nn._site import (
    AnchoredConv1d,
    AnchoredConv2d,
    AnchoredConv3d,
    AnchoredEntry,
    AnchoredLinear,
    Site,
    reading_back,
)

ANCHORED = {
    nn.Linear: AnchoredLinear,
    nn.Conv1d: AnchoredConv1d,
    nn.Conv2d: AnchoredConv2d,
    nn.Conv3d: AnchoredConv3d,
}
INITS = ("pretrained", "random")
_CONVOLUTIONS = nn.modules.conv._ConvNd
_BATCH_NORMS = nn.modules.batchnorm._NormBase
_SEQUENCES = (nn.RNNBase, nn.MultiheadAttention, nn.TransformerEncoderLayer, nn.TransformerEncoder)


def anchor_stem(network: nn.Module, encoding: Encoding, stem: str | None, init: str) -> tuple[nn.Module, str]:
    """Widen the layer that takes the input.

    Parameters
    ----------
    network : Module
        Changed in place, unless it is that layer itself.
    encoding : Encoding
    stem : str, optional
        Name of the layer; by default the first Linear or Conv in the order of registration.
    init : {"random", "pretrained"}

    Returns
    -------
    network : Module
    name : str
        Of the anchored layer.
    """
    _refuse_unfit(network)
    name = _first_widenable(network) if stem is None else stem
    layer = _named(network, name, "stem")
    if isinstance(layer, tuple(ANCHORED)):
        _refuse_bound_weight(network, name, layer)
    if type(layer) not in ANCHORED:
        raise ValueError(
            f"layer {name!r} is a {type(layer).__name__}, and only {_names_of_types()} can be widened: "
            f"name another by stem=, or put a projection in front of this one by at={name!r}."
        )
    return _replace(network, name, _widen(layer, encoding, init)), name


def anchor_entry(network: nn.Module, encoding: Encoding, at: str) -> tuple[nn.Module, str]:
    """Put a projection of tuples in front of the layer called `at`; see `anchor_stem`."""
    _refuse_unfit(network)
    layer = _named(network, at, "at")
    channels, axis, like = _entrance(layer, at)
    return _replace(network, at, AnchoredEntry(layer, encoding, channels, axis, like)), at


def layers_of(network: nn.Module) -> str:
    """Return the names of the layers that hold parameters of their own, as one line."""
    names = [
        f"{name or 'itself'} ({type(layer).__name__})"
        for name, layer in network.named_modules()
        if holds_parameters(layer)
    ]
    return some(names)


def holds_parameters(layer: nn.Module) -> bool:
    """Whether a layer has parameters of its own, or computes what it has from others."""
    return is_parametrized(layer) or any(True for _ in layer.parameters(recurse=False))


def some(names: list[str], most: int = 10) -> str:
    """Return names as one line, the first few of them where there are many."""
    more = f", and {len(names) - most} more" if len(names) > most else ""
    return (", ".join(names[:most]) or "none") + more


def _first_widenable(network: nn.Module) -> str:
    for name, layer in network.named_modules():
        if type(layer) in ANCHORED or (is_parametrized(layer) and isinstance(layer, tuple(ANCHORED))):
            return name
    raise ValueError(
        f"no {_names_of_types()} layer to widen was found: name the layer to anchor by at=; "
        f"layers with parameters: {layers_of(network)}."
    )


def _names_of_types() -> str:
    return ", ".join(kind.__name__ for kind in ANCHORED)


def _named(network: nn.Module, name: str, word: str) -> nn.Module:
    try:
        return network.get_submodule(name)
    except AttributeError:
        children = [child for child, _ in network.named_children()]
        raise ValueError(
            f"{word}={name!r} names no layer of the network: it holds {some(children)}; "
            f"layers with parameters: {layers_of(network)}."
        ) from None


def _replace(network: nn.Module, name: str, site: Site) -> nn.Module:
    site.train(network.training)
    if not name:
        return site
    network.set_submodule(name, site)
    path = name.split(".")
    for depth in range(len(path)):
        outer = network.get_submodule(".".join(path[:depth]))
        if isinstance(outer, nn.TransformerEncoderLayer):
            # Its fast path reads weights and calls no layers; only this keeps it out of it.
            outer.activation_relu_or_gelu = 0
    return network


def _widen(layer: nn.Module, encoding: Encoding, init: str) -> Site:
    assert isinstance(layer.weight, Tensor)
    site = ANCHORED[type(layer)](layer, encoding)
    if init == "pretrained":
        with torch.no_grad():
            site.weight.copy_(reading_back(encoding, layer.weight))
            if site.bias is not None:
                site.bias.copy_(layer.bias)
        for name, parameter in site.named_parameters():
            parameter.requires_grad_(getattr(layer, name).requires_grad)
    return site


def _refuse_unfit(network: nn.Module) -> None:
    """Refuse a network that is anchored already, or whose layers cannot be changed."""
    for name, layer in network.named_modules():
        if isinstance(layer, Site):
            raise ValueError(f"the network is anchored already, at {name or 'itself'!r}.")
        if isinstance(layer, torch.jit.ScriptModule):
            raise ValueError(
                f"layer {name or 'itself'!r} is scripted, and its layers cannot be changed: "
                "anchor the network first."
            )
        if any(is_lazy(parameter) for parameter in layer.parameters(recurse=False)):
            raise ValueError(
                f"layer {name or 'itself'!r} ({type(layer).__name__}) is lazy and has no shape yet: "
                "run one batch through the network first."
            )


def _refuse_bound_weight(network: nn.Module, name: str, layer: nn.Module) -> None:
    """Refuse a weight that something else decides: widening it would undo that in silence."""
    free = dict(layer.named_parameters(recurse=False)).get("weight")
    if free is None:
        bound = "is computed from other parameters"
    elif sum(p is free for m in network.modules() for p in m.parameters(recurse=False)) > 1:
        bound = "is shared with another layer"
    else:
        return
    raise ValueError(
        f"the weight of layer {name!r} {bound}, so it cannot be widened: "
        f"put a projection in front of the layer by at={name!r}."
    )


def _entrance(layer: nn.Module, at: str) -> tuple[int, int, Tensor]:
    """Return channels of what enters a layer, the axis they are on, and a tensor of its device and dtype."""
    if isinstance(layer, _SEQUENCES) and not _batch_first(layer):
        raise ValueError(
            f"layer {at!r} ({type(layer).__name__}) takes time on its first axis, where anchors are "
            "paired with inputs: construct it with batch_first=True."
        )
    for inner in layer.modules():
        like = next(inner.parameters(), None)
        found: tuple[int, int] | None = None
        if isinstance(inner, nn.Linear):
            found = inner.in_features, -1
        elif isinstance(inner, _CONVOLUTIONS):
            found = inner.in_channels, 1
        elif isinstance(inner, _BATCH_NORMS):
            found = inner.num_features, 1
        elif isinstance(inner, nn.GroupNorm):
            found = inner.num_channels, 1
        elif isinstance(inner, nn.LayerNorm | nn.RMSNorm):
            found = inner.normalized_shape[-1], -1
        elif isinstance(inner, nn.MultiheadAttention):
            found = inner.embed_dim, -1
        elif isinstance(inner, nn.RNNBase):
            found = inner.input_size, -1
        elif isinstance(inner, nn.Embedding | nn.EmbeddingBag):
            raise ValueError(f"layer {at!r} begins with an embedding of integers: name a later layer by at=.")
        if found is not None and like is not None:
            return *found, like
    raise ValueError(
        f"layer {at!r} ({type(layer).__name__}) does not say how many channels enter it: "
        "name a layer that holds a Linear, a Conv or a normalisation."
    )


def _batch_first(layer: nn.Module) -> bool:
    """Whether inputs are on the first axis of what enters a layer over sequences."""
    return all(getattr(inner, "batch_first", True) for inner in layer.modules())
