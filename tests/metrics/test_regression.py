import numpy as np
import pytest
from scipy.stats import norm, spearmanr
from sklearn.metrics import mean_absolute_error, root_mean_squared_error

from deltauq.metrics import coverage, mae, rmse, spearman, width


@pytest.fixture
def sample():
    rng = np.random.default_rng(0)
    mean, std = rng.normal(size=200), rng.uniform(0.1, 2.0, 200)
    return mean + std * rng.normal(size=200), mean, std


def test_errors_agree_with_scikit_learn(sample):
    y, mean, _ = sample
    assert mae(y, mean) == pytest.approx(mean_absolute_error(y, mean), rel=1e-12)
    assert rmse(y, mean) == pytest.approx(root_mean_squared_error(y, mean), rel=1e-12)


@pytest.mark.parametrize("ties", [False, True])
def test_spearman_agrees_with_scipy_and_ignores_the_sign_of_errors(sample, ties):
    y, mean, std = sample
    if ties:
        std = np.round(std, 1)
    expected = spearmanr(std, np.abs(y - mean)).statistic
    assert spearman(std, y - mean) == pytest.approx(expected, abs=1e-12)


def test_spearman_of_a_constant_spread_is_nan_without_a_warning(sample):
    y, mean, _ = sample
    assert np.isnan(spearman(np.ones(200), y - mean))


def test_coverage_is_nominal_for_a_gaussian_with_the_right_spread():
    rng = np.random.default_rng(1)
    y = rng.normal(size=100_000)
    zeros, ones = np.zeros_like(y), np.ones_like(y)
    for level in (0.5, 0.9, 0.99):
        assert coverage(y, zeros, ones, level) == pytest.approx(level, abs=0.01)
    # Half the spread: the closed form.
    assert coverage(y, zeros, ones / 2, 0.9) == pytest.approx(2 * norm.cdf(norm.ppf(0.95) / 2) - 1, abs=0.01)


def test_coverage_counts_the_edge_as_inside():
    assert coverage([1.0, 0.0], [1.0, 1.0], [0.0, 0.0], 0.9) == 0.5


def test_width_is_that_of_the_interval_that_coverage_uses():
    std = np.array([1.0, 3.0])
    assert width(std, 0.9) == pytest.approx(2 * 2 * norm.ppf(0.95))
    half = width([1.0], 0.9) / 2
    assert coverage([half * 0.999, half * 1.001], [0, 0], [1, 1], 0.9) == 0.5


@pytest.mark.parametrize("level", [0.0, 1.0, -0.1, 90, float("nan")])
def test_a_level_outside_0_1_is_refused(level):
    with pytest.raises(ValueError, match="level must lie between 0 and 1"):
        coverage([1.0], [1.0], [1.0], level)


def test_shapes_that_would_broadcast_are_refused():
    with pytest.raises(ValueError, match=r"mean must have shape \(n,\)"):
        rmse(np.zeros(3), np.zeros((3, 1)))
    with pytest.raises(ValueError, match="same length"):
        mae(np.zeros(3), np.zeros(1))
    with pytest.raises(ValueError, match="n > 0"):
        width([])
