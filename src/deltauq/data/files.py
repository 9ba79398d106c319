"""Where files lie: the data directory, the cache, the official source; and whether they are genuine."""

from __future__ import annotations

import hashlib
import os
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from deltauq.utils.filesystem import atomic_write

BLOCK = 1 << 20

Progress = Callable[[int, int], None]
"""Told the bytes done and the bytes in all (0 where unknown)."""


class DataUnavailableError(FileNotFoundError):
    """A data set is neither in the data directory nor in the cache, and could not be downloaded."""


class CorruptFileError(ValueError):
    """A file is not the one it claims to be."""


@dataclass(frozen=True)
class RemoteFile:
    """A file with its checksum and, where there is one, its official address.

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
    """Return the folder that `DELTAUQ_DATA` names, or None."""
    folder = os.environ.get("DELTAUQ_DATA")
    return Path(folder).expanduser() if folder else None


def cache_dir() -> Path:
    """Return the folder for downloads and decoded arrays: `DELTAUQ_CACHE`, or one of the user's."""
    folder = os.environ.get("DELTAUQ_CACHE")
    if folder:
        return Path(folder).expanduser()
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "deltauq"


def locate(file: RemoteFile) -> Path | None:
    """Return where the file lies, in the data directory or the cache, or None."""
    folder = data_dir()
    for place in ([] if folder is None else [folder]) + [cache_dir()]:
        for path in (place / file.name, place / Path(file.name).name):
            if path.is_file():
                return path
    return None


def verify(path: Path, md5: str) -> None:
    """Raise `CorruptFileError` unless the file has this checksum."""
    found = md5_of(path)
    if found != md5:
        raise CorruptFileError(f"{path} is truncated or altered (md5 {found}, expected {md5}): delete it.")


def md5_of(path: Path) -> str:
    """Return the md5 checksum of a file."""
    digest = hashlib.md5(usedforsecurity=False)
    with path.open("rb") as stream:
        while block := stream.read(BLOCK):
            digest.update(block)
    return digest.hexdigest()


def obtain(file: RemoteFile, progress: Progress | None = None) -> Path:
    """Return the file's path, verified, downloading it into the cache when it lies nowhere."""
    path = locate(file)
    if path is None:
        path = download(file, progress)
    verify(path, file.md5)
    return path


def download(file: RemoteFile, progress: Progress | None = None) -> Path:
    """Download into the cache; the file appears under its name only when whole and verified."""
    if file.url is None:
        raise unavailable(file.name)
    target = cache_dir() / file.name
    with atomic_write(target) as part:
        try:
            with urllib.request.urlopen(file.url, timeout=30) as response, part.open("wb") as stream:
                total = int(response.headers.get("Content-Length") or 0)
                done = 0
                while block := response.read(BLOCK):
                    stream.write(block)
                    done += len(block)
                    if progress is not None:
                        progress(done, total)
        except OSError as error:
            raise unavailable(file.name) from error
        verify(part, file.md5)
    return target


def unavailable(name: str) -> DataUnavailableError:
    """Return the error for a file that cannot be had, which says where to put it."""
    folder = data_dir()
    place = f"{folder}" if folder is not None else "a folder named by DELTAUQ_DATA"
    return DataUnavailableError(f"{name} is not here and cannot be downloaded: put it into {place}.")


def cached_array(name: str, make: Callable[[], Any]) -> np.ndarray:
    """Return an array memory-mapped from the cache, made and written there at the first call."""
    path = cache_dir() / f"{name}.npy"
    if not path.exists():
        with atomic_write(path) as part, part.open("wb") as stream:
            np.save(stream, make(), allow_pickle=False)
    return np.load(path, mmap_mode="r", allow_pickle=False)
