"""`deltauq reproduce` as a process of its own."""

import json
import os
import signal
import subprocess
import sys
import time

import pytest

from experiments import ResultStore, get_experiment

COMMAND = [sys.executable, "-m", "deltauq.cli", "reproduce"]


def run(*arguments, **environment):
    return subprocess.run(
        [*COMMAND, *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=240,
        env={**os.environ, "OMP_NUM_THREADS": "1", **environment},
    )


def assert_one_line(done, *words):
    assert (done.returncode, done.stdout) == (2, "")
    lines = done.stderr.split("\n")
    assert lines[-2].startswith("deltauq: ") and lines[-1] == ""
    assert "Traceback" not in done.stderr
    for word in words:
        assert word in lines[-2]


@pytest.mark.slow
def test_a_run_ends_with_its_tables_and_a_second_one_computes_nothing(tmp_path):
    first = run("table1", "--out", tmp_path / "new" / "results")
    file = tmp_path / "new" / "results" / "table1.jsonl"
    assert first.returncode == 0, first.stderr
    assert "Profile quick: 18 lines, nothing missing." in first.stdout
    assert first.stdout.endswith(f"Lines: {file.resolve()}\n")
    before = file.read_bytes()
    second = run("table1", "--out", tmp_path / "new" / "results")
    assert second.stdout == first.stdout and file.read_bytes() == before
    told = json.loads(run("table1", "--out", tmp_path / "new" / "results", "--json").stdout)
    (table1,) = told["experiments"]
    assert (table1["experiment"], table1["lines"], told["file"]) == ("table1", 18, str(file.resolve()))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("start", "jobs"), [(COMMAND, 1), (COMMAND, 2), ([sys.executable, "-m", "experiments"], 2)]
)
def test_an_interrupted_run_says_what_is_kept(tmp_path, start, jobs):
    command = [*start, "table1-study", "--profile", "paper", "--jobs", str(jobs), "--out", str(tmp_path)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    # A terminal sends Ctrl-C to the whole group, so that the workers get it too.
    process = subprocess.Popen(
        command, stderr=subprocess.PIPE, text=True, start_new_session=True, env=environment
    )
    file = tmp_path / "table1-study.jsonl"
    deadline = time.monotonic() + 120
    while not (file.exists() and file.read_text().count("\n") >= 3) and time.monotonic() < deadline:
        time.sleep(0.1)
    os.killpg(process.pid, signal.SIGINT)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "Traceback" not in said
    kept = len(list(ResultStore(file)))
    total = len(get_experiment("table1-study").cells("paper"))
    assert f"interrupted; {kept} of {total} cells are kept in {file}" in said


def test_bad_input_gets_one_line(tmp_path):
    assert_one_line(run("table9"), "'table9'", "table1", "table2")
    assert_one_line(run("table1", "--jobs", "0", "--out", tmp_path), "--jobs")
    assert_one_line(run("table1", "--profile", "full"), "'full'")
    assert_one_line(run("table1", "--out", __file__), "cannot write")
    assert_one_line(run("table2", "--data", tmp_path / "no"), "not a folder")
    assert_one_line(run("table1", "--only", "seed"), "--only: 'seed' is not of the form word=value")
    assert_one_line(run("table1", "--only", "seed=x"), "--only: seed is one of")


def test_only_the_cells_asked_for_are_run(tmp_path):
    words = get_experiment("table1").cells("quick")[0]
    only = [part for word, value in words.items() for part in ("--only", f"{word}={value}")]
    done = run("table1", *only, "--out", tmp_path)
    assert done.returncode == 0, done.stderr
    assert [line.cell for line in ResultStore(tmp_path / "table1.jsonl")] == [words]


def test_missing_data_gets_one_line_that_names_the_folder_asked_for(tmp_path):
    nowhere = {"DELTAUQ_CACHE": str(tmp_path / "cache"), "SCIKIT_LEARN_DATA": str(tmp_path / "sklearn")}
    nowhere |= {"http_proxy": "http://127.0.0.1:9", "https_proxy": "http://127.0.0.1:9"}
    data = tmp_path / "data"
    data.mkdir()
    done = run("table2", "--out", tmp_path / "out", "--data", data, **nowhere)
    assert_one_line(done, f"put it into {data}")
