from itertools import permutations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from sklearn.datasets import load_diabetes
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, WhiteKernel

from deltauq.metrics import aurc, ause, risk_coverage


@st.composite
def losses(draw, max_rows=40):
    """Losses and uncertainties, drawn from few values so that ties are common."""
    n = draw(st.integers(1, max_rows))
    loss, uncertainty = (arrays(np.int64, n, elements=st.integers(0, top)) for top in (10, 4))
    return draw(loss) / 4, draw(uncertainty) / 2


def risks_in_order(loss):
    """Return the mean loss of the first 1, 2, …, n rows."""
    return np.array([np.mean(loss[:k]) for k in range(1, len(loss) + 1)])


def test_the_curve_without_ties_is_the_running_mean():
    rng = np.random.default_rng(0)
    loss, uncertainty = rng.random(50), rng.permutation(50)
    coverage, risk = risk_coverage(loss, uncertainty)
    np.testing.assert_allclose(coverage, np.arange(1, 51) / 50)
    np.testing.assert_allclose(risk, risks_in_order(loss[np.argsort(uncertainty)]))
    assert aurc(loss, uncertainty) == pytest.approx(risk.mean(), rel=1e-12)


@given(losses(max_rows=5))
def test_ties_give_the_mean_over_all_ways_to_break_them(rows):
    loss, uncertainty = rows
    orders = [list(order) for order in permutations(range(len(loss)))]
    sorted_orders = [order for order in orders if np.all(np.diff(uncertainty[order]) >= 0)]
    expected = np.mean([risks_in_order(loss[order]) for order in sorted_orders], axis=0)
    np.testing.assert_allclose(risk_coverage(loss, uncertainty)[1], expected, atol=1e-12)


@given(rows=losses(), seed=st.integers(0, 99))
def test_invariance_to_row_order_and_scale(rows, seed):
    loss, uncertainty = rows
    order = np.random.default_rng(seed).permutation(len(loss))
    expected = aurc(loss, uncertainty)
    assert aurc(loss[order], uncertainty[order]) == pytest.approx(expected, abs=1e-12)
    assert aurc(loss, np.exp(uncertainty)) == pytest.approx(expected, abs=1e-12)


@given(losses())
def test_risk_coverage_of_best_and_worst_order(rows):
    loss, uncertainty = rows
    assert aurc(loss, loss) - 1e-12 <= aurc(loss, uncertainty) <= aurc(loss, -loss) + 1e-12
    assert aurc(loss, np.ones(len(loss))) == pytest.approx(loss.mean(), abs=1e-12)
    assert ause(loss, loss) == 0.0
    assert ause(loss, uncertainty) >= 0.0
    assert ause(8 * loss, uncertainty) == pytest.approx(ause(loss, uncertainty), abs=1e-12)


def test_ause_in_a_case_that_can_be_done_by_hand():
    # Kept from the most certain: risks 1, 1/2; the best order gives 0, 1/2; the mean loss is 1/2.
    assert ause([1.0, 0.0], [0.1, 0.2]) == pytest.approx((0.75 - 0.25) / 0.5)
    assert ause([0.0, 0.0], [0.1, 0.2]) == 0.0


def test_distance_to_the_data_is_better_than_a_random_order():
    X, y = load_diabetes(return_X_y=True)
    # Fitted to one end of a feature, so that the other end is far from the data.
    inside = X[:, 2] < 0
    model = GaussianProcessRegressor(RBF(0.1) + WhiteKernel(0.5), optimizer=None, normalize_y=True)
    mean, std = model.fit(X[inside][::2], y[inside][::2]).predict(X, return_std=True)
    loss = np.abs(y - mean)
    assert aurc(loss, std) < loss.mean()
    rng = np.random.default_rng(0)
    assert ause(loss, std) < min(ause(loss, rng.random(len(loss))) for _ in range(20))


def test_invalid_input():
    with pytest.raises(ValueError, match=r"inconsistent numbers of samples"):
        aurc([1.0, 2.0], [1.0])
    with pytest.raises(ValueError, match=r"uncertainty contains"):
        risk_coverage([1.0], [np.inf])
    with pytest.raises(ValueError, match="Negative values in data passed to loss"):
        ause([-1.0], [1.0])
