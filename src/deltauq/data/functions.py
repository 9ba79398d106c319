"""Test functions of the paper, with their domains."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np


def ackley(x: np.ndarray, a: float = 20.0, b: float = 0.2, c: float = 2 * np.pi) -> np.ndarray:
    """Return Ackley's function of points of shape (n, d), of shape (n,); its minimum is 0 at the origin."""
    root = np.sqrt(np.mean(x**2, axis=1))
    return a - a * np.exp(-b * root) + np.e - np.exp(np.mean(np.cos(c * x), axis=1))


def griewank(x: np.ndarray) -> np.ndarray:
    """Return Griewank's function of points of shape (n, d), of shape (n,); its minimum is 0 at the origin."""
    index = np.sqrt(np.arange(1, x.shape[1] + 1))
    return 1 + np.sum(x**2, axis=1) / 4000 - np.prod(np.cos(x / index), axis=1)


@dataclass(frozen=True)
class TestFunction:
    """A function on a cube.

    Attributes
    ----------
    value : callable
        Points of shape (n, d) to values of shape (n,).
    halfwidth : float
        The usual domain is [-halfwidth, halfwidth]^d.
    """

    __test__ = False  # pytest would take the name for a test

    value: Callable[[np.ndarray], np.ndarray]
    halfwidth: float

    def sample(
        self, n: int, dimension: int, rng: np.random.Generator, halfwidth: float | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return n uniform points of shape (n, dimension) and their values of shape (n,)."""
        half = self.halfwidth if halfwidth is None else halfwidth
        x = rng.uniform(-half, half, size=(n, dimension))
        return x, self.value(x)


FUNCTIONS = {"ackley": TestFunction(ackley, 32.768), "griewank": TestFunction(griewank, 600.0)}
