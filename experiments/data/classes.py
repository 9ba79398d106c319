"""Three classes in the plane, as in figure 2 of the Δ-UQ paper."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

SEPARABLE_CENTERS = np.array([[0.0, 1.9], [-1.65, -0.95], [1.65, -0.95]])
NESTED_CENTERS = np.array([[0.0, 0.0], [-1.04, 0.78], [1.04, -0.78]])
NESTED_RADIUS = 2.5


@dataclass(frozen=True)
class ThreeClasses:
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


def three_classes(layout: str = "separable", *, random_state: int = 0) -> ThreeClasses:
    """Draw three classes in the plane.

    Parameters
    ----------
    layout : {"separable", "nested"}, default="separable"
        "separable": three clouds of 50 points with empty space between them. "nested": a disc of 200 points
        (class 0) with two clouds of 30 points (classes 1 and 2) inside it.
    random_state : int, default=0
        Random seed.
    """
    rng = np.random.default_rng(random_state)
    if layout == "separable":
        centers = SEPARABLE_CENTERS
        clouds = [_cloud(center, 0.5, 50, rng) for center in centers]
    elif layout == "nested":
        centers = NESTED_CENTERS
        clouds = [_disc(NESTED_RADIUS, 200, rng)]
        clouds += [_cloud(center, 0.4, 30, rng) for center in centers[1:]]
    else:
        raise ValueError(f"layout must be one of ['nested', 'separable'], got {layout!r}.")
    y = np.repeat(np.arange(3), [len(cloud) for cloud in clouds])
    return ThreeClasses(np.vstack(clouds), y, centers.copy())


def _cloud(center: np.ndarray, std: float, n: int, rng: np.random.Generator) -> np.ndarray:
    return center + std * rng.standard_normal((n, 2))


def _disc(radius: float, n: int, rng: np.random.Generator) -> np.ndarray:
    # The square root makes the density uniform: a ring's area grows with its radius.
    distance, angle = radius * np.sqrt(rng.random(n)), 2 * np.pi * rng.random(n)
    return np.column_stack([distance * np.cos(angle), distance * np.sin(angle)])
