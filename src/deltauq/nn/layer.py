"""`AnchoredLayer`: the layer of a network whose input X becomes the tuple [R, X - R]."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal, cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.modules.conv import _ConvNd

from deltauq.core import Encoding


@dataclass(frozen=True, eq=False)
class TupleAnchors:
    """The anchors of one pass in which every row has one tuple."""

    anchors: tuple[Tensor, ...]
    """One for each anchor of a tuple: float tensors of shape (n, ...), as they enter the layer, or int
    tensors of shape (n,), rows of the batch."""
    mask: Tensor | None = None
    """Whether the anchors are masked, so that the tuple is [0, X - R]; of shape () or (n,)."""


@dataclass(frozen=True, eq=False)
class AnchorContribution:
    """The part of an anchored layer's output that does not depend on the input, for k tuples of anchors.

    The layer is linear: W[R; X - R] = {W_R R + W_Δ(S - R)} + W_Δ(X - S), for any shift S. The term in braces
    is computed once for all inputs. So is that of the swapped tuple of labelled anchors, in which R is the
    input and X its anchor: W[X; R - X] = {W_R S + W_Δ(R - S)} + (W_R - W_Δ)(X - S).

    The variants of a tuple are itself and the masked one, followed by both of them swapped.
    """

    value: Tensor
    """The terms with bias, of shape (n_variants * k, ...)."""
    shift: Tensor
    """S, of shape (1, ...), near the anchors: inputs far from zero lose no digits in W_Δ X - W_Δ R."""
    weights: Tensor
    """The weight on X - S in each variant, of shape (n_variants, ...)."""
    anchors: Tensor | None = None
    """Of labelled anchors: the k anchors as they enter the network, and"""
    targets: Tensor | None = None
    """their targets, of shape (k, ...)."""
    repeated: bool = False
    """Whether the rows of the pass are repeated for each row of `value`. Otherwise every row comes once."""

    def __len__(self) -> int:
        return self.value.shape[0] // self.n_variants

    @property
    def n_variants(self) -> int:
        """Variants of each tuple."""
        return self.weights.shape[0]


class LayerReached(Exception):
    """Ends a pass at the anchored layer. Its argument is the tensor that enters the layer."""


class _ActiveAnchors(threading.local):
    """The anchors of the pass that this thread runs: several threads may evaluate one network."""

    anchors: TupleAnchors | AnchorContribution | Literal["stop"] | None = None

    def __reduce__(self) -> tuple[type[_ActiveAnchors], tuple[()]]:
        return _ActiveAnchors, ()


class AnchoredLayer(nn.Module):
    """Maps [R, X - R] linearly, in place of a layer that takes X.

    The network calls it with X alone. `Anchored` provides the anchors of a pass through `use_anchors`.

    Parameters
    ----------
    wide : Linear or Conv
        The map of tuples. For `at`, a projection back to the width of X, without bias.
    encoding : Encoding
        Determines the tuples.
    channels, axis : int
        Channels or features of X, and their axis, along which tuples are joined.
    following : Module, optional
        For `at`: the replaced layer. It takes the projected tuple.
    """

    def __init__(
        self,
        wide: nn.Linear | _ConvNd,
        encoding: Encoding,
        channels: int,
        axis: int,
        following: nn.Module | None = None,
    ) -> None:
        super().__init__()
        self.wide, self.following = wide, following
        self.encoding, self.channels, self.axis = encoding, channels, axis
        self._active = _ActiveAnchors()

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Return the outputs for the first tensor among the arguments, X of shape (n, ...)."""
        x = next((value for value in (*args, *kwargs.values()) if isinstance(value, Tensor)), None)
        if x is None:
            raise TypeError("the anchored layer was called without a tensor.")
        self._check(x)
        anchors = self._active.anchors
        if anchors is None:
            raise RuntimeError("call the Anchored module, not the network inside it.")
        if anchors == "stop":
            raise LayerReached(x)
        if isinstance(anchors, AnchorContribution):
            outputs = self.add_contribution(x, anchors)
        else:
            outputs = self.map_tuples(self.tuples(x, anchors.anchors, anchors.mask))
        if self.following is None:
            return outputs
        # Self-attention takes its input three times.
        args = tuple(outputs if value is x else value for value in args)
        kwargs = {name: outputs if value is x else value for name, value in kwargs.items()}
        return self.following(*args, **kwargs)

    @contextmanager
    def use_anchors(self, anchors: TupleAnchors | AnchorContribution | Literal["stop"]) -> Iterator[None]:
        """Use these anchors in the passes of this thread, or stop them here by `LayerReached`."""
        self._active.anchors = anchors
        try:
            yield
        finally:
            self._active.anchors = None

    def tuples(self, x: Tensor, anchors: tuple[Tensor, ...], mask: Tensor | None = None) -> Tensor:
        """Return [R, X - R] of every row, or [0, X - R] where the anchors are masked; see `TupleAnchors`."""
        anchors = tuple(r if r.is_floating_point() else x[r] for r in anchors)
        if any(r.shape != x.shape for r in anchors):
            raise ValueError(
                f"{anchors[0].shape[0]} inputs reach the anchored layer as {x.shape[0]} rows: anchors are "
                "paired with inputs, so its first axis must be theirs; name another layer by at=."
            )
        # `Encoding.encode` does the same for any array library; torch.compile warns about its lookups.
        deltas = [x - offset for offset in self.encoding.offsets(*anchors)]
        if mask is not None:
            mask = mask if mask.ndim == 0 else mask.view(-1, *[1] * (x.ndim - 1))
            anchors = tuple(r.masked_fill(mask, 0.0) for r in anchors)
        return torch.cat([*anchors, *deltas], dim=self.axis)

    def map_tuples(self, tuples: Tensor) -> Tensor:
        """Return the map of tuples."""
        groups = getattr(self.wide, "groups", 1)
        if groups > 1:
            # A group takes its own channels of every block: blocks x groups becomes groups x blocks.
            tuples = tuples.unflatten(1, (self.encoding.width, groups, -1)).transpose(1, 2).flatten(1, 3)
        return self._map(tuples, self.wide.weight, self.wide.bias)

    def contribution(
        self, anchors: tuple[Tensor, ...], *, masked_too: bool = False, swapped_too: bool = False
    ) -> AnchorContribution:
        """Return the contribution of k tuples, one tensor of shape (k, ...) per anchor of a tuple."""
        self._check(anchors[0])
        shift = self.encoding.offsets(*anchors)[-1].mean(0, keepdim=True)
        x = shift.expand_as(anchors[0])
        blocks = self.wide.weight.unflatten(1, (self.encoding.width, -1)).unbind(1)
        on_anchor, on_inputs = blocks[0], blocks[self.encoding.anchors_per_tuple :]
        masks = [None, torch.ones((), dtype=torch.bool, device=x.device)] if masked_too else [None]
        tuples = [self.tuples(x, anchors, mask) for mask in masks]
        weights = [sum(on_inputs[1:], on_inputs[0])] * len(masks)
        if swapped_too:
            factors = _offset_factors(self.encoding)
            subtracted = sum(f * w for (f,), w in zip(factors, on_inputs, strict=True))
            tuples += [self.tuples(anchors[0], (x,), mask) for mask in masks]
            weights += [(on_anchor if mask is None else 0.0) - subtracted for mask in masks]
        return AnchorContribution(self.map_tuples(torch.cat(tuples)), shift, torch.stack(weights))

    def add_contribution(self, x: Tensor, contribution: AnchorContribution) -> Tensor:
        """Return the map of all pairs of inputs and anchors, of shape (n_variants * k * n, ...)."""
        x = x - contribution.shift
        k, n_variants = len(contribution), contribution.n_variants
        inputs = x.unflatten(0, (n_variants, -1)).unbind() if contribution.repeated else [x] * n_variants
        values = contribution.value.unflatten(0, (n_variants, k)).unbind()
        outputs = []
        for own, value, weight in zip(inputs, values, contribution.weights.unbind(), strict=True):
            mapped = self._map(own, weight, None)
            outputs.append(
                (mapped.unflatten(0, (k, -1)) if contribution.repeated else mapped) + value[:, None]
            )
        return torch.cat(outputs).flatten(0, 1)

    def __getattr__(self, name: str) -> Any:
        # The network around may read attributes of the replaced layer.
        try:
            return super().__getattr__(name)
        except AttributeError:
            modules = self.__dict__.get("_modules", {})
            layer = modules.get("following", modules.get("wide"))
            if layer is None or name.startswith("__"):
                raise
            return getattr(layer, name)

    def _map(self, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        if isinstance(self.wide, _ConvNd):
            return cast("Any", self.wide)._conv_forward(x, weight, bias)
        return F.linear(x.movedim(self.axis, -1), weight, bias).movedim(-1, self.axis)

    def _check(self, x: Tensor) -> None:
        if not x.is_floating_point():
            raise TypeError(
                f"the anchored layer received {x.dtype}: cast the inputs to float, or, where a network "
                "begins with an embedding, anchor a later layer by at='name'."
            )
        if x.ndim < 2 or x.shape[self.axis] != self.channels:
            raise ValueError(
                f"the anchored layer takes {self.channels} channels on axis {self.axis}, "
                f"got a tensor of shape {tuple(x.shape)}."
            )


def widened(layer: nn.Linear | _ConvNd, encoding: Encoding) -> AnchoredLayer:
    """Return an anchored layer with new weights in place of a Linear or Conv layer."""
    like: dict[str, Any] = {
        "bias": layer.bias is not None,
        "device": layer.weight.device,
        "dtype": layer.weight.dtype,
    }
    if isinstance(layer, nn.Linear):
        wide: Any = nn.Linear(encoding.width * layer.in_features, layer.out_features, **like)
        return AnchoredLayer(wide, encoding, layer.in_features, -1)
    names = ("out_channels", "kernel_size", "stride", "padding", "dilation", "groups", "padding_mode")
    options = {name: getattr(layer, name) for name in names}
    wide = type(layer)(encoding.width * layer.in_channels, **options, **like)
    return AnchoredLayer(wide, encoding, layer.in_channels, 1)


def projected(layer: nn.Module, encoding: Encoding, channels: int, axis: int, like: Tensor) -> AnchoredLayer:
    """Return an anchored layer with a projection of tuples in front of a layer; it begins as the identity."""
    options: dict[str, Any] = {"device": like.device, "dtype": like.dtype}
    # No random numbers are drawn.
    wide = nn.utils.skip_init(nn.Linear, encoding.width * channels, channels, bias=False, **options)
    eye = torch.eye(channels, **options)
    wide.weight = nn.Parameter(decoding_weight(encoding, eye))
    return AnchoredLayer(wide, encoding, channels, axis, layer)


def decoding_weight(encoding: Encoding, weight: Tensor) -> Tensor:
    """Return the weight on tuples that gives what `weight` gives on inputs: [W, W] for [R, X - R].

    The encoding's offsets must be linear in the anchors.
    """
    *others, last = _offset_factors(encoding)
    blocks = [*(factor * weight for factor in last), *(torch.zeros_like(weight) for _ in others), weight]
    return torch.cat(blocks, dim=1)


def _offset_factors(encoding: Encoding) -> list[list[float]]:
    """Return how much of each anchor is subtracted from the input in each block of it."""
    units = torch.eye(encoding.anchors_per_tuple, dtype=torch.float64)
    by_anchor = [[float(offset) for offset in encoding.offsets(*unit.unbind())] for unit in units]
    return [list(factors) for factors in zip(*by_anchor, strict=True)]
