"""Seeded toy data for pictures and demonstrations."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

GAP = (-1.0, 1.0)
LIMITS = (-4.0, 4.0)

# In "step" the curve leaves the gap at another height than it entered, in "hill" at the same height. Models
# that carry the nearest known values into the gap find a choice in the first and none in the second.
CURVES: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "step": lambda x: np.sin(1.5 * x) + 0.3 * x,
    "hill": lambda x: np.cos(1.2 * x) + 0.05 * x**2,
}

SEPARABLE_CENTERS = np.array([[0.0, 1.9], [-1.65, -0.95], [1.65, -0.95]])
NESTED_CENTERS = np.array([[0.0, 0.0], [-1.04, 0.78], [1.04, -0.78]])
NESTED_RADIUS = 2.5


@dataclass(frozen=True)
class GapToy:
    """Noisy points of a curve, none of them in its middle.

    Attributes
    ----------
    X : float64 array of shape (n, 1)
    y : float64 array of shape (n,)
    curve : str
    gap, limits : (float, float)
        The interval without data, and the one around all data.
    """

    X: np.ndarray
    y: np.ndarray
    curve: str
    gap: tuple[float, float]
    limits: tuple[float, float]

    def truth(self, x: np.ndarray) -> np.ndarray:
        """Return the curve without noise, elementwise."""
        return CURVES[self.curve](np.asarray(x, dtype=np.float64))


@dataclass(frozen=True)
class ClassesToy:
    """Points of three classes in the plane.

    Attributes
    ----------
    X : float64 array of shape (n, 2)
    y : int array of shape (n,)
        0, 1 or 2.
    centers : float64 array of shape (3, 2)
    """

    X: np.ndarray
    y: np.ndarray
    centers: np.ndarray


def gap_curve(curve: str = "hill", n: int = 40, *, noise: float = 0.1, random_state: int = 0) -> GapToy:
    """Draw points of a curve on [-4, 4] with none in (-1, 1).

    Parameters
    ----------
    curve : {"hill", "step"}, default="hill"
        Whether the curve has the same height on both sides of the gap, or not.
    n : int, default=40
        Half of them lie on either side.
    noise : float, default=0.1
        Standard deviation of the noise on y.
    random_state : int, default=0

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
    return GapToy(x[:, None], y, curve, GAP, LIMITS)


def three_classes(layout: str = "separable", *, random_state: int = 0) -> ClassesToy:
    """Draw three classes in the plane, as in figure 2 of the Δ-UQ paper.

    Parameters
    ----------
    layout : {"separable", "nested"}, default="separable"
        "separable": three clouds of 50 points with empty space between them. "nested": a disc of 200 points
        (class 0) with two clouds of 30 points (classes 1 and 2) inside it.
    random_state : int, default=0

    Returns
    -------
    toy : ClassesToy
    """
    rng = np.random.default_rng(random_state)
    if layout == "separable":
        clouds = [_cloud(center, 0.5, 50, rng) for center in SEPARABLE_CENTERS]
        centers = SEPARABLE_CENTERS
    elif layout == "nested":
        clouds = [_disc(NESTED_RADIUS, 200, rng)]
        clouds += [_cloud(center, 0.4, 30, rng) for center in NESTED_CENTERS[1:]]
        centers = NESTED_CENTERS
    else:
        raise ValueError(f"layout must be one of ['nested', 'separable'], got {layout!r}.")
    y = np.repeat(np.arange(3), [len(cloud) for cloud in clouds])
    return ClassesToy(np.vstack(clouds), y, centers.copy())


def _cloud(center: np.ndarray, std: float, n: int, rng: np.random.Generator) -> np.ndarray:
    """Return normally distributed points, of shape (n, 2)."""
    return center + std * rng.standard_normal((n, 2))


def _disc(radius: float, n: int, rng: np.random.Generator) -> np.ndarray:
    """Return points spread evenly over a disc around the origin, of shape (n, 2)."""
    # The square root evens out the density: a ring's area grows with its radius.
    distance, angle = radius * np.sqrt(rng.random(n)), 2 * np.pi * rng.random(n)
    return np.column_stack([distance * np.cos(angle), distance * np.sin(angle)])
