"""A table of many files as parts that are predicted apart: a row group of Parquet, or another file whole."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from deltauq.scale.places import full_name, local_copy, opened, reach
from deltauq.tables.errors import TableError
from deltauq.tables.files import PARQUET, TableStream, complaints_of, open_parquet, open_row_group, open_table

READERS = 16
"""Files whose sizes are asked for at a time: what takes long is waiting for the answer."""


@dataclass(frozen=True)
class Part:
    """One part of a table, and the name of the file that its predictions go to.

    Attributes
    ----------
    name : str
        By the number of the part, so that files in the order of their names are in the order of the table.
    source : str
        Path or URL.
    stamp : str
        Size and time of the source, by which another file of that name is told from it.
    row_group : int or None
        Of a Parquet file; other files are one part.
    rows : int or None
        Where the file says so.
    """

    name: str
    source: str
    stamp: str
    row_group: int | None
    rows: int | None

    def __str__(self) -> str:
        return self.source if self.row_group is None else f"row group {self.row_group} of {self.source}"


def list_parts(source: str) -> list[Part]:
    """Return the parts of a table, in the order of the names of files.

    Parameters
    ----------
    source : str
        Path or URL of a file, or a pattern of several, such as "rows/*.parquet".

    Returns
    -------
    parts : list of Part
        Those without rows are left out, where that is known.
    """
    files = _find(source)
    with ThreadPoolExecutor(READERS) as pool:
        groups = list(pool.map(_row_groups, files))
    pieces = [(file, *group) for file, of_file in zip(files, groups, strict=True) for group in of_file]
    if not pieces:
        raise TableError(f"{source} has no rows.")
    return [
        Part(f"part-{number:06d}.parquet", file, files[file], row_group, rows)
        for number, (file, row_group, rows) in enumerate(pieces)
    ]


@contextmanager
def open_part(part: Part) -> Iterator[TableStream]:
    """Open a part to be read in batches."""
    if part.row_group is None:
        with local_copy(part.source) as path, open_table(path) as stream:
            yield stream
    else:
        with opened(part.source) as file, open_row_group(part.source, file, part.row_group) as stream:
            yield stream


def _find(source: str) -> dict[str, str]:
    """Return the files that a pattern means, in order, with their stamps."""
    system, path = reach(source)
    with complaints_of(source):
        # A name that exists is meant as it is, brackets included.
        found = {path: system.info(path)} if system.exists(path) else system.glob(path, detail=True)
    if not found:
        raise TableError(f"{source} does not exist.")
    found = {name: info for name, info in sorted(found.items()) if info["type"] == "file"}
    if not found:
        raise TableError(f"{source} is a folder: name its files, such as {source.rstrip('/')}/*.parquet.")
    return {full_name(system, name): _stamp(info) for name, info in found.items()}


def _stamp(info: dict[str, Any]) -> str:
    times = (info.get(word) for word in ("ETag", "etag", "mtime", "LastModified", "updated", "created"))
    return f"{info['size']} {next((time for time in times if time is not None), '')}".strip()


def _row_groups(file: str) -> list[tuple[int | None, int | None]]:
    """Return the row groups of a file that have rows, with how many, or one that stands for all of it."""
    if Path(file).suffix.lower() not in PARQUET:
        return [(None, None)]
    with complaints_of(file), opened(file) as source, open_parquet(source) as parquet_file:
        metadata = parquet_file.metadata
        sizes = [metadata.row_group(number).num_rows for number in range(metadata.num_row_groups)]
    return [(number, size) for number, size in enumerate(sizes) if size]
