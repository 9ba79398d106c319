import numpy as np
import pytest

from deltauq.data import gap_curve


@pytest.mark.parametrize("curve", ["hill", "step"])
def test_gap_is_empty(curve):
    toy = gap_curve(curve, 41, random_state=3)
    x = toy.X[:, 0]
    assert toy.X.shape == (41, 1) and toy.y.shape == (41,)
    assert np.all((x <= toy.gap[0]) | (x >= toy.gap[1]))
    assert np.all((x >= toy.limits[0]) & (x <= toy.limits[1]))
    assert min(np.sum(x < 0), np.sum(x > 0)) >= 20


def test_heights_beside_the_gap_are_equal_for_hill_only():
    for curve, equal in (("hill", True), ("step", False)):
        toy = gap_curve(curve)
        left, right = toy.truth(np.array(toy.gap))
        assert (abs(left - right) < 1e-12) == equal
    hill = gap_curve("hill")
    assert hill.truth(0.0) - hill.truth(1.0) > 0.5


def test_noise():
    toy = gap_curve("step", 20_000, noise=0.3)
    assert np.std(toy.y - toy.truth(toy.X[:, 0])) == pytest.approx(0.3, rel=0.03)
    exact = gap_curve("step", 10, noise=0.0)
    np.testing.assert_array_equal(exact.y, exact.truth(exact.X[:, 0]))


def test_same_seed_same_data():
    first, again, other = (gap_curve(random_state=seed) for seed in (5, 5, 6))
    np.testing.assert_array_equal(first.X, again.X)
    np.testing.assert_array_equal(first.y, again.y)
    assert not np.array_equal(first.X, other.X)


def test_unknown_curve():
    with pytest.raises(ValueError, match="curve must be one of"):
        gap_curve("moons")
