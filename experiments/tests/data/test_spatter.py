"""What spatter is lit by: edges, distances from them, and levels spread evenly."""

import numpy as np
from scipy import ndimage

from experiments.data.corruptions import spatter


def test_edges_are_thin_and_connected_to_strong_ones():
    levels = np.zeros((3, 32, 32), dtype=int)
    levels[0, :, 16:] = 200
    levels[1, :, 16:] = 30  # a gradient of 120: weak everywhere
    levels[2, :, 16:] = 30
    levels[2, :4, 16:] = 200
    result = spatter.edges(levels)
    assert (result[0].sum(axis=1) == 1).all() and result[0][:, 15:17].sum() == 32
    assert not result[1].any()
    assert result[2][20:, 15:17].sum() == 12, "a weak edge that goes on from a strong one"


def test_distances_are_nearly_euclidean():
    marked = np.random.default_rng(0).random((50, 32, 32)) < 0.01
    marked[:, 0, 0] = True
    for result, marks in zip(spatter.distances(marked), marked, strict=True):
        np.testing.assert_allclose(result, ndimage.distance_transform_edt(~marks), rtol=0.025)
    assert (spatter.distances(np.zeros((1, 32, 32), bool)) > spatter.FARTHEST).all()


def test_equalised_levels():
    levels = np.zeros((2, 32, 32), dtype=int)
    levels[0, 16:] = 3
    levels[0, 24:] = 7
    levels[1] = 20
    spread = spatter.equalise(levels)
    assert list(np.unique(spread[0])) == [0, 128, 255] and (spread[1] == 20).all()
