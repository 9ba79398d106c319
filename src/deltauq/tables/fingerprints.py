"""Hashes of rows, by which a model knows the rows again that it was made from."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

import numpy as np

from deltauq.tables.errors import require_pandas

if TYPE_CHECKING:
    import pandas as pd

MOST_FINGERPRINTS = 1_000_000
"""A model of more rows keeps none: eight bytes a row."""


def row_fingerprints(X: pd.DataFrame, y: np.ndarray) -> np.ndarray:
    """Return a hash of each row, which survives numbers that a file holds with 13 digits or more.

    Parameters
    ----------
    X : DataFrame of shape (n, d)
        As the schema reads it.
    y : array of shape (n,)
        Floats, or strings.

    Returns
    -------
    fingerprints : uint64 array of shape (n,)
    """
    frame = X.assign(**{"": y if y.dtype.kind == "f" else y.astype(object)})
    numbers = frame.select_dtypes(np.float64)
    mantissas, exponents = np.frexp(numbers.to_numpy() + 0.0)
    frame[numbers.columns] = np.ldexp(np.round(mantissas, 12), exponents)
    return np.asarray(require_pandas().util.hash_pandas_object(frame, index=False), dtype=np.uint64)


def table_sha256(fingerprints: np.ndarray) -> str:
    """Return one hash of all rows, in their order."""
    return hashlib.sha256(np.ascontiguousarray(fingerprints).tobytes()).hexdigest()


def twin_share(fingerprints: np.ndarray) -> float:
    """Return the share of rows that equal another row of the same table."""
    counts = np.unique(fingerprints, return_counts=True)[1]
    return float(counts[counts > 1].sum() / len(fingerprints))
