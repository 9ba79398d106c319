"""Spatter: drops of water, lit at their edges, or mud."""

from __future__ import annotations

import numpy as np
from scipy.ndimage import correlate1d, gaussian_filter, label

from experiments.data.corruptions._arrays import SIDE, Streams, draw

WATER = np.array([175, 238, 238], dtype=np.float32) / 255
MUD = np.array([63, 42, 20], dtype=np.float32) / 255

WEAK_EDGE, STRONG_EDGE = 50, 150
"""Gradients above the first are edges where they touch one above the second."""

FARTHEST = 20
"""Distances from an edge, in pixels, are distinguished up to this one."""

RELIEF = np.array([[-2, -1, 0], [-1, 1, 1], [0, 1, 2]])
"""Weights by which a drop is lit from one side."""

STEPS = (
    *((0, -1, 1.0), (-1, 0, 1.0), (-1, -1, 1.4), (-1, 1, 1.4)),
    *((-1, -2, 2.1969), (-1, 2, 2.1969), (-2, -1, 2.1969), (-2, 1, 2.1969)),
)
"""Steps back to pixels that were seen before, by rows and columns, and their lengths."""


def spatter(
    x: np.ndarray,
    streams: Streams,
    mean: float,
    scale: float,
    sigma: float,
    threshold: float,
    amount: float,
    mud: int,
) -> np.ndarray:
    """Spatter the images with what smooth noise leaves above a threshold.

    Parameters
    ----------
    x : array of shape (n, 32, 32, 3)
    mean, scale, sigma : float
        Of the noise: mean, standard deviation before smoothing, width of the smoothing in pixels.
    amount : float
        How bright the water is, or how soft the edges of the mud are, in pixels.
    mud : {0, 1}
        Water or mud.
    """
    noise = draw(streams, lambda stream: stream.normal(mean, scale, (SIDE, SIDE)))
    liquid = gaussian_filter(noise, (0, sigma, sigma), mode="nearest")
    if mud:
        cover = gaussian_filter((liquid > threshold).astype(x.dtype), (0, amount, amount), mode="nearest")
        cover = np.where(cover < 0.8, 0, cover)[..., None]
        return x * (1 - cover) + MUD * cover
    # The rare value above 255 starts again at 0, as in the published images.
    levels = (np.where(liquid < threshold, 0, liquid) * 255).astype(int) % 256
    light = (levels * lit(levels))[..., None].astype(x.dtype)
    brightest = light.max(axis=(1, 2, 3), keepdims=True)
    return x + WATER * np.float32(amount) * light / np.maximum(brightest, 1)


def lit(levels: np.ndarray) -> np.ndarray:
    """Return how light falls on drops, from how far each pixel is from the next edge.

    Parameters
    ----------
    levels : int array of shape (n, 32, 32)
        From 0 to 255.

    Returns
    -------
    light : float array of shape (n, 32, 32), whole numbers from 0 to 255
    """
    distance = np.minimum(distances(edges(levels)), FARTHEST)
    spread = equalise(np.floor(_box_mean(distance) + 1e-4).astype(int))
    padded = np.pad(spread, ((0, 0), (1, 1), (1, 1)), mode="reflect")
    relief = sum(
        weight * padded[:, row : row + SIDE, column : column + SIDE]
        for (row, column), weight in np.ndenumerate(RELIEF)
    )
    return np.rint(_box_mean(np.clip(relief, 0, 255).astype(float)))


def edges(levels: np.ndarray) -> np.ndarray:
    """Find edges by Canny's method: ridges of the gradient, weak ones only where they touch strong ones.

    Parameters
    ----------
    levels : int array of shape (n, 32, 32)
        From 0 to 255.

    Returns
    -------
    edges : bool array of shape (n, 32, 32)
    """
    smooth, slope = np.array([1, 2, 1]), np.array([-1, 0, 1])
    down, right = (
        correlate1d(correlate1d(levels, slope, axis, mode="nearest"), smooth, other, mode="nearest")
        for axis, other in ((1, 2), (2, 1))
    )
    size = np.abs(down) + np.abs(right)
    ridge = (size > WEAK_EDGE) & _is_ridge(size, down, right)
    # Neighbours of the same image only.
    touching = np.zeros((3, 3, 3), dtype=int)
    touching[1] = 1
    lines, n_lines = label(ridge, touching)
    strong = np.zeros(n_lines + 1, dtype=bool)
    strong[lines[ridge & (size > STRONG_EDGE)]] = True
    return strong[lines]


def _is_ridge(size: np.ndarray, down: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Return whether the gradient is larger than at its neighbours before and behind, all of (n, 32, 32)."""
    padded = np.pad(size, ((0, 0), (1, 1), (1, 1)))

    def beside(rows: int, columns: int) -> np.ndarray:
        return padded[:, 1 + rows : 1 + rows + SIDE, 1 + columns : 1 + columns + SIDE]

    steepness, flat = np.abs(down), np.tan(np.pi / 8) * np.abs(right)
    falling = (down < 0) == (right < 0)
    return np.select(
        [steepness < flat, steepness > flat + 2 * np.abs(right), falling],
        [
            (size > beside(0, -1)) & (size >= beside(0, 1)),
            (size > beside(-1, 0)) & (size >= beside(1, 0)),
            (size > beside(-1, -1)) & (size > beside(1, 1)),
        ],
        (size > beside(-1, 1)) & (size > beside(1, -1)),
    )


def distances(marked: np.ndarray) -> np.ndarray:
    """Return how far every pixel is from the nearest marked one of its image, by straight and knight's steps.

    Parameters
    ----------
    marked : bool array of shape (n, 32, 32)

    Returns
    -------
    distances : float array of shape (n, 32, 32)
        Very large in an image without a mark.
    """
    far = 1e4
    # Pixels first: a step is then one operation on all images at once.
    distance = np.full((SIDE + 4, SIDE + 4, len(marked)), far)
    distance[2:-2, 2:-2] = np.where(marked, 0, far).transpose(1, 2, 0)
    for _ in range(2):  # forward, then backward
        for row in range(2, SIDE + 2):
            for column in range(2, SIDE + 2):
                here = distance[row, column]
                for down, right, length in STEPS:
                    np.minimum(here, distance[row + down, column + right] + length, out=here)
        distance = distance[::-1, ::-1]
    return distance[2:-2, 2:-2].transpose(2, 0, 1)


def equalise(levels: np.ndarray) -> np.ndarray:
    """Spread the levels of each image so that they fill 0 to 255 evenly; its lowest becomes 0.

    Parameters
    ----------
    levels : int array of shape (n, 32, 32)
        From 0 to 20. An image of one level stays as it is.

    Returns
    -------
    spread : int array of shape (n, 32, 32)
    """
    n = len(levels)
    rows = levels.reshape(n, -1)
    counts = (rows[:, :, None] == np.arange(FARTHEST + 1)).sum(axis=1)
    lowest = np.take_along_axis(counts, rows.min(axis=1, keepdims=True), axis=1)
    above = np.cumsum(counts, axis=1) - lowest
    rest = rows.shape[1] - lowest
    spread = np.rint(np.maximum(above, 0) * (255 / np.maximum(rest, 1))).astype(int)
    spread = np.where(rest > 0, spread, np.arange(FARTHEST + 1))
    return np.take_along_axis(spread, rows, axis=1).reshape(levels.shape)


def _box_mean(x: np.ndarray) -> np.ndarray:
    """Return the mean over 3 × 3 pixels, of shape (n, 32, 32)."""
    for axis in (1, 2):
        x = correlate1d(x, np.full(3, 1 / 3), axis, mode="mirror")
    return x
