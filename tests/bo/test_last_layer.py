"""The last layer in closed form: scikit-learn's ridge regression is the oracle, points truly left out."""

import numpy as np
import pytest
import torch
from sklearn.linear_model import Ridge
from torch import Tensor, nn

pytest.importorskip("botorch")

from deltauq.bo._last_layer import LeftOut, refit

K, N, WIDTH = 3, 7, 5


def make_net(width: int = WIDTH, m: int = 1) -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, width), nn.Tanh(), nn.Linear(width, m)).double()


@pytest.fixture
def rows() -> Tensor:
    return torch.randn(K * N, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(1))


@pytest.fixture
def values() -> Tensor:
    return torch.randn(N, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(2))


def as_ridge(features: np.ndarray, ridge: float) -> Ridge:
    """Return scikit-learn's regression with the same penalty."""
    square = ((features - features.mean(0)) ** 2).sum() / min(features.shape)
    return Ridge(alpha=ridge * square)


@pytest.mark.parametrize("width", [WIDTH, 40], ids=["fewer features than rows", "more"])
def test_the_layer_is_that_of_ridge_regression(rows: Tensor, values: Tensor, width: int) -> None:
    net = make_net(width, m=2)
    features = net[:2](rows).detach().numpy()
    refit(net, rows, values, [1e-3])
    expected = as_ridge(features, 1e-3).fit(features, values.repeat(K, 1)).predict(features)
    np.testing.assert_allclose(net(rows).detach(), expected, atol=1e-10)


@pytest.mark.parametrize("width", [WIDTH, 40], ids=["fewer features than rows", "more"])
def test_errors_are_those_at_points_left_out_under_all_their_anchors(
    rows: Tensor, values: Tensor, width: int
) -> None:
    net = make_net(width, m=2)
    features, targets = net[:2](rows).detach().numpy(), values.repeat(K, 1).numpy()
    errors = refit(net, rows, values, [1e-3]).errors
    for point in range(N):
        mine = np.arange(K * N) % N == point
        model = as_ridge(features, 1e-3).fit(features[~mine], targets[~mine])
        expected = targets[mine] - model.predict(features[mine])
        # The penalty is that of all rows, in both.
        np.testing.assert_allclose(errors[:, point], expected, atol=1e-8)


def test_enough_features_and_little_ridge_go_through_all_points(rows: Tensor, values: Tensor) -> None:
    net = make_net(60, m=2)
    refit(net, rows, values, [1e-10])
    torch.testing.assert_close(net(rows), values.repeat(K, 1), atol=1e-4, rtol=0)


def test_of_several_penalties_the_least_surprising_is_taken(rows: Tensor, values: Tensor) -> None:
    ridges = [1e-6, 1e-3, 1.0]
    surprises = [refit(make_net(m=2), rows, values, [ridge]).surprise for ridge in ridges]
    net, best = make_net(m=2), make_net(m=2)
    assert refit(net, rows, values, ridges).surprise == min(surprises)
    refit(best, rows, values, [ridges[int(np.argmin(surprises))]])
    assert torch.equal(net[2].weight, best[2].weight)


def test_the_factor_makes_errors_as_large_as_the_spread_says() -> None:
    generator = torch.Generator().manual_seed(0)
    spread = 0.1 * torch.randn(10, 5000, 1, dtype=torch.float64, generator=generator)
    spread -= spread.mean(0)
    true = 3.0 * spread.std(0, correction=0) * torch.randn(5000, 1, dtype=torch.float64, generator=generator)
    assert LeftOut(spread + true).factor.item() == pytest.approx(3.0, rel=0.05)


def test_larger_errors_are_a_larger_surprise() -> None:
    errors = torch.randn(4, 6, 1, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    assert LeftOut(10 * errors).surprise == pytest.approx(LeftOut(errors).surprise + np.log(10), abs=1e-6)


def test_functions_that_agree_everywhere_are_no_division_by_zero() -> None:
    left_out = LeftOut(torch.full((3, 4, 1), 0.5, dtype=torch.float64))
    assert left_out.factor.isfinite().all() and np.isfinite(left_out.surprise)


def test_a_network_without_a_linear_layer_is_refused(rows: Tensor, values: Tensor) -> None:
    with pytest.raises(ValueError, match="needs a linear layer"):
        refit(nn.Sequential(nn.Tanh()), rows, values, [1e-3])
