"""Corrupting images, and the corrupted test set of CIFAR-10, published or generated."""

from __future__ import annotations

from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np

from deltauq.data import CorruptFileError, cached_array, data_dir, load_images
from experiments.data.corruptions._arrays import SHAPE, to_bytes, to_unit
from experiments.data.corruptions.severities import CORRUPTIONS, DEFINITIONS, SEVERITIES

BLOCK = 500
"""Images corrupted at a time: their arrays then stay near the processor."""

REVISION = 1
"""Raise it when a corruption changes: generated images in the cache are then made anew."""


class CorruptedImages(NamedTuple):
    """Images of the CIFAR-10 test set under one corruption.

    Attributes
    ----------
    images : uint8 array of shape (n, 32, 32, 3)
    labels : uint8 array of shape (n,)
    source : {"published", "generated"}
    """

    images: np.ndarray
    labels: np.ndarray
    source: Literal["published", "generated"]


def corrupt(images: np.ndarray, name: str, severity: int, seed: int = 0) -> np.ndarray:
    """Corrupt images as CIFAR-10-C does.

    Every image has a random stream of its own, from the seed and its place in the array: the first ten
    images are corrupted alike whether more follow or not.

    Parameters
    ----------
    images : uint8 array of shape (n, 32, 32, 3)
        Red, green, blue.
    name : str
        One of `CORRUPTIONS`.

    Returns
    -------
    corrupted : uint8 array of shape (n, 32, 32, 3)
    """
    images = np.asanyarray(images)
    if images.dtype != np.uint8 or images.shape[1:] != SHAPE or images.ndim != 4:
        raise ValueError(
            f"images must be uint8 of shape (n, 32, 32, 3), got {images.dtype} of shape {images.shape}."
        )
    _check(name, severity, seed)
    function, settings = DEFINITIONS[name]
    key = (seed, CORRUPTIONS.index(name), severity)
    corrupted = np.empty(images.shape, dtype=np.uint8)
    for start in range(0, len(images), BLOCK):
        block = to_unit(images[start : start + BLOCK])
        streams = [np.random.default_rng((*key, start + place)) for place in range(len(block))]
        corrupted[start : start + BLOCK] = to_bytes(function(block, streams, *settings[severity - 1]))
    return corrupted


def load_corrupted(name: str, severity: int, n: int | None = None, seed: int = 0) -> CorruptedImages:
    """Return the CIFAR-10 test set under one corruption.

    The published images are read from ``CIFAR-10-C/<name>.npy`` and ``CIFAR-10-C/labels.npy`` in the data
    directory, the folder that `DELTAUQ_DATA` names, where they are there. Otherwise the images are made by
    `corrupt` and kept in the cache, about 30 MB for all of them.

    Parameters
    ----------
    name : str
        One of `CORRUPTIONS`.
    n : int, optional
        How many images, from the first; all 10,000 by default.
    seed : int, default=0
        For images made here.

    Returns
    -------
    corrupted : CorruptedImages
        A tuple of images, labels and source.
    """
    _check(name, severity, seed)
    if n is not None and n < 1:
        raise ValueError(f"n must be at least 1, got {n}.")
    published = load_cifar10c(name)
    if published is not None:
        images, labels = published
        if len(images) != len(labels) or len(images) % len(SEVERITIES):
            raise CorruptFileError(
                f"CIFAR-10-C/{name}.npy has {len(images)} images and labels.npy {len(labels)} labels: "
                "expected as many of both, and as many at each of five severities."
            )
        images, labels = (np.split(part, len(SEVERITIES))[severity - 1][:n] for part in published)
        return CorruptedImages(images, labels, "published")
    images, labels = (part[:n] for part in load_images("cifar10-test"))
    place = f"cifar10-c/{name}-{severity}-first{len(images)}-seed{seed}-revision{REVISION}"
    return CorruptedImages(
        cached_array(place, lambda: corrupt(images, name, severity, seed)), labels, "generated"
    )


def load_cifar10c(corruption: str) -> tuple[np.ndarray, np.ndarray] | None:
    """Load the published images and labels of one corruption, or return None if they are missing.

    They are read from ``CIFAR-10-C/<corruption>.npy`` in the data directory; nothing is downloaded.
    """
    folder = (data_dir() or Path()) / "CIFAR-10-C"
    if data_dir() is None or not (folder / f"{corruption}.npy").is_file():
        return None
    images = np.load(folder / f"{corruption}.npy", mmap_mode="r", allow_pickle=False)
    return images, np.load(folder / "labels.npy", mmap_mode="r", allow_pickle=False)


def _check(name: str, severity: int, seed: int) -> None:
    """Raise unless there is such a corruption."""
    if name not in CORRUPTIONS:
        raise ValueError(f"corruption must be one of {list(CORRUPTIONS)}, got {name!r}.")
    whole = isinstance(severity, (int, np.integer)) and not isinstance(severity, bool)
    if not whole or severity not in SEVERITIES:
        raise ValueError(f"severity must be one of {list(SEVERITIES)}, got {severity!r}.")
    if not isinstance(seed, (int, np.integer)) or seed < 0:
        raise ValueError(f"seed must be a whole number of at least 0, got {seed!r}.")
