"""Image datasets: CIFAR-10, SVHN and MNIST, decoded once and then memory-mapped from the cache."""

from __future__ import annotations

import functools
import gzip
import hashlib
import tarfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from deltauq.data.files import CorruptFileError, RemoteFile, cached_array, data_dir, download, locate
from deltauq.utils.install import import_optional

Images = tuple[np.ndarray, np.ndarray]
"""Images of shape (n, height, width[, channels]) and labels of shape (n,), both uint8."""


@dataclass(frozen=True)
class ImageSet:
    """One split of an image dataset.

    Attributes
    ----------
    name : str
    md5 : str
        Checksum of the decoded images and labels.
    files : tuple of RemoteFile
        The official files, which are downloaded if they are missing.
    read : callable
        Reads the official files.
    sheets : (str, str, str), optional
        A compact form in the data directory that is preferred: its folder, the pattern of its images, and
        its labels.
    """

    name: str
    md5: str
    files: tuple[RemoteFile, ...]
    read: Callable[..., Images]
    sheets: tuple[str, str, str] | None = None

    def locate(self) -> tuple[Callable[..., Images], list[Path]]:
        """Return the files that the images are decoded from, if there are any, and their reader."""
        folder = data_dir()
        if folder is not None and self.sheets is not None:
            name, pattern, labels = self.sheets
            if sheets := sorted((folder / name).glob(pattern)):
                return read_sheets, [folder / name / labels, *sheets]
        paths = [path for file in self.files if (path := locate(file)) is not None]
        return self.read, paths if len(paths) == len(self.files) else []

    def decode(self) -> Images:
        """Return the verified images and labels, which are downloaded if they are missing."""
        read, paths = self.locate()
        return self.verify(*read(*(paths or map(download, self.files))))

    def verify(self, images: np.ndarray, labels: np.ndarray) -> Images:
        """Return images and labels if they have the expected checksum."""
        digest = hashlib.md5(images.tobytes(), usedforsecurity=False)
        digest.update(labels.tobytes())
        if digest.hexdigest() != self.md5:
            raise CorruptFileError(f"the images of {self.name} are truncated or altered.")
        return images, labels


def load_images(name: str) -> Images:
    """Load images and labels from the data directory or the cache, or download them.

    Parameters
    ----------
    name : str
        A key of `IMAGE_SETS`.

    Returns
    -------
    images : uint8 array of shape (n, height, width, channels), MNIST without channels
    labels : uint8 array of shape (n,)
    """
    if name not in IMAGE_SETS:
        raise ValueError(f"image set {name!r} is not one of {sorted(IMAGE_SETS)}.")
    decode = functools.cache(IMAGE_SETS[name].decode)
    images = cached_array(f"{name}-images", lambda: decode()[0])
    return images, cached_array(f"{name}-labels", lambda: decode()[1])


def read_mnist(images: Path, labels: Path) -> Images:
    """Read the two idx files of MNIST."""
    return read_idx(images), read_idx(labels)


def read_idx(path: Path) -> np.ndarray:
    """Read an idx file of unsigned bytes, gzipped or not."""
    with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as stream:
        content = stream.read()
    if content[:3] != b"\x00\x00\x08":
        raise ValueError(f"{path} is not an idx file of unsigned bytes.")
    rank = content[3]
    shape = np.frombuffer(content, ">u4", rank, offset=4)
    return np.frombuffer(content, np.uint8, offset=4 + 4 * rank).reshape(shape)


def read_cifar(path: Path, batches: list[str]) -> Images:
    """Read batches of cifar-10-binary.tar.gz."""
    with tarfile.open(path) as archive:
        streams = [archive.extractfile(f"cifar-10-batches-bin/{batch}.bin") for batch in batches]
        content = b"".join(stream.read() for stream in streams if stream is not None)
    records = np.frombuffer(content, np.uint8).reshape(-1, 1 + 3072)
    images = records[:, 1:].reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1)
    return np.ascontiguousarray(images), records[:, 0]


def read_svhn(path: Path) -> Images:
    """Read a .mat file of SVHN, in which the digit 0 has label 10."""
    from scipy.io import loadmat

    content = loadmat(path)
    images = np.ascontiguousarray(np.moveaxis(content["X"], -1, 0))
    return images, (content["y"].ravel() % 10).astype(np.uint8)


def read_sheets(labels: Path, *sheets: Path) -> Images:
    """Read lossless sheets of 25 by 40 images each."""
    pil: Any = import_optional("PIL.Image", "image sheets need Pillow", "images")
    images = []
    for path in sheets:
        with pil.open(path) as sheet:
            pixels = np.asarray(sheet.convert("RGB"))
        images.append(pixels.reshape(25, 32, 40, 32, 3).swapaxes(1, 2).reshape(-1, 32, 32, 3))
    return np.concatenate(images), np.load(labels, allow_pickle=False).astype(np.uint8)


def _cifar(split: str, batches: list[str], md5: str) -> ImageSet:
    file = RemoteFile(
        "cifar-10-binary.tar.gz",
        "c32a1d4ab5d03f1284b67883e8d87530",
        "https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz",
    )
    read = functools.partial(read_cifar, batches=batches)
    sheets = ("cifar10", f"{split}_*.webp", f"{split}_labels.npy")
    return ImageSet(f"cifar10-{split}", md5, (file,), read, sheets)


def _svhn(n: int, md5: str) -> ImageSet:
    file = RemoteFile(
        "test_32x32.mat",
        "eb5a983be6a315427106f1b164d9cef3",
        "http://ufldl.stanford.edu/housenumbers/test_32x32.mat",
    )

    def read(path: Path) -> Images:
        images, labels = read_svhn(path)
        return images[:n], labels[:n]

    sheets = ("svhn_test10k", "svhn_*.webp", "labels.npy")
    return ImageSet("svhn-test10k", md5, (file,), read, sheets)


def _mnist(split: str, prefix: str, images_md5: str, labels_md5: str, md5: str) -> ImageSet:
    address = "https://ossci-datasets.s3.amazonaws.com/mnist"
    files = tuple(
        RemoteFile(f"mnist/{prefix}-{kind}-ubyte.gz", file_md5, f"{address}/{prefix}-{kind}-ubyte.gz")
        for kind, file_md5 in (("images-idx3", images_md5), ("labels-idx1", labels_md5))
    )
    return ImageSet(f"mnist-{split}", md5, files, read_mnist)


IMAGE_SETS = {
    images.name: images
    for images in (
        _cifar("train", [f"data_batch_{k}" for k in range(1, 6)], "378e89c2e5f724dfd1d9f9b32a07fc0d"),
        _cifar("test", ["test_batch"], "a2d03300dfff0d937e0bb7840d48d8b7"),
        _svhn(10_000, "5ac1c81aabb923d620bb5e6f73c0ed93"),
        _mnist(
            "train",
            "train",
            "f68b3c2dcbeaaa9fbdd348bbdeb94873",
            "d53e105ee54ea40749a09fcbcd1e9432",
            "365dab9bac26085dc69f1022fe166e2f",
        ),
        _mnist(
            "test",
            "t10k",
            "9fb629c4189551a2d022fa330f9573f3",
            "ec29112dd5afa0611ce80d1b7f02629c",
            "a9c5e64a683c5dd2f6a9bf7c61b53e6f",
        ),
    )
}
"""Name to image set. "svhn-test10k" is the first 10,000 of the 26,032 test images."""
