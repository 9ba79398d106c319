"""Files and folders on this machine or on any file system of fsspec."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar
from uuid import uuid4

from deltauq.tables.errors import TableError
from deltauq.tables.io import as_table_error
from deltauq.utils.install import import_optional

Written = TypeVar("Written")


def resolve(url: str) -> tuple[Any, str]:
    """Return the file system of a path or URL, and the absolute path in it."""
    core: Any = import_optional("fsspec.core", "files by URL need fsspec", "ray")
    if not url:
        raise TableError("the name of a file or folder is empty.")
    with as_table_error(url):
        return core.url_to_fs(url)


def is_local(system: Any) -> bool:
    """Return whether a file system is that of this machine."""
    return "file" in ((system.protocol,) if isinstance(system.protocol, str) else system.protocol)


def absolute_url(system: Any, path: str) -> str:
    """Return a path that is valid in other processes: a URL unless it is local."""
    return path if is_local(system) else system.unstrip_protocol(path)


@contextmanager
def open_binary(url: str) -> Iterator[Any]:
    """Yield a path for a local file, and an open file otherwise; Parquet readers accept both."""
    system, path = resolve(url)
    if is_local(system):
        yield path
        return
    with as_table_error(url):
        file = system.open(path, "rb")
    with file:
        yield file


@contextmanager
def local_copy(url: str) -> Iterator[Path]:
    """Yield the path of a local file, or of a temporary copy of another one."""
    system, path = resolve(url)
    if is_local(system):
        yield Path(path)
        return
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / Path(path).name
        with as_table_error(url):
            system.get_file(path, str(copy))
        yield copy


class OutputFolder:
    """A folder, by path or URL, in which files appear only when they are complete."""

    def __init__(self, url: str) -> None:
        self.system, path = resolve(url)
        self.path = path.rstrip("/")
        self.url = absolute_url(self.system, self.path)

    def create(self) -> None:
        """Create the folder unless it exists."""
        if self.system.exists(self.path) and not self.system.isdir(self.path):
            raise TableError(f"{self.url} is a file: predictions of many parts need a folder.")
        self.system.makedirs(self.path, exist_ok=True)

    def names(self) -> set[str]:
        """Return the names of its files."""
        self.system.invalidate_cache()
        return {Path(name).name for name in self.system.ls(self.path, detail=False)}

    def put(self, name: str, write: Callable[[Path], Written]) -> Written:
        """Write a file by `write(path)`, which must be atomic, and return its result."""
        if is_local(self.system):
            return write(Path(self.path) / name)
        with tempfile.TemporaryDirectory() as folder:
            written = write(Path(folder) / name)
            part = f"{self.path}/.{name}.{uuid4().hex}.part"
            self.system.put_file(str(Path(folder) / name), part)
            self.system.mv(part, f"{self.path}/{name}")
        return written

    def remove(self, name: str) -> None:
        """Remove a file if it exists."""
        with suppress(FileNotFoundError):
            self.system.rm_file(f"{self.path}/{name}")
