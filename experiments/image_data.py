"""The image sets of the image experiments, each with a name."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from deltauq.data import load_images
from experiments.data.corruptions.generate import load_cifar10c

SIZES = {"quick": (512, 200), "paper": (50_000, 10_000)}
"""Number of training and test images, the first of their files."""
HELD_OUT = {"quick": 128, "paper": 5_000}
"""Number of training images, the last ones, that studies use for validation."""

FILES = {
    "train": "cifar10-train",
    "validation": "cifar10-train",
    "test": "cifar10-test",
    "svhn": "svhn-test10k",
}


@dataclass(frozen=True, eq=False)
class LabelledImages:
    """Images and their classes.

    Attributes
    ----------
    images : uint8 array of shape (n, 32, 32, 3)
    labels : int64 array of shape (n,)
    """

    images: np.ndarray
    labels: np.ndarray


def load_image_set(name: str, profile: str) -> LabelledImages:
    """Return a set of images.

    Parameters
    ----------
    name : str
        "train", "validation" (the held-out training images), "test" or "svhn", with a corruption and its
        severity for corrupted images, such as "test/impulse_noise/5".
    """
    return _load_image_set(name, SIZES[profile], HELD_OUT[profile])


def image_source(name: str) -> str:
    """Return whether corrupted images are "published" or "generated"; "" for clean images."""
    base, *corruption = name.split("/")
    if not corruption:
        return ""
    return "published" if base == "test" and load_cifar10c(corruption[0]) is not None else "generated"


@lru_cache(maxsize=8)
def _load_image_set(name: str, sizes: tuple[int, int], held_out: int) -> LabelledImages:
    base, _, corruption = name.partition("/")
    if corruption:
        return _corrupted(base, corruption, sizes, held_out)
    images, labels = load_images(FILES[base])
    n_train, n_test = sizes
    rows = {"train": slice(n_train), "validation": slice(n_train - held_out, n_train)}.get(
        base, slice(n_test)
    )
    return LabelledImages(np.asarray(images[rows]), np.asarray(labels[rows]).astype(np.int64))


def _corrupted(base: str, corruption: str, sizes: tuple[int, int], held_out: int) -> LabelledImages:
    from experiments.data.corruptions import corrupt, load_corrupted

    kind, _, severity = corruption.partition("/")
    if base == "test":
        images, labels, _ = load_corrupted(kind, int(severity), sizes[1])
        return LabelledImages(np.asarray(images), np.asarray(labels).astype(np.int64))
    clean = _load_image_set(base, sizes, held_out)
    return LabelledImages(corrupt(clean.images, kind, int(severity)), clean.labels)
