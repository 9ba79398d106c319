"""Test functions with their domains: to be learned (table1), or to be maximised (table3 and its study)."""

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
    low, high : float or tuple of d floats
        The domain is [low, high]^d, or a box of other sides.
    maximizer : tuple of d floats
        A point with the largest value, up to rounding.
    sign : {1, -1}
        -1 if the negative function is maximised.
    noise : float, default=0
        Standard deviation of the noise of an observation.
    """

    function: Callable[[np.ndarray], np.ndarray]
    low: float | tuple[float, ...]
    high: float | tuple[float, ...]
    maximizer: tuple[float, ...]
    sign: int = 1
    noise: float = 0.0

    @property
    def dimension(self) -> int:
        """The number d of inputs."""
        return len(self.maximizer)

    @property
    def bounds(self) -> np.ndarray:
        """Lowest and highest corner of the domain, of shape (2, d), as in BoTorch."""
        low, high = (np.broadcast_to(side, self.dimension) for side in (self.low, self.high))
        return np.array([low, high], dtype=np.float64)

    @property
    def maximum(self) -> float:
        """The largest value."""
        return float(self.value(np.array([self.maximizer]))[0])

    def value(self, x: np.ndarray) -> np.ndarray:
        """Return the objective at points of shape (n, d), of shape (n,)."""
        return self.sign * self.function(x)

    def sample(self, n: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        """Return n uniform points of shape (n, d) and their values of shape (n,)."""
        low, high = self.bounds
        x = rng.uniform(low, high, size=(n, self.dimension))
        return x, self.value(x)


MAXIMISATIONS = {
    "booth": Maximisation(booth, -4.0, 4.0, (1.0, 3.0), sign=-1),
    "levi": Maximisation(levi, -10.0, 10.0, (1.0, 1.0), sign=-1),
    "multi-optima": Maximisation(multi_optima, -1.0, 2.0, (1.85722846,)),
    "ackley": Maximisation(ackley, -5.0, 5.0, (0.0, 0.0), sign=-1),
    "sinusoid": Maximisation(sinusoid, -1.0, 2.0, (1.47860626,)),
}
"""The five functions of table3, each with a single maximizer."""


def _of_one(f: Callable[[np.ndarray], np.ndarray]) -> Callable[[np.ndarray], np.ndarray]:
    return lambda x: f(x[:, 0])


def _of_two(f: Callable[[np.ndarray, np.ndarray], np.ndarray]) -> Callable[[np.ndarray], np.ndarray]:
    return lambda x: f(x[:, 0], x[:, 1])


OTHER_MAXIMISATIONS = {
    "forrester": Maximisation(
        _of_one(lambda x: (6 * x - 2) ** 2 * np.sin(12 * x - 4)), 0.0, 1.0, (0.75724876,), sign=-1
    ),
    "gramacy-lee": Maximisation(
        _of_one(lambda x: np.sin(10 * np.pi * x) / (2 * x) + (x - 1) ** 4), 0.5, 2.5, (0.54856344,), sign=-1
    ),
    "two-sines": Maximisation(
        _of_one(lambda x: np.sin(x) + np.sin(10 * x / 3)), 2.7, 7.5, (5.14573529,), sign=-1
    ),
    "falling-sine": Maximisation(_of_one(lambda x: (1.4 - 3 * x) * np.sin(18 * x)), 0.0, 1.2, (0.96608580,)),
    "rising-sine": Maximisation(_of_one(lambda x: x * np.sin(x)), 0.0, 10.0, (7.97866571,)),
    "shubert": Maximisation(
        _of_one(lambda x: np.sum([k * np.sin((k + 1) * x + k) for k in range(1, 6)], axis=0)),
        -10.0,
        10.0,
        (5.79179448,),
    ),
    "branin": Maximisation(
        _of_two(
            lambda u, v: (
                (v - 5.1 / (4 * np.pi**2) * u**2 + 5 / np.pi * u - 6) ** 2
                + 10 * (1 - 1 / (8 * np.pi)) * np.cos(u)
                + 10
            )
        ),
        (-5.0, 0.0),
        (10.0, 15.0),
        (np.pi, 2.275),
        sign=-1,
    ),
    "camel": Maximisation(
        _of_two(lambda u, v: (4 - 2.1 * u**2 + u**4 / 3) * u**2 + u * v + (-4 + 4 * v**2) * v**2),
        (-3.0, -2.0),
        (3.0, 2.0),
        (0.08984201, -0.71265640),
        sign=-1,
    ),
    "himmelblau": Maximisation(
        _of_two(lambda u, v: (u**2 + v - 11) ** 2 + (u + v**2 - 7) ** 2), -5.0, 5.0, (3.0, 2.0), sign=-1
    ),
    "rastrigin": Maximisation(
        lambda x: np.sum(10 + x**2 - 10 * np.cos(2 * np.pi * x), axis=1), -5.12, 5.12, (0.0, 0.0), sign=-1
    ),
    "griewank": Maximisation(griewank, -600.0, 600.0, (0.0, 0.0), sign=-1),
    "drop-wave": Maximisation(
        _of_two(lambda u, v: (1 + np.cos(12 * np.hypot(u, v))) / (0.5 * (u**2 + v**2) + 2)),
        -5.12,
        5.12,
        (0.0, 0.0),
    ),
    "styblinski-tang": Maximisation(
        lambda x: 0.5 * np.sum(x**4 - 16 * x**2 + 5 * x, axis=1), -5.0, 5.0, (-2.90353403,) * 2, sign=-1
    ),
    "michalewicz": Maximisation(
        _of_two(
            lambda u, v: np.sin(u) * np.sin(u**2 / np.pi) ** 20 + np.sin(v) * np.sin(2 * v**2 / np.pi) ** 20
        ),
        0.0,
        np.pi,
        (2.20290552, np.pi / 2),
    ),
    "three-hump": Maximisation(
        _of_two(lambda u, v: 2 * u**2 - 1.05 * u**4 + u**6 / 6 + u * v + v**2),
        -5.0,
        5.0,
        (0.0, 0.0),
        sign=-1,
    ),
}
"""Functions to choose settings on, none of them in table3; some have several maximizers."""
