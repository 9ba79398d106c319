"""Regression tables of OpenML and UCI, and classification tables of KEEL."""

from __future__ import annotations

import csv
import gzip
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from deltauq.data.files import RemoteFile, fetch, locate, unavailable

MONTHS = [
    *("january", "february", "march", "april", "may", "june"),
    *("july", "august", "september", "october", "november", "december"),
]


@dataclass(frozen=True)
class Table:
    """A regression table.

    Attributes
    ----------
    X : float64 array of shape (n, d)
    y : float64 array of shape (n,)
    names : list of str
        Column names, the target last.
    """

    X: np.ndarray
    y: np.ndarray
    names: list[str]


@dataclass(frozen=True)
class SplitTable:
    """A regression table with its standard splits.

    Attributes
    ----------
    X : float64 array of shape (n, d)
    y : float64 array of shape (n,)
    splits : list of (train, test)
        Row numbers, as int arrays.
    """

    X: np.ndarray
    y: np.ndarray
    splits: list[tuple[np.ndarray, np.ndarray]]


@dataclass(frozen=True)
class ClassTable:
    """A classification table.

    Attributes
    ----------
    X : float64 array of shape (n, d)
        Columns of text are one-hot encoded, with one column for each category.
    y : int array of shape (n,)
        Positions in `classes`.
    names : list of str
        Column names of X; for a category "column=category".
    classes : list of str
        In sorted order.
    """

    X: np.ndarray
    y: np.ndarray
    names: list[str]
    classes: list[str]


@dataclass(frozen=True)
class TableSource:
    """The title of a table in its collection, and the file that contains it."""

    title: str
    file: RemoteFile


OPENML = {
    id: TableSource(title, RemoteFile(f"openml/openml_{id}_{title}.csv.gz", md5))
    for id, title, md5 in (
        (201, "pol", "2dbc37f0582a84352899e685e0aef258"),
        (216, "elevators", "6b8d8015bf0379321bd2dac1078601f5"),
        (296, "Ailerons", "60e61b1a72238e7a79ef41266a622151"),
        (1199, "BNG_echoMonths", "8a40baf5c2c4cf9098e991716b4f6f7c"),
        (23515, "sulfur", "6e406a24ef6e3b1deecd564c055676c3"),
        (41539, "rainfall_bangladesh", "fca48fed496e1723ac9d9bfff00fc7af"),
        (42193, "compas-two-years", "77288bb116f63b2703ae1cbb9020fc18"),
        (42688, "Brazilian_houses", "775e99454c4089998fd6dea0cc66f36f"),
        (42712, "Bike_Sharing_Demand", "759a5f2366f62445cee5f84d8e62eb13"),
    )
}
"""OpenML id to table."""

UCI = {
    name: TableSource(title, RemoteFile(f"uci/{title}.npz", md5))
    for name, title, md5 in (
        ("boston", "bostonHousing", "065fa4c870359ecaa7c2982b532580f2"),
        ("concrete", "concrete", "217bf75548869b131ed01d42d970984b"),
        ("energy", "energy", "7986cdd8d11de366b02c505cc79d210b"),
        ("kin8nm", "kin8nm", "290190aa064a61acaaa0a63109c6b929"),
        ("naval", "naval-propulsion-plant", "918ca78dcea6c519af1132d6578e5467"),
        ("power", "power-plant", "5ad76a92507248d3199146e2129920ce"),
        ("protein", "protein-tertiary-structure", "dd4e8eb31f5fad952c096f0342ff90dd"),
        ("wine", "wine-quality-red", "f76895f5c16302b0dbf62a20362dea09"),
        ("yacht", "yacht", "3335fee087d9b6562956efaa0ff35bdc"),
    )
}
"""Short name to table. These files cannot be downloaded."""

KEEL = {
    name: TableSource(name, RemoteFile(f"classes/{name}.csv.gz", md5))
    for name, md5 in (
        ("australian", "b7dc36141ffe0aeadc2771c7b22b06fd"),
        ("banana", "477442fa765f23244c20949295a11012"),
        ("contraceptive", "c4d14b4b3ed6d9635acdcf0a64b5a087"),
        ("german", "818adc37d3bab9700c68abed435954a0"),
        ("heart", "eb9f9c523279d7ea35f8ce21aa0d9bd7"),
        ("ionosphere", "86f9c4989b12eea8f07c0d23646ca841"),
        ("letter", "05adac36336332cb180651fa6607c407"),
        ("magic", "973ded0d2fe858cddcdab0ffc812faad"),
        ("optdigits", "db46c1441f6d56d923dd6083146c1eeb"),
        ("phoneme", "94ebf389a760575106e3ad9ceb33048a"),
        ("pima", "6dfab0422ac0f0fd85fb31f6302edb0b"),
        ("satimage", "2aed4dc6012768383ce55d9db1e1e228"),
        ("segment", "92ac0c83e102467baf70b2030ef40f69"),
        ("spambase", "430290dd5e942911c9c33f5c440276ff"),
        ("splice", "acc625ed8404ea04b67ad6bc2b3e2d1e"),
        ("tic-tac-toe", "dbad0c00626705ff150d0eeb0ba4783b"),
        ("titanic", "b612b1fe6d8ad6bd1253e9340050f964"),
        ("vehicle", "aa1e7f41dd89af2127e4ba38f153cae9"),
        ("vowel", "f5bb82fd4c399ba509d52254279174c2"),
        ("wdbc", "2863f8c256b8a0b5a73eaff176e22b15"),
    )
}
"""Name to classification table. These files cannot be downloaded."""


def load_openml(id: int) -> Table:
    """Load a table of OpenML from the data directory or the cache, or download it with scikit-learn.

    Parameters
    ----------
    id : int
        A key of `OPENML`.

    Returns
    -------
    table : Table
        Categories are replaced by numeric codes.
    """
    if id not in OPENML:
        raise ValueError(f"OpenML table {id} is not one of {sorted(OPENML)}.")
    file = OPENML[id].file
    return _download_openml(id) if locate(file) is None else read_table(fetch(file))


def load_uci(name: str) -> SplitTable:
    """Load a table of UCI from the data directory or the cache.

    Parameters
    ----------
    name : str
        A key of `UCI`.

    Returns
    -------
    table : SplitTable
    """
    if name not in UCI:
        raise ValueError(f"UCI table {name!r} is not one of {sorted(UCI)}.")
    with np.load(fetch(UCI[name].file), allow_pickle=False) as stored:
        splits = [(stored[f"train_{k}"], stored[f"test_{k}"]) for k in range(int(stored["n_splits"]))]
        return SplitTable(stored["X"].astype(np.float64), stored["y"].astype(np.float64), splits)


def load_keel(name: str) -> ClassTable:
    """Load a classification table of KEEL from the data directory or the cache.

    Parameters
    ----------
    name : str
        A key of `KEEL`.

    Returns
    -------
    table : ClassTable
    """
    if name not in KEEL:
        raise ValueError(f"KEEL table {name!r} is not one of {sorted(KEEL)}.")
    return read_class_table(fetch(KEEL[name].file))


def read_table(path: Path) -> Table:
    """Read a CSV file with a header, gzipped or not, whose last column is the target.

    Columns of text become codes: months in calendar order, other categories in sorted order.
    """
    names, texts = _read_columns(path)
    columns = [_numeric(column) for column in texts]
    return Table(np.column_stack(columns[:-1]), columns[-1], names)


def read_class_table(path: Path) -> ClassTable:
    """Read a CSV file with a header, gzipped or not, whose last column is the class."""
    (*names, _), (*columns, labels) = _read_columns(path)
    encoded: dict[str, np.ndarray] = {}
    for name, column in zip(names, columns, strict=True):
        try:
            encoded[name] = np.array(column, dtype=np.float64)
        except ValueError:
            texts = np.array(column)
            encoded |= {f"{name}={text}": (texts == text).astype(np.float64) for text in sorted(set(column))}
    classes, y = np.unique(labels, return_inverse=True)
    return ClassTable(np.column_stack(list(encoded.values())), y, list(encoded), classes.tolist())


def _read_columns(path: Path) -> tuple[list[str], list[tuple[str, ...]]]:
    """Return the header of a CSV file and its columns as text."""
    with gzip.open(path, "rt", newline="") if path.suffix == ".gz" else path.open(newline="") as stream:
        names, *rows = list(csv.reader(stream))
    return names, list(zip(*rows, strict=True))


def _download_openml(id: int) -> Table:
    from sklearn.datasets import fetch_openml

    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "A network error occurred while downloading")
            bunch = fetch_openml(data_id=id, as_frame=True)
    except (OSError, ImportError) as error:
        raise unavailable(OPENML[id].file.name) from error
    columns = [_numeric(bunch.data[name].to_numpy()) for name in bunch.data.columns]
    names = [*map(str, bunch.data.columns), str(bunch.target.name)]
    return Table(np.column_stack(columns), bunch.target.astype(float).to_numpy(), names)


def _numeric(column: Sequence[str] | np.ndarray) -> np.ndarray:
    try:
        return np.array(column, dtype=np.float64)
    except ValueError:
        pass
    texts = [str(value) for value in column]
    categories = sorted(set(texts))
    if all(category.lower() in MONTHS for category in categories):
        categories.sort(key=lambda category: MONTHS.index(category.lower()))
    codes = {category: float(code) for code, category in enumerate(categories)}
    return np.array([codes[text] for text in texts])
