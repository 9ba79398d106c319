"""When anchors are hidden: in training by chance, in evaluation by a second reading."""

from __future__ import annotations

import math

import torch
from torch import Tensor

MASK_BY = ("batch", "row")
READINGS = ("shown", "both")


class Masking:
    """What a network does with hidden anchors, said at its construction or later.

    Attributes
    ----------
    masked : bool tensor of shape (), or (n,)
        Whether the last training batch was masked, or which of its rows.
    """

    masked: Tensor
    _mask = 0.0
    _mask_by = "batch"
    _reading = "shown"

    @property
    def mask(self) -> float:
        """Probability of [0, X - R] in training."""
        return self._mask

    @mask.setter
    def mask(self, mask: float) -> None:
        try:
            number = float(mask)  # also of NumPy or PyTorch, which a file could not hold
        except (TypeError, ValueError):
            number = math.nan
        if not 0.0 <= number < 1.0:
            raise ValueError(f"mask must be a probability below 1, got {mask}.")
        self._mask = number
        if not number and hasattr(self, "masked"):
            self.masked = torch.zeros((), dtype=torch.bool, device=self.masked.device)

    @property
    def mask_by(self) -> str:
        """Whether whole batches are masked, or single rows."""
        return self._mask_by

    @mask_by.setter
    def mask_by(self, mask_by: str) -> None:
        if mask_by not in MASK_BY:
            raise ValueError(f"mask_by must be one of {list(MASK_BY)}, got {mask_by!r}.")
        self._mask_by = mask_by

    @property
    def reading(self) -> str:
        """How tuples are read in evaluation."""
        return self._reading

    @reading.setter
    def reading(self, reading: str) -> None:
        if reading not in READINGS:
            raise ValueError(f"reading must be one of {list(READINGS)}, got {reading!r}.")
        self._reading = reading

    def _draw_mask(self, n: int, device: torch.device) -> Tensor | None:
        """Return which of n rows are to be masked, and remember it; None where none ever is."""
        if not self.mask:
            return None
        each = (n,) if self.mask_by == "row" else ()
        self.masked = torch.rand(each, device=device) < self.mask
        return self.masked

    def _reads_hidden(self) -> bool:
        """Tell whether tuples are also read with their anchors hidden, which takes a mask in training."""
        if self.reading == "both" and not self.mask:
            raise ValueError(
                "reading='both' hides anchors, and this network has no mask: if it was trained with one, "
                "say which, as in net.mask = 0.25."
            )
        return self.reading == "both"
