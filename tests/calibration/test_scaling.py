import doctest

import numpy as np
import pytest
from scipy.optimize import differential_evolution
from scipy.stats import norm
from sklearn.exceptions import NotFittedError

import deltauq.calibration.scaling
from deltauq.calibration import GaussianScaler, choose_delta
from deltauq.calibration.scaling import permuted_features


def nll(y, std):
    return -norm.logpdf(y, 0.0, std).mean()


@pytest.mark.parametrize("fit_scale", [True, False])
@pytest.mark.parametrize(("scale", "noise"), [(3.0, 0.2), (0.0, 1.0), (1.0, 1e-3), (0.1, 50.0)])
def test_fit_finds_the_optimum_of_an_independent_search(scale, noise, fit_scale):
    rng = np.random.default_rng(0)
    std = rng.gamma(2.0, 0.5, 800)
    y = rng.normal(0.0, np.hypot(scale * std, noise))
    scaler = GaussianScaler(fit_scale=fit_scale).fit(y, np.zeros(800), std)
    actual = nll(y, scaler.transform(std))
    if fit_scale:
        other = differential_evolution(
            lambda logs: nll(y, np.hypot(np.exp(logs[0]) * std, np.exp(logs[1]))), [(-10, 6)] * 2, seed=0
        ).fun
    else:
        other = min(nll(y, np.hypot(std, noise)) for noise in np.exp(np.linspace(-10, 6, 2000)))
        assert scaler.scale_ == 1.0
    assert actual <= other + 1e-4


def test_units_of_target_and_spread_do_not_matter():
    rng = np.random.default_rng(1)
    std = rng.uniform(0.1, 1, 300)
    y = rng.normal(0.0, np.hypot(std, 0.3))
    one = GaussianScaler().fit(y, 0 * y, std)
    other = GaussianScaler().fit(1e6 * y, 0 * y, 1e-4 * std)
    np.testing.assert_allclose(other.transform(1e-4 * std), 1e6 * one.transform(std), rtol=1e-3)


def test_zero_sigma_is_fitted_by_noise():
    y = np.random.default_rng(2).normal(0.0, 2.0, 500)
    scaler = GaussianScaler().fit(y, np.zeros(500), np.zeros(500))
    np.testing.assert_allclose(scaler.transform(np.zeros(3)), np.sqrt(np.mean(y**2)), rtol=1e-3)


def test_a_perfect_model_has_no_noise():
    scaler = GaussianScaler().fit(np.ones(5), np.ones(5), np.ones(5))
    np.testing.assert_array_equal(scaler.transform(np.ones(2)), 0.0)


def test_invalid_input():
    with pytest.raises(ValueError, match="one shape"):
        GaussianScaler().fit(np.ones(3), np.ones((3, 1)), np.ones(3))
    with pytest.raises(NotFittedError):
        GaussianScaler().transform(np.ones(3))


def test_the_example_runs():
    assert doctest.testmod(deltauq.calibration.scaling).failed == 0


@pytest.mark.parametrize("place", range(3))
@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_infinite_values_raise(place, value):
    given = [np.ones(3), np.zeros(3), np.ones(3)]
    given[place][1] = value
    with pytest.raises(ValueError, match="must be finite"):
        GaussianScaler().fit(*given)


def test_negative_sigma_raises():
    with pytest.raises(ValueError, match="std must not be negative"):
        GaussianScaler().fit([1.0, 2.0], [0.0, 0.0], [1.0, -1.0])


def test_tensors():
    torch = pytest.importorskip("torch")
    y, std = torch.tensor([1.0, -2.0, 0.5]), torch.tensor([1.0, 2.0, 0.5], requires_grad=True)
    expected = GaussianScaler().fit(y.numpy(), np.zeros(3), std.detach().numpy())
    actual = GaussianScaler().fit(y.bfloat16(), torch.zeros(3), std)
    assert (actual.scale_, actual.noise_) == (expected.scale_, expected.noise_)
    np.testing.assert_array_equal(actual.transform(std), expected.transform(std.detach().numpy()))


def test_choose_delta_of_informative_and_uninformative_sigma():
    rng = np.random.default_rng(0)
    std = rng.lognormal(size=(2000, 2))
    errors = np.abs(rng.normal(size=(2000, 2))) * np.column_stack([std[:, 0], np.ones(2000)])
    informative, uninformative = choose_delta(errors, std) / np.sqrt(np.mean(std**2, axis=0))
    assert informative <= 1.0 and uninformative >= 10.0


def test_choose_delta_is_at_most_the_largest():
    std = np.random.default_rng(0).uniform(0.1, 1.0, 500)
    rms = np.sqrt(np.mean(std**2))
    assert choose_delta(np.ones(500), std) == pytest.approx(100 * rms)
    assert choose_delta(np.ones(500), std, largest=1.0) == pytest.approx(rms)


def test_choose_delta_without_sigma_or_errors():
    assert choose_delta([1.0, 3.0], [0.0, 0.0]) == 2.0
    assert choose_delta([0.0, 0.0], [3.0, 3.0]) == 3.0
    assert choose_delta([0.0], [0.0]) == 1.0


def test_choose_delta_weights_count_as_repeated_rows():
    rng = np.random.default_rng(0)
    std, weights = rng.lognormal(size=50), rng.integers(1, 4, size=50)
    errors = std * rng.exponential(size=50)
    repeated = choose_delta(np.repeat(errors, weights), np.repeat(std, weights))
    np.testing.assert_allclose(choose_delta(errors, std, weights), repeated)


def test_permuted_features_mix_rows():
    X = np.arange(20.0).reshape(10, 2)
    probes = permuted_features(X, np.random.default_rng(0), 100)
    assert set(probes[:, 0]) <= set(X[:, 0]) and set(probes[:, 1]) <= set(X[:, 1])
    assert not all(tuple(p) in {tuple(x) for x in X} for p in probes)
