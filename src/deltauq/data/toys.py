"""Toy data for figures and demonstrations."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

GAP = (-1.0, 1.0)
LIMITS = (-4.0, 4.0)

# "hill" has the same height on both sides of the gap, "step" has not: extending the nearest known values
# into the gap gives one answer for "hill" and two for "step".
CURVES = {
    "step": lambda x: np.sin(1.5 * x) + 0.3 * x,
    "hill": lambda x: np.cos(1.2 * x) + 0.05 * x**2,
}


@dataclass(frozen=True)
class GapToy:
    """Noisy points of a curve with a gap in the middle.

    Attributes
    ----------
    X : float64 array of shape (n, 1)
    y : float64 array of shape (n,)
    curve : str
    gap, limits : (float, float)
        The interval without data, and the interval around all data.
    """

    X: np.ndarray
    y: np.ndarray
    curve: str
    gap: tuple[float, float] = GAP
    limits: tuple[float, float] = LIMITS

    def truth(self, x: np.ndarray) -> np.ndarray:
        """Return the curve without noise."""
        return CURVES[self.curve](np.asarray(x, dtype=np.float64))


def gap_curve(curve: str = "hill", n: int = 40, *, noise: float = 0.1, random_state: int = 0) -> GapToy:
    """Draw points of a curve on [-4, 4] with none in (-1, 1).

    Parameters
    ----------
    curve : {"hill", "step"}, default="hill"
        Whether the curve has the same height on both sides of the gap.
    n : int, default=40
        Number of points, half of them on either side.
    noise : float, default=0.1
        Standard deviation of the noise on y.
    random_state : int, default=0
        Random seed.

    Returns
    -------
    toy : GapToy
    """
    if curve not in CURVES:
        raise ValueError(f"curve must be one of {sorted(CURVES)}, got {curve!r}.")
    rng = np.random.default_rng(random_state)
    sides = np.where(np.arange(n) % 2 == 0, -1.0, 1.0)
    x = sides * rng.uniform(GAP[1], LIMITS[1], n)
    y = CURVES[curve](x) + noise * rng.standard_normal(n)
    return GapToy(x[:, None], y, curve)
