"""CSV files, read in batches of text: delimiter, header, encoding, compression, row names."""

from __future__ import annotations

import bz2
import codecs
import csv
import gzip
import io
import lzma
import re
import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from deltauq.tables.errors import TableError, require_pyarrow
from deltauq.tables.text_parsing import MISSING

if TYPE_CHECKING:
    import pyarrow as pa

OPENERS: dict[str, Any] = {".gz": gzip.open, ".bz2": bz2.open, ".xz": lzma.open}
ARCHIVES = (".zip", ".7z", ".tar", ".tgz")
SPREADSHEETS = (".xlsx", ".xls", ".xlsm", ".xlsb", ".ods", ".numbers")
DELIMITERS = ",;\t|"
RARE_DELIMITERS = ":^~ "
"""Tried only if none of the common ones splits the lines."""
NAMED_DELIMITER = re.compile(
    rf'"?sep=([{re.escape(DELIMITERS + RARE_DELIMITERS)}])"?(\r\n|\r|\n)', re.IGNORECASE
)
"""A first line that names the delimiter, as Excel writes and reads it."""
HEAD_BYTES = 256 * 1024
"""The delimiter and the header are found in these first bytes of a file."""
BLOCK = 4 * 1024 * 1024


class CSVReader:
    """A CSV file, possibly compressed, with the column names `names`.

    It is opened once, since a pipe cannot be read again.
    """

    def __init__(self, path: Path, encoding: str = "utf-8") -> None:
        suffix = path.suffix.lower()
        if suffix in ARCHIVES:
            raise TableError(f"{path} is an archive: unpack it first.")
        if suffix in SPREADSHEETS:
            raise TableError(f"{path} is a spreadsheet: save its sheet as CSV, and use that file.")
        self._path, self._encoding = path, encoding
        self._bytes = OPENERS.get(suffix, open)(path, "rb")
        try:
            with self._errors():
                self._bytes = _as_utf8(self._bytes, encoding)
                head = self._bytes.read(HEAD_BYTES)
                start = self._read_header(head, is_whole=len(head) < HEAD_BYTES)
        except BaseException:
            self.close()
            raise
        self._head = head[start:]

    def _read_header(self, head: bytes, is_whole: bool) -> int:
        """Find delimiter, names and fields in the first bytes, and return where the first row begins."""
        if b"\0" in head:
            raise self._nul_bytes()
        try:
            text = codecs.getincrementaldecoder("utf-8-sig")().decode(head, final=is_whole)
        except UnicodeDecodeError as error:
            raise self._not_utf8(f"byte {error.object[error.start]:#04x} at {error.start:,}") from error
        named = NAMED_DELIMITER.match(text)
        first_line = named[0] if named else ""
        text = text.removeprefix(first_line)
        if not text.strip():
            raise TableError(f"{self._path} is empty.")
        self._delimiter = named[1] if named else find_delimiter(text, is_whole)
        reader = csv.reader(io.StringIO(text, newline=""), delimiter=self._delimiter)
        try:
            names = next(row for row in reader if row)
        except (csv.Error, StopIteration) as error:
            raise TableError(f"cannot read {self._path}: it has no header ({error}).") from error
        lines = io.StringIO(text, newline="").readlines()
        start = len("".join([first_line, *lines[: reader.line_num]]).encode())
        start += len(codecs.BOM_UTF8) if head.startswith(codecs.BOM_UTF8) else 0
        if not is_whole and start >= len(head):
            raise TableError(f"cannot read {self._path}: its first line is longer than {HEAD_BYTES:,} bytes.")
        self.names = [name.strip() or f"Unnamed: {number}" for number, name in enumerate(names)]
        self._width, self._fields = len(names), slice(None)
        rows = _rows(text, self._delimiter, is_whole)[1:]
        if rows and all(len(row) == len(names) + 1 for row in rows):
            # Rows begin with a name, or end with a delimiter, that the header does not have.
            self._width += 1
            self._fields = slice(1, None) if any(row[-1].strip() for row in rows) else slice(len(names))
        return start

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield batches of text columns, with nulls for missing values, in the order of the file."""
        pa = require_pyarrow()
        from pyarrow import csv as arrow_csv

        names = [str(number) for number in range(self._width)]
        source: Any = _Joined(self._head, self._bytes, self._nul_bytes)
        if not source.has_more():
            return
        released = weakref.ref(source)
        reader = None
        try:
            with self._errors():
                reader = arrow_csv.open_csv(
                    pa.PythonFile(source, mode="r"),
                    arrow_csv.ReadOptions(column_names=names, block_size=BLOCK),
                    arrow_csv.ParseOptions(delimiter=self._delimiter, newlines_in_values=True),
                    arrow_csv.ConvertOptions(
                        column_types=dict.fromkeys(names, pa.string()),
                        null_values=MISSING,
                        strings_can_be_null=True,
                    ),
                )
                for batch in reader:
                    columns = batch.columns[self._fields]
                    yield pa.RecordBatch.from_arrays(columns, names=self.names)
        finally:
            if reader is not None:
                reader.close()
            source = reader = None
            # An interpreter that ends while Arrow's thread still uses the stream would abort.
            deadline = time.monotonic() + 1
            while released() is not None and time.monotonic() < deadline:
                time.sleep(0.0005)

    def close(self) -> None:
        """Close the file."""
        self._bytes.close()

    @contextmanager
    def _errors(self) -> Iterator[None]:
        """Raise a `TableError` for text in another encoding, and for rows of another length."""
        try:
            yield
        except UnicodeError as error:
            raise TableError(
                f"cannot read {self._path}: its text is not {self._encoding}, the encoding given by "
                f"--encoding (encoding= in Python): {error}."
            ) from error
        except require_pyarrow().ArrowInvalid as error:
            if "invalid UTF8" in str(error):
                raise self._not_utf8("after its first 256 KiB") from error
            # Arrow's message quotes the row, whose values may be private.
            ragged = re.search(r"(?:Row #(\d+): )?Expected (\d+) columns, got (\d+)", str(error))
            if ragged is None:
                raise
            row = f"row {int(ragged[1]):,}" if ragged[1] else "a row"
            raise TableError(
                f"cannot read {self._path}: {row} has {int(ragged[3]):,} fields, and the header has "
                f"{int(ragged[2]):,}: remove any title above the header, and any note below the table."
            ) from error

    def _nul_bytes(self) -> TableError:
        return TableError(
            f"cannot read {self._path}: it has NUL bytes, so it is not CSV text in UTF-8; give its encoding "
            "by --encoding (encoding= in Python), such as utf-16."
        )

    def _not_utf8(self, position: str) -> TableError:
        return TableError(
            f"cannot read {self._path}: it is not UTF-8 text ({position}); give its encoding by --encoding "
            "(encoding= in Python), such as cp1252 or latin-1."
        )


class _Joined(io.RawIOBase):
    """The bytes that were read already, and the rest, as one stream that rejects NUL bytes."""

    def __init__(self, head: bytes, rest: Any, nul_bytes: Callable[[], TableError]) -> None:
        self._head, self._rest, self._nul_bytes = head, rest, nul_bytes

    def readable(self) -> bool:
        return True

    def has_more(self) -> bool:
        """Return whether there may be anything but white space."""
        while not self._head.strip():
            block = self._rest.read(BLOCK)
            if not block:
                return False
            self._head += block
        return True

    def read(self, size: int = -1) -> bytes:
        if self._head:
            size = len(self._head) if size < 0 else size
            block, self._head = self._head[:size], self._head[size:]
        else:
            block = self._rest.read(size)
        if b"\0" in block:
            raise self._nul_bytes()
        return block


def _as_utf8(source: Any, encoding: str) -> Any:
    try:
        "".encode(encoding)
    except LookupError as error:
        raise TableError(
            f"there is no encoding {encoding!r}: use latin-1, cp1252 or utf-16, for example."
        ) from error
    if codecs.lookup(encoding).name in ("utf-8", "utf-8-sig"):
        return source
    pa = require_pyarrow()
    return pa.transcoding_input_stream(pa.PythonFile(source, mode="r"), encoding, "utf-8")


def find_delimiter(text: str, whole: bool = True) -> str:
    """Return the delimiter that splits the first lines of a text into equally many fields."""
    for delimiters in (DELIMITERS, RARE_DELIMITERS):
        widths = {delimiter: _common_width(_rows(text, delimiter, whole)) for delimiter in delimiters}
        best = max(widths, key=lambda delimiter: widths[delimiter])
        if widths[best] > 1:
            return best
    # Errors about rows of other lengths refer to the most frequent one of the header.
    header = text.lstrip().splitlines()[0]
    return max(DELIMITERS, key=header.count)


def _common_width(rows: list[list[str]]) -> int:
    """Return the number of fields of all rows, or 0 if it varies; rows may have one more than the header."""
    if not rows:
        return 0
    widths = {len(row) for row in rows[1:]} or {len(rows[0])}
    return len(rows[0]) if widths in ({len(rows[0])}, {len(rows[0]) + 1}) else 0


def _rows(text: str, delimiter: str, whole: bool, most: int = 200) -> list[list[str]]:
    """Return the first rows of a text, without the last one if the text is cut."""
    rows = []
    try:
        for row in csv.reader(io.StringIO(text, newline=""), delimiter=delimiter):
            if row:
                rows.append(row)
            if len(rows) > most:
                return rows
    except csv.Error:
        return rows
    return rows if whole or len(rows) < 2 else rows[:-1]
