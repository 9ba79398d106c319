"""Validation of the arguments of metrics."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils import check_array, check_consistent_length

SUM_TOLERANCE = 1e-4
"""Rows of probabilities may differ from 1 by this much, as softmax outputs in single precision do."""


def column(name: str, value: ArrayLike, *, non_negative: bool = False) -> np.ndarray:
    """Return an argument as a finite float64 array of shape (n,), n > 0."""
    array = np.asarray(value, dtype=np.float64)
    # Shapes (n,) and (n, 1) would broadcast to (n, n) and give a plausible number.
    if array.ndim != 1 or len(array) == 0:
        raise ValueError(f"{name} must have shape (n,) with n > 0, got {array.shape}.")
    return check_array(array, ensure_2d=False, ensure_non_negative=non_negative, input_name=name)


def columns(**named: ArrayLike) -> list[np.ndarray]:
    """Return the arguments as finite float64 arrays of one shape (n,)."""
    arrays = [column(name, value) for name, value in named.items()]
    check_consistent_length(*arrays)
    return arrays


def probabilities(proba: ArrayLike) -> np.ndarray:
    """Return probabilities as a float64 array of shape (n, C), C > 1, whose rows sum to 1."""
    array = np.asarray(proba, dtype=np.float64)
    if array.ndim != 2 or len(array) == 0 or array.shape[1] < 2:
        raise ValueError(f"proba must have shape (n, C) with n > 0 and C > 1, got {array.shape}.")
    array = check_array(array, ensure_non_negative=True, input_name="proba")
    totals = array.sum(axis=1)
    row = int(np.argmax(np.abs(totals - 1.0)))
    if abs(totals[row] - 1.0) > SUM_TOLERANCE:
        raise ValueError(f"The rows of proba must sum to 1, but row {row} sums to {totals[row]:.6g}.")
    return np.minimum(array, 1.0)


def labels_and_probabilities(y: ArrayLike, proba: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
    """Return class indices of shape (n,), each in [0, C), and probabilities of shape (n, C)."""
    array, labels = probabilities(proba), np.asarray(y)
    if labels.dtype.kind not in "iub" and labels.size:
        raise ValueError(f"y must contain class indices, which are integers, got dtype {labels.dtype}.")
    labels = column("y", labels).astype(np.int64)
    check_consistent_length(labels, array)
    n_classes = array.shape[1]
    for extreme in (labels.min(), labels.max()):
        if not 0 <= extreme < n_classes:
            raise ValueError(f"y must contain class indices from 0 to {n_classes - 1}, got {extreme}.")
    return labels, array
