"""The paper's networks."""

import pytest
import torch
from torch import nn

from deltauq.nn import MLP, Anchored, FourierFeatures, ResNet18, ResNet20
from deltauq.nn.networks import NETWORKS


def size(network):
    return sum(p.numel() for p in network.parameters())


def test_residual_networks_have_their_known_sizes():
    # 11,173,962: ResNet-18 with a 3x3 stem; 269,722: ResNet-20 without parameters in its shortcuts.
    assert size(ResNet18()) == 11_173_962
    assert size(ResNet20()) == 269_722
    assert size(Anchored(ResNet20())) == 269_722 + 3 * 16 * 9


@pytest.mark.parametrize("make", [ResNet18, ResNet20])
def test_residual_networks_halve_the_image_between_stages(make):
    network = make(n_classes=7, n_channels=1)
    sizes = []
    for stage in network.stages:
        stage.register_forward_hook(lambda _, __, out: sizes.append(tuple(out.shape[2:])))
    assert network(torch.randn(2, 1, 32, 32)).shape == (2, 7)
    assert sizes == [(32, 32), (16, 16), (8, 8), (4, 4)][: len(sizes)]


def test_option_a_keeps_every_other_pixel_and_pads_channels():
    shortcut = ResNet20().stages[1][0].shortcut
    x = torch.randn(2, 16, 8, 8)
    out = shortcut(x)
    assert out.shape == (2, 32, 4, 4)
    assert torch.equal(out[:, 8:24], x[:, :, ::2, ::2])
    assert out[:, :8].abs().max() == out[:, 24:].abs().max() == 0


def test_fourier_features_approximate_the_gaussian_kernel():
    features = FourierFeatures(3, 20_000, scale=0.7)
    x = torch.randn(6, 3)
    phi = features(x) / 20_000**0.5
    kernel = torch.exp(-0.5 * 0.7**2 * torch.cdist(x, x) ** 2)
    torch.testing.assert_close(phi @ phi.T, kernel, atol=0.03, rtol=0)


def test_with_fourier_features_the_features_are_anchored():
    net = Anchored(MLP(3, 2, (8,), n_frequencies=16))
    assert isinstance(net.anchored_layer.wide, nn.Linear)
    assert net.anchored_layer.channels == 32


def test_perceptron():
    network = MLP(12, 3, (7, 6), activation="tanh", dropout=0.5)
    assert network(torch.randn(4, 3, 2, 2)).shape == (4, 3)
    assert [type(layer).__name__ for layer in network.layers] == [
        "Linear", "Tanh", "Dropout", "Linear", "Tanh", "Dropout", "Linear"
    ]  # fmt: skip


@pytest.mark.parametrize("network", [MLP(4, 2, (5,), n_frequencies=3), ResNet18(5), ResNet20(5, 1)])
def test_config_rebuilds_the_network(network):
    again = NETWORKS[type(network).__name__](**network.config)
    assert {n: v.shape for n, v in again.state_dict().items()} == {
        n: v.shape for n, v in network.state_dict().items()
    }
