"""The tables of the paper: what each consists of, and how to load it."""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import numpy as np

from deltauq.data.files import RemoteFile, locate, obtain, unavailable
from deltauq.data.readers import read_table


@dataclass(frozen=True)
class Table:
    """A regression table.

    Attributes
    ----------
    X : float64 array of shape (n, d)
    y : float64 array of shape (n,)
    names : list of str
        Of the columns, the target last.
    """

    X: np.ndarray
    y: np.ndarray
    names: list[str]


@dataclass(frozen=True)
class OpenMLTable:
    """A table of OpenML: its id, its name there, and the checksum of its compact form."""

    id: int
    title: str
    md5: str

    @property
    def file(self) -> RemoteFile:
        """The compact form."""
        return RemoteFile(f"openml/openml_{self.id}_{self.title}.csv.gz", self.md5)


OPENML = {
    table.id: table
    for table in (
        OpenMLTable(201, "pol", "2dbc37f0582a84352899e685e0aef258"),
        OpenMLTable(216, "elevators", "6b8d8015bf0379321bd2dac1078601f5"),
        OpenMLTable(296, "Ailerons", "60e61b1a72238e7a79ef41266a622151"),
        OpenMLTable(1199, "BNG_echoMonths", "8a40baf5c2c4cf9098e991716b4f6f7c"),
        OpenMLTable(23515, "sulfur", "6e406a24ef6e3b1deecd564c055676c3"),
        OpenMLTable(41539, "rainfall_bangladesh", "fca48fed496e1723ac9d9bfff00fc7af"),
        OpenMLTable(42193, "compas-two-years", "77288bb116f63b2703ae1cbb9020fc18"),
        OpenMLTable(42688, "Brazilian_houses", "775e99454c4089998fd6dea0cc66f36f"),
        OpenMLTable(42712, "Bike_Sharing_Demand", "759a5f2366f62445cee5f84d8e62eb13"),
    )
}


def load_openml(id: int) -> Table:
    """Return a table of OpenML by its id, from the data directory or through scikit-learn.

    Parameters
    ----------
    id : int
        One of `OPENML`.

    Returns
    -------
    table : Table
    """
    if id not in OPENML:
        raise ValueError(f"OpenML table {id} is not one of {sorted(OPENML)}.")
    file = OPENML[id].file
    if locate(file) is not None:
        return Table(*read_table(obtain(file)))
    return _fetch_openml(OPENML[id])


def _fetch_openml(table: OpenMLTable) -> Table:
    from sklearn.datasets import fetch_openml
    from sklearn.preprocessing import OrdinalEncoder

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of retries; what matters is said below
            bunch = fetch_openml(data_id=table.id, as_frame=True)
    except (OSError, ImportError) as error:
        raise unavailable(table.file.name) from error
    numeric = bunch.data.select_dtypes("number").columns
    others = [name for name in bunch.data.columns if name not in set(numeric)]
    frame = bunch.data.copy()
    if others:
        frame[others] = OrdinalEncoder().fit_transform(frame[others].astype(str))
    y = bunch.target.astype(float).to_numpy()
    return Table(frame.to_numpy(dtype=np.float64), y, [*map(str, frame.columns), str(bunch.target.name)])
