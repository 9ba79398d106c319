"""Colour, geometry and compression: images of shape (n, 32, 32, 3) in [0, 1], a random stream for each."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
from scipy.ndimage import gaussian_filter

from experiments.data.corruptions._arrays import (
    SIDE,
    Streams,
    draw,
    mirror,
    pillow,
    reflect,
    sample,
    to_bytes,
    to_unit,
)

CORNERS = np.array([[26.0, 26.0], [26.0, 6.0], [6.0, 6.0]])
"""Three points (x, y) whose random shifts give the affine part of the elastic transform."""


def brightness(x: np.ndarray, streams: Streams, more: float) -> np.ndarray:
    """Add to the value of the colour in HSV, keeping hue and saturation."""
    value = x.max(axis=-1, keepdims=True)
    brighter = np.minimum(value + np.float32(more), 1)
    return np.where(value > 0, x * (brighter / np.maximum(value, 1e-6)), brighter)


def contrast(x: np.ndarray, streams: Streams, factor: float) -> np.ndarray:
    """Pull every channel towards its mean over the image."""
    mean = x.mean(axis=(1, 2), keepdims=True, dtype=np.float64)
    return (x - mean) * factor + mean


def saturate(x: np.ndarray, streams: Streams, factor: float, more: float) -> np.ndarray:
    """Multiply the saturation of the colour in HSV and add to it; grey counts as a red without saturation."""
    value = x.max(axis=-1, keepdims=True)
    below = value - x
    depth = below.max(axis=-1, keepdims=True)
    # How far each channel lies below the largest, as a share of the one that lies lowest: this is the hue.
    hue = np.where(depth > 0, below / np.maximum(depth, 1e-6), np.array([0, 1, 1], dtype=x.dtype))
    saturation = depth / np.maximum(value, 1e-6)
    return value * (1 - np.clip(saturation * factor + more, 0, 1) * hue)


def elastic_transform(
    x: np.ndarray, streams: Streams, strength: float, sigma: float, affine: float
) -> np.ndarray:
    """Shift three points at random and the image with them, then every pixel along a smooth random field.

    Parameters
    ----------
    x : array of shape (n, 32, 32, 3)
    strength, sigma : float
        Of the field: its factor and its smoothness, as shares of the image's side.
    affine : float
        Largest shift of the three points, as such a share.
    """
    shifts = draw(streams, lambda stream: stream.uniform(-1, 1, CORNERS.shape)) * (affine * SIDE)
    field = draw(streams, lambda stream: stream.uniform(-1, 1, (2, SIDE, SIDE)))
    width = sigma * SIDE
    field = gaussian_filter(field, (0, 0, width, width), mode="reflect", truncate=3) * (strength * SIDE)
    moved = _moved_back(CORNERS + shifts)
    rows, columns = np.mgrid[:SIDE, :SIDE]
    x = sample(x, moved[..., 1], moved[..., 0], mirror)
    return sample(x, rows + field[:, 1], columns + field[:, 0], reflect)


def pixelate(x: np.ndarray, streams: Streams, share: float) -> np.ndarray:
    """Shrink the image to this share of its side by averaging boxes, and enlarge it again."""
    Image = pillow()
    small = int(SIDE * share)

    def one(picture: Any) -> Any:
        return picture.resize((small, small), Image.Resampling.BOX).resize((SIDE, SIDE), Image.Resampling.BOX)

    return to_unit(np.stack([np.asarray(one(Image.fromarray(image))) for image in to_bytes(x)]))


def jpeg_compression(x: np.ndarray, streams: Streams, quality: int) -> np.ndarray:
    """Compress the image as JPEG and read it back."""
    Image = pillow()

    def one(image: np.ndarray) -> np.ndarray:
        with io.BytesIO() as stream:
            Image.fromarray(image).save(stream, "JPEG", quality=quality)
            return np.asarray(Image.open(stream))

    return to_unit(np.stack([one(image) for image in to_bytes(x)]))


def _moved_back(targets: np.ndarray) -> np.ndarray:
    """Return where every pixel came from when the affine map took `CORNERS` to the targets.

    Parameters
    ----------
    targets : array of shape (n, 3, 2)

    Returns
    -------
    places : array of shape (n, 32, 32, 2), (x, y) last
    """
    ones = np.ones((len(targets), 3, 1))
    back = np.linalg.solve(np.concatenate([targets, ones], axis=2), np.broadcast_to(CORNERS, targets.shape))
    rows, columns = np.mgrid[:SIDE, :SIDE][..., None]
    x, y, constant = (back[:, k, None, None, :] for k in range(3))
    return columns * x + rows * y + constant
