"""The paper's networks: perceptrons, with or without Fourier features, and residual networks for CIFAR."""

from __future__ import annotations

from collections.abc import Sequence
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
    n_frequencies : int
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

    Its defaults are those that open the error bar of an anchored network where there is no data (the
    experiment `gap`): two layers of ReLU rather than more of them or smoother ones, and no Fourier features.
    What opens it furthest lies in the training: several anchors a step that agree on the data, by
    ``anchored_loss(..., n_anchors=8, consistency=10)``.

    Parameters
    ----------
    n_in, n_out : int
    hidden : sequence of int, default=(128, 128)
    activation : {"relu", "leaky_relu", "tanh", "silu", "gelu"}
    n_frequencies : int, default=0
        Random Fourier features in front, as many cosines and sines each; 0 for none. Wrapped in `Anchored`,
        the features are what is anchored.
    fourier_scale : float, default=1
        Standard deviation of the frequencies; inputs are best standardised.
    dropout : float, default=0
        After every activation.
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
        self.config: dict[str, Any] = {
            "n_in": n_in,
            "n_out": n_out,
            "hidden": list(hidden),
            "activation": activation,
            "n_frequencies": n_frequencies,
            "fourier_scale": fourier_scale,
            "dropout": dropout,
        }
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
        """Return outputs of shape (n, n_out) for inputs of shape (n, n_in); further axes are flattened."""
        outputs: Tensor = self.layers(x.flatten(1))
        return outputs


class _Block(nn.Module):
    """Two 3x3 convolutions with batch norm, and a shortcut around them.

    Where the shape changes, the shortcut is a strided 1x1 convolution, or, as option A, every other pixel
    with zeros for the new channels.
    """

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
    """Option A: no parameters."""

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
        stages = []
        n_in = widths[0]
        for k, width in enumerate(widths):
            strides = [1 if k == 0 else 2] + [1] * (n_blocks - 1)
            blocks = []
            for stride in strides:
                blocks.append(_Block(n_in, width, stride, option_a))
                n_in = width
            stages.append(nn.Sequential(*blocks))
        self.stages = nn.Sequential(*stages)
        self.head = nn.Linear(n_in, n_classes)
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
    n_channels : int, default=3
    """

    def __init__(self, n_classes: int = 10, n_channels: int = 3) -> None:
        super().__init__(n_classes, n_channels, (64, 128, 256, 512), 2, option_a=False)


class ResNet20(_ResNet):
    """ResNet-20 with option-A shortcuts: `stages.0` to `stages.2` of 16, 32 and 64 channels, then `head`.

    Parameters
    ----------
    n_classes : int, default=10
    n_channels : int, default=3
    """

    def __init__(self, n_classes: int = 10, n_channels: int = 3) -> None:
        super().__init__(n_classes, n_channels, (16, 32, 64), 3, option_a=True)


NETWORKS: dict[str, type[nn.Module]] = {"MLP": MLP, "ResNet18": ResNet18, "ResNet20": ResNet20}
"""The networks that a file alone can rebuild; their `config` holds the arguments."""
