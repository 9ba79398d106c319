"""What the corruptions share: random streams, one for each image, and reading between the pixels."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from deltauq.utils import install_command

SIDE = 32
"""Height and width of the images, in pixels: the severities are meant for these."""

SHAPE = (SIDE, SIDE, 3)

Streams = Sequence[np.random.Generator]
"""A random stream for every image."""


def draw(streams: Streams, one: Callable[[np.random.Generator], np.ndarray]) -> np.ndarray:
    """Return what `one` draws for each image, stacked: n arrays of a shape make one of shape (n, ...)."""
    return np.stack([one(stream) for stream in streams])


def to_unit(images: np.ndarray) -> np.ndarray:
    """Return bytes as float32 numbers between 0 and 1."""
    return images.astype(np.float32) / np.float32(255)


def to_bytes(x: np.ndarray) -> np.ndarray:
    """Return numbers as bytes, clipped to [0, 1] and rounded down, as the published files are.

    A thousandth of a level is added first, so that a whole level does not fall to the one below it.
    """
    return (np.clip(x, 0, 1) * 255 + 1e-3).astype(np.uint8)


def pillow() -> Any:
    """Return Pillow's module `Image`, or say what to install."""
    try:
        from PIL import Image
    except ImportError as error:
        raise ImportError(f"this corruption needs Pillow: {install_command('images')}") from error
    return Image


def mirror(index: np.ndarray) -> np.ndarray:
    """Fold indices from outside the image into it; the border pixel is not repeated."""
    folded = index % (2 * SIDE - 2)
    return np.minimum(folded, 2 * SIDE - 2 - folded)


def reflect(index: np.ndarray) -> np.ndarray:
    """Fold indices from outside the image into it; the border pixel is repeated."""
    folded = index % (2 * SIDE)
    return np.minimum(folded, 2 * SIDE - 1 - folded)


def sample(
    x: np.ndarray, rows: np.ndarray, columns: np.ndarray, fold: Callable[[np.ndarray], np.ndarray]
) -> np.ndarray:
    """Read images between their pixels, by bilinear interpolation.

    Parameters
    ----------
    x : array of shape (n, 32, 32, 3)
    rows, columns : float arrays of shape (n, 32, 32)
        Where to read, in pixels.
    fold : {mirror, reflect}
        What lies outside the image.

    Returns
    -------
    read : array of shape (n, 32, 32, 3)
    """
    pixels = x.reshape(-1, 3)
    first = np.arange(len(x)).reshape(-1, 1, 1) * SIDE**2
    top, left = np.floor(rows).astype(int), np.floor(columns).astype(int)
    down, right = (rows - top).astype(x.dtype), (columns - left).astype(x.dtype)
    read = np.zeros_like(x)
    for row, row_weight in ((top, 1 - down), (top + 1, down)):
        for column, column_weight in ((left, 1 - right), (left + 1, right)):
            place = first + fold(row) * SIDE + fold(column)
            read += (row_weight * column_weight)[..., None] * pixels[place]
    return read
