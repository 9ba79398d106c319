"""The paper's networks: perceptrons, with or without Fourier features, and residual networks for CIFAR."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

ACTIVATIONS: dict[str, type[nn.Module]] = {
    "relu": nn.ReLU,
    "leaky_relu": nn.LeakyReLU,
    "tanh": nn.Tanh,
    "silu": nn.SiLU,
    "gelu": nn.GELU,
}


class FourierFeatures(nn.Module):
    """Random Fourier features: cosines and sines of fixed random frequencies.

    Parameters
    ----------
    n_in : int
        Number of inputs.
    n_frequencies : int
        Number of frequencies.
    scale : float
        Standard deviation of the frequencies, in radians per unit of the input.
    """

    frequencies: Tensor

    def __init__(self, n_in: int, n_frequencies: int, scale: float) -> None:
        super().__init__()
        self.register_buffer("frequencies", scale * torch.randn(n_in, n_frequencies))

    def forward(self, x: Tensor) -> Tensor:
        """Return features of shape (n, 2 * n_frequencies) of inputs of shape (n, n_in)."""
        phases = x @ self.frequencies
        return torch.cat([phases.cos(), phases.sin()], dim=-1)


class MLP(nn.Module):
    """A multilayer perceptron.

    Of the networks in the experiment `gap`, the defaults make the uncertainty of an anchored network grow
    most away from the data. Training with
    ``anchored_loss(..., anchors_per_step=8, consistency=10)`` has a larger effect.

    Parameters
    ----------
    n_in, n_out : int
        Number of inputs and outputs.
    hidden : sequence of int, default=(128, 128)
        Widths of the hidden layers.
    activation : {"relu", "leaky_relu", "tanh", "silu", "gelu"}
        Nonlinearity after every hidden layer.
    n_frequencies : int, default=0
        Random Fourier features of the inputs, as many cosines and sines each; 0 for none. In `Anchored`, the
        features are anchored.
    fourier_scale : float, default=1
        Standard deviation of the frequencies, for standardised inputs.
    dropout : float, default=0
        Dropout rate after every activation.
    """

    def __init__(
        self,
        n_in: int,
        n_out: int = 1,
        hidden: Sequence[int] = (128, 128),
        *,
        activation: str = "relu",
        n_frequencies: int = 0,
        fourier_scale: float = 1.0,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        if activation not in ACTIVATIONS:
            raise ValueError(f"activation must be one of {sorted(ACTIVATIONS)}, got {activation!r}.")
        fourier = {"n_frequencies": n_frequencies, "fourier_scale": fourier_scale}
        layers_config = {"hidden": list(hidden), "activation": activation, "dropout": dropout}
        self.config: dict[str, Any] = {"n_in": n_in, "n_out": n_out, **layers_config, **fourier}
        layers: list[nn.Module] = []
        if n_frequencies:
            layers.append(FourierFeatures(n_in, n_frequencies, fourier_scale))
            n_in = 2 * n_frequencies
        for width in hidden:
            layers += [nn.Linear(n_in, width), ACTIVATIONS[activation]()]
            if dropout:
                layers.append(nn.Dropout(dropout))
            n_in = width
        self.layers = nn.Sequential(*layers, nn.Linear(n_in, n_out))

    def forward(self, x: Tensor) -> Tensor:
        """Return outputs of shape (n, n_out) for inputs of shape (n, n_in); additional axes are flattened."""
        outputs: Tensor = self.layers(x.flatten(1))
        return outputs


class _Block(nn.Module):
    """Two 3x3 convolutions with batch norm, and a shortcut; where the shape changes, a 1x1 convolution."""

    def __init__(self, n_in: int, n_out: int, stride: int, option_a: bool) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(n_in, n_out, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(n_out)
        self.conv2 = nn.Conv2d(n_out, n_out, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(n_out)
        self.shortcut: nn.Module = nn.Identity()
        if stride != 1 or n_in != n_out:
            self.shortcut = (
                _Subsample(n_out - n_in, stride)
                if option_a
                else nn.Sequential(nn.Conv2d(n_in, n_out, 1, stride, bias=False), nn.BatchNorm2d(n_out))
            )

    def forward(self, x: Tensor) -> Tensor:
        out = F.relu(self.bn1(self.conv1(x)))
        return F.relu(self.bn2(self.conv2(out)) + self.shortcut(x))


class _Subsample(nn.Module):
    """The shortcut without parameters (option A): every other pixel, with zeros for the new channels."""

    def __init__(self, n_new: int, stride: int) -> None:
        super().__init__()
        self.n_new, self.stride = n_new, stride

    def forward(self, x: Tensor) -> Tensor:
        x = x[:, :, :: self.stride, :: self.stride]
        return F.pad(x, (0, 0, 0, 0, self.n_new // 2, self.n_new - self.n_new // 2))


class _ResNet(nn.Module):
    """A residual network whose stem is a 3x3 convolution without pooling, for images of about 32x32."""

    def __init__(
        self, n_classes: int, n_channels: int, widths: Sequence[int], n_blocks: int, option_a: bool
    ) -> None:
        super().__init__()
        self.config: dict[str, Any] = {"n_classes": n_classes, "n_channels": n_channels}
        self.conv1 = nn.Conv2d(n_channels, widths[0], 3, 1, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(widths[0])
        self.stages = nn.Sequential()
        for n_in, width in pairwise([widths[0], *widths]):
            first = _Block(n_in, width, 1 if not self.stages else 2, option_a)
            others = [_Block(width, width, 1, option_a) for _ in range(n_blocks - 1)]
            self.stages.append(nn.Sequential(first, *others))
        self.head = nn.Linear(widths[-1], n_classes)
        for layer in self.modules():
            if isinstance(layer, nn.Conv2d):
                nn.init.kaiming_normal_(layer.weight, mode="fan_out", nonlinearity="relu")

    def forward(self, x: Tensor) -> Tensor:
        """Return logits of shape (n, n_classes) for images of shape (n, n_channels, height, width)."""
        out = self.stages(F.relu(self.bn1(self.conv1(x))))
        logits: Tensor = self.head(out.mean(dim=(2, 3)))
        return logits


class ResNet18(_ResNet):
    """ResNet-18 in its CIFAR form: `stages.0` to `stages.3` of 64, 128, 256 and 512 channels, then `head`.

    Parameters
    ----------
    n_classes : int, default=10
        Number of classes.
    n_channels : int, default=3
        Channels of the images.
    """

    def __init__(self, n_classes: int = 10, n_channels: int = 3) -> None:
        super().__init__(n_classes, n_channels, (64, 128, 256, 512), 2, option_a=False)


class ResNet20(_ResNet):
    """ResNet-20 with option-A shortcuts: `stages.0` to `stages.2` of 16, 32 and 64 channels, then `head`.

    Parameters
    ----------
    n_classes : int, default=10
        Number of classes.
    n_channels : int, default=3
        Channels of the images.
    """

    def __init__(self, n_classes: int = 10, n_channels: int = 3) -> None:
        super().__init__(n_classes, n_channels, (16, 32, 64), 3, option_a=True)


NETWORKS: dict[str, type[nn.Module]] = {"MLP": MLP, "ResNet18": ResNet18, "ResNet20": ResNet20}
"""Networks that are rebuilt from their file; their `config` contains the arguments."""
