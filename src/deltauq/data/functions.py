"""Test functions of the paper, with their domains: to be learned (table1), or to be maximised (table3)."""

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


def booth(x: np.ndarray) -> np.ndarray:
    """Return Booth's function of points of shape (n, 2), of shape (n,); its minimum is 0 at (1, 3)."""
    u, v = x.T
    return (u + 2 * v - 7) ** 2 + (2 * u + v - 5) ** 2


def levi(x: np.ndarray) -> np.ndarray:
    """Return Lévi's function N. 13 of points of shape (n, 2), of shape (n,); its minimum is 0 at (1, 1)."""
    u, v = x.T
    return (
        np.sin(3 * np.pi * u) ** 2
        + (u - 1) ** 2 * (1 + np.sin(3 * np.pi * v) ** 2)
        + (v - 1) ** 2 * (1 + np.sin(2 * np.pi * v) ** 2)
    )


def multi_optima(x: np.ndarray) -> np.ndarray:
    """Return sin(x) cos(5x) cos(22x) of points of shape (n, 1), of shape (n,)."""
    u = x[:, 0]
    return np.sin(u) * np.cos(5 * u) * np.cos(22 * u)


def sinusoid(x: np.ndarray) -> np.ndarray:
    """Return -sin(5x²) - x⁴ + 0.3x³ + 2x² + 4.1x of points of shape (n, 1), of shape (n,)."""
    u = x[:, 0]
    return -np.sin(5 * u**2) - u**4 + 0.3 * u**3 + 2 * u**2 + 4.1 * u


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


@dataclass(frozen=True)
class Maximisation:
    """A function on a box, to be maximised.

    Attributes
    ----------
    function : callable
        Points of shape (n, d) to values of shape (n,).
    low, high : float
        The domain is [low, high]^d.
    maximiser : tuple of d floats
        The only point, to rounding, where the largest value is reached.
    sign : {1, -1}
        -1 where the function is known by its minimum: then its negative is maximised.
    """

    function: Callable[[np.ndarray], np.ndarray]
    low: float
    high: float
    maximiser: tuple[float, ...]
    sign: int = 1

    @property
    def dimension(self) -> int:
        """The number d of inputs."""
        return len(self.maximiser)

    @property
    def bounds(self) -> np.ndarray:
        """Lowest and highest corner of the domain, of shape (2, d), as BoTorch takes them."""
        return np.array([[self.low] * self.dimension, [self.high] * self.dimension])

    @property
    def maximum(self) -> float:
        """The largest value."""
        return float(self.value(np.array([self.maximiser]))[0])

    def value(self, x: np.ndarray) -> np.ndarray:
        """Return what is to be large at points of shape (n, d), of shape (n,)."""
        return self.sign * self.function(x)

    def sample(self, n: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        """Return n uniform points of shape (n, d) and their values of shape (n,)."""
        x = rng.uniform(self.low, self.high, size=(n, self.dimension))
        return x, self.value(x)


MAXIMISATIONS = {
    "booth": Maximisation(booth, -4.0, 4.0, (1.0, 3.0), sign=-1),
    "levi": Maximisation(levi, -10.0, 10.0, (1.0, 1.0), sign=-1),
    "multi-optima": Maximisation(multi_optima, -1.0, 2.0, (1.85722846,)),
    "ackley": Maximisation(ackley, -5.0, 5.0, (0.0, 0.0), sign=-1),
    "sinusoid": Maximisation(sinusoid, -1.0, 2.0, (1.47860626,)),
}
"""The five functions of table3."""
