import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.stats import entropy as scipy_entropy
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import accuracy_score, brier_score_loss, log_loss
from torchmetrics.functional.classification import multiclass_calibration_error

from deltauq.metrics import accuracy, brier, calibration_curve, ece, entropy, nll

MEASURES = [accuracy, brier, ece, nll]


@pytest.fixture(scope="module")
def digits():
    """Handwritten digits that a model fitted to few of them did not see: labels and probabilities."""
    X, y = load_digits(return_X_y=True)
    model = LogisticRegression(C=1e-3, max_iter=1000).fit(X[:150], y[:150])
    return y[150:], model.predict_proba(X[150:])


def drawn(n, n_classes=3):
    """Return random probabilities and labels drawn from them: calibrated, up to chance."""
    rng = np.random.default_rng(0)
    proba = rng.dirichlet(np.ones(n_classes), size=n)
    return (rng.random(n)[:, None] > proba.cumsum(axis=1)).sum(axis=1), proba


@st.composite
def classified(draw):
    """Labels and probabilities, with ties, zeros and ones among them."""
    n, n_classes = draw(st.integers(1, 25)), draw(st.integers(2, 5))
    weights = draw(arrays(np.int64, (n, n_classes), elements=st.integers(0, 4))).astype(float)
    weights[weights.sum(axis=1) == 0] = 1.0
    y = draw(arrays(np.int64, n, elements=st.integers(0, n_classes - 1)))
    return y, weights / weights.sum(axis=1, keepdims=True)


def test_measures_agree_with_scikit_learn(digits):
    y, proba = digits
    assert 0.5 < accuracy(y, proba) < 1.0
    assert accuracy(y, proba) == accuracy_score(y, proba.argmax(axis=1))
    assert nll(y, proba) == pytest.approx(log_loss(y, proba), rel=1e-12)
    assert brier(y, proba) == pytest.approx(brier_score_loss(y, proba), rel=1e-12)


def test_brier_of_two_classes_is_twice_that_of_one(digits):
    y, proba = digits
    odd = proba[:, 1::2].sum(axis=1)
    expected = 2 * brier_score_loss(y % 2, odd)
    assert brier(y % 2, np.stack([1 - odd, odd], axis=1)) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("n_bins", [1, 7, 15, 50])
def test_ece_agrees_with_torchmetrics(digits, n_bins):
    # The model of the digits is too modest in every bin; by chance, the drawn labels err to both sides.
    for y, proba in (digits, drawn(300)):
        expected = multiclass_calibration_error(
            torch.asarray(proba), torch.asarray(y), num_classes=proba.shape[1], n_bins=n_bins, norm="l1"
        )
        # torchmetrics computes in single precision.
        assert ece(y, proba, n_bins) == pytest.approx(float(expected), abs=1e-6)


def test_entropy_agrees_with_scipy(digits):
    _, proba = digits
    np.testing.assert_allclose(entropy(proba), scipy_entropy(proba, axis=1), rtol=1e-12)
    np.testing.assert_allclose(entropy([[1, 0, 0], [1 / 3] * 3]), [0, np.log(3)])


def test_nll_clips_probabilities_as_scikit_learn_does():
    y, proba = [0, 0], [[0.0, 1.0], [1.0, 0.0]]
    assert nll(y, proba) == pytest.approx(log_loss(y, np.asarray(proba), labels=[0, 1]), rel=1e-12)
    assert str(nll([1], [[0.0, 1.0]])) == "0.0"


def test_bins_of_the_curve():
    y = [0, 0, 1, 0, 1]
    proba = [[0.5, 0.5], [0.6, 0.4], [0.75, 0.25], [0.8, 0.2], [0.0, 1.0]]
    curve = calibration_curve(y, proba, n_bins=4)
    # 0.5 and 0.75 lie on edges and count in the lower bin; nothing falls below 0.25.
    np.testing.assert_array_equal(curve.count, [0, 1, 2, 2])
    np.testing.assert_allclose(curve.confidence, [np.nan, 0.5, 0.675, 0.9])
    np.testing.assert_allclose(curve.accuracy, [np.nan, 1.0, 0.5, 1.0])
    assert ece(y, proba, n_bins=4) == pytest.approx((0.5 + 2 * 0.175 + 2 * 0.1) / 5)


@pytest.mark.parametrize("n_bins", [3, 10, 15])
def test_every_edge_counts_in_the_lower_bin(n_bins):
    # An edge such as 3/10 is not the float that adding 1/10 three times gives.
    for k in range(n_bins // 2 + 1, n_bins + 1):
        edge = k / n_bins
        assert calibration_curve([0], [[edge, 1 - edge]], n_bins).count[k - 1] == 1


def test_true_probabilities_are_calibrated():
    y, proba = drawn(50_000)
    assert ece(y, proba) < 0.01
    assert nll(y, proba) == pytest.approx(entropy(proba).mean(), abs=0.02)
    assert brier(y, proba) == pytest.approx(1 - np.mean(np.sum(proba**2, axis=1)), abs=0.02)
    # Sharper than the truth: overconfident, so accuracy falls below confidence in every bin that is filled.
    sharper = proba**3 / np.sum(proba**3, axis=1, keepdims=True)
    curve = calibration_curve(y, sharper)
    assert np.all(curve.accuracy[curve.count > 100] < curve.confidence[curve.count > 100])


@pytest.mark.parametrize("measure", MEASURES)
@given(sample=classified(), seed=st.integers(0, 99))
def test_the_order_of_rows_does_not_matter(measure, sample, seed):
    y, proba = sample
    order = np.random.default_rng(seed).permutation(len(y))
    assert measure(y[order], proba[order]) == pytest.approx(measure(y, proba), rel=1e-12, abs=1e-12)


@given(classified())
def test_bounds(sample):
    y, proba = sample
    right = accuracy(y, proba)
    confidence = proba.max(axis=1).mean()
    assert 0 <= right <= 1
    assert 0 <= brier(y, proba) <= 2
    assert nll(y, proba) >= 0
    # One bin sees only the two averages; more bins can only see more.
    assert ece(y, proba, n_bins=1) == pytest.approx(abs(right - confidence), abs=1e-12)
    assert abs(right - confidence) - 1e-12 <= ece(y, proba) <= 1
    assert np.all(entropy(proba) <= np.log(proba.shape[1]) + 1e-12)


def test_single_precision_over_many_classes():
    rng = np.random.default_rng(0)
    proba = torch.softmax(torch.asarray(10 * rng.normal(size=(100, 1000)), dtype=torch.float32), dim=1)
    assert np.isfinite(nll(torch.zeros(100, dtype=torch.int64), proba))


@pytest.mark.parametrize("measure", MEASURES)
@pytest.mark.parametrize(
    ("y", "proba", "message"),
    [
        ([0, 1], [0.5, 0.5], r"proba must have shape \(n, C\) with n > 0 and C > 1, got \(2,\)\."),
        ([0], [[1.0]], r"proba must have shape .* got \(1, 1\)\."),
        ([0, 1], [[0.5, 0.5], [0.5, 0.6]], r"rows of proba must sum to 1, but row 1 sums to 1\.1\."),
        ([0], [[1.5, -0.5]], r"Negative values in data passed to proba"),
        ([0], [[np.nan, 1.0]], r"proba contains"),
        ([2], [[0.5, 0.5]], r"y must contain class indices from 0 to 1, got 2\."),
        ([-1], [[0.5, 0.5]], r"y must contain class indices from 0 to 1, got -1\."),
        (["a"], [[0.5, 0.5]], r"y must contain class indices, which are integers, got dtype <U1\."),
        ([0.0], [[0.5, 0.5]], r"y must contain class indices, which are integers, got dtype float64\."),
        ([[0]], [[0.5, 0.5]], r"y must have shape \(n,\) with n > 0, got \(1, 1\)\."),
        ([0], [[0.5, 0.5]] * 2, "inconsistent numbers of samples"),
    ],
)
def test_invalid_input(measure, y, proba, message):
    with pytest.raises(ValueError, match=message):
        measure(y, proba)


def test_invalid_parameters():
    with pytest.raises(ValueError, match=r"n_bins must be a positive integer, got 0\."):
        ece([0], [[0.5, 0.5]], n_bins=0)
