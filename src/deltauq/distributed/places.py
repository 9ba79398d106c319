"""Files and folders on this machine or anywhere fsspec reaches."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar
from uuid import uuid4

from deltauq.tables.errors import TableError
from deltauq.tables.io import as_table_error
from deltauq.utils.install import install_command

Written = TypeVar("Written")


def reach(url: str) -> tuple[Any, str]:
    """Return the file system of a path or URL, and the path there, which is absolute."""
    try:
        from fsspec.core import url_to_fs
    except ImportError as error:
        raise ImportError(f"files by URL need fsspec: {install_command('ray')}.") from error
    if not url:
        raise TableError("an empty name is no file and no folder.")
    with as_table_error(url):
        return url_to_fs(url)


def is_local(system: Any) -> bool:
    """Tell whether a file system is that of this machine."""
    return "file" in ((system.protocol,) if isinstance(system.protocol, str) else system.protocol)


def full_name(system: Any, path: str) -> str:
    """Return a path by which workers reach it, too."""
    return path if is_local(system) else system.unstrip_protocol(path)


@contextmanager
def opened(url: str) -> Iterator[Any]:
    """Give what a Parquet reader takes: the path of a local file, and any other one opened."""
    system, path = reach(url)
    if is_local(system):
        yield path
        return
    with as_table_error(url):
        file = system.open(path, "rb")
    with file:
        yield file


@contextmanager
def local_copy(url: str) -> Iterator[Path]:
    """Give the path of a local file, and of a copy of any other one."""
    system, path = reach(url)
    if is_local(system):
        yield Path(path)
        return
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / Path(path).name
        with as_table_error(url):
            system.get_file(path, str(copy))
        yield copy


class OutputFolder:
    """A folder that files are put into whole, under a temporary name first.

    Parameters
    ----------
    url : str
        Path or URL.
    """

    def __init__(self, url: str) -> None:
        self.system, path = reach(url)
        self.path = path.rstrip("/")
        self.url = full_name(self.system, self.path)

    def make(self) -> None:
        """Make the folder, unless it is there."""
        if self.system.exists(self.path) and not self.system.isdir(self.path):
            raise TableError(f"{self.url} is a file: predictions of many parts need a folder.")
        self.system.makedirs(self.path, exist_ok=True)

    def names(self) -> set[str]:
        """Return the names of what is in it."""
        self.system.invalidate_cache()
        return {Path(found).name for found in self.system.ls(self.path, detail=False)}

    def put(self, name: str, write: Callable[[Path], Written]) -> Written:
        """Put a file into the folder.

        Parameters
        ----------
        name : str
        write : callable
            Writes the file to the path it is given, where nothing is to be seen before it is complete.
        """
        if is_local(self.system):
            return write(Path(self.path) / name)
        with tempfile.TemporaryDirectory() as folder:
            written = write(Path(folder) / name)
            part = f"{self.path}/.{name}.{uuid4().hex}.part"
            self.system.put_file(str(Path(folder) / name), part)
            self.system.mv(part, f"{self.path}/{name}")
        return written

    def open(self, name: str) -> Any:
        """Open a file of the folder for reading, within ``with``."""
        return opened(f"{self.url}/{name}")

    def remove(self, name: str) -> None:
        """Remove a file, if it is still there."""
        try:
            self.system.rm_file(f"{self.path}/{name}")
        except FileNotFoundError:
            return
