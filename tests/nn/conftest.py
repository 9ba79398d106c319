"""Shared networks and settings for tests of anchored networks."""

from __future__ import annotations

import pytest
import torch
from torch import nn


@pytest.fixture(autouse=True)
def _repeatable():
    torch.set_num_threads(1)
    torch.manual_seed(0)


class SmallConvNet(nn.Module):
    """A strided, padded stem, batch norm, dropout, and a skip connection."""

    def __init__(self, n_channels: int = 3, n_out: int = 4) -> None:
        super().__init__()
        self.stem = nn.Conv2d(n_channels, 8, 5, stride=2, padding=2, padding_mode="reflect")
        self.norm = nn.BatchNorm2d(8)
        self.conv = nn.Conv2d(8, 8, 3, padding=1)
        self.drop = nn.Dropout(0.3)
        self.head = nn.Linear(8, n_out)

    def forward(self, x):
        h = self.norm(self.stem(x)).relu()
        h = h + self.conv(h).relu()
        return self.head(self.drop(h.mean((2, 3))))


@pytest.fixture
def conv_net() -> nn.Module:
    """A small convolutional network whose batch norm has seen some images."""
    net = SmallConvNet()
    for _ in range(3):
        net(2.0 + 3.0 * torch.randn(16, 3, 8, 8))
    return net


@pytest.fixture
def images() -> torch.Tensor:
    """Twelve images of three channels and 8x8 pixels."""
    return torch.randn(12, 3, 8, 8)


@pytest.fixture
def mlp() -> nn.Module:
    """A plain perceptron over five features."""
    return nn.Sequential(nn.Linear(5, 16), nn.ReLU(), nn.Linear(16, 2))
