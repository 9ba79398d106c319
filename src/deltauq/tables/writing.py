"""Files of predictions: CSV, Parquet or Arrow, written batch by batch."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from deltauq.tables.errors import TableError, require_pyarrow
from deltauq.tables.files import ARROW, PARQUET

if TYPE_CHECKING:
    import pyarrow as pa

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
