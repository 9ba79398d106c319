"""The parts of a table of many files: a row group of Parquet, or another file as a whole."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Any

from deltauq.distributed.filesystem import absolute_url, local_copy, open_binary, resolve
from deltauq.tables.errors import TableError, require_pyarrow
from deltauq.tables.io import (
    PANDAS_INDEX,
    PARQUET,
    TableStream,
    as_table_error,
    distinct_names,
    open_parquet,
    open_row_group,
    open_table,
)

READERS = 16
"""Files that are read at a time; most of the time is spent waiting for the file system."""
HEADER_BYTES = 256 * 1024
"""Larger files have rows; smaller ones may consist of a header alone."""
IGNORED_PREFIXES = (".", "_")
"""Prefixes of names that patterns do not match, such as _SUCCESS or incomplete files."""

RowGroup = tuple[int | None, int | None]
"""The number of a row group and of its rows; None for a whole file, and for an unknown number of rows."""


@dataclass(frozen=True)
class Part:
    """One part of a table, and the name of the file with its predictions."""

    name: str
    """Contains the number of the part, so that files sorted by name are in the order of the table."""
    source: str
    """Path or URL."""
    stamp: str
    """Size and time of the source, to detect a changed file."""
    row_group: int | None
    """Number of a row group of Parquet; None: the whole file."""
    rows: int | None
    """Number of rows, if the file states it."""

    def __str__(self) -> str:
        return self.source if self.row_group is None else f"row group {self.row_group} of {self.source}"


def list_parts(source: str, keep: Sequence[str] = (), encoding: str = "utf-8") -> list[Part]:
    """Return the parts of a table, sorted by file name; parts known to have no rows are left out.

    `source` is a file or a pattern; columns to `keep` must have the same type in all Parquet files.
    """
    files = _find_files(source)
    with ThreadPoolExecutor(READERS) as pool:
        contents = list(pool.map(partial(_inspect, keep, encoding), files, files.values()))
    pieces: list[tuple[str, int | None, int | None]] = []
    first: dict[str, tuple[str, Any]] = {}
    for file, (groups, types) in zip(files, contents, strict=True):
        pieces += [(file, *group) for group in groups]
        for name, kind in types.items() if groups else ():
            other, known = first.setdefault(name, (file, kind))
            if _parquet_type(kind) != _parquet_type(known):
                raise TableError(f'"{name}" cannot be kept: it is {known} in {other} and {kind} in {file}.')
    if not pieces:
        raise TableError(f"{source} has no rows.")
    return [
        Part(f"part-{number:06d}.parquet", file, _stamp(files[file]), row_group, rows)
        for number, (file, row_group, rows) in enumerate(pieces)
    ]


@contextmanager
def open_part(part: Part, encoding: str = "utf-8") -> Iterator[TableStream]:
    """Open a part to be read in batches."""
    if part.row_group is None:
        with local_copy(part.source) as path, open_table(path, encoding=encoding) as stream:
            yield stream
    else:
        with open_binary(part.source) as file, open_row_group(part.source, file, part.row_group) as stream:
            yield stream


@contextmanager
def add_file_name_to_errors(source: str) -> Iterator[None]:
    """Add the name of the file to the message of a `TableError`."""
    try:
        yield
    except TableError as error:
        raise error if source in str(error) else TableError(f"{source}: {error}") from error


def _find_files(source: str) -> dict[str, dict[str, Any]]:
    """Return the files that a pattern matches, sorted, with their size and times."""
    system, path = resolve(source)
    with as_table_error(source):
        # An existing name is not a pattern, even if it has brackets.
        matches = {path: system.info(path)} if system.exists(path) else _match(system, path)
    if not matches:
        raise TableError(f"{source} does not exist.")
    files = {name: info for name, info in sorted(matches.items()) if info["type"] == "file"}
    if not files:
        raise TableError(f"{source} is a folder: name its files, such as {source.rstrip('/')}/*.parquet.")
    return {absolute_url(system, name): info for name, info in files.items()}


def _match(system: Any, pattern: str) -> dict[str, dict[str, Any]]:
    """Return the matches of a pattern without ignored names and folders."""
    levels = PurePosixPath(pattern).parts
    fixed = next((k for k, level in enumerate(levels) if set(level) & set("*?[")), len(levels))
    return {
        name: info
        for name, info in system.glob(pattern, detail=True).items()
        if not any(level.startswith(IGNORED_PREFIXES) for level in PurePosixPath(name).parts[fixed:])
    }


def _stamp(info: dict[str, Any]) -> str:
    keys = ("ETag", "etag", "mtime", "LastModified", "updated", "created")
    return f"{info['size']} {next((info[key] for key in keys if info.get(key) is not None), '')}".strip()


def _inspect(
    keep: Sequence[str], encoding: str, file: str, info: dict[str, Any]
) -> tuple[list[RowGroup], dict[str, Any]]:
    """Return the row groups of a file that have rows, and the types of the columns to keep."""
    if Path(file).suffix.lower() not in PARQUET:
        if info["size"] <= HEADER_BYTES:
            with (
                add_file_name_to_errors(file),
                local_copy(file) as path,
                open_table(path, encoding=encoding) as stream,
            ):
                if not any(batch.num_rows for batch in stream.batches):
                    return [], {}
        return [(None, None)], {}
    with as_table_error(file), open_binary(file) as source, open_parquet(source) as parquet_file:
        metadata, schema = parquet_file.metadata, parquet_file.schema_arrow
        sizes = [metadata.row_group(number).num_rows for number in range(metadata.num_row_groups)]
    columns = [column for column in schema if not column.name.startswith(PANDAS_INDEX)]
    names, _ = distinct_names([column.name for column in columns])
    types = {name: column.type for name, column in zip(names, columns, strict=True) if name in keep}
    return [(number, size) for number, size in enumerate(sizes) if size], types


def _parquet_type(kind: Any) -> Any:
    """Return a type as written to Parquet, which has one type of text, whatever Arrow's is."""
    pa = require_pyarrow()
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    if pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
        return pa.string()
    return pa.binary() if pa.types.is_large_binary(kind) or pa.types.is_binary_view(kind) else kind
