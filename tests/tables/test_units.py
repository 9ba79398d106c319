"""Columns without their units."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.utils.estimator_checks import check_estimator

from deltauq.tables.preprocessing import UnitScaler


@given(st.integers(-300, 300), st.integers(0, 1000))
def test_nothing_is_rounded(exponent, seed):
    X = np.random.default_rng(seed).normal(size=(20, 2)) * 10.0**exponent
    scaler = UnitScaler().fit(X)
    scaled = scaler.transform(X)
    np.testing.assert_array_equal(scaled * scaler.scale_, X)
    if -2 <= exponent <= 15:
        np.testing.assert_array_equal(scaler.scale_, 1.0)
    if not -4 <= exponent <= 19:
        assert np.all((scaled.std(axis=0) > 0.7) & (scaled.std(axis=0) < 1.5))


@pytest.mark.parametrize("column", [np.zeros(5), np.full(5, 1e300), np.full(1, 3.0)])
def test_a_column_without_a_spread_stays(column):
    np.testing.assert_array_equal(UnitScaler().fit_transform(column[:, None]), column[:, None])


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")
def test_it_is_an_estimator():
    check_estimator(UnitScaler())
