"""The known datasets: which files of them are present, and whether these are intact."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from deltauq.data.files import RemoteFile, cache_dir, data_dir, locate, verify
from deltauq.data.images import IMAGE_SETS, ImageSet
from deltauq.data.tables import KEEL, OPENML, UCI

DATA_DIRECTORY, CACHE = "data directory", "cache"


@dataclass(frozen=True)
class Dataset:
    """A known dataset.

    Attributes
    ----------
    name : str
    kind : {"table", "images"}
    files : tuple of Path
        Its files on this computer; empty if there are none.
    sources : tuple of str
        Addresses of its files or of its web page.
    downloads : bool
        Whether it is downloaded when it is first loaded.
    check : callable
        Raises an error if a file is corrupt.
    """

    name: str
    kind: str
    files: tuple[Path, ...]
    sources: tuple[str, ...]
    downloads: bool
    check: Callable[[], None]

    @property
    def size(self) -> int:
        """Size of the files in bytes."""
        return sum(path.stat().st_size for path in self.files)

    @property
    def location(self) -> str | None:
        """Whether the files are in the data directory or the cache; None if there are none."""
        if not self.files:
            return None
        folder = data_dir()
        inside = folder is not None and self.files[0].is_relative_to(folder)
        return DATA_DIRECTORY if inside else CACHE


def list_datasets() -> list[Dataset]:
    """Return every known dataset."""
    return [
        *(
            _table(f"openml-{id} {table.title}", table.file, f"https://www.openml.org/d/{id}", True)
            for id, table in OPENML.items()
        ),
        *(
            _table(f"uci-{name}", table.file, "https://archive.ics.uci.edu", False)
            for name, table in UCI.items()
        ),
        *(
            _table(f"keel-{name}", table.file, "https://sci2s.ugr.es/keel/datasets.php", False)
            for name, table in KEEL.items()
        ),
        *map(_images, IMAGE_SETS.values()),
    ]


def _table(name: str, file: RemoteFile, source: str, downloads: bool) -> Dataset:
    path = locate(file)

    def check() -> None:
        if path is not None:
            verify(path, file.md5)

    return Dataset(name, "table", () if path is None else (path,), (source,), downloads, check)


def _images(images: ImageSet) -> Dataset:
    _, files = images.locate()
    decoded = [cache_dir() / f"{images.name}-{part}.npy" for part in ("images", "labels")]
    cached = decoded if all(path.is_file() for path in decoded) else []

    def check() -> None:
        if files:
            images.decode()
        if cached:
            images.verify(*(np.load(path, mmap_mode="r", allow_pickle=False) for path in cached))

    sources = tuple(file.url for file in images.files if file.url is not None)
    return Dataset(images.name, "images", tuple(files or cached), sources, True, check)
