"""Conversion of arrays and tensors to NumPy."""

from __future__ import annotations

import numpy as np
from array_api_compat import is_torch_array

from deltauq.core.encoding import Array


def on_host(array: Array) -> np.ndarray:
    """Return an array-like, or a tensor on any device, as a NumPy array."""
    if not is_torch_array(array):
        return np.asarray(array)
    array = array.detach().cpu()
    # NumPy has no bfloat16. Wider only here, since not every device has float64.
    return np.asarray(array.double() if array.is_floating_point() else array)


def to_numbers(array: Array, name: str) -> np.ndarray:
    """Return finite float64 numbers of the same shape; errors name the argument `name`."""
    values = on_host(array)
    try:
        numbers = values.astype(np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name} must be numeric, got {values.dtype}.") from error
    if not np.all(np.isfinite(numbers)):
        raise ValueError(f"{name} must be finite, got NaN or infinity.")
    return numbers
