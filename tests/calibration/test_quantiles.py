"""Quantiles of signed scores."""

import warnings
from fractions import Fraction
from math import ceil, floor

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from deltauq.calibration import conformal_quantile, quantiles_of_scores

LEVELS = [Fraction(k, 100) for k in range(1, 100)]


def quantiles(scores, levels):
    """Return quantiles without warnings about too few scores."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".*too few", UserWarning)
        return quantiles_of_scores(scores, levels)


def by_definition(scores, level):
    """Return a quantile in exact arithmetic."""
    ordered, position = sorted(scores), (len(scores) + 1) * level
    if level == Fraction(1, 2):
        return float(np.median(ordered))
    rank = floor(position) if level < Fraction(1, 2) else ceil(position)
    if rank < 1:
        return -np.inf
    return np.inf if rank > len(ordered) else ordered[rank - 1]


@pytest.mark.parametrize("n", [1, 2, 3, 4, 9, 10, 19, 38, 39, 98, 99, 100, 199])
def test_quantiles_match_their_definition_without_rounding(n):
    scores = np.random.default_rng(n).normal(size=n)
    expected = [by_definition(scores, level) for level in LEVELS]
    np.testing.assert_array_equal(quantiles(scores, [float(level) for level in LEVELS]), expected)


@given(
    scores=st.lists(st.integers(-5, 5), min_size=1, max_size=40),
    level=st.fractions(Fraction(1, 50), Fraction(49, 50), max_denominator=50),
)
def test_a_new_score_is_beyond_a_quantile_with_at_most_the_nominal_share(scores, level):
    """Each of n + 1 scores is equally likely to be the new one, with ties too."""
    scores = np.array([*scores, 0.0])
    beyond = 0
    for k, new in enumerate(scores):
        quantile = quantiles(np.delete(scores, k), [float(level)])[0]
        beyond += new < quantile if level <= Fraction(1, 2) else new > quantile
    assert Fraction(int(beyond), len(scores)) <= min(level, 1 - level)


@given(n=st.integers(1, 60), seed=st.integers(0, 1000))
def test_quantiles_miss_the_nominal_share_by_less_than_one_row(n, seed):
    scores = np.random.default_rng(seed).permutation(n + 1).astype(float)
    levels = np.array([0.05, 0.2, 0.35, 0.65, 0.8, 0.95])
    beyond = np.zeros(len(levels))
    for k, new in enumerate(scores):
        found = quantiles(np.delete(scores, k), levels)
        beyond += np.where(levels < 0.5, new < found, new > found)
    assert np.all(beyond / (n + 1) > np.minimum(levels, 1 - levels) - 1 / (n + 1))


@given(
    scores=st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=50),
    levels=st.lists(st.floats(1e-3, 1 - 1e-3), min_size=2, max_size=8),
)
def test_quantiles_rise_with_the_level_and_are_symmetric(scores, levels):
    levels = np.sort([*levels, 0.5])
    found = quantiles(scores, levels)
    assert np.all(found[1:] >= found[:-1])
    np.testing.assert_array_equal(quantiles(-np.array(scores), 1.0 - levels), -found)


@given(scores=st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=50))
def test_the_quantile_of_one_half_is_the_median(scores):
    assert quantiles_of_scores(scores, [0.5])[0] == pytest.approx(np.median(scores), abs=1e-12)


def test_quantiles_match_those_of_weibull_where_a_rank_is_whole():
    scores, levels = np.random.default_rng(0).normal(size=39), np.arange(1, 40) / 40
    np.testing.assert_allclose(
        quantiles_of_scores(scores, levels), np.quantile(scores, levels, method="weibull"), rtol=1e-12
    )


@pytest.mark.parametrize("level", [0.55, 0.8, 0.9, 0.95])
def test_upper_quantiles_are_conformal(level):
    scores = np.random.default_rng(0).normal(size=57)
    assert quantiles_of_scores(scores, [level])[0] == conformal_quantile(scores, level)


def test_too_few_scores_give_infinite_quantiles_with_a_warning():
    with pytest.warns(UserWarning, match=r"18 scored rows are too few for quantiles of \[0.05 0.95\]"):
        found = quantiles_of_scores(np.arange(18.0), [0.05, 0.5, 0.95])
    np.testing.assert_array_equal(found, [-np.inf, 8.5, np.inf])
    np.testing.assert_array_equal(quantiles_of_scores(np.arange(19.0), [0.05, 0.95]), [0.0, 18.0])


def test_order_and_containers_do_not_matter():
    scores = np.random.default_rng(0).normal(size=30)
    expected = quantiles_of_scores(scores, [0.1, 0.9])
    for same in (np.sort(scores), scores[::-1], scores.tolist(), torch.tensor(scores)):
        np.testing.assert_array_equal(quantiles_of_scores(same, (0.1, 0.9)), expected)
    np.testing.assert_array_equal(quantiles_of_scores(scores, [0.9, 0.1]), expected[::-1])
    assert quantiles_of_scores(scores, []).shape == (0,)


@pytest.mark.parametrize(
    ("levels", "message"),
    [
        (0.5, "levels must be a list of numbers between 0 and 1, got .*0.5"),
        ([[0.1, 0.9]], "levels must be a list of numbers"),
        ([0.1, 1.0], r"levels must be a list of numbers between 0 and 1, got \[0.1, 1.0\]"),
        ([0.0], "levels must be a list of numbers between 0 and 1"),
        ([5, 95], "levels must be a list of numbers between 0 and 1"),
        ([np.nan], "levels must be finite"),
        (["high"], "levels must be numeric"),
    ],
)
def test_invalid_levels(levels, message):
    with pytest.raises(ValueError, match=message):
        quantiles_of_scores(np.arange(30.0), levels)
