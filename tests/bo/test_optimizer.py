"""`Optimizer`: proposals, the file, and invalid input."""

from functools import partial

import numpy as np
import pytest
import torch

pytest.importorskip("botorch")

from botorch.acquisition import LogExpectedImprovement
from botorch.models import SingleTaskGP
from hypothesis import given
from hypothesis import strategies as st
from sklearn.ensemble import RandomForestRegressor

from deltauq import AnchoredRegressor
from deltauq.bo import AnchoredSurrogate, GPSurrogate, Optimizer, SklearnSurrogate
from deltauq.bo.optimizer import training_data
from deltauq.nn import MLP
from deltauq.nn.training import Recipe

SQUARE = [[0.0, 0.0], [1.0, 1.0]]
SMALL = partial(AnchoredSurrogate, network=partial(MLP, hidden=(32, 32)), recipe=Recipe(epochs=100, lr=1e-2))
FOREST = partial(
    SklearnSurrogate,
    regressor=AnchoredRegressor(RandomForestRegressor(10, random_state=0), n_anchors=10, random_state=0),
)


def bowl_at(x):
    return 5 - 20 * float((x[0] - 0.3) ** 2 + (x[1] - 0.6) ** 2)


# Ask and tell.


def test_surrogate_without_fit():
    optimizer = Optimizer(SQUARE, n_initial=2, surrogate=lambda X, Y: SingleTaskGP(X, Y).eval())
    points = optimizer.ask(3)
    optimizer.tell(points, [bowl_at(x) for x in points])
    assert optimizer.ask().shape == (1, 2)


def test_ask_is_repeatable():
    optimizer = Optimizer(SQUARE, surrogate=GPSurrogate)
    for _ in range(4):
        points = optimizer.ask(2)
        np.testing.assert_array_equal(optimizer.ask(2), points)
        np.testing.assert_array_equal(optimizer.ask(1), points[:1])
        np.testing.assert_array_equal(optimizer.ask(pending=points[0]), points[1:])
        optimizer.tell(points, [bowl_at(x) for x in points])


def test_networks_are_trained_with_different_seeds():
    seeds = []

    class Recording(AnchoredSurrogate):
        def fit(self):
            seeds.append(self.recipe.seed)
            return super().fit()

    for seed in (0, 1):
        optimizer = Optimizer(
            SQUARE, surrogate=partial(Recording, recipe=Recipe(epochs=2)), n_initial=3, seed=seed
        )
        points = optimizer.ask(3)
        optimizer.tell(points, [bowl_at(x) for x in points])
        np.testing.assert_array_equal(optimizer.ask(2)[:1], optimizer.ask(1))
        optimizer.ask(1)
    assert len(seeds) == 6 and len(set(seeds)) == 4  # two points each; the first is proposed again


@pytest.mark.parametrize("surrogate", [GPSurrogate, SMALL, FOREST], ids=["gp", "anchored", "forest"])
def test_points_of_one_ask_differ(surrogate):
    optimizer = Optimizer(SQUARE, surrogate=surrogate)
    points = optimizer.ask(6)
    optimizer.tell(points, [bowl_at(x) for x in points])
    batch = optimizer.ask(3)
    distances = torch.pdist(torch.as_tensor(np.concatenate([points, batch])))
    assert distances.min() > 1e-6


def test_known_points_count_as_initial():
    fitted = []

    def surrogate(X, Y):
        fitted.append((X, Y))
        return GPSurrogate(X, Y)

    optimizer = Optimizer([[0, 10], [2, 20]], surrogate=surrogate, n_initial=4)
    known = np.random.default_rng(0).uniform([0, 10], [2, 20], (4, 2))
    for x in known[:3]:
        optimizer.tell(x, bowl_at(x))
    optimizer.ask()
    assert not fitted
    optimizer.tell(known[3:], bowl_at(known[3]))
    optimizer.ask()
    (X, Y) = fitted[0]
    np.testing.assert_allclose(X, (known - [0, 10]) / [2, 10])
    assert Y.shape == (4, 1) and Y.std(correction=0).item() == pytest.approx(1)


@pytest.mark.parametrize("values", [[], [1.0], [1.0, None, None], [None] * 5, ["same"] * 5])
def test_points_are_uniform_with_fewer_than_two_values(values):
    optimizer = Optimizer(SQUARE, n_initial=2, surrogate=lambda X, Y: pytest.fail("no surrogate is needed"))
    for number, value in enumerate(values):
        x = [0.5, 0.5] if value == "same" else [0.1 * number, 0.5]
        optimizer.tell(x, 1.0 if value == "same" else value)
    assert optimizer.ask().shape == (1, 2)


def test_initial_points_are_uniform():
    points = Optimizer([[-1.0, 10.0], [1.0, 30.0]]).ask(400)
    shares = (points - [-1.0, 10.0]) / [2.0, 20.0]
    assert ((shares >= 0) & (shares <= 1)).all()
    np.testing.assert_allclose(shares.mean(0), 0.5, atol=4 / np.sqrt(12 * 400))
    np.testing.assert_allclose(shares.var(0), 1 / 12, atol=0.02)


def test_repeated_point_is_trained_on_once_with_its_mean():
    optimizer = Optimizer(SQUARE, surrogate=GPSurrogate)
    for x, y in [
        ([0.5, 0.0], 1.0),
        ([0.2, 0.2], 5.0),
        ([0.5, -0.0], 3.0),
        ([0.2, 0.2], None),
        ([0.9, 0.9], None),
    ]:
        optimizer.tell(x, y)
    np.testing.assert_array_equal(optimizer.history.Y, [1.0, 5.0, 3.0, np.nan, np.nan])
    X, Y = training_data(optimizer.history)
    np.testing.assert_array_equal(X, [[0.5, 0.0], [0.2, 0.2], [0.9, 0.9]])
    expected = np.array([2.0, 5.0, 1.0])  # the failed one is given the lowest value
    np.testing.assert_allclose(Y, (expected - expected.mean()) / expected.std())
    x, value = optimizer.best
    assert value == 5.0 and list(x) == [0.2, 0.2]
    assert optimizer.ask().shape == (1, 2)


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=2, max_size=8))
def test_training_values_are_finite_and_ordered(values):
    optimizer = Optimizer([[0], [1]])
    optimizer.tell(np.linspace(0, 1, len(values))[:, None], values)
    _, Y = training_data(optimizer.history)
    assert Y.mean() == pytest.approx(0, abs=1e-9)
    assert Y.std() == pytest.approx(1 if len(set(values)) > 1 else 0, abs=1e-6)
    order = np.argsort(values, kind="stable")
    assert (np.diff(Y[order]) >= 0).all()


def test_empty_pending_and_empty_tell():
    optimizer = Optimizer(SQUARE)
    optimizer.tell([], [])
    np.testing.assert_array_equal(optimizer.ask(pending=[]), optimizer.ask())


# Invalid input.


@pytest.mark.parametrize(
    ("bounds", "message"),
    [
        ([[1, 1], [0, 0]], "each lower bound below its upper bound"),
        ([[0, 0], [1, 0]], "each lower bound below its upper bound"),
        ([[0, 1], [0, 1]], r"pairs \(low, high\): transpose them"),
        (
            [(0, 1), (0, 1), (0, 1)],
            r"shape \(2, d\), the lower bounds and then the upper bounds, got shape \(3, 2\)",
        ),
        ([0, 1], r"got shape \(2,\)"),
        ([[], []], r"got shape \(2, 0\)"),
        ([[0, 0], [1]], "must be numbers"),
        ("unit", "must be numbers"),
        ([[0], [np.inf]], "must be finite"),
        ([[np.nan], [1]], "must be finite"),
        ([[-1e308], [1e308]], "too far apart"),
    ],
)
def test_invalid_bounds(bounds, message):
    with pytest.raises(ValueError, match=message):
        Optimizer(bounds)


@pytest.mark.parametrize(
    ("x", "y", "message"),
    [
        ([0.5, 0.5], np.nan, r"the value nan at x = \[0.5, 0.5\] is not finite"),
        ([[0.5, 0.5], [0.1, 0.1]], [1.0, np.inf], r"the value inf at x = \[0.1, 0.1\]"),
        ([0.5, 0.5], "high", "a single number"),
        ([0.5, 0.5], [1.0, 2.0], "1 points need as many values, got 2"),
        ([[0.5, 0.5]] * 2, 1.0, "2 points need as many values, got 1"),
        ([0.5], 1.0, r"must have shape \(n, 2\), got \(1,\)"),
        ([[[0.5, 0.5]]], 1.0, r"must have shape \(n, 2\)"),
        (["a", "b"], 1.0, "must be numbers"),
        ([1.5, 0.5], 1.0, r"x = \[1.5, 0.5\] lies outside the bounds"),
        ([np.nan, 0.5], 1.0, "lies outside the bounds"),
    ],
)
def test_invalid_observations_change_nothing(x, y, message):
    optimizer = Optimizer(SQUARE)
    with pytest.raises((TypeError, ValueError), match=message):
        optimizer.tell(x, y)
    assert len(optimizer.history) == 0


def test_best_without_observations_raises():
    optimizer = Optimizer(SQUARE)
    assert optimizer.history.X.shape == (0, 2) and optimizer.history.best_so_far.shape == (0,)
    with pytest.raises(ValueError, match="0 were evaluated"):
        _ = optimizer.best
    with pytest.raises(ValueError, match="n must be at least 1"):
        optimizer.ask(0)


def test_unsupported_acquisition_functions():
    def optimizer_with(acquisition):
        optimizer = Optimizer(SQUARE, surrogate=GPSurrogate, acquisition=acquisition)
        points = optimizer.ask(6)
        optimizer.tell(points, [bowl_at(x) for x in points])
        return optimizer

    with pytest.raises(ValueError, match="LogExpectedImprovement does not support pending points"):
        optimizer_with(LogExpectedImprovement).ask(2)
    with pytest.raises(TypeError, match="must return an AcquisitionFunction, got float"):
        optimizer_with(lambda model, best_f: 1.0).ask()


def test_initial_points_are_not_proposed_again():
    optimizer = Optimizer([[0.0], [1.0]], n_initial=6, surrogate=GPSurrogate)
    first = optimizer.ask(3)
    optimizer.tell(first[1], 1.0)
    new = optimizer.ask(4, pending=first[[0, 2]])
    everything = np.concatenate([first, new])
    assert len(np.unique(everything, axis=0)) == 7


@pytest.mark.parametrize("kind", ["UpperConfidenceBound", "PosteriorMean"])
def test_acquisition_class_without_best_f_raises(kind):
    from botorch.acquisition import analytic

    optimizer = Optimizer([[0.0], [1.0]], surrogate=GPSurrogate, acquisition=getattr(analytic, kind))
    x = np.linspace(0, 1, 6)[:, None]
    optimizer.tell(x, np.sin(5 * x[:, 0]))
    with pytest.raises(ValueError, match=f"{kind} takes no best_f"):
        optimizer.ask()


@pytest.mark.parametrize("value", [1 + 2j, np.complex128(1), 10**400])
def test_values_that_are_no_floats_raise(value):
    with pytest.raises(TypeError, match="single number"):
        Optimizer([[0.0], [1.0]]).tell([0.5], value)
