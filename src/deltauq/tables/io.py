"""Table files (CSV, Parquet, Arrow): read whole or in batches, and written in batches."""

from __future__ import annotations

import io
import json
import lzma
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from itertools import count
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from deltauq.tables.csv_reader import CSVReader
from deltauq.tables.errors import TableError, require_pandas, require_pyarrow
from deltauq.utils.formatting import first_line

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

PARQUET = (".parquet", ".pq")
ARROW = (".arrow", ".feather", ".ipc", ".arrows")
OUTPUT_FORMATS = {
    **dict.fromkeys(PARQUET, "Parquet"),
    **dict.fromkeys(ARROW, "Arrow"),
    **dict.fromkeys((".csv", ".tsv", ".txt"), "CSV"),
}
"""The formats of written files; `READERS` has those of read files."""
PANDAS_INDEX = "__index_level_"
"""The name that pandas gives to row labels without a name in files."""
UNREADABLE = (OSError, ValueError, EOFError, MemoryError, zlib.error, lzma.LZMAError)
"""Errors of readers for damaged files, in addition to those of pyarrow."""
Opened = tuple[list[str], Iterable[Any], int | None]
"""The names of columns, the batches, and the number of rows if the file contains it."""


@dataclass(frozen=True)
class TableStream:
    """An open table file."""

    names: list[str]
    """The columns, without white space around their names; duplicate names are numbered."""
    duplicates: list[str]
    """The names that several columns had."""
    batches: Iterator[pa.RecordBatch]
    """These columns, in the order of the file."""
    n_rows: int | None
    """The number of rows, if the file contains it."""
    first_row: int = 0
    """The number of rows before these in the file."""


def read_frame(source: Any, encoding: str = "utf-8") -> tuple[pd.DataFrame, list[str]]:
    """Return a whole table, and the names that several of its columns had.

    The source is a path, a pandas DataFrame, or any data frame with the Arrow interface, such as polars. The
    columns of a CSV file are text.
    """
    pandas = require_pandas()
    if not isinstance(source, (str, PathLike)):
        if isinstance(source, pandas.DataFrame):
            frame = source.copy(deep=False)
        elif hasattr(source, "__arrow_c_stream__"):
            frame = to_frame(require_pyarrow().table(source))
        else:
            raise TypeError(f"table must be a path or a data frame, got {type(source).__name__}.")
        frame.columns, duplicates = distinct_names(list(frame.columns))
        return frame, duplicates
    pa = require_pyarrow()
    with open_table(source, encoding=encoding) as stream:
        batches = list(stream.batches)
        if not batches:
            raise TableError(f"{source} has no rows.")
        table = pa.Table.from_batches(batches)
        if Path(source).suffix.lower() in READERS:
            return to_frame(table), stream.duplicates
        # All columns are text, which takes a fraction of the memory in Arrow's form.
        text = pandas.StringDtype("pyarrow")
        return table.to_pandas(types_mapper=lambda _: text), stream.duplicates


@contextmanager
def open_table(
    path: str | PathLike[str], batch_rows: int = 65_536, encoding: str = "utf-8"
) -> Iterator[TableStream]:
    """Open a table file to read it in batches; a file that cannot be read raises a `TableError`."""
    path = Path(path)
    if not path.exists():
        raise TableError(f"{path} does not exist.")
    if path.is_dir():
        raise TableError(f"{path} is a folder.")
    with ExitStack() as stack:
        with as_table_error(path):
            reader = READERS.get(path.suffix.lower(), _open_csv)
            names, batches, n_rows = reader(stack, path, batch_rows, encoding)
        yield _stream(path, names, batches, batch_rows, n_rows)


def _open_parquet(stack: ExitStack, path: Path, batch_rows: int, encoding: str) -> Opened:
    file = stack.enter_context(open_parquet(path))
    return file.schema_arrow.names, file.iter_batches(batch_size=batch_rows), file.metadata.num_rows


def _open_arrow(stack: ExitStack, path: Path, batch_rows: int, encoding: str) -> Opened:
    pa = require_pyarrow()
    with path.open("rb") as opened:
        is_indexed = opened.read(6) == b"ARROW1"
    if not is_indexed:
        stream = stack.enter_context(pa.ipc.open_stream(pa.OSFile(str(path))))
        return stream.schema.names, stream, None
    file = stack.enter_context(pa.ipc.open_file(path))
    return file.schema.names, (file.get_batch(k) for k in range(file.num_record_batches)), None


def _open_csv(stack: ExitStack, path: Path, batch_rows: int, encoding: str) -> Opened:
    file = stack.enter_context(closing(CSVReader(path, encoding)))
    return file.names, file.batches(), None


READERS = {**dict.fromkeys(PARQUET, _open_parquet), **dict.fromkeys(ARROW, _open_arrow)}
"""For suffixes of files whose columns have types; other files are CSV, or rejected by `CSVReader`."""


@contextmanager
def open_row_group(
    path: str | PathLike[str], file: Any, number: int, batch_rows: int = 65_536
) -> Iterator[TableStream]:
    """Open one row group of a Parquet file, a path or file object, whose name in errors is `path`."""
    with ExitStack() as stack:
        with as_table_error(path):
            parquet_file = stack.enter_context(open_parquet(file))
            sizes = [parquet_file.metadata.row_group(k).num_rows for k in range(number + 1)]
            batches = parquet_file.iter_batches(batch_size=batch_rows, row_groups=[number])
        names = parquet_file.schema_arrow.names
        yield _stream(path, names, batches, batch_rows, sizes[number], sum(sizes[:number]))


def open_parquet(file: Any) -> Any:
    """Open a Parquet file without a cache of what was read."""
    from pyarrow import parquet

    return parquet.ParquetFile(file, pre_buffer=False, buffer_size=1 << 20)


def _stream(
    path: str | PathLike[str],
    all_names: list[str],
    batches: Iterable[Any],
    batch_rows: int,
    n_rows: int | None,
    first_row: int = 0,
) -> TableStream:
    """Return a stream with distinct names, without row labels of pandas."""
    pa = require_pyarrow()
    columns = [k for k, name in enumerate(all_names) if not name.startswith(PANDAS_INDEX)]
    names, duplicates = distinct_names([all_names[k] for k in columns])

    def renamed() -> Iterator[Any]:
        with as_table_error(path):
            for batch in batches:
                # Readers do not check values: an offset in a damaged file may point out of its memory.
                batch.validate(full=True)
                batch = pa.RecordBatch.from_arrays([batch.column(k) for k in columns], names=names)
                for start in range(0, batch.num_rows, batch_rows):
                    yield batch.slice(start, batch_rows)

    return TableStream(names, duplicates, renamed(), n_rows, first_row)


def distinct_names(names: list[str]) -> tuple[list[str], list[str]]:
    """Return the names with numbers where several columns share one, and the names that were shared."""
    names = [str(name).strip() for name in names]
    duplicates = [name for name, n in Counter(names).items() if n > 1]
    taken, distinct = set(names), list[str]()
    for name in names:
        if name in distinct:
            name = next(new for i in count(1) if (new := f"{name}.{i}") not in taken)
            taken.add(name)
        distinct.append(name)
    return distinct, duplicates


def to_frame(table: Any) -> pd.DataFrame:
    """Return an Arrow table or batch as a data frame; a column that pandas cannot hold is an error."""
    try:
        return _without_dictionaries(table).to_pandas()
    except Exception as error:  # pandas, pyarrow and the packages below them fail in many ways
        for name, column in zip(table.schema.names, table.columns, strict=True):
            try:
                _without_dictionaries(require_pyarrow().table({name: column})).to_pandas()
            except Exception as reason:
                raise TableError(
                    f'the column "{name}" ({column.type}) cannot be read: {first_line(reason)}.'
                ) from reason
        raise TableError(f"the table cannot be read: {first_line(error)}.") from error


def _without_dictionaries(table: Any) -> Any:
    """Return an Arrow table or batch with plain numbers and dates where a dictionary encodes them.

    pandas makes categories of them, but not when it reads the same table from Parquet.
    """
    types = require_pyarrow().types
    for k, column in enumerate(table.columns):
        if types.is_dictionary(column.type):
            plain = column.type.value_type
            if types.is_primitive(plain) or types.is_decimal(plain):
                table = table.set_column(k, table.schema.names[k], column.cast(plain))
    return table


@contextmanager
def as_table_error(path: str | PathLike[str]) -> Iterator[None]:
    """Raise a `TableError` for the errors of a reader of a damaged file."""
    try:
        yield
    except TableError:
        raise
    except (*UNREADABLE, require_pyarrow().ArrowException) as error:
        raise TableError(f"cannot read {path}: {first_line(error)}.") from error


def output_format(out: Path) -> str | None:
    """Return the format that a file name determines: "Parquet", "Arrow", "CSV" or None."""
    name = out.name.lower()
    if name.endswith(".gz"):
        return "CSV" if OUTPUT_FORMATS.get(Path(name.removesuffix(".gz")).suffix) == "CSV" else None
    return OUTPUT_FORMATS.get(Path(name).suffix)


class Writer:
    """Writes batches to a temporary file, in the format that the final name determines."""

    def __init__(self, part: Path, out: Path) -> None:
        self._part, self._out = part, out
        self._stack = ExitStack()
        self._writer: Any = None

    def __enter__(self) -> Writer:
        return self

    def __exit__(self, *error: object) -> None:
        self._stack.close()

    def keep(self, kept: pa.RecordBatch) -> pa.RecordBatch:
        """Return columns of the source in types that the file supports, or raise a `TableError`."""
        plain = [self._plain(kept.schema.names[k], column) for k, column in enumerate(kept.columns)]
        kept = require_pyarrow().RecordBatch.from_arrays(plain, names=kept.schema.names)
        if self._writer is None:
            self._check_columns(kept.slice(0, 1))
        return kept

    def write(self, kept: pa.RecordBatch, columns: dict[str, Any]) -> None:
        """Add the rows of a batch: columns that `keep` returned, then those of the predictions."""
        pa = require_pyarrow()
        if output_format(self._out) == "CSV" and "set" in columns:
            columns = {**columns, "set": [json.dumps(row, ensure_ascii=False) for row in columns["set"]]}
        arrays = [*kept.columns, *(pa.array(values) for values in columns.values())]
        batch = pa.RecordBatch.from_arrays(arrays, names=[*kept.schema.names, *columns])
        try:
            if self._writer is None:
                self._writer = self._stack.enter_context(
                    _open_writer(str(self._part), self._out, batch.schema)
                )
            self._writer.write_batch(batch)
        except pa.ArrowException as error:
            # A column may fail because of a value, such as bytes that are not text.
            self._check_columns(kept)
            raise TableError(f"cannot write {self._out}: {first_line(error)}.") from error

    def add_metadata(self, metadata: dict[str, str]) -> None:
        """Store metadata in a Parquet file."""
        self._writer.add_key_value_metadata(metadata)

    def _plain(self, name: str, column: Any) -> Any:
        """Return a column without encodings that some formats do not support or that vary between batches."""
        pa = require_pyarrow()
        from pyarrow import compute

        try:
            if pa.types.is_run_end_encoded(column.type):
                column = compute.run_end_decode(column)
            if pa.types.is_dictionary(column.type):
                column = column.dictionary_decode()
            if pa.types.is_string_view(column.type):
                column = column.cast(pa.string())
        except pa.ArrowException as error:
            raise self._column_error(name, column.type) from error
        return column

    def _check_columns(self, kept: pa.RecordBatch) -> None:
        """Write each column alone to memory, and raise an error for the first that fails."""
        pa = require_pyarrow()
        for column, field in zip(kept.columns, kept.schema, strict=True):
            batch = pa.RecordBatch.from_arrays([column], names=["kept"])
            try:
                with _open_writer(io.BytesIO(), self._out, batch.schema) as writer:
                    writer.write_batch(batch)
            except pa.ArrowException as error:
                raise self._column_error(field.name, field.type) from error

    def _column_error(self, name: str, kind: Any) -> TableError:
        format = output_format(self._out)
        article = "an" if format == "Arrow" else "a"
        return TableError(f'"{name}" cannot be kept in {article} {format} file ({kind}).')


@contextmanager
def _open_writer(file: Any, out: Path, schema: Any) -> Iterator[Any]:
    """Open a path or a file object to write batches of a schema, in the format of the final name."""
    pa = require_pyarrow()
    format = output_format(out)
    if format == "Parquet":
        from pyarrow import parquet

        with parquet.ParquetWriter(file, schema) as writer:
            yield writer
    elif format == "Arrow":
        with pa.output_stream(file, compression=None) as stream, pa.ipc.new_file(stream, schema) as writer:
            yield writer
    elif format == "CSV":
        from pyarrow import csv

        name = out.name.lower()
        options = csv.WriteOptions(delimiter="\t" if name.removesuffix(".gz").endswith(".tsv") else ",")
        with (
            pa.output_stream(file, compression="gzip" if name.endswith(".gz") else None) as stream,
            csv.CSVWriter(stream, schema, write_options=options) as writer,
        ):
            yield writer
    else:
        raise TableError(f"cannot write {out}: no format is known for its suffix.")
