import numpy as np
import pytest

from deltauq.data.functions import FUNCTIONS, ackley, griewank


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


def test_samples_fill_the_domain_and_follow_the_seed():
    x, y = FUNCTIONS["ackley"].sample(2000, 3, np.random.default_rng(0))
    assert x.shape == (2000, 3) and 32 < np.abs(x).max() < 32.768
    np.testing.assert_array_equal(y, ackley(x))
    near, _ = FUNCTIONS["ackley"].sample(100, 2, np.random.default_rng(0), halfwidth=1.0)
    assert np.abs(near).max() <= 1
