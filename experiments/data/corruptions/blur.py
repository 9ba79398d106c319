"""Blurs: every function takes images of shape (n, 32, 32, 3) in [0, 1] and a random stream for each."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
from scipy.ndimage import gaussian_filter
from scipy.sparse import csr_array, eye_array, kron

from experiments.data.corruptions._arrays import SIDE, Streams, draw, to_bytes, to_unit


def gaussian_blur(x: np.ndarray, streams: Streams, sigma: float) -> np.ndarray:
    """Blur by a Gaussian of width `sigma` pixels; the border pixels go on outside."""
    return gaussian_filter(x, (0, sigma, sigma, 0), mode="nearest")


def defocus_blur(x: np.ndarray, streams: Streams, radius: float, alias: float) -> np.ndarray:
    """Blur by a disk of `radius` pixels, itself softened by a Gaussian of width `alias` in 3 × 3 pixels."""
    kernel = _disk(radius, alias)
    reach = len(kernel) // 2
    padded = np.pad(x, ((0, 0), (reach, reach), (reach, reach), (0, 0)), mode="reflect")
    blurred = np.zeros_like(x)
    for (row, column), weight in np.ndenumerate(kernel):
        if weight > 0:
            blurred += np.float32(weight) * padded[:, row : row + SIDE, column : column + SIDE]
    return blurred


def glass_blur(x: np.ndarray, streams: Streams, sigma: float, rounds: int) -> np.ndarray:
    """Let pixels take the value of a neighbour above, to the left or both, between two Gaussian blurs.

    The published images come from a loop meant to swap two pixels, which copies one onto the other. It runs
    from the last pixel to the first, so that every value it copies is still that of before the round.
    """
    n = len(x)
    pixels = to_bytes(gaussian_blur(x, streams, sigma)).reshape(n, SIDE**2, 3)
    moved = np.arange(2, SIDE)
    shape = (rounds, 2, len(moved), len(moved))
    shifts = draw(streams, lambda stream: stream.integers(-1, 0, shape, endpoint=True))
    source = np.broadcast_to(np.arange(SIDE**2).reshape(SIDE, SIDE), (n, SIDE, SIDE)).copy()
    for turn in range(rounds):
        rows, columns = moved[:, None] + shifts[:, turn, 0], moved + shifts[:, turn, 1]
        source[:, 2:, 2:] = rows * SIDE + columns
        pixels = np.take_along_axis(pixels, source.reshape(n, SIDE**2, 1), axis=1)
    return gaussian_blur(to_unit(pixels.reshape(x.shape)), streams, sigma)


def motion_blur(x: np.ndarray, streams: Streams, radius: int, sigma: float) -> np.ndarray:
    """Blur along a line at up to 45° from the horizontal."""
    angles = draw(streams, lambda stream: np.asarray(stream.uniform(-45, 45)))
    return streak(x, angles, radius, sigma)


def zoom_blur(x: np.ndarray, streams: Streams, largest: float) -> np.ndarray:
    """Average the image with itself zoomed by 1, 1.01, ... below `largest`."""
    pixels = x.transpose(1, 2, 0, 3).reshape(SIDE**2, -1)
    blurred = _zooms(largest) @ pixels
    return blurred.reshape(SIDE, SIDE, len(x), 3).transpose(2, 0, 1, 3)


def streak(x: np.ndarray, angles: np.ndarray, radius: int, sigma: float) -> np.ndarray:
    """Blur each image along a line that starts at every pixel, with weights of half a Gaussian.

    Parameters
    ----------
    x : array of shape (n, 32, 32, channels)
        In [0, 1].
    angles : array of shape (n,)
        Of the lines, in degrees.
    radius : int
        A line has 2 × `radius` + 1 points.
    sigma : float
        Width of the Gaussian in pixels.

    Returns
    -------
    blurred : array of shape (n, 32, 32, channels)
        Rounded to bytes' levels.
    """
    steps = np.arange(2 * radius + 1)
    weights = np.exp(-(steps**2) / (2 * sigma**2))
    weights = (weights / weights.sum()).astype(x.dtype)
    turns = np.deg2rad(angles)[:, None]
    offsets = np.stack([steps * np.sin(turns), steps * np.cos(turns)], axis=-1)
    paths, which = np.unique(np.ceil(offsets - 0.5).astype(int), axis=0, return_inverse=True)
    padded = np.pad(x, ((0, 0), *[(len(steps), len(steps))] * 2, (0, 0)), mode="edge")
    blurred = np.zeros_like(x)
    # Whole pixels leave few different lines: images that share one are blurred together.
    for number, path in enumerate(paths + len(steps)):
        rows = np.flatnonzero(which.reshape(-1) == number)
        group = padded[rows]
        for weight, (row, column) in zip(weights, path, strict=True):
            blurred[rows] += weight * group[:, row : row + SIDE, column : column + SIDE]
    return np.rint(blurred * 255) / 255


def zoom_weights(zoom: float) -> np.ndarray:
    """Return the linear map of shape (32, 32) that zooms into the middle of a row of pixels."""
    kept = int(np.ceil(SIDE / zoom))
    start = (SIDE - kept) // 2
    size = round(kept * zoom)
    trimmed = (size - SIDE) // 2
    place = (np.arange(SIDE) + trimmed) * ((kept - 1) / (size - 1))
    left = np.minimum(place.astype(int), kept - 2)
    weights = np.zeros((SIDE, SIDE))
    weights[np.arange(SIDE), start + left] = 1 - (place - left)
    weights[np.arange(SIDE), start + left + 1] = place - left
    return weights


@cache
def _zooms(largest: float) -> Any:
    """Return the mean of all zooms as a sparse map of shape (1024, 1024); the image itself counts twice."""
    zooms = np.arange(1, largest, 0.01)
    total = eye_array(SIDE**2, format="csr")
    for zoom in zooms:
        weights = csr_array(zoom_weights(zoom))
        total = total + kron(weights, weights, format="csr")
    return (total / (len(zooms) + 1)).astype(np.float32)


def _disk(radius: float, alias: float) -> np.ndarray:
    """Return the weights of a softened disk; they sum to 1."""
    reach = int(radius) + 1
    along = np.arange(-reach, reach + 1)
    disk = (along[:, None] ** 2 + along**2 <= radius**2).astype(float)
    soft = np.exp(-np.array([1, 0, 1]) / (2 * alias**2))
    soft /= soft.sum()
    for axis in (0, 1):
        disk = np.apply_along_axis(np.convolve, axis, disk, soft, mode="same")
    return disk / disk.sum()
