"""Convolutions whose slopes can be learned from at the cost of ordinary ones.

PyTorch takes second derivatives of a convolution by one whose kernel is as large as the image, which a GPU is
slow at. As functions of their own, the gradients of a convolution have gradients of convolutions again.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

Words = tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]
"""Stride, padding, dilation."""


class _Convolution(torch.autograd.Function):
    """A convolution without bias."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, words: Words) -> Tensor:
        ctx.save_for_backward(x, weight)
        ctx.words = words
        return F.conv2d(x, weight, None, *words)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, Tensor | None, None]:
        x, weight = ctx.saved_tensors
        for_x = _InputGradient.apply(grad, weight, x, ctx.words) if ctx.needs_input_grad[0] else None
        for_weight = _for_weight(grad, x, weight, ctx.words) if ctx.needs_input_grad[1] else None
        return for_x, for_weight, None


class _InputGradient(torch.autograd.Function):
    """What a gradient of the outputs says about the inputs: linear in the gradient and in the weight."""

    @staticmethod
    def forward(ctx: Any, grad: Tensor, weight: Tensor, x: Tensor, words: Words) -> Tensor:
        ctx.save_for_backward(grad, weight)
        ctx.words = words
        (for_x,) = _gradients(grad, x, weight, words, (True, False))
        return for_x

    @staticmethod
    def backward(ctx: Any, second: Tensor) -> tuple[Tensor | None, Tensor | None, None, None]:
        grad, weight = ctx.saved_tensors
        for_grad = _Convolution.apply(second, weight, ctx.words) if ctx.needs_input_grad[0] else None
        for_weight = _for_weight(grad, second, weight, ctx.words) if ctx.needs_input_grad[1] else None
        return for_grad, for_weight, None, None


def _for_weight(grad: Tensor, x: Tensor, weight: Tensor, words: Words) -> Tensor:
    (for_weight,) = _gradients(grad, x, weight, words, (False, True))
    return for_weight


def _gradients(
    grad: Tensor, x: Tensor, weight: Tensor, words: Words, wanted: tuple[bool, bool]
) -> list[Tensor]:
    """Return the gradients wanted, of inputs and of weights."""
    stride, padding, dilation = words
    found = torch.ops.aten.convolution_backward(
        grad, x, weight, None, stride, padding, dilation, False, [0, 0], 1, [*wanted, False]
    )
    return [gradient for gradient, asked in zip(found, wanted, strict=False) if asked]


class SlopedConv2d(nn.Conv2d):
    """A convolution that shares the weights of another."""

    def __init__(self, layer: nn.Conv2d) -> None:
        super().__init__(
            layer.in_channels,
            layer.out_channels,
            layer.kernel_size,  # type: ignore[arg-type]
            layer.stride,  # type: ignore[arg-type]
            layer.padding,  # type: ignore[arg-type]
            layer.dilation,  # type: ignore[arg-type]
            bias=layer.bias is not None,
        )
        self.weight, self.bias = layer.weight, layer.bias

    def forward(self, x: Tensor) -> Tensor:
        """Return the convolution of x of shape (n, in_channels, height, width)."""
        kind, weight = x.device.type, self.weight
        if torch.is_autocast_enabled(kind):
            # A function of one's own has to cast by itself.
            x, weight = (tensor.to(torch.get_autocast_dtype(kind)) for tensor in (x, weight))
        words = self.stride, self.padding, self.dilation
        outputs: Tensor = _Convolution.apply(x, weight, words)
        return outputs if self.bias is None else outputs + self.bias.to(outputs)[:, None, None]


def with_sloped_convolutions(net: nn.Module) -> nn.Module:
    """Exchange the plain two-dimensional convolutions of a network, in place; their weights stay."""
    for name, layer in list(net.named_modules()):
        plain = type(layer) is nn.Conv2d and layer.groups == 1 and layer.padding_mode == "zeros"
        if plain and name and not isinstance(layer.padding, str):
            net.set_submodule(name, SlopedConv2d(layer))
    return net
