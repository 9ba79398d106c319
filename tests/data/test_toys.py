import numpy as np
import pytest

from deltauq.data import gap_curve, three_classes


@pytest.mark.parametrize("curve", ["hill", "step"])
def test_gap_curve_leaves_the_gap_empty_and_both_sides_full(curve):
    toy = gap_curve(curve, 41, random_state=3)
    x = toy.X[:, 0]
    assert toy.X.shape == (41, 1) and toy.y.shape == (41,)
    assert np.all((x <= toy.gap[0]) | (x >= toy.gap[1]))
    assert np.all((x >= toy.limits[0]) & (x <= toy.limits[1]))
    assert min(np.sum(x < 0), np.sum(x > 0)) >= 20


def test_sides_of_the_gap_agree_on_the_hill_and_differ_on_the_step():
    for curve, agree in (("hill", True), ("step", False)):
        toy = gap_curve(curve)
        left, right = toy.truth(np.array(toy.gap))
        assert (abs(left - right) < 1e-12) == agree
    hill = gap_curve("hill")
    # Inside the gap something happens that the data do not tell.
    assert hill.truth(0.0) - hill.truth(1.0) > 0.5


def test_noise_is_as_asked():
    toy = gap_curve("step", 20_000, noise=0.3)
    assert np.std(toy.y - toy.truth(toy.X[:, 0])) == pytest.approx(0.3, rel=0.03)
    exact = gap_curve("step", 10, noise=0.0)
    np.testing.assert_array_equal(exact.y, exact.truth(exact.X[:, 0]))


@pytest.mark.parametrize("make", [gap_curve, three_classes])
def test_same_seed_same_data(make):
    first, again, other = make(random_state=5), make(random_state=5), make(random_state=6)
    np.testing.assert_array_equal(first.X, again.X)
    np.testing.assert_array_equal(first.y, again.y)
    assert not np.array_equal(first.X, other.X)


def test_separable_classes_are_told_apart_by_their_centers():
    toy = three_classes("separable")
    distance = np.linalg.norm(toy.X[:, None] - toy.centers, axis=2)
    assert np.mean(distance.argmin(axis=1) == toy.y) > 0.99


def test_nested_classes_lie_inside_the_large_one():
    toy = three_classes("nested")
    sizes = np.bincount(toy.y)
    assert sizes.tolist() == [200, 30, 30]
    reach = np.linalg.norm(toy.X[toy.y == 0], axis=1).max()
    small = np.linalg.norm(toy.X[toy.y > 0], axis=1)
    assert np.mean(small < reach) > 0.95


def test_changing_the_centers_of_one_toy_leaves_the_next_alone():
    three_classes("nested").centers[:] = 7.0
    assert three_classes("nested").centers.max() < 2


@pytest.mark.parametrize(("make", "word"), [(gap_curve, "curve"), (three_classes, "layout")])
def test_unknown_words_are_refused_by_name(make, word):
    with pytest.raises(ValueError, match=f"{word} must be one of"):
        make("moons")
