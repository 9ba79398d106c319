import numpy as np
import pytest

from experiments.data.classes import three_classes


def test_separable_classes():
    toy = three_classes("separable")
    distance = np.linalg.norm(toy.X[:, None] - toy.centers, axis=2)
    assert np.mean(distance.argmin(axis=1) == toy.y) > 0.99


def test_nested_classes_are_inside_the_large_one():
    toy = three_classes("nested")
    assert np.bincount(toy.y).tolist() == [200, 30, 30]
    radius = np.linalg.norm(toy.X[toy.y == 0], axis=1).max()
    assert np.mean(np.linalg.norm(toy.X[toy.y > 0], axis=1) < radius) > 0.95


def test_same_seed_same_data():
    first, again, other = (three_classes(random_state=seed) for seed in (5, 5, 6))
    np.testing.assert_array_equal(first.X, again.X)
    np.testing.assert_array_equal(first.y, again.y)
    assert not np.array_equal(first.X, other.X)


def test_centers_are_copied():
    three_classes("nested").centers[:] = 7.0
    assert three_classes("nested").centers.max() < 2


def test_unknown_layout():
    with pytest.raises(ValueError, match="layout must be one of"):
        three_classes("moons")
