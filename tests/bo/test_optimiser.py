"""Ask and tell: what is asked, what is kept in the file, and what is refused."""

import json
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
from deltauq.bo import AnchoredSurrogate, GPSurrogate, Optimiser, SklearnSurrogate
from deltauq.bo._optimiser import training_data
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


def test_a_model_that_needs_no_fit_is_taken_as_it_is():
    optimiser = Optimiser(SQUARE, n_initial=2, surrogate=lambda X, Y: SingleTaskGP(X, Y).eval())
    points = optimiser.ask(3)
    optimiser.tell(points, [bowl_at(x) for x in points])
    assert optimiser.ask().shape == (1, 2)


def test_asking_again_without_telling_gives_the_same_points():
    optimiser = Optimiser(SQUARE, surrogate=GPSurrogate)
    for _ in range(4):
        points = optimiser.ask(2)
        np.testing.assert_array_equal(optimiser.ask(2), points)
        np.testing.assert_array_equal(optimiser.ask(1), points[:1])
        np.testing.assert_array_equal(optimiser.ask(pending=points[0]), points[1:])
        optimiser.tell(points, [bowl_at(x) for x in points])


def test_every_step_and_every_seed_train_a_network_of_their_own():
    seeds = []

    class Noting(AnchoredSurrogate):
        def fit(self):
            seeds.append(self.recipe.seed)
            return super().fit()

    for seed in (0, 1):
        optimiser = Optimiser(
            SQUARE, surrogate=partial(Noting, recipe=Recipe(epochs=2)), n_initial=3, seed=seed
        )
        points = optimiser.ask(3)
        optimiser.tell(points, [bowl_at(x) for x in points])
        np.testing.assert_array_equal(optimiser.ask(2)[:1], optimiser.ask(1))
        optimiser.ask(1)
    assert len(seeds) == 6 and len(set(seeds)) == 4, "two points each; the first is asked again"


@pytest.mark.parametrize("surrogate", [GPSurrogate, SMALL, FOREST], ids=["gp", "anchored", "forest"])
def test_points_asked_together_are_apart(surrogate):
    optimiser = Optimiser(SQUARE, surrogate=surrogate)
    points = optimiser.ask(6)
    optimiser.tell(points, [bowl_at(x) for x in points])
    batch = optimiser.ask(3)
    distances = torch.pdist(torch.as_tensor(np.concatenate([points, batch])))
    assert distances.min() > 1e-6


def test_points_that_were_known_already_count_as_initial_ones():
    fitted = []

    def surrogate(X, Y):
        fitted.append((X, Y))
        return GPSurrogate(X, Y)

    optimiser = Optimiser([[0, 10], [2, 20]], surrogate=surrogate, n_initial=4)
    known = np.random.default_rng(0).uniform([0, 10], [2, 20], (4, 2))
    for x in known[:3]:
        optimiser.tell(x, bowl_at(x))
    optimiser.ask()
    assert not fitted
    optimiser.tell(known[3:], bowl_at(known[3]))
    optimiser.ask()
    (X, Y) = fitted[0]
    np.testing.assert_allclose(X, (known - [0, 10]) / [2, 10])
    assert Y.shape == (4, 1) and Y.std(correction=0).item() == pytest.approx(1)


@pytest.mark.parametrize("told", [[], [1.0], [1.0, None, None], [None] * 5, ["same"] * 5])
def test_with_fewer_than_two_points_that_have_values_the_next_is_drawn(told):
    optimiser = Optimiser(SQUARE, n_initial=2, surrogate=lambda X, Y: pytest.fail("nothing to be fitted to"))
    for number, value in enumerate(told):
        x = [0.5, 0.5] if value == "same" else [0.1 * number, 0.5]
        optimiser.tell(x, 1.0 if value == "same" else value)
    assert optimiser.ask().shape == (1, 2)


def test_first_points_are_uniform_within_the_bounds():
    points = Optimiser([[-1.0, 10.0], [1.0, 30.0]]).ask(400)
    shares = (points - [-1.0, 10.0]) / [2.0, 20.0]
    assert ((shares >= 0) & (shares <= 1)).all()
    np.testing.assert_allclose(shares.mean(0), 0.5, atol=4 / np.sqrt(12 * 400))
    np.testing.assert_allclose(shares.var(0), 1 / 12, atol=0.02)


def test_a_point_told_twice_is_kept_twice_and_seen_once_with_its_mean():
    optimiser = Optimiser(SQUARE, surrogate=GPSurrogate)
    for x, y in [
        ([0.5, 0.0], 1.0),
        ([0.2, 0.2], 5.0),
        ([0.5, -0.0], 3.0),
        ([0.2, 0.2], None),
        ([0.9, 0.9], None),
    ]:
        optimiser.tell(x, y)
    np.testing.assert_array_equal(optimiser.history.Y, [1.0, 5.0, 3.0, np.nan, np.nan])
    X, Y = training_data(optimiser.history)
    np.testing.assert_array_equal(X, [[0.5, 0.0], [0.2, 0.2], [0.9, 0.9]])
    expected = np.array([2.0, 5.0, 1.0])  # the failed one has the lowest value told
    np.testing.assert_allclose(Y, (expected - expected.mean()) / expected.std())
    x, value = optimiser.best
    assert value == 5.0 and list(x) == [0.2, 0.2]
    assert optimiser.ask().shape == (1, 2)


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=2, max_size=8))
def test_training_values_are_finite_and_in_order_whatever_was_told(values):
    optimiser = Optimiser([[0], [1]])
    optimiser.tell(np.linspace(0, 1, len(values))[:, None], values)
    _, Y = training_data(optimiser.history)
    assert Y.mean() == pytest.approx(0, abs=1e-9)
    assert Y.std() == pytest.approx(1 if len(set(values)) > 1 else 0, abs=1e-6)
    order = np.argsort(values, kind="stable")
    assert (np.diff(Y[order]) >= 0).all()


def test_no_point_is_pending_or_told():
    optimiser = Optimiser(SQUARE)
    optimiser.tell([], [])
    np.testing.assert_array_equal(optimiser.ask(pending=[]), optimiser.ask())


# The file.


@given(cut=st.integers(1, 60))
def test_a_half_written_line_is_dropped_and_no_other(cut, tmp_path_factory):
    path = tmp_path_factory.mktemp("cut") / "points.jsonl"
    optimiser = Optimiser(SQUARE, path=path)
    optimiser.tell(optimiser.ask(3), [0.1, None, 0.3])
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[:-1]) + lines[-1][: min(cut, len(lines[-1]) - 2)])
    resumed = Optimiser(SQUARE, path=path)
    np.testing.assert_array_equal(resumed.history.Y, [0.1, np.nan])
    resumed.tell(optimiser.history.X[2], 0.3)
    assert path.read_bytes().splitlines(keepends=True) == lines


def test_a_last_line_that_only_lacks_its_end_is_kept(tmp_path):
    path = tmp_path / "points.jsonl"
    Optimiser(SQUARE, path=path).tell([0.5, 0.5], 1.0)
    path.write_bytes(path.read_bytes().rstrip(b"\n"))
    Optimiser(SQUARE, path=path).tell([0.1, 1 / 3], 2.0)
    np.testing.assert_array_equal(Optimiser(SQUARE, path=path).history.X, [[0.5, 0.5], [0.1, 1 / 3]])


def test_the_file_says_what_it_is_of(tmp_path):
    path = tmp_path / "points.jsonl"
    path.touch()
    Optimiser(SQUARE, path=path, seed=7).tell([0.5, 0.5], 1.0)
    head, point = map(json.loads, path.read_text().splitlines())
    assert head["bounds"] == SQUARE and head["seed"] == 7 and {"botorch", "deltauq"} <= set(head["versions"])
    assert point == {"x": [0.5, 0.5], "y": 1.0}


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ({"bounds": [[0, 0], [1, 2]]}, "begun with bounds"),
        ({"bounds": [[0], [1]]}, "begun with bounds"),
        ({"seed": 1}, "begun with seed 0 and cannot go on with 1"),
    ],
)
def test_a_file_of_something_else_is_refused(words, message, tmp_path):
    path = tmp_path / "points.jsonl"
    Optimiser(SQUARE, path=path).tell([0.5, 0.5], 1.0)
    before = path.read_bytes()
    with pytest.raises(ValueError, match=message):
        Optimiser(**{"bounds": SQUARE, **words}, path=path)
    assert path.read_bytes() == before


@pytest.mark.parametrize("text", ["dear diary", "dear\ndiary", '{"a": 1}\n', "[1]\n"])
def test_a_foreign_file_is_left_as_it_is(text, tmp_path):
    path = tmp_path / "diary.txt"
    path.write_text(text)
    with pytest.raises(ValueError, match="is not the file of a maximisation"):
        Optimiser(SQUARE, path=path)
    assert path.read_text() == text


@pytest.mark.parametrize(
    "line", ["", "nonsense", "{}", '{"x": [1], "y": 0}', '{"x": [0, 1], "y": "high"}', "[]"]
)
def test_a_damaged_line_is_named(line, tmp_path):
    path = tmp_path / "points.jsonl"
    Optimiser(SQUARE, path=path).tell([[0.5, 0.5], [0.1, 0.1]], [1.0, 2.0])
    head, _, last = path.read_text().splitlines()
    path.write_text("\n".join([head, line, last]) + "\n")
    with pytest.raises(ValueError, match=r"line 2 of .* is not a point of 2 numbers"):
        Optimiser(SQUARE, path=path)


def test_a_line_that_finds_no_room_on_the_disk_leaves_no_half_of_it(tmp_path):
    resource = pytest.importorskip("resource")
    path = tmp_path / "points.jsonl"
    optimiser = Optimiser(SQUARE, path=path)
    optimiser.tell([0.5, 0.5], 1.0)
    before = path.read_bytes()
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (len(before) + 10, limits[1]))
    try:
        with pytest.raises(OSError):
            optimiser.tell([0.1, 0.2], 2.0)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert path.read_bytes() == before and optimiser.best[1] == 2.0


# Bad input.


@pytest.mark.parametrize(
    ("bounds", "message"),
    [
        ([[1, 1], [0, 0]], "each below its highest"),
        ([[0, 0], [1, 0]], "each below its highest"),
        ([[0, 1], [0, 1]], r"pairs \(low, high\): transpose them"),
        (
            [(0, 1), (0, 1), (0, 1)],
            r"shape \(2, d\), the lowest values and then the highest, got shape \(3, 2\)",
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
def test_bounds_that_are_none_are_refused(bounds, message):
    with pytest.raises(ValueError, match=message):
        Optimiser(bounds)


@pytest.mark.parametrize(
    ("x", "y", "message"),
    [
        ([0.5, 0.5], np.nan, r"the value nan at x = \[0.5, 0.5\] is not finite"),
        ([[0.5, 0.5], [0.1, 0.1]], [1.0, np.inf], r"the value inf at x = \[0.1, 0.1\]"),
        ([0.5, 0.5], "high", "a single number"),
        ([0.5, 0.5], [1.0, 2.0], "1 points were told with 2 values"),
        ([[0.5, 0.5]] * 2, 1.0, "2 points were told with 1 values"),
        ([0.5], 1.0, r"must have shape \(n, 2\), got \(1,\)"),
        ([[[0.5, 0.5]]], 1.0, r"must have shape \(n, 2\)"),
        (["a", "b"], 1.0, "must be numbers"),
        ([1.5, 0.5], 1.0, r"x = \[1.5, 0.5\] lies outside the bounds"),
        ([np.nan, 0.5], 1.0, "lies outside the bounds"),
    ],
)
def test_what_cannot_be_told_is_refused_and_changes_nothing(x, y, message):
    optimiser = Optimiser(SQUARE)
    with pytest.raises((TypeError, ValueError), match=message):
        optimiser.tell(x, y)
    assert len(optimiser.history) == 0


def test_nothing_told_has_no_best():
    optimiser = Optimiser(SQUARE)
    assert optimiser.history.X.shape == (0, 2) and optimiser.history.best_so_far.shape == (0,)
    with pytest.raises(ValueError, match="0 were evaluated"):
        _ = optimiser.best
    with pytest.raises(ValueError, match="n must be at least 1"):
        optimiser.ask(0)


def test_acquisition_functions_that_cannot_be_used_say_so():
    def told(acquisition):
        optimiser = Optimiser(SQUARE, surrogate=GPSurrogate, acquisition=acquisition)
        points = optimiser.ask(6)
        optimiser.tell(points, [bowl_at(x) for x in points])
        return optimiser

    with pytest.raises(ValueError, match="LogExpectedImprovement knows no pending points"):
        told(LogExpectedImprovement).ask(2)
    with pytest.raises(TypeError, match="must return an AcquisitionFunction, got float"):
        told(lambda model, best_f: 1.0).ask()


def test_first_points_are_not_asked_again_whatever_comes_back_first():
    optimiser = Optimiser([[0.0], [1.0]], n_initial=6, surrogate=GPSurrogate)
    asked = optimiser.ask(3)
    optimiser.tell(asked[1], 1.0)
    new = optimiser.ask(4, pending=asked[[0, 2]])
    everything = np.concatenate([asked, new])
    assert len(np.unique(everything, axis=0)) == 7


@pytest.mark.parametrize("kind", ["UpperConfidenceBound", "PosteriorMean"])
def test_acquisition_classes_without_a_best_value_are_refused(kind):
    from botorch.acquisition import analytic

    optimiser = Optimiser([[0.0], [1.0]], surrogate=GPSurrogate, acquisition=getattr(analytic, kind))
    x = np.linspace(0, 1, 6)[:, None]
    optimiser.tell(x, np.sin(5 * x[:, 0]))
    with pytest.raises(ValueError, match=f"{kind} takes no best_f"):
        optimiser.ask()


@pytest.mark.parametrize("value", [1 + 2j, np.complex128(1), 10**400])
def test_values_that_are_no_floats_are_refused(value):
    with pytest.raises(TypeError, match="single number"):
        Optimiser([[0.0], [1.0]]).tell([0.5], value)
