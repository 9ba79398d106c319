"""What data sets there are, where each of them lies, and whether it is genuine."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from deltauq.data.files import RemoteFile, cache_dir, data_dir, locate, verify
from deltauq.data.images import _CIFAR_BINARY, IMAGE_SETS, ImageSet
from deltauq.data.tables import OPENML
from deltauq.data.uci import UCI

SHEETS = {
    "cifar10-train": ("cifar10", "train_*.webp"),
    "cifar10-test": ("cifar10", "test_*.webp"),
    "svhn-test10k": ("svhn_test10k", "svhn_*.webp"),
}
"""Image set to the folder and the pattern of its compact files."""

DATA_DIRECTORY, CACHE = "data directory", "cache"

OPENML_SOURCE = "https://www.openml.org/d"
UCI_SOURCE = "https://archive.ics.uci.edu"
CIFAR10C = "CIFAR-10-C"
CIFAR10C_SOURCE = "https://zenodo.org/records/2535967"
CIFAR10C_SHAPE = (50_000, 32, 32, 3)


@dataclass(frozen=True)
class DataSet:
    """A data set that the library knows.

    Attributes
    ----------
    name : str
    kind : {"table", "images"}
    files : tuple of Path
        What there is of it; none when it is not here.
    sources : tuple of str
        Addresses it comes from.
    downloads : bool
        Whether the library fetches it from there itself.
    check : callable
        Raises where what is here is not genuine.
    """

    name: str
    kind: str
    files: tuple[Path, ...]
    sources: tuple[str, ...]
    downloads: bool
    check: Callable[[], None]

    @property
    def size(self) -> int:
        """Bytes on the disk."""
        return sum(path.stat().st_size for path in self.files)

    @property
    def place(self) -> str | None:
        """Whether it lies in the data directory or in the cache; None when it is not here."""
        if not self.files:
            return None
        folder = data_dir()
        inside = folder is not None and self.files[0].is_relative_to(folder)
        return DATA_DIRECTORY if inside else CACHE


def list_data_sets() -> list[DataSet]:
    """Return every data set that the library knows, with where it was found."""
    tables = [
        _table(f"openml-{table.id} {table.title}", table.file, f"{OPENML_SOURCE}/{table.id}", True)
        for table in OPENML.values()
    ]
    tables += [_table(f"uci-{table.name}", table.file, UCI_SOURCE, False) for table in UCI.values()]
    images = [_images(images) for images in IMAGE_SETS.values()]
    return [*tables, *images, _corruptions()]


def _table(name: str, file: RemoteFile, source: str, downloads: bool) -> DataSet:
    """Return a table that is one file."""
    path = locate(file)

    def check() -> None:
        if path is not None:
            verify(path, file.md5)

    return DataSet(name, "table", () if path is None else (path,), (source,), downloads, check)


def _images(images: ImageSet) -> DataSet:
    files = _image_files(images)
    decoded = cache_dir() / f"{images.name}-images.npy"

    def check() -> None:
        # The files differ by where they come from; the pixels are the same, and they have the checksum.
        if files:
            pictures, labels = images._decode(None)
            if len(pictures) != len(labels):
                raise ValueError(f"{images.name} has {len(pictures)} images and {len(labels)} labels.")
        if decoded.is_file():
            images._verify(np.load(decoded, mmap_mode="r", allow_pickle=False))

    found = files or ((decoded,) if decoded.is_file() else ())
    sources = tuple(file.url for file in images.official if file.url is not None)
    return DataSet(images.name, "images", found, sources, True, check)


def _image_files(images: ImageSet) -> tuple[Path, ...]:
    """Return the files that the images would be read from: compact ones, or those of the official source."""
    folder = data_dir()
    if folder is not None and images.name in SHEETS:
        place, pattern = SHEETS[images.name]
        if sheets := sorted((folder / place).glob(pattern)):
            return tuple(sheets)
    official = [locate(file) for file in images.official]
    if all(official):
        return tuple(path for path in official if path is not None)
    binary = locate(_CIFAR_BINARY) if images.name.startswith("cifar10") else None
    return () if binary is None else (binary,)


def _corruptions() -> DataSet:
    folder = data_dir()
    files = () if folder is None else tuple(sorted((folder / CIFAR10C).glob("*.npy")))

    def check() -> None:
        # Nobody publishes checksums of the single files: what can be told is whether they are whole.
        for path in files:
            array = np.load(path, mmap_mode="r", allow_pickle=False)
            shape = CIFAR10C_SHAPE[:1] if path.stem == "labels" else CIFAR10C_SHAPE
            if array.shape != shape:
                raise ValueError(f"{path} has shape {array.shape}, expected {shape}.")

    return DataSet("cifar10-c", "images", files, (CIFAR10C_SOURCE,), False, check)
