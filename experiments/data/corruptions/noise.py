"""Noise: every function takes images of shape (n, 32, 32, 3) in [0, 1] and a random stream for each."""

from __future__ import annotations

import numpy as np

from experiments.data.corruptions._arrays import SHAPE, Streams, draw


def gaussian_noise(x: np.ndarray, streams: Streams, scale: float) -> np.ndarray:
    """Add normal noise of standard deviation `scale`."""
    return x + np.float32(scale) * _normal(streams)


def speckle_noise(x: np.ndarray, streams: Streams, scale: float) -> np.ndarray:
    """Add normal noise whose standard deviation is `scale` times the pixel's value."""
    return x + x * np.float32(scale) * _normal(streams)


def shot_noise(x: np.ndarray, streams: Streams, photons: float) -> np.ndarray:
    """Count photons: `photons` are expected where the image is brightest."""
    counts = [stream.poisson(pixels * photons) for stream, pixels in zip(streams, x, strict=True)]
    return np.stack(counts) / photons


def impulse_noise(x: np.ndarray, streams: Streams, amount: float) -> np.ndarray:
    """Replace the share `amount` of all values by 0 or 1, equally often."""
    chance = draw(streams, lambda stream: stream.random(SHAPE, dtype=np.float32))
    return np.where(chance < amount / 2, 0, np.where(chance < amount, 1, x))


def _normal(streams: Streams) -> np.ndarray:
    return draw(streams, lambda stream: stream.standard_normal(SHAPE, dtype=np.float32))
