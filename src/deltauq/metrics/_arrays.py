"""Turning arguments into arrays that a measure can rely on, or saying in one line which of them is wrong."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

# How far a row of probabilities may be from 1: what a softmax over many classes loses in single precision.
_SUM_TOLERANCE = 1e-4


def column(name: str, value: ArrayLike) -> np.ndarray:
    """Return an argument as a finite float64 array of shape (n,), n > 0."""
    array = np.asarray(value, dtype=np.float64)
    # Shapes (n,) and (n, 1) would broadcast to (n, n) and give a plausible number.
    _require_one_axis(name, array)
    _require_finite(name, array)
    return array


def columns(**named: ArrayLike) -> list[np.ndarray]:
    """Return the arguments as finite float64 arrays of one shape (n,), or say which of them is not."""
    arrays = {name: column(name, value) for name, value in named.items()}
    _require_same_length(**arrays)
    return list(arrays.values())


def require_not_negative(name: str, array: np.ndarray) -> None:
    """Refuse values below zero."""
    if np.any(array < 0):
        raise ValueError(f"{name} must not be negative, got {array.min():.6g}.")


def probabilities(proba: ArrayLike) -> np.ndarray:
    """Return probabilities as a float64 array of shape (n, C), C > 1, whose rows sum to 1."""
    array = np.asarray(proba, dtype=np.float64)
    if array.ndim != 2 or len(array) == 0 or array.shape[1] < 2:
        raise ValueError(f"proba must have shape (n, C) with n > 0 and C > 1, got {array.shape}.")
    _require_finite("proba", array)
    require_not_negative("proba", array)
    totals = array.sum(axis=1)
    row = int(np.argmax(np.abs(totals - 1.0)))
    if abs(totals[row] - 1.0) > _SUM_TOLERANCE:
        raise ValueError(f"The rows of proba must sum to 1, but row {row} sums to {totals[row]:.6g}.")
    return np.minimum(array, 1.0)


def labels_and_probabilities(y: ArrayLike, proba: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
    """Return class indices of shape (n,), each in [0, C), and probabilities of shape (n, C)."""
    labels, array = np.asarray(y), probabilities(proba)
    _require_one_axis("y", labels)
    if labels.dtype.kind not in "iub":
        raise ValueError(f"y must hold class indices, which are integers, got dtype {labels.dtype}.")
    _require_same_length(y=labels, proba=array)
    labels = labels.astype(np.int64)
    n_classes = array.shape[1]
    for extreme in (labels.min(), labels.max()):
        if not 0 <= extreme < n_classes:
            raise ValueError(f"y must hold class indices from 0 to {n_classes - 1}, got {extreme}.")
    return labels, array


def _require_one_axis(name: str, array: np.ndarray) -> None:
    if array.ndim != 1 or len(array) == 0:
        raise ValueError(f"{name} must have shape (n,) with n > 0, got {array.shape}.")


def _require_finite(name: str, array: np.ndarray) -> None:
    n_bad = int(np.sum(~np.isfinite(array)))
    if n_bad > 0:
        raise ValueError(f"{name} must be finite, but {n_bad} of its {array.size} values are not.")


def _require_same_length(**arrays: np.ndarray) -> None:
    lengths = {name: len(array) for name, array in arrays.items()}
    if len(set(lengths.values())) > 1:
        raise ValueError(f"All arguments must have the same length, got {lengths}.")
