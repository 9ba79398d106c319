"""`maximize`: optima, resuming from a file, failures of the objective."""

import os
import pickle
import signal
import subprocess
import sys
import time
from functools import partial

import numpy as np
import pytest
import torch

pytest.importorskip("botorch")

from botorch.acquisition import LogExpectedImprovement, qUpperConfidenceBound
from sklearn.ensemble import RandomForestRegressor

from deltauq import AnchoredRegressor
from deltauq.bo import (
    AnchoredSurrogate,
    GPSurrogate,
    OptimizationError,
    Optimizer,
    SklearnSurrogate,
    maximize,
)
from deltauq.nn import MLP
from deltauq.nn.training import Recipe

SQUARE = [[0.0, 0.0], [1.0, 1.0]]
SMALL = partial(AnchoredSurrogate, network=partial(MLP, hidden=(32, 32)), recipe=Recipe(epochs=100, lr=1e-2))
FOREST = partial(
    SklearnSurrogate,
    regressor=AnchoredRegressor(RandomForestRegressor(10, random_state=0), n_anchors=10, random_state=0),
)
search = partial(maximize, bounds=SQUARE, surrogate=GPSurrogate)


def bowl_at(x):
    return 5 - 20 * float((x[0] - 0.3) ** 2 + (x[1] - 0.6) ** 2)


class Objective:
    """A bowl that records its points and fails at one evaluation."""

    def __init__(self, wrong_at=None, result=None):
        self.points = []
        self.wrong_at = wrong_at
        self.result = result

    def __call__(self, x):
        self.points.append(x.copy())
        if len(self.points) - 1 == self.wrong_at:
            if isinstance(self.result, Exception):
                raise self.result
            return self.result
        value = bowl_at(x)
        x[:] = np.nan  # an objective may change its point
        return value


# Optima.


def test_gp_finds_optimum():
    history = search(bowl_at, n_steps=10)
    np.testing.assert_allclose(history.x, [0.3, 0.6], atol=0.02)
    assert history.value == bowl_at(history.x) == history.Y.max() and len(history) == 16
    np.testing.assert_array_equal(history.best_so_far, np.maximum.accumulate(history.Y))


def test_anchored_network_improves_on_initial_points():
    history = search(bowl_at, n_steps=5, surrogate=SMALL, seed=3)
    assert history.value > history.Y[:6].max()


@pytest.mark.slow
def test_default_surrogate_finds_optimum():
    history = maximize(bowl_at, SQUARE, 14)
    assert history.value > 4.9


def test_surrogate_without_gradients():
    history = search(bowl_at, n_steps=8, surrogate=FOREST, seed=3)
    assert history.value > history.Y[:6].max() + 0.2


def test_bounds_of_different_scale():
    low, high = np.array([-1e6, 1e-9]), np.array([3e6, 2e-9])
    history = maximize(lambda x: bowl_at((x - low) / (high - low)), [low, high], 10, surrogate=GPSurrogate)
    np.testing.assert_allclose((history.x - low) / (high - low), [0.3, 0.6], atol=0.02)


def test_optimum_in_a_corner_is_proposed_once():
    history = search(lambda x: x.sum(), n_steps=6)
    np.testing.assert_array_equal(history.x, [1.0, 1.0])
    assert len(np.unique(history.X, axis=0)) == len(history)


def test_one_dimension():
    history = maximize(lambda x: -((x[0] - 0.7) ** 2), [[0], [1]], 6, surrogate=GPSurrogate)
    assert history.x == pytest.approx([0.7], abs=0.02)


@pytest.mark.parametrize(
    "acquisition", [LogExpectedImprovement, lambda model, best_f: qUpperConfidenceBound(model, beta=2.0)]
)
def test_botorch_acquisition_functions(acquisition):
    history = search(bowl_at, n_steps=6, acquisition=acquisition)
    assert history.value > 4.8


def test_float32_surrogate():
    def single(X, Y):
        assert X.dtype == Y.dtype == torch.float64 and Y.shape == (len(X), 1)
        return SMALL(X.float(), Y.float())

    history = search(bowl_at, n_steps=2, surrogate=single)
    assert history.X.dtype == np.float64 and len(history) == 8


@pytest.mark.parametrize("surrogate", [GPSurrogate, SMALL, FOREST], ids=["gp", "anchored", "forest"])
@pytest.mark.parametrize(
    "f",
    [
        lambda x: 1.0,
        lambda x: 1e308 * np.sin(9 * x.sum()),
        lambda x: 1e308,
        lambda x: 1e-300 * x.sum(),
        lambda x: 1e12 + x.sum(),
        lambda x: -1e30 if x[0] < 0.5 else x[1],
    ],
    ids=["constant", "huge", "huge constant", "tiny", "offset", "cliff"],
)
def test_values_of_any_size(f, surrogate):
    history = search(f, n_steps=2, surrogate=surrogate)
    assert len(np.unique(history.X, axis=0)) == 8 and np.isfinite(history.X).all()


@pytest.mark.parametrize("factor", [2.0**-900, 2.0**900])
def test_points_do_not_depend_on_scale_of_values(factor):
    plain, scaled = (search(lambda x, by=by: by * bowl_at(x), n_steps=2) for by in (1.0, factor))
    np.testing.assert_array_equal(scaled.X, plain.X)


# Seeds and resuming.


def test_seed():
    state = torch.get_rng_state()
    first, again, other = (search(bowl_at, n_steps=2, seed=seed) for seed in (3, 3, 4))
    assert torch.equal(torch.get_rng_state(), state)
    np.testing.assert_array_equal(first.X, again.X)
    assert not np.isin(first.X, other.X).any()


def test_resumed_run_continues_with_same_points(tmp_path):
    whole = search(bowl_at, n_steps=4, path=tmp_path / "whole.jsonl")
    search(bowl_at, n_steps=1, path=tmp_path / "new" / "parts.jsonl")
    rest = Objective()
    parts = search(rest, n_steps=4, path=tmp_path / "new" / "parts.jsonl")
    np.testing.assert_array_equal(parts.X, whole.X)
    np.testing.assert_array_equal(parts.Y, whole.Y)
    np.testing.assert_array_equal(rest.points, whole.X[7:])
    finished = Objective()
    assert len(search(finished, n_steps=4, path=tmp_path / "whole.jsonl")) == 10 and not finished.points


SCRIPT = """
import sys, time, torch
from deltauq.bo import GPSurrogate, maximize
torch.set_num_threads(1)
def f(x):
    time.sleep(0.02)
    return 5 - 20 * float((x[0] - 0.3) ** 2 + (x[1] - 0.6) ** 2)
maximize(f, [[0.0, 0.0], [1.0, 1.0]], 40, surrogate=GPSurrogate, path=sys.argv[1])
"""


@pytest.mark.slow
def test_killed_process_resumes_with_same_points(tmp_path):
    path = tmp_path / "points.jsonl"
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    process = subprocess.Popen([sys.executable, "-c", SCRIPT, str(path)], env=environment)
    try:
        patience = time.monotonic() + 300
        while not path.exists() or path.read_bytes().count(b"\n") < 9:
            assert process.poll() is None and time.monotonic() < patience
            time.sleep(0.01)
    finally:
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
    n_kept = path.read_bytes().count(b"\n") - 1
    assert 8 <= n_kept < 46
    rest = Objective()
    resumed = search(rest, n_steps=n_kept, path=path)
    assert len(rest.points) == 6
    whole = search(bowl_at, n_steps=n_kept)
    np.testing.assert_array_equal(resumed.X, whole.X)
    np.testing.assert_array_equal(resumed.Y, whole.Y)


def test_write_error_keeps_history(tmp_path):
    path = tmp_path / "points.jsonl"

    def remove_the_file(x):
        path.unlink()
        return 1.0

    with pytest.raises(OptimizationError, match="could not be written") as caught:
        search(remove_the_file, path=path)
    assert caught.value.history.value == 1.0


# Failures.

FAILURES = {
    "raises": (RuntimeError("the pump\nleaks"), "RuntimeError: the pump leaks"),
    "NaN": (float("nan"), "the value is nan"),
    "infinite": (np.inf, "the value is inf"),
    "None": (None, "a value must be a single number, got None"),
    "text": ("0.5", "a value must be a single number, got '0.5'"),
    "array": (np.ones((2, 1)), r"a single number, got an array of shape \(2, 1\)"),
    "ragged": ([1, [2]], "a single number"),
    "complex": (1j, "a single number"),
}


@pytest.mark.parametrize("failure", FAILURES)
def test_failure_raises_with_point_and_history(failure, tmp_path):
    result, message = FAILURES[failure]
    objective = Objective(wrong_at=4, result=result)
    path = tmp_path / "points.jsonl"
    with pytest.raises(OptimizationError, match=message) as caught:
        search(objective, n_steps=1, path=path)
    error = caught.value
    np.testing.assert_array_equal(error.x, objective.points[4])
    np.testing.assert_array_equal(error.history.X, objective.points[:4])
    assert all(repr(float(number)) in str(error) for number in error.x) and "\n" not in str(error)
    # The same call evaluates that point again, and continues as without a failure.
    np.testing.assert_array_equal(search(bowl_at, n_steps=1, path=path).X, search(bowl_at, n_steps=1).X)


@pytest.mark.parametrize("failure", FAILURES)
def test_failure_is_skipped(failure, tmp_path):
    objective = Objective(wrong_at=4, result=FAILURES[failure][0])
    path = tmp_path / "points.jsonl"
    history = search(objective, n_steps=2, path=path, on_failure="skip")
    np.testing.assert_array_equal(np.isnan(history.Y), np.arange(8) == 4)
    assert np.isfinite(history.best_so_far).all() and "1 of them failed" in repr(history)
    again = Optimizer(SQUARE, path=path, surrogate=GPSurrogate).history
    np.testing.assert_array_equal(again.X, history.X)
    np.testing.assert_array_equal(again.Y, history.Y)


def test_neighbourhood_of_failures_is_avoided():
    def left_half(x):
        if x[0] > 0.5:
            raise RuntimeError("too hot")
        return x.sum()

    history = search(left_half, n_steps=8, on_failure="skip")
    assert history.value > 1.3
    assert len(np.unique(history.X.round(4), axis=0)) == len(history)


def test_only_failures_have_no_best_point():
    history = search(lambda x: None, n_steps=2, on_failure="skip")
    assert len(history) == 8 and repr(history) == "<History: 8 points, 8 of them failed>"
    with pytest.raises(ValueError, match="8 were evaluated, and none has a value"):
        _ = history.x


def test_failing_surrogate_keeps_history():
    def broken(X, Y):
        raise RuntimeError("singular")

    with pytest.raises(
        OptimizationError, match="no next point after 6 evaluations: RuntimeError: singular"
    ) as caught:
        search(bowl_at, surrogate=broken)
    assert len(caught.value.history) == 6 and caught.value.x is None


def test_error_can_be_pickled():
    with pytest.raises(OptimizationError) as caught:
        search(Objective(wrong_at=3, result=np.nan))
    copy = pickle.loads(pickle.dumps(caught.value))
    assert str(copy) == str(caught.value) and len(copy.history) == 3


# Bad input.


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"f": 3.0}, "f must be a function"),
        ({"n_steps": -1}, "n_steps must be at least 0"),
        ({"n_steps": 2.5}, "n_steps must be an integer"),
        ({"n_initial": 1}, "n_initial must be at least 2"),
        ({"n_initial": True}, "n_initial must be an integer"),
        ({"seed": -1}, "seed must be at least 0"),
        ({"surrogate": "gp"}, "surrogate must be a function"),
        ({"acquisition": "ei"}, r"acquisition must be one of \['logei'\] or a function"),
        ({"on_failure": "ignore"}, "on_failure must be"),
    ],
)
def test_invalid_parameters(options, message):
    with pytest.raises((TypeError, ValueError), match=message):
        search(**{"f": bowl_at, **options})


def test_fitted_model_as_surrogate_raises(bowl):
    with pytest.raises(TypeError, match="got GPSurrogate"):
        search(bowl_at, surrogate=GPSurrogate(*bowl))


# Progress and plot.


def test_progress_callable():
    seen = []
    search(bowl_at, n_steps=1, progress=lambda done, total: seen.append((done, total)))
    assert seen == [(done, 7) for done in range(8)]


@pytest.mark.parametrize("progress", [True, False])
def test_progress_is_silent_without_terminal(progress, capsys):
    search(bowl_at, n_steps=0, progress=progress)
    assert capsys.readouterr() == ("", "")


def test_progress_without_rich(capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "rich.progress", None)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    search(bowl_at, n_steps=0)
    assert capsys.readouterr().err.endswith("\r6 of 6 evaluations\n")


def test_plot():
    pytest.importorskip("plotly")
    optimizer = Optimizer(SQUARE, n_initial=2)
    optimizer.tell(optimizer.ask(5), [None, 1.0, 3.0, None, 2.0])
    points, stairs = optimizer.history.plot().data
    np.testing.assert_array_equal(points.y, [np.nan, 1.0, 3.0, np.nan, 2.0])
    np.testing.assert_array_equal(stairs.y, [np.nan, 1.0, 3.0, 3.0, 3.0])
    assert list(stairs.x) == [1, 2, 3, 4, 5] and stairs.line.shape == "hv"
