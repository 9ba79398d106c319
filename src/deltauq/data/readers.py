"""Reading the files of data sets, official and compact, without running anything in them."""

from __future__ import annotations

import csv
import gzip
import io
import pickle
import tarfile
from pathlib import Path
from typing import Any

import numpy as np

from deltauq.utils.install import install_command

MONTHS = [
    *("january", "february", "march", "april", "may", "june"),
    *("july", "august", "september", "october", "november", "december"),
]


def read_idx(path: Path) -> np.ndarray:
    """Return the unsigned bytes of an idx file, gzipped or not, in its own shape."""
    with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as stream:
        content = stream.read()
    if content[:3] != b"\x00\x00\x08":
        raise ValueError(f"{path} is no idx file of unsigned bytes.")
    rank = content[3]
    shape = np.frombuffer(content, ">u4", rank, offset=4)
    return np.frombuffer(content, np.uint8, offset=4 + 4 * rank).reshape(shape)


def read_cifar_binary(path: Path, members: list[str]) -> tuple[np.ndarray, np.ndarray]:
    """Return images (n, 32, 32, 3) and labels (n,) of members of cifar-10-binary.tar.gz."""
    with tarfile.open(path) as archive:
        parts = [_member(archive, name) for name in members]
    records = np.frombuffer(b"".join(parts), np.uint8).reshape(-1, 1 + 3072)
    return _channels_last(records[:, 1:]), records[:, 0]


def read_cifar_python(path: Path, members: list[str]) -> tuple[np.ndarray, np.ndarray]:
    """Return images (n, 32, 32, 3) and labels (n,) of members of cifar-10-python.tar.gz."""
    with tarfile.open(path) as archive:
        batches = [_ArrayUnpickler(io.BytesIO(_member(archive, name))).load() for name in members]
    images = np.concatenate([batch[b"data"] for batch in batches])
    labels = np.concatenate([np.asarray(batch[b"labels"], dtype=np.uint8) for batch in batches])
    return _channels_last(images), labels


def read_svhn(path: Path) -> tuple[np.ndarray, np.ndarray]:
    """Return images (n, 32, 32, 3) and labels (n,) of an SVHN .mat file, the digit 0 as 0."""
    from scipy.io import loadmat

    content = loadmat(path)
    return np.ascontiguousarray(np.moveaxis(content["X"], -1, 0)), (content["y"].ravel() % 10).astype(
        np.uint8
    )


def read_sheets(paths: list[Path]) -> np.ndarray:
    """Return the images (n, 32, 32, 3) of lossless sheets of 25 by 40 images each."""
    try:
        from PIL import Image
    except ImportError as error:
        raise ImportError(f"image sheets need: {install_command('images')}") from error
    sheets = []
    for path in paths:
        with Image.open(path) as picture:
            pixels = np.asarray(picture.convert("RGB"))
        sheets.append(pixels.reshape(25, 32, 40, 32, 3).swapaxes(1, 2).reshape(-1, 32, 32, 3))
    return np.concatenate(sheets)


def read_table(path: Path) -> tuple[np.ndarray, np.ndarray, list[str]]:
    """Read a CSV file with a header, gzipped or not, the target in its last column.

    Columns that are not numbers become codes: months in the order of the year, anything else in sorted
    order.

    Returns
    -------
    X : float64 array of shape (n, d)
    y : float64 array of shape (n,)
    names : list of d + 1 column names
    """
    with gzip.open(path, "rt", newline="") if path.suffix == ".gz" else path.open(newline="") as stream:
        names, *rows = list(csv.reader(stream))
    columns = [_numbers(column) for column in zip(*rows, strict=True)]
    return np.column_stack(columns[:-1]), columns[-1], names


def _numbers(column: tuple[str, ...]) -> np.ndarray:
    try:
        return np.array(column, dtype=np.float64)
    except ValueError:
        pass
    levels = sorted(set(column))
    if all(level.lower() in MONTHS for level in levels):
        levels.sort(key=lambda level: MONTHS.index(level.lower()))
    codes = {level: float(code) for code, level in enumerate(levels)}
    return np.array([codes[level] for level in column])


def _channels_last(rows: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(rows.reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1))


def _member(archive: tarfile.TarFile, name: str) -> bytes:
    stream = archive.extractfile(name)
    if stream is None:
        raise ValueError(f"{name} is no file of the archive.")
    return stream.read()


def _latin_bytes(text: str, codec: str) -> bytes:
    """Return bytes that an old pickle protocol has spelt as text."""
    if codec not in ("latin1", b"latin1"):
        raise pickle.UnpicklingError(f"a data file asks for the codec {codec!r}.")
    return text.encode("latin-1")


class _ArrayUnpickler(pickle.Unpickler):
    """Reads dictionaries, lists and NumPy arrays, and refuses to call anything else."""

    def __init__(self, stream: Any) -> None:
        super().__init__(stream, encoding="bytes")

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) in {
            ("numpy.core.multiarray", "_reconstruct"),
            ("numpy._core.multiarray", "_reconstruct"),
        }:
            from numpy._core.multiarray import _reconstruct

            return _reconstruct
        if (module, name) in {("numpy", "ndarray"), ("numpy", "dtype")}:
            return getattr(np, name)
        if (module, name) == ("_codecs", "encode"):
            return _latin_bytes
        raise pickle.UnpicklingError(f"a data file asks for {module}.{name}, which it has no business with.")
