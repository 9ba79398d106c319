"""`deltauq predict --backend ray`, and the errors if Ray is missing or does not answer."""

import json
import os
import subprocess
import sys

import pandas as pd
import pytest

from deltauq.cli import main
from deltauq.distributed import ClusterError, predict_parts
from deltauq.distributed.runners import get_result
from deltauq.utils.install import install_command

COMMAND = [sys.executable, "-m", "deltauq.cli"]


@pytest.fixture
def error_line(monkeypatch, capsys):
    """Run a command that must fail, and return its error message of one line."""

    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["deltauq", *map(str, arguments)])
        with pytest.raises(SystemExit) as stopped:
            main()
        output = capsys.readouterr()
        assert (stopped.value.code, output.out) == (2, "")
        assert output.err.startswith("deltauq: ") and output.err.count("\n") == 1
        return output.err

    return run


def test_ray_is_imported_on_use_only():
    program = """
import sys
import deltauq.distributed.prediction
import deltauq.cli.predict
print("ray" in sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"


def test_error_without_ray_names_the_extra(error_line, monkeypatch, model, rows, tmp_path):
    monkeypatch.setitem(sys.modules, "ray", None)
    message = f"the backend ray needs Ray: {install_command('ray')}."
    predict = ["predict", model, f"{rows}/*.parquet", "-o", tmp_path / "out"]
    assert message in error_line(*predict, "--backend", "ray")
    with pytest.raises(ImportError, match=r"\[ray\]"):
        predict_parts(model, rows / "*.parquet", tmp_path / "other")


def test_invalid_backend_options(error_line, model, rows, tmp_path):
    predict = ["predict", model, f"{rows}/*.parquet", "-o", tmp_path / "out"]
    assert "add --backend ray" in error_line(*predict, "--address", "auto")
    assert "'spark'" in error_line(*predict, "--backend", "spark")


def test_patterns_and_urls_need_ray(error_line, model, rows, tmp_path):
    for source in (f"{tmp_path}/no*.parquet", f"{tmp_path}/?.csv", "s3://bucket/rows.parquet"):
        line = error_line("predict", model, source, "-o", tmp_path / "out.csv")
        assert line == f"deltauq: {source} does not exist: patterns and URLs need --backend ray\n"
    line = error_line("predict", model, rows / "0.parquet", "-o", "s3://bucket/out.csv")
    assert line == "deltauq: cannot write s3://bucket/out.csv: URLs need --backend ray\n"


def test_empty_names(error_line, model, rows, tmp_path):
    pytest.importorskip("ray", reason="ray is not installed")
    ray = ["--backend", "ray"]
    assert "is empty" in error_line("predict", model, "", "-o", tmp_path / "out", *ray)
    assert "is empty" in error_line("predict", model, rows / "0.parquet", "-o", "", *ray)


def test_ray_that_does_not_start(error_line, monkeypatch, model, rows, tmp_path):
    ray = pytest.importorskip("ray", reason="ray is not installed")

    def start(*_, **__):
        raise Exception("The current node timed out during startup.\nMore of it.")

    monkeypatch.setattr(ray, "init", start)
    line = error_line("predict", model, f"{rows}/*.parquet", "-o", tmp_path / "out", "--backend", "ray")
    assert line == "deltauq: Ray cannot be started: The current node timed out during startup.\n"


@pytest.mark.parametrize("kind", ["unsent", "unread", "missing"])
def test_worker_without_package(monkeypatch, kind):
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
    message = (
        r"^A worker of Ray cannot run 7 \(No module named 'deltauq'\): every machine needs the same version"
    )
    with pytest.raises(ClusterError, match=message):
        get_result(ray, None, 7)


def test_cluster_that_does_not_answer(error_line, model, rows, tmp_path):
    pytest.importorskip("ray", reason="ray is not installed")
    nowhere = ["--backend", "ray", "--address", "127.0.0.1:9"]
    message = "Ray cannot be reached at '127.0.0.1:9': "
    assert message in error_line("predict", model, f"{rows}/*.parquet", "-o", tmp_path / "out", *nowhere)
    assert "does not exist" in error_line("predict", model, "no*", "-o", tmp_path / "out", *nowhere)


@pytest.mark.slow
def test_bulk_prediction(model, rows, expected, tmp_path, ray_folder):
    pytest.importorskip("ray", reason="ray is not installed")
    out = tmp_path / "out"
    command = [*COMMAND, "predict", model, "rows/*.parquet", "-o", "out", "--keep", "id", "--backend", "ray"]
    (tmp_path / "rows").symlink_to(rows)
    environment = {**os.environ, "RAY_TMPDIR": ray_folder}
    options = {"capture_output": True, "text": True, "timeout": 240, "cwd": tmp_path, "env": environment}
    done = subprocess.run(list(map(str, command)), **options)
    assert (done.returncode, done.stderr) == (0, "")
    assert f"{len(expected):,} rows; risk: low " in done.stdout and f"Predictions: {out}" in done.stdout
    parts = [pd.read_parquet(path) for path in sorted(out.glob("part-*"))]
    pd.testing.assert_frame_equal(pd.concat(parts, ignore_index=True), expected, check_exact=True)
    again = subprocess.run([*map(str, command), "--json"], **options)
    assert json.loads(again.stdout)["rows"] == len(expected) and json.loads(again.stdout)["out"] == str(out)
