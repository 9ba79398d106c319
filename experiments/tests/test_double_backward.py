"""Layers with custom second derivatives agree with PyTorch's."""

import copy
import shutil

import pytest
import torch
from torch import nn

from experiments.double_backward import DoubleBackwardBatchNorm2d, DoubleBackwardConv2d, use_double_backward


@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize("bias", [True, False])
def test_convolution_derivatives(stride, bias):
    torch.manual_seed(0)
    layer = DoubleBackwardConv2d(nn.Conv2d(2, 3, 3, stride, 1, bias=bias)).double()
    x = torch.randn(2, 2, 5, 6, dtype=torch.double, requires_grad=True)
    arguments = layer.stride, layer.padding, layer.dilation
    weight = layer.weight.detach().clone().requires_grad_()
    function = type(layer).forward.__globals__["_Convolution"].apply
    assert torch.autograd.gradcheck(lambda x, w: function(x, w, arguments), (x, weight))

    # Second derivatives as a penalty on slopes takes them: first by x, then by x and the weights.
    def slopes(x, w):
        (slope,) = torch.autograd.grad(function(x, w, arguments).sin().sum(), x, create_graph=True)
        return slope

    assert torch.autograd.gradcheck(slopes, (x, weight))


needs_compiler = pytest.mark.skipif(shutil.which("g++") is None, reason="PyTorch compiles by g++ on a CPU")


@pytest.mark.parametrize(
    "compiled",
    [False, pytest.param(True, marks=[pytest.mark.slow, needs_compiler])],
    ids=["eager", "compiled"],
)
def test_normalisation_derivatives(compiled):
    torch.manual_seed(0)
    plain = nn.BatchNorm2d(2, momentum=0.3).double()
    nn.init.uniform_(plain.weight, 0.5, 2.0)
    layer = DoubleBackwardBatchNorm2d(copy.deepcopy(plain), compiled)
    x = torch.randn(3, 2, 2, 3, dtype=torch.double, requires_grad=True)
    assert torch.allclose(layer(x), plain(x), rtol=1e-12)
    for name, value in plain.state_dict().items():
        assert torch.allclose(layer.state_dict()[name], value, rtol=1e-12), name
    assert torch.allclose(copy.deepcopy(layer).eval()(x), plain.eval()(x), rtol=1e-12)
    parameters = [weight.detach().clone().requires_grad_() for weight in layer.parameters()]

    def outputs(x, weight, bias):
        return torch.func.functional_call(layer, {"weight": weight, "bias": bias}, (x,))

    def slopes(x, *parameters):
        (slope,) = torch.autograd.grad(outputs(x, *parameters).sin().sum(), x, create_graph=True)
        return slope

    assert torch.autograd.gradcheck(outputs, (x, *parameters))
    assert torch.autograd.gradcheck(slopes, (x, *parameters))


def test_rejects_single_value_per_channel():
    with pytest.raises(ValueError, match="more than 1 value per channel"):
        DoubleBackwardBatchNorm2d(nn.BatchNorm2d(3), compiled=False)(torch.randn(1, 3, 1, 1))


def test_no_double_backward_through_weights():
    layer = DoubleBackwardConv2d(nn.Conv2d(1, 1, 3))
    outputs = layer(torch.ones(1, 1, 4, 4)).sum()
    with pytest.raises(RuntimeError, match="not have been used"):
        torch.autograd.grad(outputs, layer.weight, create_graph=True)


@pytest.mark.parametrize("precision", [torch.float32, torch.bfloat16])
def test_gradient_penalty_matches_pytorch(precision):
    torch.manual_seed(0)
    plain = nn.Sequential(
        nn.Conv2d(3, 8, 3, 1, 1, bias=False),
        nn.BatchNorm2d(8),
        nn.Softplus(),
        nn.Conv2d(8, 4, 3, 2, 1),
        nn.Conv2d(4, 4, 3, groups=2),
    )
    replaced = use_double_backward(copy.deepcopy(plain))
    assert type(replaced[1]) is DoubleBackwardBatchNorm2d
    assert [type(layer) for layer in replaced if isinstance(layer, nn.Conv2d)] == [
        DoubleBackwardConv2d,
        DoubleBackwardConv2d,
        nn.Conv2d,
    ]
    assert list(replaced.state_dict()) == list(plain.state_dict())
    x = torch.randn(4, 3, 8, 8).contiguous(memory_format=torch.channels_last)
    gradients = []
    for net in (plain, replaced):
        with torch.autocast("cpu", torch.bfloat16, enabled=precision == torch.bfloat16):
            inputs = x.clone().requires_grad_()
            outputs = net(inputs).square().sum()
            (slope,) = torch.autograd.grad(outputs, inputs, create_graph=True)
        (slope.flatten(1).norm(dim=1) - 1).square().mean().backward()
        gradients.append(torch.cat([weight.grad.flatten() for weight in net.parameters()]))
    near = 1e-4 if precision == torch.float32 else 3e-2
    assert (gradients[0] - gradients[1]).norm() < near * gradients[0].norm()
