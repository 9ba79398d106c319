"""On a Ray cluster of two nodes: workers, a node and the driver are killed, and nothing is lost or twice."""

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

spec = spec_from_file_location("watching", Path(__file__).with_name("watching.py"))
watching = module_from_spec(spec)
spec.loader.exec_module(watching)


@pytest.fixture
def log(tmp_path):
    folder = tmp_path / "log"
    folder.mkdir()
    return folder


def joined(out):
    return pd.concat([pd.read_parquet(path) for path in sorted(out.glob("part-*"))], ignore_index=True)


def check_complete(out, expected):
    """All rows, each once, as on a single machine, and nothing else in the folder."""
    assert sorted(path.name for path in out.iterdir()) == [
        MANIFEST,
        *(f"part-{k:06d}.parquet" for k in range(9)),
    ]
    pd.testing.assert_frame_equal(joined(out), expected, check_exact=True)


def predict(cluster, model, rows, out, log, seconds, progress=None):
    def run(work, tasks):
        return run_on_ray(watching.watched(work, log, seconds), tasks, address=cluster.address)

    return predict_parts(model, rows / "*.parquet", out, keep=["id"], run=run, progress=progress)


def test_a_worker_is_killed_in_the_middle_of_a_bulk_prediction(cluster, model, rows, expected, log, tmp_path):
    killed = []

    def progress(done, total):
        if not killed:
            killed.append(watching.kill_one_at_work(log))

    done = predict(cluster, model, rows, tmp_path / "out", log, 0.5, progress)
    check_complete(tmp_path / "out", expected)
    tries = watching.tries(log)
    assert done.rows == len(expected) and len(tries) == 9
    assert [task for task, pids in tries.items() if len(pids) > 1] == killed
    # A worker takes many parts, with the model that it has loaded: one was killed, and one came instead.
    assert len({pid for pids in tries.values() for pid in pids}) == 3


def test_a_node_is_killed_in_the_middle_of_a_bulk_prediction(cluster, model, rows, expected, log, tmp_path):
    killed = []

    def progress(done, total):
        if not killed:
            # A machine that dies finishes nothing; a worker whose node is gone might, before it notices.
            task, pid = watching.freeze_one_at_work(log, cluster.second.node_id)
            killed.append(task)
            cluster.remove_node(cluster.second, allow_graceful=False)
            os.kill(pid, signal.SIGKILL)

    done = predict(cluster, model, rows, tmp_path / "out", log, 0.5, progress)
    check_complete(tmp_path / "out", expected)
    assert done.rows == len(expected)
    assert [task for task, pids in watching.tries(log).items() if len(pids) > 1] == killed


def squares(log, n=10, fails=None):
    def run(cell, profile):
        if cell["seed"] == fails:
            raise ArithmeticError("no luck")
        return Outcome({"value": cell["seed"] ** 2})

    run_watched = watching.watched(lambda cell: run(cell, "quick"), log, 0.3)
    cells = [{"seed": seed} for seed in range(n)]
    return Experiment("squares", 1, "Squares", lambda profile: cells, lambda cell, profile: run_watched(cell))


def test_a_worker_is_killed_in_a_sweep(cluster, log, tmp_path):
    store = ResultStore(tmp_path / "squares.jsonl")
    killed = []
    for line in run_experiment(squares(log), store, run_tasks=partial(run_on_ray, address=cluster.address)):
        assert line.hardware
        if not killed:
            killed.append(watching.kill_one_at_work(log))
    assert sorted((line.cell["seed"], line.metrics["value"]) for line in store) == [
        (seed, seed**2) for seed in range(10)
    ]
    assert [task for task, pids in watching.tries(log).items() if len(pids) > 1] == killed


def test_a_cell_that_fails_is_not_tried_again_and_one_that_kills_its_worker_not_for_ever(
    cluster, log, tmp_path
):
    run = partial(run_on_ray, address=cluster.address)
    store = ResultStore(tmp_path / "squares.jsonl")
    with pytest.raises(ArithmeticError, match=r"^no luck$"):
        list(run_experiment(squares(log, 2, fails=1), store, run_tasks=run))
    assert len(watching.tries(log)["1"]) == 1

    def fatal(task):
        (log / f"fatal~{os.getpid()}").touch()
        os.kill(os.getpid(), signal.SIGKILL)

    with pytest.raises(ClusterError, match=r"Ray gave \{'seed': 7\} up after 3 retries: "):
        list(run(fatal, [{"seed": 7}]))
    assert len(watching.tries(log)["fatal"]) == 4


DRIVER = """
import sys
from functools import partial
from importlib.util import module_from_spec, spec_from_file_location
spec = spec_from_file_location("watching", sys.argv[1])
watching = module_from_spec(spec)
spec.loader.exec_module(watching)
from deltauq.distributed import predict_parts, run_on_ray
def run(work, tasks):
    return run_on_ray(watching.watched(work, sys.argv[6], 0.5), tasks, address=sys.argv[2])
predict_parts(sys.argv[3], sys.argv[4] + "/*.parquet", sys.argv[5], keep=["id"], run=run)
"""


def test_the_driver_is_killed_and_a_second_one_does_the_rest(cluster, model, rows, expected, log, tmp_path):
    out = tmp_path / "out"
    words = [watching.__file__, cluster.address, model, rows, out, log]
    with subprocess.Popen([sys.executable, "-c", DRIVER, *map(str, words)]) as driver:
        deadline = time.monotonic() + 120
        while len(list(out.glob("part-*"))) < 3 and time.monotonic() < deadline:
            time.sleep(0.05)
        driver.kill()
    time.sleep(3)  # its last tasks may still end
    there = {path.name: path.stat().st_mtime_ns for path in out.glob("part-*")}
    assert 3 <= len(there) < 9 and not (out / MANIFEST).exists()
    second = tmp_path / "second"
    second.mkdir()
    done = predict(cluster, model, rows, out, second, 0.0)
    check_complete(out, expected)
    assert done.rows == len(expected)
    assert watching.tries(second).keys().isdisjoint(there)
    assert all((out / name).stat().st_mtime_ns == when for name, when in there.items())
