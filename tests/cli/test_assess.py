import json
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_diabetes

from deltauq.tables.base_models import BaseModel
from deltauq.utils.install import install_command

WITHOUT = "import sys; sys.modules[{name!r}] = None; from deltauq.cli import main; main()"


def run(*arguments, program=None):
    start = ["-m", "deltauq.cli"] if program is None else ["-c", program]
    command = [sys.executable, *start, "assess", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=240)


def assert_one_line(done, *texts):
    assert (done.returncode, done.stdout) == (2, ""), done.stderr
    lines = done.stderr.splitlines()
    assert len(lines) == 1 and lines[0].startswith("deltauq: ")
    for text in texts:
        assert text in lines[0]


@pytest.fixture
def diabetes(tmp_path):
    """A table with missing values, categories, a constant, row numbers and names."""
    frame = load_diabetes(as_frame=True).frame.iloc[:120].rename(columns={"target": "y"})
    frame["size"] = np.where(frame.bmi > 0, "large", "small")
    frame.loc[::9, "bmi"] = np.nan
    frame.loc[::10, "size"] = None
    frame["unit"] = "mg"
    frame["name"] = [f"patient {k}" for k in range(len(frame))]
    file = tmp_path / "diabetes.csv"
    frame.to_csv(file)
    return file


def test_table_with_mixed_columns(diabetes, tmp_path):
    page = tmp_path / "page.html"
    done = run(diabetes, "--target", "y", "--model", "knn", "--folds", "3", "--html", page)
    assert (done.returncode, done.stderr) == (0, "")
    text = " ".join(done.stdout.split())
    assert (
        "KNeighborsRegressor, regression: 120 rows, 3 folds, each fitted to 64 rows and tested on 40" in text
    )
    for word in (
        "unit (one value)",
        "name (categories that",
        "row numbers",
        "anchored",
        "MAE",
    ):
        assert word in " ".join(done.stdout.split())
    assert "se anchoring" in done.stdout
    assert "y of diabetes.csv, knn" in page.read_text(encoding="utf-8")


def test_json(diabetes):
    done = run(diabetes, "--target", "y", "--model", "linear", "--folds", "3", "--json")
    assert done.stderr == ""
    numbers = json.loads(done.stdout)
    assert (numbers["target"], numbers["model"], numbers["page"]) == ("y", "linear", None)
    assert numbers["recommendation"]["advice"] == "don't"
    # Ten columns, and the size; in the unit of the target and not of its standard deviation.
    assert numbers["columns"] == 11
    assert 20 < numbers["methods"][0]["mae"] < 200
    assert len(numbers["notes"]) == 2


@pytest.mark.parametrize(("value", "count"), [("quick", 64), ("auto", 64), ("7", 7)])
def test_train_anchors(value, count, diabetes):
    options = ("--model", "tree", "--folds", "3", "--repeats", "2", "--train-anchors", value)
    done = run(diabetes, "--target", "y", *options)
    assert done.stderr == ""
    text = " ".join(done.stdout.split())
    assert f"trained with {count} anchors per row" in text and "6 folds" in text
    assert ("(default: 64)" in text) == (value == "7")


def test_input_errors(diabetes, tmp_path):
    assert_one_line(run(tmp_path / "no.csv", "--target", "y"), "no.csv does not exist")
    assert_one_line(run(diabetes, "--target", "y", "--max-rows", "30"), "Too few rows")
    assert_one_line(run(diabetes, "--target", "y", "--folds", "121"), "--folds 121", "120 rows")
    assert_one_line(run(diabetes, "--target", "y", "--train-anchors", "few"), "positive integer, got few")
    assert_one_line(run(diabetes, "--target", "y", "--html", tmp_path / "no" / "x.html"), "not a folder")


@pytest.mark.parametrize(
    ("name", "command"),
    [("pandas", install_command("tables")), ("rich", install_command("cli,report"))],
)
def test_missing_package(name, command, diabetes):
    assert_one_line(run(diabetes, "--target", "y", program=WITHOUT.format(name=name)), name, command)


@pytest.mark.slow
@pytest.mark.parametrize("model", list(BaseModel))
@pytest.mark.parametrize("target", ["y", "size"])
def test_every_model_on_both_tasks(model, target, diabetes):
    done = run(diabetes, "--target", target, "--model", model, "--folds", "2", "--json")
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout)["task"] == ("regression" if target == "y" else "classification")


@pytest.mark.parametrize("unit", [1e-200, 1e200])
def test_targets_of_extreme_size(tmp_path, unit):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(120, 2))
    frame = pd.DataFrame({"a": X[:, 0], "b": X[:, 1], "y": unit * (X[:, 0] + 0.1 * X[:, 1])})
    frame.to_csv(tmp_path / "t.csv", index=False)
    done = run(tmp_path / "t.csv", "--target", "y", "--model", "tree", "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["recommendation"]["text"]
