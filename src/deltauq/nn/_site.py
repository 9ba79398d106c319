"""Layers whose input is anchored: what they see is [R, X - R] where they saw X before."""

from __future__ import annotations

import threading
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from deltauq.core import Encoding
from deltauq.nn._pairing import AnchorShare, Pairing


class Current(threading.local):
    """The pairing of the pass that a thread is in; a copy of it is in none."""

    pairing: Pairing | None = None

    def __reduce__(self) -> tuple[type[Current], tuple[()]]:
        return Current, ()


class Site(nn.Module):
    """The place in a network where the tensor passing through it is anchored.

    Its map is linear in the tuple, with one weight for all of it, the anchors' blocks first as in the paper.
    Which anchors a tensor meets is told by ``current.pairing``, which each thread sets for itself, for the
    length of one pass.

    Attributes
    ----------
    encoding : Encoding
    channels : int
        Channels or features of the tensor that enters.
    axis : int
        The axis they are on, and tuples are joined on.
    """

    encoding: Encoding
    channels: int
    axis: int
    current: Current

    def place(self, encoding: Encoding, channels: int, axis: int) -> None:
        """Say what enters here."""
        self.encoding, self.channels, self.axis = encoding, channels, axis
        self.current = Current()

    def wide(self, tuples: Tensor) -> Tensor:
        """Map tuples, bias included."""
        raise NotImplementedError

    def narrow(self, x: Tensor) -> Tensor:
        """Map the input's share of a tuple, without bias."""
        raise NotImplementedError

    def finish(self, mapped: Tensor, x: Tensor, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Tensor:
        """Do what follows the map inside this layer, which was called with x among its arguments."""
        return mapped

    def forward(self, *args: Any, **kwargs: Any) -> Tensor:
        """Anchor the first tensor given, of shape (n, ...), as the current pairing says."""
        pairing = self.current.pairing
        if pairing is None:
            raise RuntimeError("call the Anchored module, not the network inside it.")
        x = first_tensor(args, kwargs)
        if x is None:
            raise TypeError("the anchored layer was called without a tensor.")
        self._check(x)
        return self.finish(pairing(self, x), x, args, kwargs)

    def encode(self, x: Tensor, anchors: tuple[Tensor, ...], masked: Tensor | None = None) -> Tensor:
        """Join anchors and input into tuples, the anchors hidden where `masked` says so.

        `Encoding.encode` does the same for any array library, in ways that a compiler cannot follow.

        Parameters
        ----------
        x : tensor of shape (n, ...)
        anchors : tuple of tensors of x's shape
        masked : bool tensor of shape () or (n,), optional

        Returns
        -------
        tuples : tensor, on `axis` as many times as wide as x as the encoding says
        """
        if any(anchor.shape != x.shape for anchor in anchors):
            raise ValueError(
                f"{anchors[0].shape[0]} inputs reach the anchored layer as {x.shape[0]} rows: anchors are "
                "paired with inputs, so its first axis must be theirs; name another layer by at=."
            )
        delta = x - self.encoding.offset(*anchors)
        if masked is not None:
            hidden = masked if masked.ndim == 0 else masked.view(-1, *[1] * (x.ndim - 1))
            anchors = tuple(anchor.masked_fill(hidden, 0.0) for anchor in anchors)
        return torch.cat([*anchors, delta], dim=self.axis)

    def anchor_share(self, anchors: tuple[Tensor, ...], hidden_too: bool = False) -> AnchorShare:
        """Return what anchors contribute to the map, whatever the input.

        Parameters
        ----------
        anchors : tuple of tensors of shape (k, ...)
            The blocks of k tuples, as they enter this layer.
        hidden_too : bool
            Whether each tuple is read a second time, with its anchors hidden.
        """
        self._check(anchors[0])
        shift = self.encoding.offset(*anchors).mean(0, keepdim=True)
        x = shift.expand_as(anchors[0])
        readings = [self.encode(x, anchors)]
        if hidden_too:
            readings.append(self.encode(x, anchors, torch.ones((), dtype=torch.bool, device=x.device)))
        return AnchorShare(self.wide(torch.cat(readings)), shift, len(readings))

    def _check(self, x: Tensor) -> None:
        shape = tuple(x.shape)
        if not x.is_floating_point():
            raise TypeError(
                f"the anchored layer received {x.dtype}: cast the inputs to float, or, where a network "
                "begins with an embedding, anchor a later layer by at='name'."
            )
        if x.ndim < 2 or shape[self.axis] != self.channels:
            raise ValueError(
                f"the anchored layer takes {self.channels} channels on axis {self.axis}, "
                f"got a tensor of shape {shape}."
            )


class AnchoredLinear(Site, nn.Linear):
    """A linear layer that takes tuples of what `layer` took."""

    def __init__(self, layer: nn.Linear, encoding: Encoding) -> None:
        nn.Linear.__init__(
            self,
            encoding.width * layer.in_features,
            layer.out_features,
            layer.bias is not None,
            **_like(layer.weight),
        )
        self.place(encoding, layer.in_features, -1)

    def wide(self, tuples: Tensor) -> Tensor:
        """Map tuples, bias included."""
        return F.linear(tuples, self.weight, self.bias)

    def narrow(self, x: Tensor) -> Tensor:
        """Map the input's share of a tuple, without bias."""
        return F.linear(x, self.weight[:, -self.channels :])


class _AnchoredConv(Site, nn.modules.conv._ConvNd):
    """A convolution that takes tuples of what `layer` took."""

    def __init__(self, layer: nn.modules.conv._ConvNd, encoding: Encoding) -> None:
        super().__init__(
            encoding.width * layer.in_channels,
            layer.out_channels,
            layer.kernel_size,
            stride=layer.stride,
            padding=layer.padding,
            dilation=layer.dilation,
            groups=layer.groups,
            bias=layer.bias is not None,
            padding_mode=layer.padding_mode,
            **_like(layer.weight),
        )
        self.place(encoding, layer.in_channels, 1)

    def wide(self, tuples: Tensor) -> Tensor:
        """Map tuples, bias included."""
        if self.groups > 1:
            # A group takes its own channels of every block: blocks x groups becomes groups x blocks.
            tuples = tuples.unflatten(1, (self.encoding.width, self.groups, -1)).transpose(1, 2).flatten(1, 3)
        return self._conv_forward(tuples, self.weight, self.bias)

    def narrow(self, x: Tensor) -> Tensor:
        """Map the input's share of a tuple, without bias."""
        return self._conv_forward(x, self.weight[:, -(self.channels // self.groups) :], None)


class AnchoredConv1d(_AnchoredConv, nn.Conv1d):
    """A one-dimensional convolution that takes tuples."""


class AnchoredConv2d(_AnchoredConv, nn.Conv2d):
    """A two-dimensional convolution that takes tuples."""


class AnchoredConv3d(_AnchoredConv, nn.Conv3d):
    """A three-dimensional convolution that takes tuples."""


class AnchoredEntry(Site):
    """A projection of tuples back to the width of what `layer` takes, in front of it.

    Attributes
    ----------
    layer : Module
    weight : Parameter of shape (channels, width * channels)
        Begins as the projection that reads the input back: [I, I] for [R, X - R].
    """

    def __init__(self, layer: nn.Module, encoding: Encoding, channels: int, axis: int, like: Tensor) -> None:
        super().__init__()
        self.weight = nn.Parameter(reading_back(encoding, torch.eye(channels, **_like(like))))
        self.layer = layer  # behind the weight: from here on its attributes are found here, too
        self.place(encoding, channels, axis)

    def wide(self, tuples: Tensor) -> Tensor:
        """Project tuples."""
        return self._project(tuples, self.weight)

    def narrow(self, x: Tensor) -> Tensor:
        """Project the input's share of a tuple."""
        return self._project(x, self.weight[:, -self.channels :])

    def finish(self, mapped: Tensor, x: Tensor, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Tensor:
        """Pass the projection on to the layer wherever x was given: self-attention takes it three times."""
        args = tuple(mapped if value is x else value for value in args)
        kwargs = {name: mapped if value is x else value for name, value in kwargs.items()}
        return self.layer(*args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        # What surrounds a layer may read its attributes.
        try:
            return super().__getattr__(name)
        except AttributeError:
            layer = self.__dict__.get("_modules", {}).get("layer")
            if layer is None or name.startswith("__"):
                raise
            return getattr(layer, name)

    def _project(self, x: Tensor, weight: Tensor) -> Tensor:
        return F.linear(x.movedim(self.axis, -1), weight).movedim(-1, self.axis)


def first_tensor(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Tensor | None:
    """Return the first tensor that a layer was called with, by place or else by name."""
    for value in (*args, *kwargs.values()):
        if isinstance(value, Tensor):
            return value
    return None


def reading_back(encoding: Encoding, weight: Tensor) -> Tensor:
    """Return the weight on tuples that gives what `weight` gives on inputs: [W, W] for [R, X - R].

    Parameters
    ----------
    encoding : Encoding
        Its offset must be linear in the anchors.
    weight : tensor of shape (out, in, ...)

    Returns
    -------
    wide : tensor of shape (out, width * in, ...)
    """
    units = torch.eye(encoding.n_anchors, dtype=torch.float64)
    shares = [float(encoding.offset(*unit.unbind())) for unit in units]
    return torch.cat([*(share * weight for share in shares), weight], dim=1)


def _like(tensor: Tensor) -> dict[str, Any]:
    return {"device": tensor.device, "dtype": tensor.dtype}
