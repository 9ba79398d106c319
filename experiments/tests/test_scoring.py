"""What methods make of logits, against the formulas written out."""

import numpy as np
import pytest
from scipy.special import expit, softmax

from deltauq.metrics import nll
from experiments import anchoring_variants, scoring
from experiments.scoring import fitted_spread, fitted_temperature


@pytest.fixture
def logits():
    return np.random.default_rng(0).normal(scale=3.0, size=(5, 40, 10))


def test_delta_uq_scales_every_class_by_its_own_spread(logits):
    found = scoring.spread_scaled(logits)
    variance = expit(logits).var(axis=0)
    expected = softmax(logits.mean(axis=0) * (0.5 - variance), axis=1)
    np.testing.assert_allclose(found.probabilities, expected, atol=1e-12)
    np.testing.assert_allclose(found.ood_score, -(expected * np.log(expected)).sum(axis=1), atol=1e-12)
    np.testing.assert_allclose(scoring.spread(logits), np.sqrt(variance.sum(axis=1)), atol=1e-12)


def test_without_spread_delta_uq_is_the_halved_mean(logits):
    same = np.repeat(logits[:1], 4, axis=0)
    halved = scoring.first_alone(scoring.mean_logits(0.5))(logits)
    np.testing.assert_allclose(scoring.spread_scaled(same).ood_score, halved.ood_score, atol=1e-12)


def test_duq_doubts_what_is_far_from_all_classes():
    kernels = np.array([[0.9, 0.01], [0.4, 0.3], [1e-30, 1e-35]])
    found = scoring.largest_kernel(np.log(kernels)[None])
    assert np.argsort(found.ood_score).tolist() == np.argsort(1 - kernels.max(axis=1)).tolist() == [0, 1, 2]
    np.testing.assert_allclose(found.probabilities, kernels / kernels.sum(axis=1, keepdims=True))


def test_members_are_averaged_as_probabilities(logits):
    expected = np.mean([softmax(member, axis=1) for member in logits], axis=0)
    np.testing.assert_allclose(scoring.mean_probabilities(logits).probabilities, expected)


def images(rng, mean_scale, spread, n=600, k=8):
    """Logits whose mean over anchors has one size and whose spread another."""
    mean = rng.normal(scale=mean_scale, size=(n, 10))
    noise = rng.normal(size=(k, n, 10))
    noise -= noise.mean(axis=0)
    return mean + spread * noise


def test_a_fitted_score_finds_what_only_sigma_says():
    rng = np.random.default_rng(1)
    clean = images(rng, 3.0, 0.2)
    shifted = {name: images(rng, 3.0, 0.6) for name in ("a", "b", "c")}
    found = anchoring_variants.scores(clean, shifted)
    assert found["auroc_fitted_sigma"] > 0.9 and found["auroc_sigma"] > 0.6
    assert abs(found["auroc_fitted_mean"] - 0.5) < 0.08


def test_a_fitted_score_gains_nothing_where_sigma_says_nothing():
    rng = np.random.default_rng(2)
    clean = images(rng, 3.0, 0.3)
    shifted = {name: images(rng, 1.0, 0.3) for name in ("a", "b", "c")}
    found = anchoring_variants.scores(clean, shifted)
    assert found["auroc_half"] > 0.9
    assert found["auroc_fitted_sigma"] < found["auroc_fitted_mean"] + 0.02
    plain = anchoring_variants.scores(clean[:1], {name: k[:1] for name, k in shifted.items()})
    assert "auroc_sigma" not in plain and "auroc_fitted_sigma" not in plain


def test_calibration_is_fitted_on_one_half_and_measured_on_the_other():
    rng = np.random.default_rng(3)
    logits = rng.normal(scale=2.0, size=(4000, 10))
    classes = (softmax(logits, axis=1).cumsum(axis=1) < rng.random((4000, 1))).sum(axis=1)
    found = anchoring_variants.classifier(2 * logits[None], {"a": 2 * logits[None]}, classes)
    # Twice the true logits: halving is right, and a fitted temperature finds it.
    assert found["ece_half"] < 0.03 < found["ece_mean"]
    assert found["nll_temperature"] == pytest.approx(found["nll_half"], abs=0.003)
    assert found["nll_fitted"] == pytest.approx(found["nll_temperature"])
    assert found["ece_mean_shifted"] == pytest.approx(found["ece_mean"])


def test_judges_are_fitted_on_images_held_out():
    rng = np.random.default_rng(3)
    truth = rng.normal(scale=2.0, size=(4000, 10))
    labels = (softmax(truth, axis=1).cumsum(axis=1) < rng.random((4000, 1))).sum(axis=1)
    # Twice the true logits: a temperature of about two; anchors that all say the same add nothing.
    logits = np.stack([2 * truth] * 3)
    for fit in (fitted_temperature, fitted_spread):
        judged = fit(logits[:, ::2], labels[::2])(logits[:, 1::2])
        np.testing.assert_allclose(judged.probabilities, softmax(truth[1::2], axis=1), atol=0.03)
    # Where anchors disagree the logits are worth nothing, and σ tells.
    noise = np.where(np.arange(4000) % 4 < 2, 5.0, 0.0)[:, None] * rng.normal(size=(10, 4000, 10))
    logits = np.stack([truth] * 10) * (noise[0, :, :1] == 0.0) + noise
    scores = [
        nll(labels[1::2], fit(logits[:, ::2], labels[::2])(logits[:, 1::2]).probabilities)
        for fit in (fitted_spread, fitted_temperature)
    ]
    assert scores[0] < scores[1] - 0.05
