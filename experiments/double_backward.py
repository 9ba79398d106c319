"""Convolution and batch normalisation with fast second derivatives, for penalties on input gradients.

PyTorch computes second derivatives of a convolution by a convolution whose kernel is as large as the image,
which is slow on a GPU, and those of batch normalisation in some forty passes over the data. Custom autograd
functions reduce the former to ordinary convolutions and the latter to a closed form.

Under ``create_graph=True`` only inputs have gradients; gradients of parameters would be computed in vain.
The gradient of a loss that contains input gradients reaches inputs and parameters.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, TypeGuard

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn import functional as F

Arguments = tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]
"""Stride, padding, dilation."""
Statistics = tuple[Tensor, Tensor, float, float, Any]
"""Running mean and variance, momentum, eps, and the function for second derivatives."""


class _Convolution(torch.autograd.Function):
    """A convolution without bias."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, arguments: Arguments) -> Tensor:
        ctx.save_for_backward(x, weight)
        ctx.arguments = arguments
        return F.conv2d(x, weight, None, *arguments)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, Tensor | None, None]:
        x, weight = ctx.saved_tensors
        for_x = _InputGradient.apply(grad, weight, x, ctx.arguments) if ctx.needs_input_grad[0] else None
        requested = ctx.needs_input_grad[1] and not torch.is_grad_enabled()
        for_weight = _weight_gradient(grad, x, weight, ctx.arguments) if requested else None
        return for_x, for_weight, None


class _InputGradient(torch.autograd.Function):
    """Gradient of a convolution with respect to its inputs: linear in output gradient and weight."""

    @staticmethod
    def forward(ctx: Any, grad: Tensor, weight: Tensor, x: Tensor, arguments: Arguments) -> Tensor:
        ctx.save_for_backward(grad, weight)
        ctx.arguments = arguments
        (for_x,) = _gradients(grad, x, weight, arguments, (True, False))
        return for_x

    @staticmethod
    def backward(ctx: Any, second: Tensor) -> tuple[Tensor | None, Tensor | None, None, None]:
        grad, weight = ctx.saved_tensors
        for_grad = _Convolution.apply(second, weight, ctx.arguments) if ctx.needs_input_grad[0] else None
        for_weight = (
            _weight_gradient(grad, second, weight, ctx.arguments) if ctx.needs_input_grad[1] else None
        )
        return for_grad, for_weight, None, None


def _weight_gradient(grad: Tensor, x: Tensor, weight: Tensor, arguments: Arguments) -> Tensor:
    (for_weight,) = _gradients(grad, x, weight, arguments, (False, True))
    return for_weight


def _gradients(
    grad: Tensor,
    x: Tensor,
    weight: Tensor,
    arguments: Arguments,
    needs_gradient: tuple[bool, bool],
) -> list[Tensor]:
    """Return the gradients of inputs and weights, those that are needed."""
    stride, padding, dilation = arguments
    gradients = torch.ops.aten.convolution_backward(
        grad, x, weight, None, stride, padding, dilation, False, [0, 0], 1, [*needs_gradient, False]
    )
    return [gradient for gradient, needed in zip(gradients, needs_gradient, strict=False) if needed]


class _Normalisation(torch.autograd.Function):
    """Batch normalisation by the statistics of the batch; running ones are moved towards them."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor, arguments: Statistics) -> Tensor:
        running_mean, running_var, momentum, eps, second = arguments
        outputs, mean, scale = torch.ops.aten.native_batch_norm(
            x, weight, bias, running_mean, running_var, True, momentum, eps
        )
        ctx.save_for_backward(x, weight, mean, scale)
        ctx.arguments = eps, second
        return outputs

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, Tensor | None, Tensor | None, None]:
        if torch.is_grad_enabled():
            return _NormalisationGradient.apply(grad, *ctx.saved_tensors, ctx.arguments), None, None, None
        x, weight, mean, scale = ctx.saved_tensors
        return (*_normalisation_gradients(grad, x, weight, mean, scale, ctx.arguments[0], True), None)


class _NormalisationGradient(torch.autograd.Function):
    """Gradient of a batch normalisation with respect to its inputs."""

    @staticmethod
    def forward(
        ctx: Any, grad: Tensor, x: Tensor, weight: Tensor, mean: Tensor, scale: Tensor, arguments: Any
    ) -> Tensor:
        ctx.save_for_backward(grad, x, weight, mean, scale)
        eps, ctx.second = arguments
        for_x, *_ = _normalisation_gradients(grad, x, weight, mean, scale, eps, False)
        return for_x

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, second: Tensor) -> tuple[Tensor | None, ...]:
        saved = (tensor.detach() for tensor in ctx.saved_tensors)
        return (*ctx.second(second, *saved), None, None, None)


def _normalisation_gradients(
    grad: Tensor, x: Tensor, weight: Tensor, mean: Tensor, scale: Tensor, eps: float, of_parameters: bool
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the gradients of inputs, weights and biases."""
    requested = [True, of_parameters, of_parameters]
    gradients: tuple[Tensor, Tensor, Tensor] = torch.ops.aten.native_batch_norm_backward(
        grad, x, weight, None, None, mean, scale, True, eps, requested
    )
    return gradients


def second_gradients(
    second: Tensor, grad: Tensor, x: Tensor, weight: Tensor, mean: Tensor, scale: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the second derivatives of a batch normalisation, given the gradient of its input gradient.

    With h = (x − mean)·scale the input gradient is weight·scale·P(grad), where P(u) = u − ⟨u⟩ − h⟨uh⟩ and
    ⟨·⟩ is the mean over a channel. P is symmetric, the derivative of h in x is scale·P, and that of scale is
    −scale²·h / size.

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
    # Sums need more precision than bfloat16 has; statistics and weights are kept in float32.
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
    """Return `second_gradients`, compiled."""
    return torch.compile(second_gradients, dynamic=False)


class DoubleBackwardConv2d(nn.Conv2d):
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
            # Autocast does not reach custom autograd functions.
            x, weight = (tensor.to(torch.get_autocast_dtype(kind)) for tensor in (x, weight))
        arguments = self.stride, self.padding, self.dilation
        outputs: Tensor = _Convolution.apply(x, weight, arguments)
        return outputs if self.bias is None else outputs + self.bias.to(outputs)[:, None, None]


class DoubleBackwardBatchNorm2d(nn.BatchNorm2d):
    """A batch normalisation that shares the weights and running statistics of another.

    Parameters
    ----------
    compiled : bool
        Compile the second derivatives: a GPU then needs two passes over the data.
    """

    def __init__(self, layer: nn.BatchNorm2d, compiled: bool) -> None:
        super().__init__(layer.num_features, layer.eps, layer.momentum)
        self.weight, self.bias = layer.weight, layer.bias
        self.running_mean, self.running_var = layer.running_mean, layer.running_var
        self.num_batches_tracked = layer.num_batches_tracked
        self.compiled = compiled

    def forward(self, x: Tensor) -> Tensor:
        """Return x of shape (n, num_features, height, width), normalised."""
        # PyTorch raises an error for a single value per channel, whose variance is undefined.
        if not self.training or x.numel() == self.num_features:
            return super().forward(x)
        assert self.num_batches_tracked is not None
        self.num_batches_tracked.add_(1)
        second = _compiled() if self.compiled else second_gradients
        arguments = self.running_mean, self.running_var, self.momentum, self.eps, second
        outputs: Tensor = _Normalisation.apply(x, self.weight, self.bias, arguments)
        return outputs


def use_double_backward(net: nn.Module, compiled: bool = False) -> nn.Module:
    """Replace the plain Conv2d and BatchNorm2d layers of a network, in place.

    Parameters
    ----------
    net : Module
        Keeps its weights and running statistics.
    compiled : bool, default=False
        See `DoubleBackwardBatchNorm2d`.
    """
    for name, layer in list(net.named_modules()):
        if name and _is_plain_convolution(layer):
            net.set_submodule(name, DoubleBackwardConv2d(layer))
        elif name and _is_plain_normalisation(layer):
            net.set_submodule(name, DoubleBackwardBatchNorm2d(layer, compiled))
    return net


def _is_plain_convolution(layer: nn.Module) -> TypeGuard[nn.Conv2d]:
    plain = type(layer) is nn.Conv2d and layer.groups == 1 and layer.padding_mode == "zeros"
    return plain and not isinstance(layer.padding, str)


def _is_plain_normalisation(layer: nn.Module) -> TypeGuard[nn.BatchNorm2d]:
    plain = type(layer) is nn.BatchNorm2d and layer.affine and layer.track_running_stats
    return plain and layer.momentum is not None
