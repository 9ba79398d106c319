"""Files of datasets: the data directory, the cache, downloads and checksums."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from deltauq.utils.filesystem import atomic_write
from deltauq.utils.install import import_optional
from deltauq.utils.progress import Tick, counting_bar


class DataUnavailableError(FileNotFoundError):
    """A dataset is neither in the data directory nor in the cache, and could not be downloaded."""


class CorruptFileError(ValueError):
    """A file does not have the expected checksum."""


@dataclass(frozen=True)
class RemoteFile:
    """A file with its checksum and, if it can be downloaded, its address.

    Attributes
    ----------
    name : str
        Path below the data directory or the cache.
    md5 : str
    url : str or None
    """

    name: str
    md5: str
    url: str | None = None


def data_dir() -> Path | None:
    """Return the folder named by the environment variable `DELTAUQ_DATA`, or None."""
    folder = os.environ.get("DELTAUQ_DATA")
    return Path(folder).expanduser() if folder else None


def cache_dir() -> Path:
    """Return the folder for downloads and decoded arrays: `DELTAUQ_CACHE`, or one in the user's cache."""
    if folder := os.environ.get("DELTAUQ_CACHE"):
        return Path(folder).expanduser()
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "deltauq"


def locate(file: RemoteFile) -> Path | None:
    """Return the path of a file in the data directory or the cache, or None."""
    for folder in filter(None, (data_dir(), cache_dir())):
        for path in (folder / file.name, folder / Path(file.name).name):
            if path.is_file():
                return path
    return None


def verify(path: Path, md5: str) -> None:
    """Raise `CorruptFileError` unless a file has this checksum."""
    with path.open("rb") as stream:
        actual = hashlib.file_digest(stream, lambda: hashlib.md5(usedforsecurity=False)).hexdigest()
    if actual != md5:
        raise CorruptFileError(f"{path} is truncated or altered (md5 {actual}, expected {md5}): delete it.")


def fetch(file: RemoteFile) -> Path:
    """Return the verified path of a file, which is downloaded into the cache if it is not there."""
    path = locate(file)
    if path is None:
        return download(file)
    verify(path, file.md5)
    return path


def download(file: RemoteFile) -> Path:
    """Download a file into the cache, verify it and return its path."""
    if file.url is None:
        raise unavailable(file.name)
    pooch: Any = import_optional("pooch", "downloads need pooch", "images")
    target = cache_dir() / file.name
    with counting_bar("MB") as tick:
        downloader = pooch.HTTPDownloader(progressbar=_DownloadProgress(tick), timeout=30)
        try:
            pooch.retrieve(file.url, f"md5:{file.md5}", target.name, target.parent, downloader=downloader)
        except OSError as error:
            raise unavailable(file.name) from error
        except ValueError as error:
            raise CorruptFileError(f"{file.url} is truncated or altered: {error}") from error
    return target


class _DownloadProgress:
    """The progress bar that pooch updates, in bytes."""

    total = 0

    def __init__(self, tick: Tick) -> None:
        self._tick = tick
        self._done = 0

    def update(self, n: int) -> None:
        self._done += n
        self._tick(self._done // 10**6, self.total // 10**6)

    def reset(self) -> None:
        self._done = 0

    def close(self) -> None: ...


def unavailable(name: str) -> DataUnavailableError:
    """Return the error for a missing file, which says where to put it."""
    folder = data_dir() or "a folder and set DELTAUQ_DATA to it"
    return DataUnavailableError(f"{name} was not found and cannot be downloaded: put it into {folder}.")


def cached_array(name: str, make: Callable[[], Any]) -> np.ndarray:
    """Return an array, memory-mapped from the cache; the first call makes and stores it."""
    path = cache_dir() / f"{name}.npy"
    if not path.exists():
        with atomic_write(path) as part, part.open("wb") as stream:
            np.save(stream, make(), allow_pickle=False)
    return np.load(path, mmap_mode="r", allow_pickle=False)
