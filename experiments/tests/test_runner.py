import os
import signal
import subprocess
import sys
import time

import pytest

from experiments.runner import Experiment, Outcome, run_experiment, select_cells
from experiments.store import ResultStore

PROGRAM = """
import sys, time
from experiments.store import ResultStore
from experiments.runner import Experiment, Outcome, run_experiment

def run(cell, profile):
    time.sleep(0.05)
    return Outcome({"value": cell["seed"] ** 2})

experiment = Experiment("slow", 1, "Slow", lambda profile: [{"seed": s} for s in range(12)], run)
for line in run_experiment(experiment, ResultStore(sys.argv[1]), n_jobs=int(sys.argv[2])):
    print(line.cell["seed"], flush=True)
"""


def squares(version=1, seeds=4):
    calls = []

    def run(cell, profile):
        calls.append(cell["seed"])
        return Outcome({"value": cell["seed"] ** 2}, {"profile": profile})

    return Experiment(
        "squares", version, "Squares", lambda profile: [{"seed": s} for s in range(seeds)], run
    ), calls


def test_only_missing_cells_are_run(tmp_path):
    store = ResultStore(tmp_path / "squares.jsonl")
    experiment, calls = squares(seeds=2)
    list(run_experiment(experiment, store))
    longer, more_calls = squares(seeds=4)
    written = list(run_experiment(longer, store))
    assert (calls, more_calls) == ([0, 1], [2, 3])
    assert [line.metrics["value"] for line in written] == [4.0, 9.0]
    assert [line.metrics["value"] for line in longer.lines(store, "quick")] == [0.0, 1.0, 4.0, 9.0]
    assert written[0].versions["numpy"] and written[0].hardware and written[0].details == {"profile": "quick"}


def test_new_version_or_profile_has_no_lines(tmp_path):
    store = ResultStore(tmp_path / "squares.jsonl")
    list(run_experiment(squares()[0], store))
    newer, calls = squares(version=2)
    assert newer.lines(store, "quick") == []
    list(run_experiment(newer, store))
    assert calls == [0, 1, 2, 3]
    assert len(newer.pending(store, "paper")) == 4


def test_failed_cell_keeps_the_others(tmp_path):
    store = ResultStore(tmp_path / "t.jsonl")

    def run(cell, profile):
        if cell["seed"] == 2:
            raise RuntimeError("no luck")
        return Outcome({"value": 1.0})

    experiment = Experiment("t", 1, "T", lambda profile: [{"seed": s} for s in range(4)], run)
    with pytest.raises(RuntimeError, match="no luck"):
        list(run_experiment(experiment, store))
    assert [line.cell["seed"] for line in store] == [0, 1]


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_killed_run_can_be_continued(tmp_path, n_jobs):
    path = tmp_path / "slow.jsonl"
    command = [sys.executable, "-c", PROGRAM, str(path), str(n_jobs)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True) as process:
        for _ in range(3):
            process.stdout.readline()
        os.killpg(process.pid, signal.SIGKILL)
    time.sleep(0.1)
    before = [line.cell["seed"] for line in ResultStore(path)]
    assert 3 <= len(before) < 12
    subprocess.run(command, check=True, capture_output=True)
    seeds = [line.cell["seed"] for line in ResultStore(path)]
    assert sorted(seeds) == list(range(12)), "complete, and no cell twice"


def test_select_cells():
    cells = [{"method": method, "seed": seed} for method in "ab" for seed in range(2)]
    assert select_cells(cells, {"method": "a", "seed": "1"}) == [{"method": "a", "seed": 1}]
    assert select_cells(cells, None) == cells
    with pytest.raises(ValueError, match="'colour'"):
        select_cells(cells, {"colour": "red"})
    with pytest.raises(ValueError, match="'c'"):
        select_cells(cells, {"method": "c"})


def test_only_selected_cells_are_run(tmp_path):
    def run(cell, profile):
        return Outcome({"value": 1.0})

    def cells(profile):
        return [{"method": "a", "seed": 0}, {"method": "b", "seed": 0, "part": 1}]

    experiment = Experiment("parts", 1, "Parts", cells, run)
    store = ResultStore(tmp_path / "parts.jsonl")
    assert len(list(run_experiment(experiment, store, only={"part": "1"}))) == 1
    assert list(run_experiment(experiment, store, only={"part": "1"})) == []
