"""`--backend ray` as a user gives it, and what is said where Ray is missing or does not answer."""

import json
import os
import subprocess
import sys

import pandas as pd
import pytest

from deltauq.cli import main
from deltauq.distributed import ClusterError, predict_parts
from deltauq.distributed.running import _result
from deltauq.utils.install import install_command

COMMAND = [sys.executable, "-m", "deltauq.cli"]


@pytest.fixture
def complain(monkeypatch, capsys):
    """Run a command that must fail, and return the one line that it says."""

    def run(*words):
        monkeypatch.setattr(sys, "argv", ["deltauq", *map(str, words)])
        with pytest.raises(SystemExit) as stopped:
            main()
        said = capsys.readouterr()
        assert (stopped.value.code, said.out) == (2, "")
        assert said.err.startswith("deltauq: ") and said.err.count("\n") == 1
        return said.err

    return run


def test_ray_is_not_imported_unless_asked_for():
    program = """
import sys
import deltauq.distributed.prediction
import deltauq.cli.predict
print("ray" in sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"


def test_without_ray_one_line_names_the_extra(complain, monkeypatch, model, rows, tmp_path):
    monkeypatch.setitem(sys.modules, "ray", None)
    said = f"the backend ray needs Ray: {install_command('ray')}."
    predict = ["predict", model, f"{rows}/*.parquet", "-o", tmp_path / "out"]
    assert said in complain(*predict, "--backend", "ray")
    with pytest.raises(ImportError, match=r"\[ray\]"):
        predict_parts(model, rows / "*.parquet", tmp_path / "other")


def test_what_does_not_fit_together_is_told_in_one_line(complain, model, rows, tmp_path):
    predict = ["predict", model, f"{rows}/*.parquet", "-o", tmp_path / "out"]
    assert "add --backend ray" in complain(*predict, "--address", "auto")
    assert "'spark'" in complain(*predict, "--backend", "spark")


def test_patterns_and_urls_without_ray_are_told_in_one_line(complain, model, rows, tmp_path):
    for source in (f"{tmp_path}/no*.parquet", f"{tmp_path}/?.csv", "s3://bucket/rows.parquet"):
        said = complain("predict", model, source, "-o", tmp_path / "out.csv")
        assert said == f"deltauq: {source} does not exist: patterns and URLs need --backend ray\n"
    said = complain("predict", model, rows / "0.parquet", "-o", "s3://bucket/out.csv")
    assert said == "deltauq: cannot write s3://bucket/out.csv: URLs need --backend ray\n"


def test_names_that_are_nothing_are_told_in_one_line(complain, model, rows, tmp_path):
    pytest.importorskip("ray", reason="ray is not installed")
    ray = ["--backend", "ray"]
    assert "an empty name is no file" in complain("predict", model, "", "-o", tmp_path / "out", *ray)
    assert "an empty name is no file" in complain("predict", model, rows / "0.parquet", "-o", "", *ray)


def test_a_ray_that_does_not_start_is_told_in_one_line(complain, monkeypatch, model, rows, tmp_path):
    ray = pytest.importorskip("ray", reason="ray is not installed")

    def start(*_, **__):
        raise Exception("The current node timed out during startup.\nMore of it.")

    monkeypatch.setattr(ray, "init", start)
    said = complain("predict", model, f"{rows}/*.parquet", "-o", tmp_path / "out", "--backend", "ray")
    assert said == "deltauq: Ray cannot be started: The current node timed out during startup.\n"


@pytest.mark.parametrize("kind", ["unsent", "unread", "missing"])
def test_a_worker_that_lacks_a_package_is_told_of(monkeypatch, kind):
    ray = pytest.importorskip("ray", reason="ray is not installed")
    missing = ModuleNotFoundError("No module named 'deltauq'")
    cause = {
        "unsent": RuntimeError(f"The remote function failed to import on the worker. Why:\n\n{missing}"),
        "unread": ray.exceptions.RaySystemError(missing, "Traceback"),
        "missing": missing,
    }[kind]

    def get(_):
        raise ray.exceptions.RayTaskError("perform", "Traceback", cause)

    monkeypatch.setattr(ray, "get", get)
    said = (
        r"^A worker of Ray cannot do 7 \(No module named 'deltauq'\): every machine needs deltauq in the same"
    )
    with pytest.raises(ClusterError, match=said):
        _result(ray, None, 7)


def test_a_cluster_that_does_not_answer_is_told_in_one_line(complain, model, rows, tmp_path):
    pytest.importorskip("ray", reason="ray is not installed")
    nowhere = ["--backend", "ray", "--address", "127.0.0.1:9"]
    said = "Ray cannot be reached at '127.0.0.1:9': "
    assert said in complain("predict", model, f"{rows}/*.parquet", "-o", tmp_path / "out", *nowhere)
    assert "does not exist" in complain("predict", model, "no*", "-o", tmp_path / "out", *nowhere)


@pytest.mark.slow
def test_bulk_prediction_from_the_command_line(model, rows, expected, tmp_path, place):
    pytest.importorskip("ray", reason="ray is not installed")
    out = tmp_path / "out"
    command = [*COMMAND, "predict", model, "rows/*.parquet", "-o", "out", "--keep", "id", "--backend", "ray"]
    (tmp_path / "rows").symlink_to(rows)
    environment = {**os.environ, "RAY_TMPDIR": place}
    words = {"capture_output": True, "text": True, "timeout": 240, "cwd": tmp_path, "env": environment}
    done = subprocess.run(list(map(str, command)), **words)
    assert (done.returncode, done.stderr) == (0, "")
    assert f"{len(expected):,} rows; risk: low " in done.stdout and f"Predictions: {out}" in done.stdout
    parts = [pd.read_parquet(path) for path in sorted(out.glob("part-*"))]
    pd.testing.assert_frame_equal(pd.concat(parts, ignore_index=True), expected, check_exact=True)
    again = subprocess.run([*map(str, command), "--json"], **words)
    assert json.loads(again.stdout)["rows"] == len(expected) and json.loads(again.stdout)["out"] == str(out)
