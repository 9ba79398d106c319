"""`deltauq fit` as a user runs it."""

import json

import pytest

import deltauq


@pytest.fixture
def file(houses, tmp_path):
    houses.drop(columns="size").to_csv(tmp_path / "houses.csv.gz", index=False, sep=";")
    return tmp_path / "houses.csv.gz"


def test_what_is_printed(run, file, tmp_path):
    done = run("fit", file, "--target", "price", "--model", "tree", "-o", tmp_path / "model")
    assert (done.code, done.err) == (0, "")
    for words in (
        "price has 120 different values: regression (--task).",
        "Dates and times were taken as numbers of days: sold.",
        "price, tree, regression: 90 rows trained on, 30 held out to calibrate.",
        "Mean absolute error in 3-fold cross-validation on the 90 rows trained on: anchored ",
        "Intervals of 90% are ",
        "holds 20 rows of the table as anchors",
        f"Model: {tmp_path / 'model'}",
    ):
        assert words in done.out
    assert deltauq.load(tmp_path / "model").target == "price"


def test_json_is_all_that_is_printed(run, file, tmp_path):
    done = run("fit", file, "--target", "price", "--model", "linear", "-o", tmp_path / "model", "--json")
    found = json.loads(done.out)
    assert (found["task"], found["rows"], found["held_out"], found["coverage"]) == ("regression", 90, 30, 0.9)
    assert set(found["center_errors"]) == {"anchored", "estimator"}
    assert found["cross_validation"] == {"folds": 3, "rows": 90}


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--model", "tree", "--anchors", "kmeans"], "holds no row of the table"),
        (["--model", "knn", "--anchors", "kmeans"], "a knn model is made of them"),
        (["--model", "tree", "--anchors", "balanced"], "rows of the table as anchors"),
    ],
)
def test_rows_that_are_shipped_are_told_of(words, said, run, file, tmp_path):
    done = run("fit", file, "--target", "price", *words, "-o", tmp_path / "model")
    assert said in done.out


def test_a_date_to_predict(run, houses, tmp_path):
    houses[["area", "rooms", "sold"]].to_csv(tmp_path / "x.csv", index=False)
    words = ["--target", "sold", "--model", "linear", "-o", tmp_path / "m"]
    done = run("fit", tmp_path / "x.csv", *words)
    first = houses.sold.min().date().isoformat()
    assert done.code == 0 and f"sold was taken as a number of days since {first}T00:00:00+00:00." in done.out


def test_classes(run, houses, tmp_path):
    houses.to_parquet(tmp_path / "x.parquet")
    done = run("fit", tmp_path / "x.parquet", "--target", "size", "--model", "linear", "-o", tmp_path / "m")
    assert done.code == 0 and "Brier score in 3-fold cross-validation" in done.out
