"""A Ray cluster of two nodes: workers, a node and the driver are killed, and no row is lost or repeated."""

import os
import signal
import subprocess
import sys
import time
from functools import partial
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import pandas as pd
import pytest

from deltauq.distributed import ClusterError, predict_parts, run_on_ray
from deltauq.distributed.prediction import MANIFEST
from experiments import Experiment, Outcome, ResultStore, run_experiment

pytestmark = pytest.mark.slow

spec = spec_from_file_location("recording", Path(__file__).with_name("recording.py"))
recording = module_from_spec(spec)
spec.loader.exec_module(recording)


@pytest.fixture
def log(tmp_path):
    folder = tmp_path / "log"
    folder.mkdir()
    return folder


def joined(out):
    return pd.concat([pd.read_parquet(path) for path in sorted(out.glob("part-*"))], ignore_index=True)


def check_complete(out, expected):
    """Check that the folder contains all rows once, as on a single machine, and no other files."""
    assert sorted(path.name for path in out.iterdir()) == [
        MANIFEST,
        *(f"part-{k:06d}.parquet" for k in range(9)),
    ]
    pd.testing.assert_frame_equal(joined(out), expected, check_exact=True)


def predict(cluster, model, rows, out, log, seconds, progress=None):
    def run(work, tasks):
        return run_on_ray(recording.recorded(work, log, seconds), tasks, address=cluster.address)

    return predict_parts(model, rows / "*.parquet", out, keep=["id"], run=run, progress=progress)


def test_killed_worker(cluster, model, rows, expected, log, tmp_path):
    killed = []

    def progress(done, total):
        if not killed:
            killed.append(recording.kill_running_task(log))

    done = predict(cluster, model, rows, tmp_path / "out", log, 0.5, progress)
    check_complete(tmp_path / "out", expected)
    attempts = recording.attempts(log)
    assert done.rows == len(expected) and len(attempts) == 9
    assert [task for task, pids in attempts.items() if len(pids) > 1] == killed
    # A worker runs many parts with the model it has loaded: one was killed and replaced.
    assert len({pid for pids in attempts.values() for pid in pids}) == 3


def test_killed_node(cluster, model, rows, expected, log, tmp_path):
    killed = []

    def progress(done, total):
        if not killed:
            # A machine that dies finishes no task; a worker whose node is gone might.
            task, pid = recording.stop_running_task(log, cluster.second.node_id)
            killed.append(task)
            cluster.remove_node(cluster.second, allow_graceful=False)
            os.kill(pid, signal.SIGKILL)

    done = predict(cluster, model, rows, tmp_path / "out", log, 0.5, progress)
    check_complete(tmp_path / "out", expected)
    assert done.rows == len(expected)
    assert [task for task, pids in recording.attempts(log).items() if len(pids) > 1] == killed


def squares(log, n=10, fails=None):
    def run(cell, profile):
        if cell["seed"] == fails:
            raise ArithmeticError("no luck")
        return Outcome({"value": cell["seed"] ** 2})

    recorded = recording.recorded(lambda cell: run(cell, "quick"), log, 0.3)
    cells = [{"seed": seed} for seed in range(n)]
    return Experiment("squares", 1, "Squares", lambda profile: cells, lambda cell, profile: recorded(cell))


def test_killed_worker_of_experiment(cluster, log, tmp_path):
    store = ResultStore(tmp_path / "squares.jsonl")
    killed = []
    for line in run_experiment(squares(log), store, run_tasks=partial(run_on_ray, address=cluster.address)):
        assert line.hardware
        if not killed:
            killed.append(recording.kill_running_task(log))
    assert sorted((line.cell["seed"], line.metrics["value"]) for line in store) == [
        (seed, seed**2) for seed in range(10)
    ]
    assert [task for task, pids in recording.attempts(log).items() if len(pids) > 1] == killed


def test_retries(cluster, log, tmp_path):
    run = partial(run_on_ray, address=cluster.address)
    store = ResultStore(tmp_path / "squares.jsonl")
    with pytest.raises(ArithmeticError, match=r"^no luck$"):
        list(run_experiment(squares(log, 2, fails=1), store, run_tasks=run))
    assert len(recording.attempts(log)["1"]) == 1

    def fatal(task):
        (log / f"fatal~{os.getpid()}").touch()
        os.kill(os.getpid(), signal.SIGKILL)

    with pytest.raises(ClusterError, match=r"Ray gave up on \{'seed': 7\} after 3 retries: "):
        list(run(fatal, [{"seed": 7}]))
    assert len(recording.attempts(log)["fatal"]) == 4


DRIVER = """
import sys
from functools import partial
from importlib.util import module_from_spec, spec_from_file_location
spec = spec_from_file_location("recording", sys.argv[1])
recording = module_from_spec(spec)
spec.loader.exec_module(recording)
from deltauq.distributed import predict_parts, run_on_ray
def run(work, tasks):
    return run_on_ray(recording.recorded(work, sys.argv[6], 0.5), tasks, address=sys.argv[2])
predict_parts(sys.argv[3], sys.argv[4] + "/*.parquet", sys.argv[5], keep=["id"], run=run)
"""


def test_killed_driver(cluster, model, rows, expected, log, tmp_path):
    out = tmp_path / "out"
    arguments = [recording.__file__, cluster.address, model, rows, out, log]
    with subprocess.Popen([sys.executable, "-c", DRIVER, *map(str, arguments)]) as driver:
        deadline = time.monotonic() + 120
        while len(list(out.glob("part-*"))) < 3 and time.monotonic() < deadline:
            time.sleep(0.05)
        driver.kill()
    time.sleep(3)  # its last tasks may still end
    finished = {path.name: path.stat().st_mtime_ns for path in out.glob("part-*")}
    assert 3 <= len(finished) < 9 and not (out / MANIFEST).exists()
    second = tmp_path / "second"
    second.mkdir()
    done = predict(cluster, model, rows, out, second, 0.0)
    check_complete(out, expected)
    assert done.rows == len(expected)
    assert recording.attempts(second).keys().isdisjoint(finished)
    assert all((out / name).stat().st_mtime_ns == when for name, when in finished.items())
