"""A file of JSON objects, one a line, that survives being killed at any moment."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any


class JsonLines:
    """JSON objects in a file, one per line.

    A line is on the disk when `append` returns. If a process is killed while it writes, only the last line
    can be incomplete: it is skipped when the file is read, and the next `append` removes it.

    Parameters
    ----------
    path : path
        Created on the first write, with its folders.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)

    def append(self, record: dict[str, Any]) -> None:
        """Write one object; if the disk is full, the file is left as it was."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        text = (json.dumps(record) + "\n").encode()
        descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)
        try:
            self._complete_last_line(descriptor)
            end = os.lseek(descriptor, 0, os.SEEK_END)
            try:
                _write_all(descriptor, text)
                os.fsync(descriptor)
            except OSError:
                with suppress(OSError):
                    os.ftruncate(descriptor, end)
                raise
        finally:
            os.close(descriptor)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        """Yield every complete object in the file; anything else is skipped."""
        if not self.path.exists():
            return
        with self.path.open("rb") as file:
            for line in file:
                record = parse(line)
                if record is not None:
                    yield record

    @staticmethod
    def _complete_last_line(descriptor: int) -> None:
        """End the last line if only its newline is missing; otherwise remove it."""
        size = os.lseek(descriptor, 0, os.SEEK_END)
        start, tail = size, b""
        while start > 0 and b"\n" not in tail:
            step = min(start, 4096)
            start -= step
            tail = os.pread(descriptor, step, start) + tail
        last = tail[tail.rfind(b"\n") + 1 :]
        if not last:
            return
        if parse(last) is None:
            os.ftruncate(descriptor, size - len(last))
        else:
            _write_all(descriptor, b"\n")


def parse(line: bytes) -> dict[str, Any] | None:
    """Return the JSON object of a line, or None if it is none."""
    try:
        record = json.loads(line)
    except ValueError:
        return None
    return record if isinstance(record, dict) else None


def _write_all(descriptor: int, text: bytes) -> None:
    """Write everything or raise: a single write may take less than it is given."""
    while text:
        text = text[os.write(descriptor, text) :]
