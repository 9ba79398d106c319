import json
import os
import signal
import subprocess
import sys
import time

import pytest

from experiments.results import ResultLine, ResultStore, cell_key


def line(seed=0, version=1, **metrics):
    return ResultLine("table2", version, "quick", {"seed": seed}, metrics or {"mae": 1.0}, 0.5)


def test_lines_round_trip(tmp_path):
    store = ResultStore(tmp_path / "results" / "table2.jsonl")
    lines = [line(seed, mae=0.1 * seed) for seed in range(3)]
    for each in lines:
        store.append(each)
    assert list(store) == lines
    assert list(ResultStore(tmp_path / "absent.jsonl")) == []


def test_the_latest_line_of_a_cell_counts(tmp_path):
    store = ResultStore(tmp_path / "t.jsonl")
    store.append(line(mae=1.0))
    store.append(line(mae=2.0))
    assert [each.metrics["mae"] for each in store.latest().values()] == [2.0]


def test_key_depends_on_configuration_and_version():
    assert line(mae=1.0).key == line(mae=9.0).key
    assert len({line(0).key, line(1).key, line(0, version=2).key}) == 3
    assert cell_key("e", 1, "quick", {"a": 1, "b": 2}) == cell_key("e", 1, "quick", {"b": 2, "a": 1})


@pytest.mark.parametrize("cut", [1, 20, 60])
def test_incomplete_line_is_skipped_and_removed(tmp_path, cut):
    store = ResultStore(tmp_path / "t.jsonl")
    store.append(line(0))
    store.append(line(1))
    whole = store.path.read_bytes()
    store.path.write_bytes(whole[: len(whole) - cut])
    survivors = [each.cell["seed"] for each in store]
    store.append(line(2))
    assert survivors in ([0], [0, 1]) and survivors == ([0, 1] if cut == 1 else [0])
    assert [each.cell["seed"] for each in store] == [*survivors, 2]


def test_killed_process_loses_at_most_one_line(tmp_path):
    path = tmp_path / "t.jsonl"
    program = f"""
from experiments.results import ResultLine, ResultStore
store = ResultStore({str(path)!r})
for seed in range(100_000):
    curve = {{"x": list(range(2000))}}
    store.append(ResultLine("t", 1, "quick", {{"seed": seed}}, {{"mae": 1.0}}, 0.0, details=curve))
    print(seed, flush=True)
"""
    for _ in range(3):
        with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) as process:
            for _ in range(5):
                process.stdout.readline()
            time.sleep(0.02)
            os.kill(process.pid, signal.SIGKILL)
            printed = process.stdout.read().split()
        seeds = [each.cell["seed"] for each in ResultStore(path)]
        assert seeds, "lines survive"
        if printed:
            assert int(printed[-1]) in seeds, "every line that was said to be written is there"
    broken = [text for text in path.read_text().splitlines() if not _is_json(text)]
    assert len(broken) <= 3


def _is_json(text):
    try:
        json.loads(text)
    except json.JSONDecodeError:
        return False
    return True


def test_invalid_lines_are_skipped(tmp_path):
    store = ResultStore(tmp_path / "x.jsonl")
    store.append(line(0))
    with store.path.open("ab") as file:
        file.write(b"\xff\xfe garbage\n" + b'{"metrics": null}\n' + b"[1, 2]\n")
    store.append(line(1))
    assert len(list(store)) == 2
