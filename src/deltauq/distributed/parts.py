"""A table of many files as parts that are predicted apart: a row group of Parquet, or another file whole."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Any

from deltauq.distributed.places import full_name, local_copy, opened, reach
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
"""Files whose sizes are asked for at a time: what takes long is waiting for the answer."""
HEADER_BYTES = 256 * 1024
"""Files that do not count their rows are looked into where they are no larger than a header may be."""
PASSED_OVER = (".", "_")
"""How names begin that patterns do not mean, such as _SUCCESS, or files that are still being written."""


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


@dataclass(frozen=True)
class Contents:
    """What is known of a file without reading its rows.

    Attributes
    ----------
    groups : list of tuple
        The number and the rows of each row group that has some; or one pair of None, for all of the file.
    types : dict
        The types of columns that are to be kept, where the file says so.
    """

    groups: list[tuple[int | None, int | None]]
    types: dict[str, Any]


def list_parts(source: str, keep: Sequence[str] = (), encoding: str = "utf-8") -> list[Part]:
    """Return the parts of a table, in the order of the names of files.

    Parameters
    ----------
    source : str
        Path or URL of a file, or a pattern of several, such as "rows/*.parquet", which passes over names that
        begin with a dot or an underscore.
    keep : sequence of str
        Columns that must have the same type in all Parquet files.
    encoding : str
        Of CSV files.

    Returns
    -------
    parts : list of Part
        Those without rows are left out, where that is known.
    """
    files = _find(source)
    with ThreadPoolExecutor(READERS) as pool:
        contents = dict(
            zip(files, pool.map(partial(_look_into, keep, encoding), files, files.values()), strict=True)
        )
    pieces = [(file, *group) for file, found in contents.items() for group in found.groups]
    if not pieces:
        raise TableError(f"{source} has no rows.")
    _check_types({file: found.types for file, found in contents.items() if found.groups})
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
        with opened(part.source) as file, open_row_group(part.source, file, part.row_group) as stream:
            yield stream


@contextmanager
def naming(source: str) -> Iterator[None]:
    """Let complaints say which of many files they are of."""
    try:
        yield
    except TableError as error:
        raise error if source in str(error) else TableError(f"{source}: {error}") from error


def _find(source: str) -> dict[str, dict[str, Any]]:
    """Return the files that a pattern means, in order, with what their file system says of them."""
    system, path = reach(source)
    with as_table_error(source):
        # A name that exists is meant as it is, brackets included.
        found = {path: system.info(path)} if system.exists(path) else _match(system, path)
    if not found:
        raise TableError(f"{source} does not exist.")
    found = {name: info for name, info in sorted(found.items()) if info["type"] == "file"}
    if not found:
        raise TableError(f"{source} is a folder: name its files, such as {source.rstrip('/')}/*.parquet.")
    return {full_name(system, name): info for name, info in found.items()}


def _match(system: Any, pattern: str) -> dict[str, dict[str, Any]]:
    """Return what a pattern matches, but for names and folders that patterns pass over."""
    words = PurePosixPath(pattern).parts
    fixed = next((k for k, word in enumerate(words) if set(word) & set("*?[")), len(words))
    return {
        name: info
        for name, info in system.glob(pattern, detail=True).items()
        if not any(word.startswith(PASSED_OVER) for word in PurePosixPath(name).parts[fixed:])
    }


def _stamp(info: dict[str, Any]) -> str:
    times = (info.get(word) for word in ("ETag", "etag", "mtime", "LastModified", "updated", "created"))
    return f"{info['size']} {next((time for time in times if time is not None), '')}".strip()


def _look_into(keep: Sequence[str], encoding: str, file: str, info: dict[str, Any]) -> Contents:
    if Path(file).suffix.lower() not in PARQUET:
        some = info["size"] > HEADER_BYTES or _has_rows(file, encoding)
        return Contents([(None, None)] if some else [], {})
    with as_table_error(file), opened(file) as source, open_parquet(source) as parquet_file:
        metadata, schema = parquet_file.metadata, parquet_file.schema_arrow
        sizes = [metadata.row_group(number).num_rows for number in range(metadata.num_row_groups)]
    columns = [column for column in schema if not column.name.startswith(PANDAS_INDEX)]
    names, _ = distinct_names([column.name for column in columns])
    types = {name: column.type for name, column in zip(names, columns, strict=True) if name in keep}
    return Contents([(number, size) for number, size in enumerate(sizes) if size], types)


def _has_rows(file: str, encoding: str) -> bool:
    with naming(file), local_copy(file) as path, open_table(path, encoding=encoding) as stream:
        return any(batch.num_rows for batch in stream.batches)


def _check_types(types: dict[str, dict[str, Any]]) -> None:
    """Refuse columns to keep that are one thing in one file and another thing in another."""
    first: dict[str, tuple[str, Any]] = {}
    for file, columns in types.items():
        for name, kind in columns.items():
            other, known = first.setdefault(name, (file, kind))
            if _written(kind) != _written(known):
                raise TableError(f'"{name}" cannot be kept: it is {known} in {other} and {kind} in {file}.')


def _written(kind: Any) -> Any:
    """Return a type as it is once written to Parquet, where text is text however Arrow holds it."""
    pa = require_pyarrow()
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    if pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
        return pa.string()
    return pa.binary() if pa.types.is_large_binary(kind) or pa.types.is_binary_view(kind) else kind
