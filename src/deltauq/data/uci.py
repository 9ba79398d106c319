"""Nine regression tables of the UCI repository with their standard splits into training and test rows."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from deltauq.data.files import RemoteFile, obtain


@dataclass(frozen=True)
class UCITable:
    """A table: its short name, its name among the standard splits, and the checksum of its compact form."""

    name: str
    title: str
    md5: str

    @property
    def file(self) -> RemoteFile:
        """The compact form: X, y and the rows of every split; it is not to be had by download."""
        return RemoteFile(f"uci/{self.title}.npz", self.md5)


UCI = {
    table.name: table
    for table in (
        UCITable("boston", "bostonHousing", "065fa4c870359ecaa7c2982b532580f2"),
        UCITable("concrete", "concrete", "217bf75548869b131ed01d42d970984b"),
        UCITable("energy", "energy", "7986cdd8d11de366b02c505cc79d210b"),
        UCITable("kin8nm", "kin8nm", "290190aa064a61acaaa0a63109c6b929"),
        UCITable("naval", "naval-propulsion-plant", "918ca78dcea6c519af1132d6578e5467"),
        UCITable("power", "power-plant", "5ad76a92507248d3199146e2129920ce"),
        UCITable("protein", "protein-tertiary-structure", "dd4e8eb31f5fad952c096f0342ff90dd"),
        UCITable("wine", "wine-quality-red", "f76895f5c16302b0dbf62a20362dea09"),
        UCITable("yacht", "yacht", "3335fee087d9b6562956efaa0ff35bdc"),
    )
}


@dataclass(frozen=True)
class SplitTable:
    """A regression table with its splits.

    Attributes
    ----------
    X : float64 array of shape (n, d)
    y : float64 array of shape (n,)
    splits : list of (train, test), int arrays
    """

    X: np.ndarray
    y: np.ndarray
    splits: list[tuple[np.ndarray, np.ndarray]]


def load_uci(name: str) -> SplitTable:
    """Return one of the tables in `UCI`, from the data directory or the cache.

    Parameters
    ----------
    name : str

    Returns
    -------
    table : SplitTable
    """
    if name not in UCI:
        raise ValueError(f"UCI table {name!r} is not one of {sorted(UCI)}.")
    with np.load(obtain(UCI[name].file), allow_pickle=False) as stored:
        splits = [(stored[f"train_{k}"], stored[f"test_{k}"]) for k in range(int(stored["n_splits"]))]
        return SplitTable(stored["X"].astype(np.float64), stored["y"].astype(np.float64), splits)
