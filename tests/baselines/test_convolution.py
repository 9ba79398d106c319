"""Convolutions with second derivatives of their own, against PyTorch's."""

import copy

import pytest
import torch
from torch import nn

from deltauq.baselines._convolution import SlopedConv2d, with_sloped_convolutions


@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize("bias", [True, False])
def test_first_and_second_derivatives_are_right(stride, bias):
    torch.manual_seed(0)
    layer = SlopedConv2d(nn.Conv2d(2, 3, 3, stride, 1, bias=bias)).double()
    x = torch.randn(2, 2, 5, 6, dtype=torch.double, requires_grad=True)
    words = layer.stride, layer.padding, layer.dilation
    weight = layer.weight.detach().clone().requires_grad_()
    function = type(layer).forward.__globals__["_Convolution"].apply
    assert torch.autograd.gradcheck(lambda x, w: function(x, w, words), (x, weight))

    # Second derivatives as a penalty on slopes takes them: first by x, then by x and the weights.
    def slopes(x, w):
        (slope,) = torch.autograd.grad(function(x, w, words).sin().sum(), x, create_graph=True)
        return slope

    assert torch.autograd.gradcheck(slopes, (x, weight))


@pytest.mark.parametrize("precision", [torch.float32, torch.bfloat16])
def test_a_penalty_on_slopes_has_the_same_gradients(precision):
    torch.manual_seed(0)
    plain = nn.Sequential(
        nn.Conv2d(3, 8, 3, 1, 1, bias=False),
        nn.BatchNorm2d(8),
        nn.Softplus(),
        nn.Conv2d(8, 4, 3, 2, 1),
        nn.Conv2d(4, 4, 3, groups=2),
    )
    sloped = with_sloped_convolutions(copy.deepcopy(plain))
    assert [type(layer) for layer in sloped if isinstance(layer, nn.Conv2d)] == [
        SlopedConv2d,
        SlopedConv2d,
        nn.Conv2d,
    ]
    assert list(sloped.state_dict()) == list(plain.state_dict())
    x = torch.randn(4, 3, 8, 8).contiguous(memory_format=torch.channels_last)
    gradients = []
    for net in (plain, sloped):
        with torch.autocast("cpu", torch.bfloat16, enabled=precision == torch.bfloat16):
            inputs = x.clone().requires_grad_()
            outputs = net(inputs).square().sum()
            (slope,) = torch.autograd.grad(outputs, inputs, create_graph=True)
        (slope.flatten(1).norm(dim=1) - 1).square().mean().backward()
        gradients.append(torch.cat([weight.grad.flatten() for weight in net.parameters()]))
    near = 1e-4 if precision == torch.float32 else 3e-2
    assert (gradients[0] - gradients[1]).norm() < near * gradients[0].norm()
