import numpy as np
import pytest
from scipy.optimize import minimize

from experiments.data.functions import (
    FUNCTIONS,
    MAXIMISATIONS,
    OTHER_MAXIMISATIONS,
    ackley,
    booth,
    griewank,
    levi,
)


@pytest.mark.parametrize("dimension", [1, 2, 4])
def test_known_values(dimension):
    origin = np.zeros((1, dimension))
    np.testing.assert_allclose(ackley(origin), 0.0, atol=1e-12)
    np.testing.assert_allclose(griewank(origin), 0.0, atol=1e-12)
    # At integers every cosine of Ackley is one, so only the first exponential is left.
    np.testing.assert_allclose(ackley(origin + 3), 20 - 20 * np.exp(-0.6), rtol=1e-12)


def test_griewank_by_hand():
    x = np.array([[1.0, 2.0]])
    np.testing.assert_allclose(griewank(x), 1 + 5 / 4000 - np.cos(1) * np.cos(2 / np.sqrt(2)))


def test_booth_and_levi_by_hand():
    x = np.array([[0.0, 0.0], [2.0, 3.0], [1.5, 0.25]])
    np.testing.assert_allclose(booth(x), [74.0, 5.0, 25.0 + 3.0625])
    # At integers every sine of Lévi's function is zero; at (3/2, 1/4) they are -1, sin(3π/4) and 1.
    np.testing.assert_allclose(levi(x), [2.0, 5.0, 1 + 0.25 * 1.5 + 0.5625 * 2], atol=1e-12)


def test_samples_fill_the_domain_and_follow_the_seed():
    x, y = FUNCTIONS["ackley"].sample(2000, 3, np.random.default_rng(0))
    assert x.shape == (2000, 3) and 32 < np.abs(x).max() < 32.768
    np.testing.assert_array_equal(y, ackley(x))
    near, _ = FUNCTIONS["ackley"].sample(100, 2, np.random.default_rng(0), halfwidth=1.0)
    assert np.abs(near).max() <= 1


# Largest values: by the formula in two dimensions, as published to four digits in one.
MAXIMA = {"booth": 0.0, "levi": 0.0, "multi-optima": 0.9499, "ackley": 0.0, "sinusoid": 7.6228}
ALL = MAXIMISATIONS | OTHER_MAXIMISATIONS


@pytest.mark.parametrize(("name", "maximum"), MAXIMA.items())
def test_maxima_are_those_published(name, maximum):
    assert MAXIMISATIONS[name].maximum == pytest.approx(maximum, abs=5e-5)


@pytest.mark.parametrize("name", ALL)
def test_maxima(name):
    problem = ALL[name]
    low, high = problem.bounds
    assert low.shape == high.shape == (problem.dimension,)
    assert np.all(low < problem.maximizer) and np.all(problem.maximizer < high)
    np.testing.assert_allclose(problem.value(np.array([problem.maximizer])), problem.maximum)
    # A fine grid, and a climb from its best point, find nothing better and end at the same place.
    axes = [
        np.linspace(a, b, 30_001 if problem.dimension == 1 else 401) for a, b in zip(low, high, strict=True)
    ]
    grid = np.stack(np.meshgrid(*axes), axis=-1).reshape(-1, problem.dimension)
    start = grid[problem.value(grid).argmax()]
    climb = minimize(
        lambda x: -problem.value(x[None])[0], start, method="Nelder-Mead", options={"xatol": 1e-10}
    )
    assert -climb.fun == pytest.approx(problem.maximum, abs=1e-8)
    if name in MAXIMISATIONS:
        np.testing.assert_allclose(climb.x, problem.maximizer, atol=1e-4)


@pytest.mark.parametrize("name", ALL)
def test_samples_of_a_box(name):
    problem = ALL[name]
    x, y = problem.sample(500, np.random.default_rng(0))
    low, high = problem.bounds
    assert x.shape == (500, problem.dimension) and y.shape == (500,)
    assert np.all(x >= low) and np.all(x <= high)
    assert np.all(x.min(0) < low + 0.05 * (high - low)) and np.all(x.max(0) > high - 0.05 * (high - low))
    assert y.max() <= problem.maximum
    np.testing.assert_array_equal(x, problem.sample(500, np.random.default_rng(0))[0])


@pytest.mark.parametrize(
    ("name", "theirs"),
    {
        "ackley": "Ackley",
        "branin": "Branin",
        "camel": "SixHumpCamel",
        "rastrigin": "Rastrigin",
        "griewank": "Griewank",
        "drop-wave": "DropWave",
        "styblinski-tang": "StyblinskiTang",
        "michalewicz": "Michalewicz",
        "three-hump": "ThreeHumpCamel",
    }.items(),
)
def test_functions_are_those_of_botorch(name, theirs):
    torch = pytest.importorskip("torch")
    function = getattr(pytest.importorskip("botorch.test_functions.synthetic"), theirs)()
    x, y = ALL[name].sample(50, np.random.default_rng(0))
    np.testing.assert_allclose(-function.evaluate_true(torch.tensor(x)).numpy(), y, rtol=1e-9, atol=1e-9)
