import json

import numpy as np
import pytest

import deltauq


@pytest.fixture
def file(houses, tmp_path):
    houses.drop(columns="size").to_csv(tmp_path / "houses.csv.gz", index=False, sep=";")
    return tmp_path / "houses.csv.gz"


def test_output(run, file, tmp_path):
    done = run(
        "fit", file, "--target", "price", "--model", "tree", "--train-anchors", "5", "-o", tmp_path / "model"
    )
    assert (done.code, done.err) == (0, "")
    for line in (
        "price has 120 different values: regression (--task).",
        "Dates and times were taken as numbers of days: sold.",
        "price, regression: 120 training rows.",
        "Mean absolute error on rows that did not train the model: ",
        "Of the models: anchored ",
        "Weights: anchored ",
        "Intervals with a coverage of 90% have a mean width of ",
        "contains 5 rows of the table as anchors, which",
        f"Model: {tmp_path / 'model'}",
    ):
        assert line in done.out
    assert deltauq.load(tmp_path / "model").target == "price"


def test_json(run, file, tmp_path):
    done = run("fit", file, "--target", "price", "--model", "linear", "-o", tmp_path / "model", "--json")
    actual = json.loads(done.out)
    assert (actual["task"], actual["rows"], actual["scored"]) == ("regression", 120, 120)
    assert (actual["coverage"], actual["model"]) == (0.9, "linear")
    assert set(actual["errors"]) == {"anchored", "plain"} >= set(actual["members"])


def test_default_model(run, houses, tmp_path):
    """It is quick by an option, and the message says that its smooth member contains rows."""
    houses[["area", "rooms", "price"]][:60].to_csv(tmp_path / "x.csv", index=False)
    command = ["fit", tmp_path / "x.csv", "--target", "price", "--quick", "--jobs", "1"]
    done = run(*command, "-o", tmp_path / "model")
    assert (done.code, done.err) == (0, "")
    model = deltauq.load(tmp_path / "model")
    assert model.fitted.model.quick and set(model.report["errors"]) >= {"anchored boosting", "smooth"}
    assert ("and others in its smooth model" in done.out) == ("smooth" in model.report["members"])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--model", "tree", "--anchors", "kmeans"], "contains no rows of the table"),
        (["--model", "knn", "--anchors", "kmeans"], "a knn model consists of them"),
        (["--model", "knn"], "a knn model consists of them"),
        (["--model", "tree", "--anchors", "balanced"], "rows of the table as anchors"),
    ],
)
def test_message_on_rows_in_the_model(options, message, run, file, tmp_path):
    done = run("fit", file, "--target", "price", *options, "-o", tmp_path / "model")
    assert message in done.out


def test_date_target(run, houses, tmp_path):
    houses[["area", "rooms", "sold"]].to_csv(tmp_path / "x.csv", index=False)
    done = run("fit", tmp_path / "x.csv", "--target", "sold", "--model", "linear", "-o", tmp_path / "m")
    first = houses.sold.min().date().isoformat()
    assert done.code == 0 and f"sold was taken as a number of days since {first}T00:00:00+00:00." in done.out


def test_classification(run, houses, tmp_path):
    houses.to_parquet(tmp_path / "x.parquet")
    done = run("fit", tmp_path / "x.parquet", "--target", "size", "--model", "linear", "-o", tmp_path / "m")
    assert done.code == 0 and "Log loss on rows that did not train the model: " in done.out


@pytest.mark.parametrize("model", ["mlp", "svm"])
def test_no_warnings_are_shown(model, run, houses, tmp_path):
    houses[["area", "rooms", "size"]].to_csv(tmp_path / "x.csv", index=False)
    options = ["--model", model, "--quick", "--jobs", "1", "--train-anchors", "3"]
    done = run("fit", tmp_path / "x.csv", "--target", "size", *options, "-o", tmp_path / "m")
    assert (done.code, done.err) == (0, "")


@pytest.mark.parametrize(
    ("content", "options", "expected"),
    [
        (lambda t: t[["area", "price"]], [], "price, regression: 60 training rows"),
        (lambda t: t.assign(area=np.nan), [], "Columns left out: area (no values)."),
        (lambda t: t.assign(price=t.price.where(t.index > 20)), [], "21 of 60 rows were left out"),
        (lambda t: t[:19], [], "price, regression: 19 training rows"),
        (lambda t: t[:10], ["--coverage", "0.5"], "price, regression: 10 training rows"),
        (
            lambda t: t.assign(price=["rare", "rare", *["p", "q"] * 29]),
            [],
            "classification: 60 training rows",
        ),
    ],
)
def test_small_and_incomplete_tables(content, options, expected, run, houses, tmp_path):
    content(houses.drop(columns="size")[:60]).to_csv(tmp_path / "x.csv", index=False)
    command = ["fit", tmp_path / "x.csv", "--target", "price", "--model", "linear", "--jobs", "1"]
    done = run(*command, *options, "-o", tmp_path / "m")
    assert (done.code, done.err) == (0, "") and expected in done.out
    assert run("predict", tmp_path / "m", tmp_path / "x.csv", "-o", tmp_path / "out.csv").code == 0
