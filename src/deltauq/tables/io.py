"""Table files of three kinds (CSV, Parquet, Arrow), read whole or in batches."""

from __future__ import annotations

import io
import json
import lzma
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from deltauq.tables.csv_reader import CSVReader
from deltauq.tables.errors import TableError, require_pandas, require_pyarrow

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

PARQUET = (".parquet", ".pq")
ARROW = (".arrow", ".feather", ".ipc", ".arrows")
PANDAS_INDEX = "__index_level_"
"""What pandas calls row labels without a name when it writes them."""
UNREADABLE = (OSError, ValueError, EOFError, MemoryError, zlib.error, lzma.LZMAError)
"""What readers raise for damaged files, besides pyarrow's own errors."""


@dataclass(frozen=True)
class TableStream:
    """An open table file.

    Attributes
    ----------
    names : list of str
        Of the columns, without white space around them; names that are shared are numbered.
    shared : list of str
        The names that were.
    batches : iterator of pyarrow.RecordBatch
        Of these columns, in the file's order.
    n_rows : int or None
        Where the file says so.
    first_row : int
        Rows of the file before these.
    """

    names: list[str]
    shared: list[str]
    batches: Iterator[pa.RecordBatch]
    n_rows: int | None
    first_row: int = 0


def read_frame(source: Any, encoding: str = "utf-8") -> tuple[pd.DataFrame, list[str]]:
    """Return a whole table, and the names that several of its columns had.

    Parameters
    ----------
    source : path, pandas DataFrame, or anything that speaks Arrow, such as a polars DataFrame
    encoding : str
        Of a CSV file.

    Returns
    -------
    frame : DataFrame
        Of distinct names. The columns of a CSV file are text.
    shared : list of str
    """
    require_pandas()
    if not isinstance(source, (str, PathLike)):
        return _named(_as_pandas(source))
    pa = require_pyarrow()
    with open_table(source, encoding=encoding) as stream:
        batches = list(stream.batches)
        if not batches:
            raise TableError(f"{source} has no rows.")
        table = pa.Table.from_batches(batches)
        if not _is_csv(Path(source)):
            return to_frame(table), stream.shared
        # All columns are text: as Arrow holds it, it takes a fraction of the memory.
        text = require_pandas().StringDtype("pyarrow")
        return table.to_pandas(types_mapper=lambda _: text), stream.shared


@contextmanager
def open_table(
    path: str | PathLike[str], batch_rows: int = 65_536, encoding: str = "utf-8"
) -> Iterator[TableStream]:
    """Open a table file to be read in batches; whatever is wrong with it is a `TableError`.

    Parameters
    ----------
    path : path
    batch_rows : int
        The most rows of a batch.
    encoding : str
        Of a CSV file.
    """
    path = Path(path)
    if not path.exists():
        raise TableError(f"{path} does not exist.")
    if path.is_dir():
        raise TableError(f"{path} is a folder.")
    require_pyarrow()
    with ExitStack() as stack:
        with as_table_error(path):
            own, batches, n_rows = stack.enter_context(_opened(path, batch_rows, encoding))
        names, shared, renamed = _renamed(path, own, batches, batch_rows)
        yield TableStream(names, shared, renamed, n_rows)


@contextmanager
def open_row_group(
    path: str | PathLike[str], file: Any, number: int, batch_rows: int = 65_536
) -> Iterator[TableStream]:
    """Open one row group of a Parquet file to be read in batches.

    Parameters
    ----------
    path : path
        For complaints.
    file : path or file object
        What is read: an open file may lie anywhere.
    number : int
        Of the row group, from 0.
    batch_rows : int
        The most rows of a batch.
    """
    with ExitStack() as stack:
        with as_table_error(path):
            parquet_file = stack.enter_context(open_parquet(file))
            sizes = [parquet_file.metadata.row_group(k).num_rows for k in range(number + 1)]
            batches = _validated(parquet_file.iter_batches(batch_size=batch_rows, row_groups=[number]))
        names, shared, renamed = _renamed(path, parquet_file.schema_arrow.names, batches, batch_rows)
        yield TableStream(names, shared, renamed, sizes[number], sum(sizes[:number]))


def open_parquet(file: Any) -> Any:
    """Open a Parquet file without keeping what was read."""
    from pyarrow import parquet

    return parquet.ParquetFile(file, pre_buffer=False, buffer_size=1 << 20)


def _renamed(
    path: str | PathLike[str], own: list[str], batches: Iterator[Any], batch_rows: int
) -> tuple[list[str], list[str], Iterator[Any]]:
    """Return the names of the columns, those that were shared, and the batches under these names."""
    pa = require_pyarrow()
    kept = [k for k, name in enumerate(own) if not name.startswith(PANDAS_INDEX)]
    names, shared = distinct_names([own[k] for k in kept])

    def renamed() -> Iterator[Any]:
        with as_table_error(path):
            for batch in batches:
                batch = pa.RecordBatch.from_arrays([batch.column(k) for k in kept], names=names)
                for start in range(0, batch.num_rows, batch_rows):
                    yield batch.slice(start, batch_rows)

    return names, shared, renamed()


def distinct_names(names: list[str]) -> tuple[list[str], list[str]]:
    """Return the names with numbers where several columns share one, and the names that were shared."""
    names = [str(name).strip() for name in names]
    shared = [name for name, count in Counter(names).items() if count > 1]
    taken, distinct = set(names), list[str]()
    for name in names:
        if name in distinct:
            number = next(i for i in range(1, len(names) + 1) if f"{name}.{i}" not in taken)
            name = f"{name}.{number}"
            taken.add(name)
        distinct.append(name)
    return distinct, shared


def to_frame(table: Any) -> pd.DataFrame:
    """Return an Arrow table or batch as a data frame; a column that has no equivalent is a `TableError`."""
    try:
        return _without_dictionaries(table).to_pandas()
    except Exception as error:  # pandas, pyarrow and the packages below them fail in many ways
        for name, column in zip(table.schema.names, table.columns, strict=True):
            try:
                _without_dictionaries(require_pyarrow().table({name: column})).to_pandas()
            except Exception as reason:
                raise TableError(
                    f'the column "{name}" ({column.type}) cannot be read: {_first_line(reason)}.'
                ) from reason
        raise TableError(f"the table cannot be read: {_first_line(error)}.") from error


def _without_dictionaries(table: Any) -> Any:
    """Return an Arrow table or batch with plain numbers and dates where a dictionary encodes them.

    A Parquet file gives these, and a Feather file of the same table gives categories.
    """
    types = require_pyarrow().types
    for k, column in enumerate(table.columns):
        if types.is_dictionary(column.type):
            plain = column.type.value_type
            if types.is_primitive(plain) or types.is_decimal(plain):
                table = table.set_column(k, table.schema.names[k], column.cast(plain))
    return table


def _validated(batches: Iterable[Any]) -> Iterator[Any]:
    """Check every buffer of each batch before anything follows what is in it.

    Arrow's readers do not look at the values: an offset of a damaged file may point out of its memory.
    """
    for batch in batches:
        batch.validate(full=True)
        yield batch


def _first_line(error: Exception) -> str:
    """Return what an error says, without what follows the first line, such as the rows at fault."""
    said = getattr(error, "strerror", None) or str(error).strip() or type(error).__name__
    return said.splitlines()[0][:200].rstrip(".")


@contextmanager
def as_table_error(path: str | PathLike[str]) -> Iterator[None]:
    """Turn what a reader says of a damaged file into a `TableError`."""
    try:
        yield
    except TableError:
        raise
    except Exception as error:
        if not isinstance(error, (*UNREADABLE, require_pyarrow().ArrowException)):
            raise
        raise TableError(f"cannot read {path}: {_first_line(error)}.") from error


@contextmanager
def _opened(
    path: Path, batch_rows: int, encoding: str
) -> Iterator[tuple[list[str], Iterator[Any], int | None]]:
    """Yield names, batches, and the number of rows where it is known."""
    suffix = path.suffix.lower()
    if suffix in PARQUET:
        with open_parquet(path) as file:
            rows = file.metadata.num_rows
            yield file.schema_arrow.names, _validated(file.iter_batches(batch_size=batch_rows)), rows
    elif suffix in ARROW:
        with _open_arrow(path) as reader:
            yield reader.schema.names, _validated(_arrow_batches(reader)), None
    else:
        csv_file = CSVReader(path, encoding)
        try:
            yield csv_file.names, csv_file.batches(), None
        finally:
            csv_file.close()


def _open_arrow(path: Path) -> Any:
    """Open a file of either of Arrow's formats: with an index at its end, or a stream."""
    pa = require_pyarrow()
    with path.open("rb") as file:
        indexed = file.read(6) == b"ARROW1"
    return pa.ipc.open_file(path) if indexed else pa.ipc.open_stream(pa.OSFile(str(path)))


def _arrow_batches(reader: Any) -> Iterator[Any]:
    if hasattr(reader, "get_batch"):
        return (reader.get_batch(k) for k in range(reader.num_record_batches))
    return iter(reader)


def _is_csv(path: Path) -> bool:
    return path.suffix.lower() not in (*PARQUET, *ARROW)


def _as_pandas(source: Any) -> pd.DataFrame:
    pandas = require_pandas()
    if isinstance(source, pandas.DataFrame):
        return source.copy(deep=False)
    if hasattr(source, "__arrow_c_stream__"):
        return to_frame(require_pyarrow().table(source))
    raise TypeError(f"table must be a path or a data frame, got {type(source).__name__}.")


def _named(frame: pd.DataFrame) -> tuple[pd.DataFrame, list[str]]:
    frame.columns, shared = distinct_names(list(frame.columns))
    return frame, shared


CSV = (".csv", ".tsv", ".txt")


def is_output(out: Path) -> bool:
    """Tell whether a name says which format is to be written."""
    return out.suffix.lower() in (*PARQUET, *ARROW, *CSV) or _inner(out) in CSV


class Writer:
    """Writes batches to a file, in the format that the final name asks for.

    Parameters
    ----------
    part : Path
        What is written.
    out : Path
        The final name.
    """

    def __init__(self, part: Path, out: Path) -> None:
        self._part, self._out = part, out
        self._stack = ExitStack()
        self._writer: Any = None

    def __enter__(self) -> Writer:
        return self

    def __exit__(self, *error: object) -> None:
        self._stack.close()

    def close(self) -> None:
        """Finish the file."""
        self._stack.close()

    def keep(self, kept: pa.RecordBatch) -> pa.RecordBatch:
        """Return columns that are to be kept as the file can hold them, or refuse one that it cannot."""
        plain = [self._plain(kept.schema.names[k], column) for k, column in enumerate(kept.columns)]
        kept = require_pyarrow().RecordBatch.from_arrays(plain, names=kept.schema.names)
        if self._writer is None:
            self._refuse_any(kept.slice(0, 1))
        return kept

    def write(self, kept: pa.RecordBatch, columns: dict[str, Any]) -> None:
        """Add the rows of a batch: columns that `keep` returned, then those of the predictions."""
        pa = require_pyarrow()
        is_text = self._out.suffix.lower() not in (*PARQUET, *ARROW)
        if is_text and "set" in columns:
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
            # A column may be refused for a value of it, such as bytes that are no text.
            self._refuse_any(kept)
            said = str(error).splitlines()[0].rstrip(".")
            raise TableError(f"cannot write {self._out}: {said}.") from error

    def describe(self, words: dict[str, str]) -> None:
        """Let a Parquet file say something of itself."""
        self._writer.add_key_value_metadata(words)

    def _plain(self, name: str, column: Any) -> Any:
        """Return a column without encodings that not every format knows, or that must be alike throughout."""
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
            raise self._refusal(name, column.type) from error
        return column

    def _refuse_any(self, kept: pa.RecordBatch) -> None:
        """Write each column for itself, to nowhere, and complain of the first that fails."""
        pa = require_pyarrow()
        for column, field in zip(kept.columns, kept.schema, strict=True):
            batch = pa.RecordBatch.from_arrays([column], names=["kept"])
            try:
                with _open_writer(io.BytesIO(), self._out, batch.schema) as writer:
                    writer.write_batch(batch)
            except pa.ArrowException as error:
                raise self._refusal(field.name, field.type) from error

    def _refusal(self, name: str, kind: Any) -> TableError:
        suffix = self._out.suffix.lower()
        file = "a Parquet" if suffix in PARQUET else "an Arrow" if suffix in ARROW else "a CSV"
        return TableError(f'"{name}" cannot be kept in {file} file ({kind}).')


@contextmanager
def _open_writer(file: Any, out: Path, schema: Any) -> Iterator[Any]:
    """Open a path or a file object to write batches of a schema to, in the format of a name."""
    pa = require_pyarrow()
    if out.suffix.lower() in PARQUET:
        from pyarrow import parquet

        with parquet.ParquetWriter(file, schema) as writer:
            yield writer
    elif out.suffix.lower() in ARROW:
        with pa.output_stream(file, compression=None) as stream, pa.ipc.new_file(stream, schema) as writer:
            yield writer
    else:
        from pyarrow import csv

        packed = "gzip" if out.suffix.lower() == ".gz" else None
        options = csv.WriteOptions(delimiter="\t" if _inner(out) == ".tsv" or out.suffix == ".tsv" else ",")
        with (
            pa.output_stream(file, compression=packed) as stream,
            csv.CSVWriter(stream, schema, write_options=options) as writer,
        ):
            yield writer


def _inner(out: Path) -> str:
    """Return what stands before ``.gz``."""
    return Path(out.stem).suffix.lower() if out.suffix.lower() == ".gz" else ""
