"""CSV files of every make, read in batches of text: delimiters, quotes, packing, names of rows."""

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
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from deltauq.tables.errors import TableError, require_pyarrow
from deltauq.tables.text_parsing import MISSING

if TYPE_CHECKING:
    import pyarrow as pa

OPENERS: dict[str, Any] = {".gz": gzip.open, ".bz2": bz2.open, ".xz": lzma.open}
ARCHIVES = (".zip", ".7z", ".tar", ".tgz")
SPREADSHEETS = (".xlsx", ".xls", ".xlsm", ".xlsb", ".ods", ".numbers")
UTF8 = ("utf-8", "utf-8-sig")
DELIMITERS = ",;\t|"
ODD_DELIMITERS = ":^~ "
"""Tried only where none of the common ones parts the lines."""
NAMED_DELIMITER = re.compile(
    rf'"?sep=([{re.escape(DELIMITERS + ODD_DELIMITERS)}])"?(\r\n|\r|\n)', re.IGNORECASE
)
"""A first line that names the delimiter, as Excel writes and reads it."""
SNIFFED = 256 * 1024
"""Bytes at the beginning from which the delimiter and the header are read."""
BLOCK = 4 * 1024 * 1024


@dataclass(frozen=True)
class Layout:
    """How a CSV file is laid out.

    Attributes
    ----------
    delimiter : str
    names : list of str
        The header, as it stands.
    start : int
        Bytes before the first row.
    extra : {None, "first", "last"}
        A field that rows have beyond the header: the name of the row, or nothing after a last delimiter.
    """

    delimiter: str
    names: list[str]
    start: int
    extra: str | None

    @property
    def width(self) -> int:
        """The number of fields of a row."""
        return len(self.names) + (self.extra is not None)

    @property
    def fields(self) -> slice:
        """The fields that have a name."""
        return slice(1, None) if self.extra == "first" else slice(len(self.names))


class CSVReader:
    """A CSV file, possibly packed, opened once: a pipe cannot be read again.

    Parameters
    ----------
    path : Path
    encoding : str

    Attributes
    ----------
    layout : Layout
    """

    def __init__(self, path: Path, encoding: str = "utf-8") -> None:
        if path.suffix.lower() in ARCHIVES:
            raise TableError(f"{path} is an archive: unpack it first.")
        if path.suffix.lower() in SPREADSHEETS:
            raise TableError(f"{path} is a spreadsheet: save its sheet as CSV, and give that file.")
        self._path = path
        self._bytes = OPENERS.get(path.suffix.lower(), open)(path, "rb")
        try:
            self._bytes = _as_utf8(self._bytes, encoding, path)
            head = _read_up_to(self._bytes, SNIFFED)
            self.layout = find_layout(head, whole=len(head) < SNIFFED, path=path)
        except BaseException:
            self.close()
            raise
        self._head = head[self.layout.start :]

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield batches whose columns are text, with nulls for missing values, in the file's order."""
        pa = require_pyarrow()
        from pyarrow import csv as arrow_csv

        names = [str(number) for number in range(self.layout.width)]
        source = _Joined(self._head, self._bytes, self._path)
        if not source.has_more():
            return
        with _arrow_errors(self._path):
            reader = arrow_csv.open_csv(
                pa.PythonFile(source, mode="r"),
                arrow_csv.ReadOptions(column_names=names, block_size=BLOCK),
                arrow_csv.ParseOptions(delimiter=self.layout.delimiter, newlines_in_values=True),
                arrow_csv.ConvertOptions(
                    column_types=dict.fromkeys(names, pa.string()),
                    null_values=MISSING,
                    strings_can_be_null=True,
                ),
            )
        given_up = weakref.ref(source)
        del source
        try:
            with _arrow_errors(self._path):
                for batch in reader:
                    columns = batch.columns[self.layout.fields]
                    yield pa.RecordBatch.from_arrays(columns, names=self.layout.names)
        finally:
            reader.close()
            del reader
            _wait_for_end(given_up)

    def close(self) -> None:
        """Close the file."""
        self._bytes.close()


class _Joined(io.RawIOBase):
    """The bytes already read, and those to come, as one stream that refuses NUL bytes."""

    def __init__(self, head: bytes, rest: Any, path: Path) -> None:
        self._head, self._rest, self._path = head, rest, path

    def readable(self) -> bool:
        return True

    def has_more(self) -> bool:
        """Tell whether anything but white space is left, or may be."""
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
            raise _nul_bytes(self._path)
        return block


class _Recoded(io.RawIOBase):
    """Text of any encoding as a stream of UTF-8."""

    def __init__(self, text: io.TextIOWrapper, path: Path) -> None:
        self._text, self._path = text, path

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        # A character takes four bytes at most.
        try:
            return self._text.read(size if size < 0 else max(1, size // 4)).encode()
        except UnicodeError as error:
            raise TableError(
                f"cannot read {self._path}: its text is not {self._text.encoding}, which --encoding "
                f"(encoding= in Python) names: {error}."
            ) from error

    def close(self) -> None:
        self._text.close()
        super().close()


@contextmanager
def _arrow_errors(path: Path) -> Iterator[None]:
    """Turn what Arrow says of text that is not UTF-8, or of ragged rows, into a `TableError`."""
    try:
        yield
    except require_pyarrow().ArrowInvalid as error:
        if "invalid UTF8" in str(error):
            raise _not_utf8(path, "far from its beginning") from error
        ragged = re.search(r"(Row #\d+: )?Expected (\d+) columns, got (\d+)", str(error))
        if ragged is None:
            raise
        row = f"row {int(ragged[1][5:-2]):,}" if ragged[1] else "a row"
        raise TableError(
            f"cannot read {path}: {row} has {int(ragged[3]):,} fields, and the header has "
            f"{int(ragged[2]):,}: remove any title above the header, and any note below the table."
        ) from error


def _as_utf8(source: Any, encoding: str, path: Path) -> Any:
    try:
        if codecs.lookup(encoding).name in UTF8:
            return source
        return _Recoded(io.TextIOWrapper(source, encoding, newline=""), path)
    except LookupError as error:
        raise TableError(
            f"there is no encoding {encoding!r}: latin-1, cp1252 or utf-16, for example."
        ) from error


def _wait_for_end(source: weakref.ref[_Joined]) -> None:
    """Wait until Arrow's thread has let go of a stream: an interpreter that ends before it is aborted."""
    deadline = time.monotonic() + 1
    while source() is not None and time.monotonic() < deadline:
        time.sleep(0.0005)


def find_layout(head: bytes, whole: bool, path: Path) -> Layout:
    """Return the layout that the beginning of a file shows.

    Parameters
    ----------
    head : bytes
    whole : bool
        Whether that is all of the file.
    path : Path
        For errors.

    Returns
    -------
    layout : Layout
    """
    if b"\0" in head:
        raise _nul_bytes(path)
    try:
        text = codecs.getincrementaldecoder("utf-8-sig")().decode(head, final=whole)
    except UnicodeDecodeError as error:
        place = f"byte {error.object[error.start]:#04x} at {error.start:,}"
        raise _not_utf8(path, place) from error
    named = NAMED_DELIMITER.match(text)
    first_line = named[0] if named else ""
    text = text.removeprefix(first_line)
    if not text.strip():
        raise TableError(f"{path} is empty.")
    delimiter = named[1] if named else find_delimiter(text, whole)
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter)
    try:
        names = next(row for row in reader if row)
    except (csv.Error, StopIteration) as error:
        raise TableError(f"cannot read {path}: it has no header ({error}).") from error
    lines = io.StringIO(text, newline="").readlines()
    start = len("".join([first_line, *lines[: reader.line_num]]).encode())
    start += len(codecs.BOM_UTF8) if head.startswith(codecs.BOM_UTF8) else 0
    if not whole and start >= len(head):
        raise TableError(f"cannot read {path}: its first line is longer than {SNIFFED:,} bytes.")
    names = [name.strip() or f"Unnamed: {number}" for number, name in enumerate(names)]
    return Layout(delimiter, names, start, _extra_field(len(names), _rows(text, delimiter, whole)[1:]))


def find_delimiter(text: str, whole: bool = True) -> str:
    """Return the delimiter that parts the first lines of a text into equally many fields."""
    for delimiters in (DELIMITERS, ODD_DELIMITERS):
        widths = {delimiter: _common_width(_rows(text, delimiter, whole)) for delimiter in delimiters}
        best = max(widths, key=lambda delimiter: widths[delimiter])
        if widths[best] > 1:
            return best
    # Ragged lines are complained of by the delimiter that the header has most of; a single column has none.
    header = text.lstrip().splitlines()[0]
    return max(DELIMITERS, key=header.count)


def _common_width(rows: list[list[str]]) -> int:
    """Return the number of fields that all rows have, or 0; rows may have one more than the header."""
    if not rows:
        return 0
    widths = {len(row) for row in rows[1:]} or {len(rows[0])}
    return len(rows[0]) if widths in ({len(rows[0])}, {len(rows[0]) + 1}) else 0


def _rows(text: str, delimiter: str, whole: bool, most: int = 200) -> list[list[str]]:
    """Return the first rows of a text that has been cut anywhere unless it is whole."""
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


def _extra_field(width: int, rows: list[list[str]]) -> str | None:
    if not rows or any(len(row) != width + 1 for row in rows):
        return None
    return "first" if any(row[-1].strip() for row in rows) else "last"


def _read_up_to(stream: Any, size: int) -> bytes:
    """Read until so many bytes are there or no more come; a pipe gives a few at a time."""
    blocks, left = [], size
    while left > 0 and (block := stream.read(left)):
        blocks.append(block)
        left -= len(block)
    return b"".join(blocks)


def _nul_bytes(path: Path) -> TableError:
    return TableError(
        f"cannot read {path}: it holds NUL bytes, so it is no CSV text in UTF-8; name its encoding by "
        "--encoding (encoding= in Python), such as utf-16."
    )


def _not_utf8(path: Path, place: str) -> TableError:
    return TableError(
        f"cannot read {path}: it is not UTF-8 text ({place}); name its encoding by --encoding (encoding= in "
        "Python), such as cp1252 or latin-1."
    )
