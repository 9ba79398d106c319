import numpy as np
import pytest
import scoringrules
import uncertainty_toolbox
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.integrate import quad
from scipy.stats import norm, spearmanr
from sklearn.metrics import mean_absolute_error, r2_score, root_mean_squared_error

from deltauq.metrics import (
    coverage,
    coverage_curve,
    crps,
    gaussian_nll,
    mae,
    miscalibration,
    r2,
    rmse,
    sharpness,
    spearman,
    width,
)

MEASURES_OF_ERROR_BARS = [coverage, crps, gaussian_nll, miscalibration]


@pytest.fixture
def sample():
    rng = np.random.default_rng(0)
    mean, std = rng.normal(size=200), rng.uniform(0.1, 2.0, 200)
    return mean + std * rng.normal(size=200), mean, std


@st.composite
def predictions(draw):
    """Targets, means and standard deviations, some of them exactly zero or exactly right."""
    n = draw(st.integers(1, 30))
    # Whole tenths: ties and exact hits are common, and no sum of squares is lost below the smallest float.
    y, mean = (draw(arrays(np.int64, n, elements=st.integers(-50, 50))) / 10 for _ in range(2))
    return y, mean, draw(arrays(np.int64, n, elements=st.integers(0, 30))) / 10


def test_errors_agree_with_scikit_learn(sample):
    y, mean, _ = sample
    assert mae(y, mean) == pytest.approx(mean_absolute_error(y, mean), rel=1e-12)
    assert rmse(y, mean) == pytest.approx(root_mean_squared_error(y, mean), rel=1e-12)
    assert r2(y, mean) == pytest.approx(r2_score(y, mean), rel=1e-12)


def test_r2_of_the_average_is_0_and_of_constant_targets_nan():
    y = np.array([0.1, 0.7, 2.2])
    assert r2(y, np.full(3, y.mean())) == pytest.approx(0.0, abs=1e-12)
    # The average of three times 0.1 is not 0.1, so the sum of squares is not zero.
    assert np.isnan(r2(np.full(3, 0.1), y))


@pytest.mark.parametrize("ties", [False, True])
def test_spearman_agrees_with_scipy(sample, ties):
    y, mean, std = sample
    if ties:
        std = np.round(std, 1)
    expected = spearmanr(std, np.abs(y - mean)).statistic
    assert spearman(std, y - mean) == pytest.approx(expected, abs=1e-12)


def test_spearman_of_a_constant_spread_is_nan(sample):
    y, mean, _ = sample
    assert np.isnan(spearman(np.ones(200), y - mean))


@given(predictions())
def test_spearman_sees_only_the_order(sample):
    y, mean, std = sample
    before, after = spearman(std, y - mean), spearman(np.exp(std), (y - mean) ** 3)
    assert before == pytest.approx(after, abs=1e-12, nan_ok=True)


def test_scoring_rules_agree_with_other_libraries(sample):
    y, mean, std = sample
    assert gaussian_nll(y, mean, std) == pytest.approx(-norm.logpdf(y, mean, std).mean(), rel=1e-12)
    assert gaussian_nll(y, mean, std) == pytest.approx(
        uncertainty_toolbox.nll_gaussian(mean, std, y), rel=1e-12
    )
    assert crps(y, mean, std) == pytest.approx(scoringrules.crps_normal(y, mean, std).mean(), rel=1e-12)
    assert sharpness(std) == pytest.approx(uncertainty_toolbox.sharpness(std), rel=1e-12)


@pytest.mark.parametrize("y", [-1.0, 0.5, 4.0])
def test_crps_is_the_integral_that_defines_it(y):
    below, _ = quad(lambda t: norm.cdf(t, 0.5, 0.7) ** 2, -10, y)
    above, _ = quad(lambda t: norm.sf(t, 0.5, 0.7) ** 2, y, 10)
    assert crps([y], [0.5], [0.7]) == pytest.approx(below + above, rel=1e-6)


@pytest.mark.parametrize("std", [0.0, 5e-324, 1e-200, 1e-12])
def test_crps_of_a_small_spread_is_the_absolute_error(std):
    assert crps([1.0, -2.0, 3.0], [0.0, 0.0, 3.0], [std] * 3) == pytest.approx(1.0, abs=1e-11)


@given(predictions())
def test_bounds_of_crps(sample):
    y, mean, std = sample
    assert (
        -1e-12 <= crps(y, mean, std) <= mae(y, mean) + std.mean() * (np.sqrt(2) - 1) / np.sqrt(np.pi) + 1e-12
    )


def test_nll_with_a_spread_of_zero_is_infinite():
    assert gaussian_nll([1.0, 0.0], [1.0, 0.0], [0.0, 1.0]) == -np.inf
    assert gaussian_nll([1.0, 0.0], [1.0, 0.5], [0.0, 0.0]) == np.inf
    assert gaussian_nll([1.0, 0.0], [1.0, 0.5], [1.0, 1e-300]) == np.inf


def test_coverage_of_a_gaussian_is_nominal():
    rng = np.random.default_rng(1)
    y = rng.normal(size=100_000)
    zeros, ones = np.zeros_like(y), np.ones_like(y)
    for level in (0.5, 0.9, 0.99):
        assert coverage(y, zeros, ones, level) == pytest.approx(level, abs=0.01)
    # Half the spread: the closed form.
    assert coverage(y, zeros, ones / 2, 0.9) == pytest.approx(2 * norm.cdf(norm.ppf(0.95) / 2) - 1, abs=0.01)


def test_coverage_counts_the_edge_as_inside():
    assert coverage([1.0, 0.0], [1.0, 1.0], [0.0, 0.0], 0.9) == 0.5


def test_the_curve_agrees_with_uncertainty_toolbox(sample):
    y, mean, std = sample
    expected_levels, expected = uncertainty_toolbox.get_proportion_lists(mean, std, y, num_bins=21)
    levels, observed = coverage_curve(y, mean, std)
    np.testing.assert_allclose(levels, expected_levels[1:-1], rtol=1e-12)
    np.testing.assert_allclose(observed, expected[1:-1], rtol=1e-12)
    levels, observed = coverage_curve(y, mean, std, [0.9, 0.5])
    assert list(observed) == [coverage(y, mean, std, 0.9), coverage(y, mean, std, 0.5)]


@pytest.mark.parametrize("factor", [0.3, 1.0, 3.0])
def test_miscalibration_agrees_with_uncertainty_toolbox(sample, factor):
    y, mean, std = sample
    std = factor * std
    expected = uncertainty_toolbox.miscalibration_area(mean, std, y, num_bins=20_001)
    assert miscalibration(y, mean, std) == pytest.approx(expected, abs=1e-4)


def test_miscalibration_at_its_extremes():
    # Every target missed, or every target met, by intervals without width.
    assert miscalibration([1.0, 2.0], [0.0, 0.0], [0.0, 0.0]) == 0.5
    assert miscalibration([1.0, 2.0], [1.0, 2.0], [0.0, 0.0]) == 0.5
    # Errors at the quantiles of the distribution that is claimed: only the steps of the curve remain.
    errors = norm.ppf(0.5 + (np.arange(1000) + 0.5) / 2000)
    assert miscalibration(errors, np.zeros(1000), np.ones(1000)) == pytest.approx(1 / 4000, rel=1e-9)


@given(predictions())
def test_miscalibration_is_the_mean_gap_of_the_curve(sample):
    levels = (np.arange(1000) + 0.5) / 1000
    _, observed = coverage_curve(*sample, levels)
    assert miscalibration(*sample) == pytest.approx(np.mean(np.abs(observed - levels)), abs=2e-3)


def test_width_is_that_of_the_interval_that_coverage_uses():
    std = np.array([1.0, 3.0])
    assert width(std, 0.9) == pytest.approx(2 * 2 * norm.ppf(0.95))
    half = width([1.0], 0.9) / 2
    assert coverage([half * 0.999, half * 1.001], [0, 0], [1, 1], 0.9) == 0.5


@pytest.mark.parametrize("measure", MEASURES_OF_ERROR_BARS)
@given(sample=predictions(), seed=st.integers(0, 99))
def test_the_order_of_rows_does_not_matter(measure, sample, seed):
    order = np.random.default_rng(seed).permutation(len(sample[0]))
    assert measure(*sample) == pytest.approx(measure(*(values[order] for values in sample)), rel=1e-12)


@given(sample=predictions(), scale=st.sampled_from([0.25, 2.0, 1024.0]))
def test_units_of_the_target(sample, scale):
    scaled = [scale * values for values in sample]
    assert crps(*scaled) == pytest.approx(scale * crps(*sample), rel=1e-12, abs=1e-12)
    assert gaussian_nll(*scaled) == pytest.approx(gaussian_nll(*sample) + np.log(scale), rel=1e-12, abs=1e-12)
    assert coverage(*scaled) == coverage(*sample)
    assert miscalibration(*scaled) == miscalibration(*sample)


@pytest.mark.parametrize("level", [0.0, 1.0, -0.1, 90, float("nan")])
def test_invalid_level(level):
    with pytest.raises(ValueError, match="nominal coverage must lie between 0 and 1"):
        coverage([1.0], [1.0], [1.0], level)
    with pytest.raises(ValueError, match=r"nominal coverage|levels"):
        coverage_curve([1.0], [1.0], [1.0], [0.5, level])


def test_invalid_shapes():
    with pytest.raises(ValueError, match=r"mean must have shape \(n,\)"):
        rmse(np.zeros(3), np.zeros((3, 1)))
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        mae(np.zeros(3), np.zeros(1))
    with pytest.raises(ValueError, match="n > 0"):
        width([])


@pytest.mark.parametrize("measure", MEASURES_OF_ERROR_BARS)
def test_infinite_and_negative_values_raise(measure):
    with pytest.raises(ValueError, match=r"y contains"):
        measure([np.nan, 1.0], [0.0, 0.0], [1.0, 1.0])
    with pytest.raises(ValueError, match=r"Negative values in data passed to std"):
        measure([1.0, 1.0], [0.0, 0.0], [1.0, -0.5])


@pytest.mark.parametrize("measure", [width, sharpness])
def test_negative_std_raises(measure):
    with pytest.raises(ValueError, match="Negative values in data passed to std"):
        measure([-1.0, 1.0])
