import json
import sys

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_diabetes
from sklearn.utils import check_array

from deltauq.tables.base_models import BaseModel
from deltauq.utils.install import install_command


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


def test_table_with_mixed_columns(run, diabetes, tmp_path):
    page = tmp_path / "page.html"
    done = run("assess", diabetes, "--target", "y", "--model", "knn", "--folds", "3", "--html", page)
    assert (done.code, done.err) == (0, "")
    text = " ".join(done.out.split())
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
        assert word in " ".join(done.out.split())
    assert "se anchoring" in done.out
    assert "y of diabetes.csv, knn" in page.read_text(encoding="utf-8")


def test_json(run, diabetes):
    done = run("assess", diabetes, "--target", "y", "--model", "linear", "--folds", "3", "--json")
    assert done.err == ""
    numbers = json.loads(done.out)
    assert (numbers["target"], numbers["model"], numbers["page"]) == ("y", "linear", None)
    assert numbers["recommendation"]["advice"] == "do not use anchoring"
    # Ten columns, and the size; in the unit of the target and not of its standard deviation.
    assert numbers["columns"] == 11
    assert 20 < numbers["methods"][0]["mae"] < 200
    assert len(numbers["notes"]) == 2


@pytest.mark.parametrize(("value", "count"), [("auto", 64), ("7", 7)])
def test_train_anchors(run, value, count, diabetes):
    options = ("--model", "tree", "--folds", "3", "--repeats", "2", "--train-anchors", value)
    done = run("assess", diabetes, "--target", "y", *options)
    assert done.err == ""
    text = " ".join(done.out.split())
    assert f"trained with {count} anchors per row" in text and "6 folds" in text
    assert ("(default: 64)" in text) == (value == "7")


def test_input_errors(run, diabetes, tmp_path):
    run("assess", tmp_path / "no.csv", "--target", "y").assert_input_error("no.csv does not exist")
    run("assess", diabetes, "--target", "y", "--max-rows", "30").assert_input_error("Too few rows")
    run("assess", diabetes, "--target", "y", "--folds", "121").assert_input_error("--folds 121", "120 rows")
    run("assess", diabetes, "--target", "y", "--train-anchors", "few").assert_input_error(
        "positive integer, got few"
    )
    run("assess", diabetes, "--target", "y", "--html", tmp_path / "no" / "x.html").assert_input_error(
        "not a folder"
    )


def test_without_pandas(run, monkeypatch, diabetes):
    monkeypatch.setitem(sys.modules, "pandas", None)
    run("assess", diabetes, "--target", "y").assert_input_error("pandas", install_command("tables"))


@pytest.mark.slow
@pytest.mark.parametrize("model", list(BaseModel))
@pytest.mark.parametrize("target", ["y", "size"])
def test_every_model_on_both_tasks(run, model, target, diabetes):
    done = run("assess", diabetes, "--target", target, "--model", model, "--folds", "2", "--json")
    assert (done.code, done.err) == (0, "")
    assert json.loads(done.out)["task"] == ("regression" if target == "y" else "classification")


@pytest.mark.parametrize("unit", [1e-200, 1e200])
def test_targets_of_extreme_size(run, tmp_path, unit):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(120, 2))
    frame = pd.DataFrame({"a": X[:, 0], "b": X[:, 1], "y": unit * (X[:, 0] + 0.1 * X[:, 1])})
    frame.to_csv(tmp_path / "t.csv", index=False)
    done = run("assess", tmp_path / "t.csv", "--target", "y", "--model", "tree", "--json")
    assert done.code == 0, done.err
    assert json.loads(done.out)["recommendation"]["text"]


def test_error_of_the_base_model(run, monkeypatch, diabetes):
    # The error arises in a function of scikit-learn.
    monkeypatch.setattr(
        "sklearn.tree.DecisionTreeRegressor.fit", lambda *args, **kwargs: check_array([[np.nan]])
    )
    done = run("assess", diabetes, "--target", "y", "--model", "tree")
    done.assert_input_error("tree cannot be assessed on this table", "NaN")
