"""What methods make of logits, against the formulas written out."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import brute
from scipy.special import expit, log_softmax, softmax

from deltauq.calibration import TemperatureScaler
from deltauq.core import Posterior
from deltauq.metrics import nll
from experiments import anchoring_variants, scoring
from experiments.scoring import fit_spread_scale, fitted_spread, fitted_temperature


@pytest.fixture
def logits():
    return np.random.default_rng(0).normal(scale=3.0, size=(5, 40, 10))


def test_delta_uq_scales_every_class_by_its_own_spread(logits):
    result = scoring.spread_scaled(logits)
    variance = expit(logits).var(axis=0)
    expected = softmax(logits.mean(axis=0) * (0.5 - variance), axis=1)
    np.testing.assert_allclose(result.probabilities, expected, atol=1e-12)
    np.testing.assert_allclose(result.ood_score, -(expected * np.log(expected)).sum(axis=1), atol=1e-12)
    np.testing.assert_allclose(scoring.spread(logits), np.sqrt(variance.sum(axis=1)), atol=1e-12)


def test_without_spread_delta_uq_is_the_halved_mean(logits):
    same = np.repeat(logits[:1], 4, axis=0)
    halved = scoring.first_alone(scoring.mean_logits(0.5))(logits)
    np.testing.assert_allclose(scoring.spread_scaled(same).ood_score, halved.ood_score, atol=1e-12)


def test_duq_score():
    kernels = np.array([[0.9, 0.01], [0.4, 0.3], [1e-30, 1e-35]])
    result = scoring.largest_kernel(np.log(kernels)[None])
    assert np.argsort(result.ood_score).tolist() == np.argsort(1 - kernels.max(axis=1)).tolist() == [0, 1, 2]
    np.testing.assert_allclose(result.probabilities, kernels / kernels.sum(axis=1, keepdims=True))


def test_members_are_averaged_as_probabilities(logits):
    expected = np.mean([softmax(member, axis=1) for member in logits], axis=0)
    np.testing.assert_allclose(scoring.mean_probabilities(logits).probabilities, expected)


def images(rng, mean_scale, spread, n=600, k=8):
    """Logits whose mean over anchors has one size and whose spread another."""
    mean = rng.normal(scale=mean_scale, size=(n, 10))
    noise = rng.normal(size=(k, n, 10))
    noise -= noise.mean(axis=0)
    return mean + spread * noise


def test_fitted_score_with_information_in_sigma():
    rng = np.random.default_rng(1)
    clean = images(rng, 3.0, 0.2)
    shifted = {name: images(rng, 3.0, 0.6) for name in ("a", "b", "c")}
    result = anchoring_variants.scores(clean, shifted)
    assert result["auroc_fitted_sigma"] > 0.9 and result["auroc_sigma"] > 0.6
    assert abs(result["auroc_fitted_mean"] - 0.5) < 0.08


def test_fitted_score_without_information_in_sigma():
    rng = np.random.default_rng(2)
    clean = images(rng, 3.0, 0.3)
    shifted = {name: images(rng, 1.0, 0.3) for name in ("a", "b", "c")}
    result = anchoring_variants.scores(clean, shifted)
    assert result["auroc_half"] > 0.9
    assert result["auroc_fitted_sigma"] < result["auroc_fitted_mean"] + 0.02
    plain = anchoring_variants.scores(clean[:1], {name: k[:1] for name, k in shifted.items()})
    assert "auroc_sigma" not in plain and "auroc_fitted_sigma" not in plain


def test_calibration_uses_disjoint_halves():
    rng = np.random.default_rng(3)
    logits = rng.normal(scale=2.0, size=(4000, 10))
    classes = (softmax(logits, axis=1).cumsum(axis=1) < rng.random((4000, 1))).sum(axis=1)
    result = anchoring_variants.classifier(2 * logits[None], {"a": 2 * logits[None]}, classes)
    # Twice the true logits: halving is right, and a fitted temperature finds it.
    assert result["ece_half"] < 0.03 < result["ece_mean"]
    assert result["nll_temperature"] == pytest.approx(result["nll_half"], abs=0.003)
    assert result["nll_fitted"] == pytest.approx(result["nll_temperature"])
    assert result["ece_mean_shifted"] == pytest.approx(result["ece_mean"])


def test_scorers_are_fitted_on_held_out_images():
    rng = np.random.default_rng(3)
    truth = rng.normal(scale=2.0, size=(4000, 10))
    labels = (softmax(truth, axis=1).cumsum(axis=1) < rng.random((4000, 1))).sum(axis=1)
    # Twice the true logits: a temperature of about two; anchors that all say the same add nothing.
    logits = np.stack([2 * truth] * 3)
    for fit in (fitted_temperature, fitted_spread):
        scored = fit(logits[:, ::2], labels[::2])(logits[:, 1::2])
        np.testing.assert_allclose(scored.probabilities, softmax(truth[1::2], axis=1), atol=0.03)
    # Where anchors disagree the logits are worth nothing, and σ tells.
    noise = np.where(np.arange(4000) % 4 < 2, 5.0, 0.0)[:, None] * rng.normal(size=(10, 4000, 10))
    logits = np.stack([truth] * 10) * (noise[0, :, :1] == 0.0) + noise
    scores = [
        nll(labels[1::2], fit(logits[:, ::2], labels[::2])(logits[:, 1::2]).probabilities)
        for fit in (fitted_spread, fitted_temperature)
    ]
    assert scores[0] < scores[1] - 0.05


def mean_loss(logits, labels):
    return -np.mean(log_softmax(logits, axis=1)[np.arange(len(labels)), labels])


def scaled(posterior, temperature, decay):
    return posterior.mean * np.exp(-decay * posterior.link_var) / temperature


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
    fitted = fit_spread_scale(posterior, labels)
    np.testing.assert_allclose(fitted[0], temperature, rtol=0.06)
    np.testing.assert_allclose(fitted[1], decay, rtol=0.12)


@pytest.mark.parametrize("seed", range(3))
def test_fit_equals_brute_force_search(seed):
    posterior, labels = spread_problem(500, 1.5, 12.0, seed)
    temperature, decay = fit_spread_scale(posterior, labels)

    def loss(parameters):
        t = np.exp(-parameters[0] - parameters[1] * posterior.link_var)
        return mean_loss(posterior.mean * t, labels)

    best, least, *_ = brute(loss, [(-2.0, 3.0), (0.0, 60.0)], Ns=40, full_output=True)
    np.testing.assert_allclose(loss((np.log(temperature), decay)), least, atol=1e-6)
    np.testing.assert_allclose([np.log(temperature), decay], best, atol=0.05)


def test_informative_spread_beats_temperature():
    posterior, labels = spread_problem(1000, 1.0, 20.0, seed=1)
    fresh, truth = spread_problem(4000, 1.0, 20.0, seed=2)
    spread = mean_loss(scaled(fresh, *fit_spread_scale(posterior, labels)), truth)
    plain = mean_loss(TemperatureScaler().fit(posterior.mean, labels).transform(fresh.mean), truth)
    assert spread < plain - 0.01


def test_without_spread_it_is_temperature_scaling():
    posterior, labels = spread_problem(300, 2.0, 0.0)
    still = Posterior(
        posterior.mean, posterior.var, posterior.link_mean, 0 * posterior.link_var, link="sigmoid"
    )
    temperature = TemperatureScaler().fit(posterior.mean, labels).temperature_
    assert fit_spread_scale(still, labels) == (temperature, 0.0)


def test_uninformative_spread_is_rarely_used():
    decays = []
    for seed in range(40):
        posterior, labels = spread_problem(300, 2.0, 0.0, seed)
        temperature, decay = fit_spread_scale(posterior, labels)
        decays.append(decay)
        if decay == 0.0:
            assert temperature == TemperatureScaler().fit(posterior.mean, labels).temperature_
    assert np.mean(np.array(decays) > 0.0) <= 0.1


@given(unit=st.floats(1e-8, 1.0), seed=st.integers(0, 100))
def test_the_unit_of_the_variance_does_not_matter(unit, seed):
    posterior, labels = spread_problem(200, 1.0, 20.0, seed)
    small = Posterior(
        posterior.mean, posterior.var, posterior.link_mean, unit * posterior.link_var, link="sigmoid"
    )
    a, b = (scaled(each, *fit_spread_scale(each, labels)) for each in (posterior, small))
    np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-6)


def test_more_spread_never_means_more_confidence():
    posterior, labels = spread_problem(400, 1.0, 20.0)
    # Labels that are surest where the spread is largest would ask for a negative decay.
    contrary = Posterior(
        posterior.mean, posterior.var, posterior.link_mean, 0.25 - posterior.link_var, link="sigmoid"
    )
    assert fit_spread_scale(contrary, labels)[1] == 0.0
