"""What the calibrators read, as NumPy arrays."""

from __future__ import annotations

import numpy as np
from array_api_compat import is_torch_array

from deltauq.core.encoding import Array


def on_host(array: Array) -> np.ndarray:
    """Return what an array-like or a tensor on any device holds, as a NumPy array of the same shape."""
    if not is_torch_array(array):
        return np.asarray(array)
    array = array.detach().cpu()
    # NumPy has no bfloat16. Wider only here, since not every device has float64.
    return np.asarray(array.double() if array.is_floating_point() else array)


def to_numbers(array: Array, name: str) -> np.ndarray:
    """Return finite float64 numbers of the same shape; `name` says in the error what they are."""
    values = on_host(array)
    try:
        numbers = values.astype(np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name} must be numeric, got {values.dtype}.") from error
    if not np.all(np.isfinite(numbers)):
        raise ValueError(f"{name} must be finite, got NaN or infinity.")
    return numbers


def check_logits(array: Array) -> np.ndarray:
    """Return logits of shape (n, c) with n > 0 rows and c > 1 classes."""
    logits = to_numbers(array, "logits")
    if logits.ndim != 2 or logits.shape[0] < 1 or logits.shape[1] < 2:
        raise ValueError(f"logits must have shape (n, c) with n > 0 and c > 1, got {logits.shape}.")
    return logits


def check_labels(array: Array, n: int, n_classes: int) -> np.ndarray:
    """Return n labels as the integers of the columns they name, 0 to n_classes - 1."""
    values = on_host(array)
    if values.shape != (n,):
        raise ValueError(f"labels must have shape ({n},), one for each row, got {values.shape}.")
    if not np.issubdtype(values.dtype, np.integer):
        raise ValueError(f"labels must be integers that name columns, got {values.dtype}.")
    if n and not (values.min() >= 0 and values.max() < n_classes):
        raise ValueError(
            f"labels must lie in 0 to {n_classes - 1}, got {int(values.min())} to {int(values.max())}."
        )
    return values.astype(np.intp)
