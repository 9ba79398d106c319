import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import brute
from scipy.special import expit, log_softmax, softmax
from sklearn.datasets import load_digits
from sklearn.metrics import log_loss
from sklearn.neural_network import MLPClassifier

from deltauq.calibration import TemperatureScaler
from deltauq.core import Posterior, StreamingPosterior
from experiments.spread_scaler import SpreadScaler


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


def test_an_informative_spread_beats_one_temperature_on_new_rows():
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


def test_an_uninformative_spread_is_hardly_ever_used():
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
