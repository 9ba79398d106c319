import json

import pytest

import deltauq


@pytest.fixture
def file(houses, tmp_path):
    houses.drop(columns="size").to_csv(tmp_path / "houses.csv.gz", index=False, sep=";")
    return tmp_path / "houses.csv.gz"


def test_output(run, file, tmp_path):
    done = run("fit", file, "--target", "price", "--model", "tree", "-o", tmp_path / "model")
    assert (done.code, done.err) == (0, "")
    for line in (
        "price has 120 different values: regression (--task).",
        "Dates and times were taken as numbers of days: sold.",
        "price, tree, regression: 90 training rows, 30 rows held out for calibration.",
        "Mean absolute error in 3-fold cross-validation on 90 training rows: anchored ",
        "Intervals with a coverage of 90% have a mean width of ",
        "contains 20 rows of the table as anchors",
        f"Model: {tmp_path / 'model'}",
    ):
        assert line in done.out
    assert deltauq.load(tmp_path / "model").target == "price"


def test_json(run, file, tmp_path):
    done = run("fit", file, "--target", "price", "--model", "linear", "-o", tmp_path / "model", "--json")
    actual = json.loads(done.out)
    assert (actual["task"], actual["rows"], actual["held_out"], actual["coverage"]) == (
        "regression",
        90,
        30,
        0.9,
    )
    assert set(actual["center_errors"]) == {"anchored", "estimator"}
    assert actual["cross_validation"] == {"folds": 3, "rows": 90}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--model", "tree", "--anchors", "kmeans"], "contains no rows of the table"),
        (["--model", "knn", "--anchors", "kmeans"], "a knn model consists of them"),
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
    assert done.code == 0 and "Brier score in 3-fold cross-validation" in done.out
