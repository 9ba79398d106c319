"""Every corruption with its five severities: the settings of CIFAR-10-C (Hendrycks and Dietterich, 2019)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from experiments.data.corruptions import blur, digital, noise, weather
from experiments.data.corruptions.spatter import spatter

Corruption = Callable[..., np.ndarray]
"""Takes images of shape (n, 32, 32, 3) in [0, 1], n random streams and the settings; may leave [0, 1]."""

DEFINITIONS: dict[str, tuple[Corruption, tuple[tuple[Any, ...], ...]]] = {
    "gaussian_noise": (noise.gaussian_noise, ((0.04,), (0.06,), (0.08,), (0.09,), (0.10,))),
    "shot_noise": (noise.shot_noise, ((500,), (250,), (100,), (75,), (50,))),
    "impulse_noise": (noise.impulse_noise, ((0.01,), (0.02,), (0.03,), (0.05,), (0.07,))),
    "speckle_noise": (noise.speckle_noise, ((0.06,), (0.1,), (0.12,), (0.16,), (0.2,))),
    "gaussian_blur": (blur.gaussian_blur, ((0.4,), (0.6,), (0.7,), (0.8,), (1.0,))),
    "defocus_blur": (blur.defocus_blur, ((0.3, 0.4), (0.4, 0.5), (0.5, 0.6), (1, 0.2), (1.5, 0.1))),
    "glass_blur": (blur.glass_blur, ((0.05, 1), (0.25, 1), (0.4, 1), (0.25, 2), (0.4, 2))),
    "motion_blur": (blur.motion_blur, ((6, 1), (6, 1.5), (6, 2), (8, 2), (9, 2.5))),
    "zoom_blur": (blur.zoom_blur, ((1.06,), (1.11,), (1.16,), (1.21,), (1.26,))),
    "snow": (
        weather.snow,
        (
            (0.1, 0.2, 1, 0.6, 8, 3, 0.95),
            (0.1, 0.2, 1, 0.5, 10, 4, 0.9),
            (0.15, 0.3, 1.75, 0.55, 10, 4, 0.9),
            (0.25, 0.3, 2.25, 0.6, 12, 6, 0.85),
            (0.3, 0.3, 1.25, 0.65, 14, 12, 0.8),
        ),
    ),
    "frost": (weather.frost, ((1, 0.2), (1, 0.3), (0.9, 0.4), (0.85, 0.4), (0.75, 0.45))),
    "fog": (weather.fog, ((0.2, 3), (0.5, 3), (0.75, 2.5), (1, 2), (1.5, 1.75))),
    "brightness": (digital.brightness, ((0.05,), (0.1,), (0.15,), (0.2,), (0.3,))),
    "contrast": (digital.contrast, ((0.75,), (0.5,), (0.4,), (0.3,), (0.15,))),
    "saturate": (digital.saturate, ((0.3, 0), (0.1, 0), (1.5, 0), (2, 0.1), (2.5, 0.2))),
    "elastic_transform": (
        digital.elastic_transform,
        ((0, 0, 0.08), (0.05, 0.2, 0.07), (0.08, 0.06, 0.06), (0.1, 0.04, 0.05), (0.1, 0.03, 0.03)),
    ),
    "pixelate": (digital.pixelate, ((0.95,), (0.9,), (0.85,), (0.75,), (0.65,))),
    "jpeg_compression": (digital.jpeg_compression, ((80,), (65,), (58,), (50,), (40,))),
    "spatter": (
        spatter,
        (
            (0.62, 0.1, 0.7, 0.7, 0.5, 0),
            (0.65, 0.1, 0.8, 0.7, 0.5, 0),
            (0.65, 0.3, 1, 0.69, 0.5, 0),
            (0.65, 0.1, 0.7, 0.69, 0.6, 1),
            (0.65, 0.1, 0.5, 0.68, 0.6, 1),
        ),
    ),
}
"""Name to the function and its settings at severities 1 to 5."""

CORRUPTIONS = tuple(DEFINITIONS)
"""The nineteen corruptions, by the names of their published files."""

SEVERITIES = (1, 2, 3, 4, 5)

FIGURE5 = tuple(name for name in CORRUPTIONS if name not in ("motion_blur", "snow", "jpeg_compression"))
"""The sixteen corruptions of the paper's figure 5."""
