"""Weather: every function takes images of shape (n, 32, 32, 3) in [0, 1] and a random stream for each."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from importlib.util import find_spec
from pathlib import Path

import numpy as np

from deltauq.data import data_dir
from experiments.data.corruptions._arrays import SIDE, Streams, draw, pillow, to_bytes, to_unit
from experiments.data.corruptions.blur import streak, zoom_weights

FROST = ("frost1.png", "frost2.png", "frost3.png", "frost4.jpg", "frost5.jpg")
"""Pictures that frost is cut from. There is a sixth, which the published images never show."""

GREY = np.array([0.299, 0.587, 0.114], dtype=np.float32)
"""Weights of red, green and blue in the lightness."""


def fog(x: np.ndarray, streams: Streams, strength: float, decay: float) -> np.ndarray:
    """Add a cloud, and darken the sum until the brightest place could not be brighter than it was."""
    clouds = plasma(streams, decay)[..., None].astype(x.dtype)
    brightest = x.max(axis=(1, 2, 3), keepdims=True)
    return (x + np.float32(strength) * clouds) * (brightest / (brightest + np.float32(strength)))


def frost(x: np.ndarray, streams: Streams, weight: float, frost_weight: float) -> np.ndarray:
    """Add a random piece of a picture of frost."""
    pictures = _frost_pictures(find_frost())

    def cut(stream: np.random.Generator) -> np.ndarray:
        picture = pictures[stream.integers(len(pictures))]
        row, column = stream.integers(0, [size - SIDE for size in picture.shape[:2]])
        return picture[row : row + SIDE, column : column + SIDE]

    return np.float32(weight) * x + np.float32(frost_weight) * to_unit(draw(streams, cut))


def snow(
    x: np.ndarray,
    streams: Streams,
    mean: float,
    scale: float,
    zoom: float,
    threshold: float,
    radius: int,
    sigma: float,
    weight: float,
) -> np.ndarray:
    """Whiten the image and let flakes fall over it, which are noise above a threshold, drawn into streaks.

    Parameters
    ----------
    x : array of shape (n, 32, 32, 3)
    mean, scale : float
        Of the noise.
    zoom : float
        Size of the flakes.
    radius, sigma : int, float
        Of the streaks.
    weight : float
        Of the image against the whitened one.
    """
    noise = draw(streams, lambda stream: stream.normal(mean, scale, (SIDE, SIDE)))
    angles = draw(streams, lambda stream: np.asarray(stream.uniform(-135, -45)))
    along = zoom_weights(zoom)
    noise = along @ noise @ along.T
    flakes = to_unit(to_bytes(np.where(noise < threshold, 0, noise)))[..., None]
    flakes = streak(flakes, angles, radius, sigma)
    grey = (x * GREY).sum(axis=-1, keepdims=True)
    pale = np.maximum(x, grey * 1.5 + 0.5)
    return weight * x + (1 - weight) * pale + flakes + flakes[:, ::-1, ::-1]


def plasma(streams: Streams, decay: float) -> np.ndarray:
    """Return random clouds by the diamond-square algorithm, on a square whose opposite sides meet.

    Parameters
    ----------
    decay : float
        Factor by which the random part's scale shrinks from one level to the next, finer one.

    Returns
    -------
    clouds : array of shape (n, 32, 32)
        The lowest point of each is 0, its highest 1.
    """
    heights = np.zeros((len(streams), SIDE, SIDE))
    noise = _portions(draw(streams, lambda stream: stream.uniform(-1, 1, SIDE**2 - 1)))
    step, scale = SIDE, 100.0
    while step > 1:
        half = step // 2
        corners = heights[:, ::step, ::step]
        pairs = corners + np.roll(corners, -1, axis=1)
        centres = (pairs + np.roll(pairs, -1, axis=2)) / 4 + scale**2 * next(noise)
        heights[:, half::step, half::step] = centres
        beside = centres + np.roll(centres, 1, axis=1) + corners + np.roll(corners, -1, axis=2)
        heights[:, ::step, half::step] = beside / 4 + scale**2 * next(noise)
        below = centres + np.roll(centres, 1, axis=2) + corners + np.roll(corners, -1, axis=1)
        heights[:, half::step, ::step] = below / 4 + scale**2 * next(noise)
        step, scale = half, scale / decay
    heights -= heights.min(axis=(1, 2), keepdims=True)
    return heights / heights.max(axis=(1, 2), keepdims=True)


def _portions(noise: np.ndarray) -> Iterator[np.ndarray]:
    """Yield the noise, of shape (n, 1023), in squares: three of side 1, three of side 2, of side 4, ..."""
    start, side = 0, 1
    while start < noise.shape[1]:
        for _ in range(3):
            yield noise[:, start : start + side**2].reshape(-1, side, side)
            start += side**2
        side *= 2


def find_frost() -> Path:
    """Return the folder of the pictures of frost.

    It is ``frost/`` in the data directory, or that of the package imagecorruptions, which is only looked
    into: its code is not needed, and neither is what it depends on.
    """
    folder = data_dir()
    package = find_spec("imagecorruptions")
    places = [] if folder is None else [folder / "frost"]
    places += [Path(place) / "frost" for place in (package and package.submodule_search_locations) or ()]
    for place in places:
        if all((place / name).is_file() for name in FROST):
            return place
    message = "frost needs the pictures of a package: pip install --no-deps imagecorruptions"
    raise ModuleNotFoundError(message, name="imagecorruptions")


@cache
def _frost_pictures(folder: Path) -> list[np.ndarray]:
    """Return the pictures of frost at a fifth of their size, by taking every fifth pixel."""
    Image = pillow()
    pictures = []
    for name in FROST:
        with Image.open(folder / name) as picture:
            pictures.append(np.asarray(picture.convert("RGB"))[2::5, 2::5])
    return pictures
