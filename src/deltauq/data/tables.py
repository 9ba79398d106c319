"""Regression tables of OpenML and UCI."""

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


def read_table(path: Path) -> Table:
    """Read a CSV file with a header, gzipped or not, whose last column is the target.

    Columns of text become codes: months in calendar order, other categories in sorted order.
    """
    with gzip.open(path, "rt", newline="") if path.suffix == ".gz" else path.open(newline="") as stream:
        names, *rows = list(csv.reader(stream))
    columns = [_numeric(column) for column in zip(*rows, strict=True)]
    return Table(np.column_stack(columns[:-1]), columns[-1], names)


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
