import json

import numpy as np
import pandas as pd
import pytest

import deltauq
from deltauq.data import load_uci


@pytest.fixture
def file(houses, tmp_path):
    houses.to_csv(tmp_path / "test.csv", index=False, sep=";")
    return tmp_path / "test.csv"


def test_output(run, file, price_model, tmp_path):
    page = tmp_path / "page.html"
    done = run("evaluate", price_model, file, "--html", page)
    assert (done.code, done.err) == (0, "")
    text = " ".join(done.out.split())
    for line in (
        "(nominal 90%) on 120 rows",
        "price, linear, regression",
        "mean absolute error",
        "coverage (nominal 90%)",
        "Most uncertain rows",
        f"Page: {page}",
    ):
        assert line in text
    assert "Evaluation: price of test.csv, linear" in page.read_text(encoding="utf-8")


def test_json(run, houses, file, price_model):
    actual = json.loads(run("evaluate", price_model, file, "--json").out)
    predicted = deltauq.load(price_model).predict(houses)
    assert actual["metrics"]["mae"] == pytest.approx((predicted.prediction - houses.price).abs().mean())
    assert (actual["rows"], actual["coverage"], actual["page"]) == (120, 0.9, None)


def test_classification(run, file, size_model, tmp_path):
    done = run("evaluate", size_model, file, "--html", tmp_path / "page.html")
    assert (done.code, done.err) == (0, "")
    assert "Accuracy" in " ".join(done.out.split())
    assert "Mistakes against σ" in (tmp_path / "page.html").read_text(encoding="utf-8")


def broken(name, file, price_model, tmp_path):
    """Return a model, a table and options, one of which is wrong."""
    table = pd.read_csv(file, sep=";")
    changed = {
        "no target": table.drop(columns="price"),
        "text as target": table.assign(price="much"),
        "no column": table.drop(columns="area"),
        "no rows": table[:0],
        "text as numbers": table.assign(area="wide"),
    }
    if name in changed:
        changed[name].to_csv(tmp_path / "broken.csv", index=False)
        return price_model, tmp_path / "broken.csv", []
    return {
        "no table": (price_model, tmp_path / "no.csv", []),
        "no model": (tmp_path / "nowhere", file, []),
        "no folder": (price_model, file, ["--html", tmp_path / "no" / "page.html"]),
        "page is a folder": (price_model, file, ["--html", tmp_path]),
    }[name]


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("no target", 'there is no column "price"'),
        ("text as target", 'price contains "much"'),
        ("no column", 'the column "area"'),
        ("no rows", "no rows"),
        ("text as numbers", '"wide" in row 1'),
        ("no table", "does not exist"),
        ("no model", "there is no model folder"),
        ("no folder", "is not a folder"),
        ("page is a folder", "it is a folder"),
    ],
)
def test_input_errors(name, message, run, file, price_model, tmp_path):
    model, table, options = broken(name, file, price_model, tmp_path)
    done = run("evaluate", model, table, *(options or ["--html", tmp_path / "page.html"]))
    done.assert_input_error(message)
    assert not (tmp_path / "page.html").exists()


@pytest.mark.slow
def test_real_table(run, data_dir, tmp_path):
    table = load_uci("concrete")
    frame = pd.DataFrame(table.X, columns=[f"x{k}" for k in range(table.X.shape[1])]).assign(y=table.y)
    rows = np.random.default_rng(0).permutation(len(frame))
    frame.iloc[rows[:700]].to_parquet(tmp_path / "train.parquet")
    frame.iloc[rows[700:]].to_parquet(tmp_path / "test.parquet")
    run("fit", tmp_path / "train.parquet", "--target", "y", "-o", tmp_path / "model")
    actual = json.loads(run("evaluate", tmp_path / "model", tmp_path / "test.parquet", "--json").out)
    assert actual["metrics"]["r2"] > 0.75 and abs(actual["metrics"]["coverage"] - 0.9) < 0.07
    losses = [part["loss"] for part in actual["deciles"]]
    assert np.mean(losses[:5]) < np.mean(losses[5:])
