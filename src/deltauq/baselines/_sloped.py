"""Layers whose slopes can be learned from at little more than the cost of ordinary ones.

PyTorch takes second derivatives of a convolution by one whose kernel is as large as the image, which a GPU is
slow at, and those of batch normalisation in some forty passes over the data. As functions of their own, the
gradients of a convolution have gradients of convolutions again, and those of a normalisation a short formula.

A slope is the gradient in the inputs: under ``create_graph=True`` parameters have none here, as it would be
computed for nothing. Gradients of a loss that slopes are part of reach everything.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, TypeGuard

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn import functional as F

Words = tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]
"""Stride, padding, dilation."""
Statistics = tuple[Tensor, Tensor, float, float, Any]
"""Running mean and variance, momentum, eps, and what gives second derivatives."""


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
        wanted = ctx.needs_input_grad[1] and not torch.is_grad_enabled()
        for_weight = _for_weight(grad, x, weight, ctx.words) if wanted else None
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


class _Normalisation(torch.autograd.Function):
    """Batch normalisation by the statistics of the batch; running ones are moved towards them."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor, words: Statistics) -> Tensor:
        running_mean, running_var, momentum, eps, second = words
        outputs, mean, scale = torch.ops.aten.native_batch_norm(
            x, weight, bias, running_mean, running_var, True, momentum, eps
        )
        ctx.save_for_backward(x, weight, mean, scale)
        ctx.words = eps, second
        return outputs

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, Tensor | None, Tensor | None, None]:
        if torch.is_grad_enabled():
            return _NormalisationGradient.apply(grad, *ctx.saved_tensors, ctx.words), None, None, None
        x, weight, mean, scale = ctx.saved_tensors
        return (*_normalisation_gradients(grad, x, weight, mean, scale, ctx.words[0], True), None)


class _NormalisationGradient(torch.autograd.Function):
    """What a gradient of the outputs says about the inputs."""

    @staticmethod
    def forward(
        ctx: Any, grad: Tensor, x: Tensor, weight: Tensor, mean: Tensor, scale: Tensor, words: Any
    ) -> Tensor:
        ctx.save_for_backward(grad, x, weight, mean, scale)
        eps, ctx.second = words
        for_x, *_ = _normalisation_gradients(grad, x, weight, mean, scale, eps, False)
        return for_x

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, second: Tensor) -> tuple[Tensor | None, ...]:
        given = (tensor.detach() for tensor in ctx.saved_tensors)
        return (*ctx.second(second, *given), None, None, None)


def _normalisation_gradients(
    grad: Tensor, x: Tensor, weight: Tensor, mean: Tensor, scale: Tensor, eps: float, of_parameters: bool
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the gradients of inputs, weights and biases."""
    wanted = [True, of_parameters, of_parameters]
    found: tuple[Tensor, Tensor, Tensor] = torch.ops.aten.native_batch_norm_backward(
        grad, x, weight, None, None, mean, scale, True, eps, wanted
    )
    return found


def second_gradients(
    second: Tensor, grad: Tensor, x: Tensor, weight: Tensor, mean: Tensor, scale: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Return what a gradient of the slopes of a normalisation says about gradient, inputs and weights.

    With h = (x − mean)·scale the slope is weight·scale·P(grad), where P(u) = u − ⟨u⟩ − h⟨uh⟩ and ⟨·⟩ is the
    mean over a channel. P is symmetric, the derivative of h in x is scale·P, that of scale −scale²·h / size.

    Parameters
    ----------
    second, grad, x : tensors of shape (n, channels, height, width)
    weight, mean, scale : tensors of shape (channels,)

    Returns
    -------
    for_grad, for_x : tensors of shape (n, channels, height, width)
    for_weight : tensor of shape (channels,)
    """
    along = (0, 2, 3)
    # Sums of bfloat16 need more digits than it has: statistics and weights are kept in more.
    w, m, r = (tensor.to(mean.dtype)[None, :, None, None] for tensor in (weight, mean, scale))
    v, g, h = second.to(mean.dtype), grad.to(mean.dtype), (x.to(mean.dtype) - m) * r

    def average(tensor: Tensor) -> Tensor:
        return tensor.mean(along, keepdim=True)

    of_v, of_g, of_vh, of_gh = average(v), average(g), average(v * h), average(g * h)
    inner = average(v * g) - of_v * of_g - of_vh * of_gh
    for_grad = w * r * (v - of_v - h * of_vh)
    # Through h, and through the scale.
    pulled = of_vh * (g - of_g - h * of_gh) + of_gh * (v - of_v - h * of_vh)
    for_x = -w * r * r * (pulled + h * inner)
    size = x.numel() // x.shape[1]
    for_weight = (size * r * inner).flatten()
    return for_grad.to(grad.dtype), for_x.to(x.dtype), for_weight.to(weight.dtype)


@lru_cache(maxsize=1)
def _compiled() -> Any:
    """Return `second_gradients` in a pass or two over the data."""
    return torch.compile(second_gradients, dynamic=False)


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


class SlopedBatchNorm2d(nn.BatchNorm2d):
    """A batch normalisation that shares the weights and running statistics of another.

    Parameters
    ----------
    layer : BatchNorm2d
    compiled : bool
        Whether second derivatives are compiled: a GPU then takes them in two passes over the data.
    """

    def __init__(self, layer: nn.BatchNorm2d, compiled: bool) -> None:
        super().__init__(layer.num_features, layer.eps, layer.momentum)
        self.weight, self.bias = layer.weight, layer.bias
        self.running_mean, self.running_var = layer.running_mean, layer.running_var
        self.num_batches_tracked = layer.num_batches_tracked
        self.compiled = compiled

    def forward(self, x: Tensor) -> Tensor:
        """Return x of shape (n, num_features, height, width), normalised."""
        # PyTorch's own refuses a single value per channel, which has no spread.
        if not self.training or x.numel() == self.num_features:
            return super().forward(x)
        assert self.num_batches_tracked is not None
        self.num_batches_tracked.add_(1)
        second = _compiled() if self.compiled else second_gradients
        words = self.running_mean, self.running_var, self.momentum, self.eps, second
        outputs: Tensor = _Normalisation.apply(x, self.weight, self.bias, words)
        return outputs


def with_slopes(net: nn.Module, compiled: bool = False) -> nn.Module:
    """Exchange the plain convolutions and normalisations of images in a network, in place.

    Parameters
    ----------
    net : Module
        Its weights and running statistics stay.
    compiled : bool, default=False
        See `SlopedBatchNorm2d`.
    """
    for name, layer in list(net.named_modules()):
        if name and _is_plain_convolution(layer):
            net.set_submodule(name, SlopedConv2d(layer))
        elif name and _is_plain_normalisation(layer):
            net.set_submodule(name, SlopedBatchNorm2d(layer, compiled))
    return net


def _is_plain_convolution(layer: nn.Module) -> TypeGuard[nn.Conv2d]:
    plain = type(layer) is nn.Conv2d and layer.groups == 1 and layer.padding_mode == "zeros"
    return plain and not isinstance(layer.padding, str)


def _is_plain_normalisation(layer: nn.Module) -> TypeGuard[nn.BatchNorm2d]:
    plain = type(layer) is nn.BatchNorm2d and layer.affine and layer.track_running_stats
    return plain and layer.momentum is not None
