"""The image sets of the paper, from official files or compact ones, decoded once and then memory-mapped."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from deltauq.data.files import (
    CorruptFileError,
    Progress,
    RemoteFile,
    cached_array,
    data_dir,
    download,
    locate,
    obtain,
)
from deltauq.data.readers import read_cifar_binary, read_cifar_python, read_idx, read_sheets, read_svhn

Pictures = tuple[np.ndarray, np.ndarray]
"""Images of shape (n, height, width[, channels]) and labels of shape (n,), unsigned bytes both."""


@dataclass(frozen=True)
class ImageSet:
    """One split of an image set.

    Attributes
    ----------
    name : str
    pixels_md5 : str
        Of the raw bytes of the images: whatever file they come from, they must be these.
    sources : list
        Readers in the order they are tried: each returns the pictures, or None where its files are missing.
    official : RemoteFile
        What is downloaded when no reader finds anything.
    """

    name: str
    pixels_md5: str
    sources: tuple[Callable[[], Pictures | None], ...]
    official: tuple[RemoteFile, ...]

    def load(self, progress: Progress | None = None) -> Pictures:
        """Return images and labels, memory-mapped from the cache.

        Parameters
        ----------
        progress : callable, optional
            Told of downloads.
        """
        decoded: list[Pictures] = []

        def part(index: int) -> np.ndarray:
            if not decoded:
                decoded.append(self._decode(progress))
            return decoded[0][index]

        images = cached_array(f"{self.name}-images", lambda: part(0))
        return images, cached_array(f"{self.name}-labels", lambda: part(1))

    def _decode(self, progress: Progress | None) -> Pictures:
        for attempt in range(2):
            for source in self.sources:
                pictures = source()
                if pictures is not None:
                    self._verify(pictures[0])
                    return pictures
            if attempt == 0:
                for file in self.official:
                    download(file, progress)
        raise AssertionError("a downloaded file has a reader")

    def _verify(self, images: np.ndarray) -> None:
        found = hashlib.md5(np.ascontiguousarray(images).tobytes(), usedforsecurity=False).hexdigest()
        if found != self.pixels_md5:
            raise CorruptFileError(f"the images of {self.name} are truncated or altered (md5 {found}).")


def _from_sheets(folder: str, pattern: str, labels: str) -> Callable[[], Pictures | None]:
    def read() -> Pictures | None:
        place = data_dir()
        paths = [] if place is None else sorted((place / folder).glob(pattern))
        if not paths:
            return None
        assert place is not None
        return read_sheets(paths), np.load(place / folder / labels, allow_pickle=False).astype(np.uint8)

    return read


def _from_file(file: RemoteFile, reader: Callable[[Path], Pictures]) -> Callable[[], Pictures | None]:
    def read() -> Pictures | None:
        return None if locate(file) is None else reader(obtain(file))

    return read


def _from_idx(images: RemoteFile, labels: RemoteFile) -> Callable[[], Pictures | None]:
    def read() -> Pictures | None:
        paths = locate(images), locate(labels)
        if paths[0] is None or paths[1] is None:
            return None
        return read_idx(paths[0]), read_idx(paths[1])

    return read


_CIFAR_PYTHON = RemoteFile(
    "cifar-10-python.tar.gz",
    "c58f30108f718f92721af3b95e74349a",
    "https://www.cs.toronto.edu/~kriz/cifar-10-python.tar.gz",
)
_CIFAR_BINARY = RemoteFile("cifar-10-binary.tar.gz", "c32a1d4ab5d03f1284b67883e8d87530")
_SVHN_TEST = RemoteFile(
    "test_32x32.mat",
    "eb5a983be6a315427106f1b164d9cef3",
    "http://ufldl.stanford.edu/housenumbers/test_32x32.mat",
)


def _cifar(split: str, md5: str, batches: list[str], labels: str) -> ImageSet:
    binary = [f"cifar-10-batches-bin/{name}.bin" for name in batches]
    python = [f"cifar-10-batches-py/{name}" for name in batches]
    return ImageSet(
        f"cifar10-{split}",
        md5,
        (
            _from_sheets("cifar10", f"{split}_*.webp", labels),
            _from_file(_CIFAR_PYTHON, lambda path: read_cifar_python(path, python)),
            _from_file(_CIFAR_BINARY, lambda path: read_cifar_binary(path, binary)),
        ),
        (_CIFAR_PYTHON,),
    )


def _mnist(split: str, prefix: str, images_md5: str, labels_md5: str, pixels_md5: str) -> ImageSet:
    images, labels = (
        RemoteFile(f"mnist/{prefix}-{kind}-ubyte.gz", md5, f"{_MNIST}/{prefix}-{kind}-ubyte.gz")
        for kind, md5 in (("images-idx3", images_md5), ("labels-idx1", labels_md5))
    )
    return ImageSet(f"mnist-{split}", pixels_md5, (_from_idx(images, labels),), (images, labels))


_MNIST = "https://ossci-datasets.s3.amazonaws.com/mnist"

IMAGE_SETS = {
    images.name: images
    for images in (
        _cifar(
            "train",
            "17e2cb5a4119d89a4a13e02b91701bff",
            [f"data_batch_{k}" for k in range(1, 6)],
            "train_labels.npy",
        ),
        _cifar("test", "6d2714505047e13831cd876923568712", ["test_batch"], "test_labels.npy"),
        ImageSet(
            "svhn-test10k",  # the first 10,000 of 26,032
            "baa33556c0a057545047bfaa3001ef5f",
            (
                _from_sheets("svhn_test10k", "svhn_*.webp", "labels.npy"),
                _from_file(_SVHN_TEST, lambda path: _first(10_000, read_svhn(path))),
            ),
            (_SVHN_TEST,),
        ),
        _mnist(
            "train",
            "train",
            "f68b3c2dcbeaaa9fbdd348bbdeb94873",
            "d53e105ee54ea40749a09fcbcd1e9432",
            "6510e85a72c3e9475c492d559d3770d2",
        ),
        _mnist(
            "test",
            "t10k",
            "9fb629c4189551a2d022fa330f9573f3",
            "ec29112dd5afa0611ce80d1b7f02629c",
            "240610fa99e73bfa49df8e7fc24d3206",
        ),
    )
}


def load_images(name: str, progress: Progress | None = None) -> Pictures:
    """Return the images and labels of one of `IMAGE_SETS`.

    Parameters
    ----------
    name : str
    progress : callable, optional
        Told of downloads: bytes done, bytes in all.

    Returns
    -------
    images : uint8 array of shape (n, height, width, channels), MNIST without channels
    labels : uint8 array of shape (n,)
    """
    if name not in IMAGE_SETS:
        raise ValueError(f"image set {name!r} is not one of {sorted(IMAGE_SETS)}.")
    return IMAGE_SETS[name].load(progress)


def load_cifar10c(corruption: str) -> Pictures | None:
    """Return the published images of one corruption, five severities of 10,000 each, or None if absent.

    They are read from ``CIFAR-10-C/<corruption>.npy`` in the data directory; nothing is downloaded.
    """
    place = data_dir()
    if place is None or not (place / "CIFAR-10-C" / f"{corruption}.npy").is_file():
        return None
    folder = place / "CIFAR-10-C"
    images = np.load(folder / f"{corruption}.npy", mmap_mode="r", allow_pickle=False)
    return images, np.load(folder / "labels.npy", mmap_mode="r", allow_pickle=False)


def _first(n: int, pictures: Pictures) -> Pictures:
    return pictures[0][:n], pictures[1][:n]
