import numpy as np
import pytest
import sklearn
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays
from scipy.optimize import minimize_scalar
from scipy.special import expit, log_softmax, softmax
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import load_digits
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from sklearn.utils.fixes import parse_version

from deltauq.calibration import TemperatureScaler, scale_logits
from deltauq.core import StreamingPosterior


def labels_from(proba, rng):
    """Draw a class for each row of probabilities."""
    draws = rng.random((len(proba), 1))
    return np.minimum((draws > np.cumsum(proba, axis=1)).sum(axis=1), proba.shape[1] - 1)


def problem(n=400, c=5, temperature=2.0, seed=0):
    """Logits whose right temperature is known, and labels drawn accordingly."""
    rng = np.random.default_rng(seed)
    logits = 3.0 * rng.normal(size=(n, c))
    return logits, labels_from(softmax(logits / temperature, axis=1), rng)


@given(
    seed=st.integers(0, 10_000),
    c=st.integers(2, 12),
    temperature=st.floats(0.2, 20.0),
    shift=st.floats(-100.0, 100.0),
)
def test_temperature_equals_that_of_a_search(seed, c, temperature, shift):
    logits, labels = problem(200, c, temperature, seed)
    logits = logits + shift

    def loss(log_temperature):
        return -np.mean(log_softmax(logits / np.exp(log_temperature), axis=1)[np.arange(200), labels])

    expected = minimize_scalar(loss, bounds=(-10, 10), method="bounded", options={"xatol": 1e-9})
    actual = np.log(TemperatureScaler().fit(logits, labels).temperature_)
    assert loss(actual) <= expected.fun + 1e-12
    if expected.fun < np.log(c) - 1e-3:
        np.testing.assert_allclose(actual, expected.x, atol=1e-4)


def test_a_known_temperature_is_recovered():
    logits, labels = problem(40_000, temperature=2.5)
    np.testing.assert_allclose(TemperatureScaler().fit(logits, labels).temperature_, 2.5, rtol=0.03)


def test_three_of_four_right_is_a_closed_form():
    logits = np.array([[8.0, 0.0], [8.0, 0.0], [0.0, 8.0], [8.0, 0.0]])
    scaler = TemperatureScaler().fit(logits, [0, 0, 1, 1])
    np.testing.assert_allclose(scaler.temperature_, 8.0 / np.log(3.0), rtol=1e-9)


@pytest.mark.parametrize("unit", [1e-12, 1e-6, 1.0, 1e6, 1e12])
def test_the_unit_of_the_logits_does_not_matter(unit):
    logits, labels = problem(temperature=2.5)
    expected = TemperatureScaler().fit(logits, labels).temperature_
    np.testing.assert_allclose(TemperatureScaler().fit(unit * logits, labels).temperature_, unit * expected)


def test_one_huge_row_does_not_move_the_bounds_out_of_reach():
    logits, labels = problem(temperature=2.5)
    logits, labels = np.vstack([logits, [1e9, 0, 0, 0, 0]]), np.append(labels, 0)
    expected = TemperatureScaler().fit(logits[:-1], labels[:-1]).temperature_
    np.testing.assert_allclose(TemperatureScaler().fit(logits, labels).temperature_, expected)
    wrong = TemperatureScaler().fit(logits, np.append(labels[:-1], 1)).temperature_
    assert 1e5 < wrong < 1e9 * np.exp(10.0)


@pytest.mark.skipif(
    parse_version(sklearn.__version__) < parse_version("1.8"), reason="scikit-learn has no temperature yet"
)
def test_the_temperature_is_that_of_scikit_learn():
    X, y = load_digits(return_X_y=True)
    model = LogisticRegression(max_iter=2000, C=100.0).fit(X[:600] / 16, y[:600])
    X, y = X[600:] / 16, y[600:]
    theirs = CalibratedClassifierCV(FrozenEstimator(model), method="temperature").fit(X, y)
    logits = model.decision_function(X)
    ours = softmax(TemperatureScaler().fit(logits, y).transform(logits), axis=1)
    np.testing.assert_allclose(ours, theirs.predict_proba(X), atol=1e-6)


def test_an_overconfident_model_is_calibrated_on_new_rows():
    X, y = load_digits(return_X_y=True)
    X = X / 16
    model = LogisticRegression(max_iter=2000, C=1e4).fit(X[:400], y[:400])
    scaler = TemperatureScaler().fit(model.decision_function(X[400:900]), y[400:900])
    logits = model.decision_function(X[900:])
    scaled = scaler.transform(logits)
    assert scaler.temperature_ > 1.0
    assert log_loss(y[900:], softmax(scaled, axis=1)) < log_loss(y[900:], softmax(logits, axis=1))
    np.testing.assert_array_equal(scaled.argmax(axis=1), logits.argmax(axis=1))


def test_tensors_stay_tensors():
    logits, labels = problem()
    scaler = TemperatureScaler().fit(torch.asarray(logits).requires_grad_(), torch.asarray(labels))
    assert scaler.temperature_ == TemperatureScaler().fit(logits, labels).temperature_
    scaled = scaler.transform(torch.asarray(logits, dtype=torch.float32))
    assert isinstance(scaled, torch.Tensor) and scaled.dtype == torch.float32
    np.testing.assert_allclose(scaled, logits / scaler.temperature_, rtol=1e-6)
    TemperatureScaler().fit(torch.asarray(logits, dtype=torch.bfloat16), labels)


def test_logits_that_separate_the_labels_warn():
    with pytest.warns(UserWarning, match="use more rows"):
        scaler = TemperatureScaler().fit(np.eye(3), [0, 1, 2])
    np.testing.assert_allclose(scaler.temperature_, np.exp(-10))


def test_constant_and_wrong_logits():
    assert TemperatureScaler().fit(np.full((4, 3), 0.1), [0, 1, 2, 0]).temperature_ == 1.0
    np.testing.assert_allclose(TemperatureScaler().fit(np.eye(2), [1, 0]).temperature_, np.exp(10))


@pytest.mark.parametrize(
    ("logits", "labels", "message"),
    [
        (np.zeros(3), [0, 1, 0], r"shape \(n, c\).*got \(3,\)"),
        (np.zeros((3, 1)), [0, 0, 0], r"c > 1, got \(3, 1\)"),
        (np.zeros((0, 2)), [], "n > 0"),
        (np.array([[0.0, np.nan]]), [0], "logits must be finite"),
        (np.array([["a", "b"]]), [0], "logits must be numeric"),
        (np.zeros((3, 2)), [0, 1], r"shape \(3,\), one for each row, got \(2,\)"),
        (np.zeros((3, 2)), [0, 1, 2], "0 to 1, got 0 to 2"),
        (np.zeros((3, 2)), [0, -1, 1], "got -1 to 1"),
        (np.zeros((2, 2)), [0.0, 1.0], "integers that name columns, got float64"),
    ],
)
def test_invalid_input(logits, labels, message):
    with pytest.raises(ValueError, match=message) as caught:
        TemperatureScaler().fit(logits, labels)
    assert "\n" not in str(caught.value)


def test_transform_before_fit():
    with pytest.raises(NotFittedError):
        TemperatureScaler().transform(np.zeros((1, 2)))


def posterior_of(samples, link="sigmoid"):
    """Return the posterior of samples of shape (K, n, c)."""
    stream = StreamingPosterior(link=link)
    for sample in samples:
        stream.update(sample)
    return stream.posterior()


@given(
    samples=arrays(
        np.float64, array_shapes(min_dims=3, max_dims=3, max_side=6), elements=st.floats(-50, 50, width=32)
    )
)
def test_scale_logits(samples):
    scaled = scale_logits(posterior_of(samples))
    mean = samples.mean(axis=0)
    np.testing.assert_allclose(scaled, mean * (0.5 - expit(samples).var(axis=0)), rtol=1e-9, atol=1e-9)
    assert np.all(np.abs(scaled) <= 0.5 * np.abs(mean) + 1e-9)
    assert np.all(np.abs(scaled) >= 0.25 * np.abs(mean) - 1e-9)


def test_anchors_that_agree_halve_the_logits():
    logits = np.random.default_rng(0).normal(size=(3, 4))
    np.testing.assert_array_equal(scale_logits(posterior_of([logits, logits])), logits / 2)


def test_scaled_logits_keep_type_and_precision():
    samples = torch.randn(5, 50, 4, generator=torch.Generator().manual_seed(0))
    scaled = scale_logits(posterior_of(samples))
    assert isinstance(scaled, torch.Tensor) and scaled.dtype == torch.float32
    np.testing.assert_allclose(scaled, scale_logits(posterior_of(samples.double().numpy())), rtol=1e-5)


@pytest.mark.parametrize("link", [None, "softmax"])
def test_scale_logits_requires_the_sigmoid_link(link):
    with pytest.raises(ValueError, match=rf'made with link="sigmoid".*got link={link!r}\.$'):
        scale_logits(posterior_of(np.zeros((2, 2, 2)), link))
