import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays
from scipy.optimize import brute
from scipy.special import expit, log_softmax, softmax
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.exceptions import NotFittedError
from sklearn.metrics import log_loss
from sklearn.neural_network import MLPClassifier

from deltauq.calibration import SpreadScaler, TemperatureScaler, scale_logits
from deltauq.core import Posterior, StreamingPosterior


def posterior_of(samples, link="sigmoid"):
    """Return the posterior of samples of shape (K, n, c)."""
    stream = StreamingPosterior(link=link)
    for sample in samples:
        stream.update(sample)
    return stream.posterior()


def mean_loss(logits, labels):
    return -np.mean(log_softmax(logits, axis=1)[np.arange(len(labels)), labels])


def spread_problem(n, temperature, decay, seed=0):
    """A posterior with spreads of many sizes, and labels drawn from its logits scaled by a known t(σ)."""
    rng = np.random.default_rng(seed)
    mean = 4.0 * rng.normal(size=(n, 4))
    var = 0.25 * rng.random((n, 1)) * rng.random((n, 4))
    posterior = Posterior(mean, np.ones_like(mean), expit(mean), var, link="sigmoid")
    proba = softmax(mean * np.exp(-decay * var) / temperature, axis=1)
    labels = np.minimum((rng.random((n, 1)) > np.cumsum(proba, axis=1)).sum(axis=1), 3)
    return posterior, labels


@given(
    samples=arrays(
        np.float64, array_shapes(min_dims=3, max_dims=3, max_side=6), elements=st.floats(-50, 50, width=32)
    )
)
def test_the_papers_scale_is_half_less_the_variance_of_the_sigmoids(samples):
    scaled = scale_logits(posterior_of(samples))
    mean = samples.mean(axis=0)
    np.testing.assert_allclose(scaled, mean * (0.5 - expit(samples).var(axis=0)), rtol=1e-9, atol=1e-9)
    assert np.all(np.abs(scaled) <= 0.5 * np.abs(mean) + 1e-9)
    assert np.all(np.abs(scaled) >= 0.25 * np.abs(mean) - 1e-9)


def test_anchors_that_agree_halve_the_logits():
    logits = np.random.default_rng(0).normal(size=(3, 4))
    np.testing.assert_array_equal(scale_logits(posterior_of([logits, logits])), logits / 2)


def test_tensors_stay_tensors_and_agree_with_numpy():
    samples = np.random.default_rng(0).normal(size=(5, 50, 4))
    labels = np.random.default_rng(1).integers(4, size=50)
    by_numpy, by_torch = posterior_of(samples), posterior_of(torch.asarray(samples))
    assert isinstance(scale_logits(by_torch), torch.Tensor)
    np.testing.assert_allclose(scale_logits(by_torch), scale_logits(by_numpy))
    scaler = SpreadScaler().fit(by_torch, torch.asarray(labels))
    assert isinstance(scaler.transform(by_torch), torch.Tensor)
    np.testing.assert_allclose(
        scaler.transform(by_torch), SpreadScaler().fit(by_numpy, labels).transform(by_numpy)
    )


def test_single_precision_is_kept():
    samples = torch.randn(4, 6, 3, generator=torch.Generator().manual_seed(0))
    posterior = posterior_of(samples)
    assert scale_logits(posterior).dtype == torch.float32
    scaler = SpreadScaler().fit(posterior, [0, 1, 2, 0, 1, 2])
    assert scaler.transform(posterior).dtype == torch.float32


@pytest.mark.parametrize("link", [None, "softmax"])
@pytest.mark.parametrize("use", [scale_logits, lambda p: SpreadScaler().fit(p, [0, 1])])
def test_other_links_are_refused_in_one_sentence(link, use):
    with pytest.raises(ValueError, match=rf'made with link="sigmoid".*got link={link!r}\.$'):
        use(posterior_of(np.zeros((2, 2, 2)), link))


@pytest.mark.parametrize(("temperature", "decay"), [(2.0, 8.0), (0.5, 20.0), (3.0, 4.0)])
def test_a_known_scale_is_recovered(temperature, decay):
    posterior, labels = spread_problem(60_000, temperature, decay)
    scaler = SpreadScaler().fit(posterior, labels)
    np.testing.assert_allclose(scaler.temperature_, temperature, rtol=0.06)
    np.testing.assert_allclose(scaler.decay_, decay, rtol=0.12)


@pytest.mark.parametrize("seed", range(3))
def test_the_fit_is_the_optimum_of_a_search_by_brute_force(seed):
    posterior, labels = spread_problem(500, 1.5, 12.0, seed)
    scaler = SpreadScaler().fit(posterior, labels)

    def loss(parameters):
        t = np.exp(-parameters[0] - parameters[1] * posterior.link_var)
        return mean_loss(posterior.mean * t, labels)

    best, least, *_ = brute(loss, [(-2.0, 3.0), (0.0, 60.0)], Ns=40, full_output=True)
    np.testing.assert_allclose(mean_loss(scaler.transform(posterior), labels), least, atol=1e-6)
    np.testing.assert_allclose([np.log(scaler.temperature_), scaler.decay_], best, atol=0.05)


def test_a_spread_that_tells_of_errors_beats_one_temperature_on_new_rows():
    posterior, labels = spread_problem(1000, 1.0, 20.0, seed=1)
    fresh, truth = spread_problem(4000, 1.0, 20.0, seed=2)
    spread = mean_loss(SpreadScaler().fit(posterior, labels).transform(fresh), truth)
    plain = mean_loss(TemperatureScaler().fit(posterior.mean, labels).transform(fresh.mean), truth)
    assert spread < plain - 0.01


def test_without_spread_it_is_temperature_scaling():
    posterior, labels = spread_problem(300, 2.0, 0.0)
    still = Posterior(
        posterior.mean, posterior.var, posterior.link_mean, 0 * posterior.link_var, link="sigmoid"
    )
    scaler = SpreadScaler().fit(still, labels)
    assert scaler.decay_ == 0.0
    assert scaler.temperature_ == TemperatureScaler().fit(posterior.mean, labels).temperature_


def test_a_spread_that_says_nothing_is_hardly_ever_used():
    decays = []
    for seed in range(40):
        posterior, labels = spread_problem(300, 2.0, 0.0, seed)
        scaler = SpreadScaler().fit(posterior, labels)
        decays.append(scaler.decay_)
        if scaler.decay_ == 0.0:
            expected = TemperatureScaler().fit(posterior.mean, labels).temperature_
            assert scaler.temperature_ == expected
    assert np.mean(np.array(decays) > 0.0) <= 0.1


@given(unit=st.floats(1e-8, 1.0), seed=st.integers(0, 100))
def test_the_unit_of_the_variance_does_not_matter(unit, seed):
    posterior, labels = spread_problem(200, 1.0, 20.0, seed)
    small = Posterior(
        posterior.mean, posterior.var, posterior.link_mean, unit * posterior.link_var, link="sigmoid"
    )
    a, b = SpreadScaler().fit(posterior, labels), SpreadScaler().fit(small, labels)
    np.testing.assert_allclose(a.transform(posterior), b.transform(small), rtol=1e-4, atol=1e-6)


def test_more_spread_never_means_more_confidence():
    posterior, labels = spread_problem(400, 1.0, 20.0)
    # Labels that are surest where the spread is largest would ask for a negative decay.
    contrary = Posterior(
        posterior.mean, posterior.var, posterior.link_mean, 0.25 - posterior.link_var, link="sigmoid"
    )
    assert SpreadScaler().fit(contrary, labels).decay_ == 0.0


def test_an_anchored_network_for_digits_is_calibrated():
    X, y = load_digits(return_X_y=True)
    X = X / 16
    rng = np.random.default_rng(0)
    train, valid, test = np.split(rng.permutation(len(X)), [500, 1000])
    partners = rng.choice(train, size=(4, len(train)))
    pairs = np.vstack([np.hstack([X[r], X[train] - X[r]]) for r in partners])
    network = MLPClassifier((64,), max_iter=60, random_state=0, tol=0.0, n_iter_no_change=1000)
    with pytest.warns(UserWarning, match="Maximum iterations"):
        network.fit(pairs, np.tile(y[train], 4))

    def posterior(rows):
        anchors = X[train[:10]]
        pairs = (np.hstack([np.broadcast_to(r, X[rows].shape), X[rows] - r]) for r in anchors)
        return posterior_of(network.predict_log_proba(pair) for pair in pairs)

    on_test = posterior(test)
    losses = {
        name: log_loss(y[test], softmax(logits, axis=1))
        for name, logits in {
            "raw": on_test.mean,
            "temperature": TemperatureScaler().fit(posterior(valid).mean, y[valid]).transform(on_test.mean),
            "spread": SpreadScaler().fit(posterior(valid), y[valid]).transform(on_test),
        }.items()
    }
    assert losses["temperature"] < losses["raw"]
    assert losses["spread"] < losses["temperature"] + 0.005


def test_conventions_and_bad_input():
    with pytest.raises(NotFittedError):
        SpreadScaler().transform(posterior_of(np.zeros((2, 2, 2))))
    assert isinstance(clone(SpreadScaler()), SpreadScaler)
    with pytest.raises(ValueError, match="0 to 1, got 0 to 5"):
        SpreadScaler().fit(posterior_of(np.zeros((2, 2, 2))), [0, 5])
    with pytest.raises(ValueError, match="variance of the sigmoids must be finite"):
        SpreadScaler().fit(posterior_of(np.full((2, 2, 2), np.nan)), [0, 1])
