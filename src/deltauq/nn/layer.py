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
    is computed once for all inputs.
    """

    value: Tensor
    """The term with bias, of shape (n_variants * k, ...); the second half is that of masked anchors."""
    shift: Tensor
    """S, of shape (1, ...), near the anchors: inputs far from zero lose no digits in W_Δ X - W_Δ R."""
    n_variants: int = 1
    """2 if tuples are also evaluated with their anchors masked."""
    repeated: bool = False
    """Whether the rows of the pass are repeated for each row of `value`. Otherwise every row comes once."""

    def __len__(self) -> int:
        return self.value.shape[0] // self.n_variants


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
        delta = x - self.encoding.offset(*anchors)
        if mask is not None:
            mask = mask if mask.ndim == 0 else mask.view(-1, *[1] * (x.ndim - 1))
            anchors = tuple(r.masked_fill(mask, 0.0) for r in anchors)
        return torch.cat([*anchors, delta], dim=self.axis)

    def map_tuples(self, tuples: Tensor) -> Tensor:
        """Return the map of tuples."""
        groups = getattr(self.wide, "groups", 1)
        if groups > 1:
            # A group takes its own channels of every block: blocks x groups becomes groups x blocks.
            tuples = tuples.unflatten(1, (self.encoding.width, groups, -1)).transpose(1, 2).flatten(1, 3)
        return self._map(tuples, self.wide.weight, self.wide.bias)

    def contribution(
        self, anchors: tuple[Tensor, ...], masked_too: bool = False, repeated: bool = False
    ) -> AnchorContribution:
        """Return the contribution of k tuples, one tensor of shape (k, ...) per anchor of a tuple."""
        self._check(anchors[0])
        shift = self.encoding.offset(*anchors).mean(0, keepdim=True)
        x = shift.expand_as(anchors[0])
        variants = [self.tuples(x, anchors)]
        if masked_too:
            variants.append(self.tuples(x, anchors, torch.ones((), dtype=torch.bool, device=x.device)))
        return AnchorContribution(self.map_tuples(torch.cat(variants)), shift, len(variants), repeated)

    def add_contribution(self, x: Tensor, contribution: AnchorContribution) -> Tensor:
        """Return the map of all pairs of inputs and anchors, of shape (n_variants * k * n, ...)."""
        channels = self.channels // getattr(self.wide, "groups", 1)
        outputs = self._map(x - contribution.shift, self.wide.weight[:, -channels:], None)
        if contribution.repeated:
            outputs = outputs.unflatten(0, (contribution.value.shape[0], -1))
        return (outputs + contribution.value[:, None]).flatten(0, 1)

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

    The encoding's offset must be linear in the anchors.
    """
    units = torch.eye(encoding.anchors_per_tuple, dtype=torch.float64)
    factors = [float(encoding.offset(*unit.unbind())) for unit in units]
    return torch.cat([*(factor * weight for factor in factors), weight], dim=1)
