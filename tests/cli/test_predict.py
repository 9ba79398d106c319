import json
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest

import deltauq
import deltauq.tables
from deltauq.data import load_uci


@pytest.fixture
def file(houses, tmp_path):
    houses.assign(id=range(1000, 1120)).to_parquet(tmp_path / "new.parquet")
    return tmp_path / "new.parquet"


def test_output(run, houses, file, price_model, tmp_path):
    out = tmp_path / "out.parquet"
    done = run("predict", price_model, file, "-o", out, "--keep", "id", "--keep", "town")
    assert (done.code, done.err) == (0, "")
    assert "Columns that the model was not trained on: size." in done.out
    assert "120 rows; risk: low " in done.out and f"Predictions: {out}" in done.out
    actual = pd.read_parquet(out)
    assert actual.id.tolist() == list(range(1000, 1120)) and actual.town.tolist() == houses.town.tolist()
    pd.testing.assert_frame_equal(actual.iloc[:, 2:], deltauq.load(price_model).predict(houses))


def test_json_and_coverage(run, file, price_model, tmp_path):
    widths = []
    for coverage in ("0.5", "0.9"):
        out = tmp_path / "out.csv"
        done = run("predict", price_model, file, "-o", out, "--coverage", coverage, "--json")
        actual = json.loads(done.out)
        assert actual["rows"] == 120 == sum(actual["risk"].values())
        table = pd.read_csv(out)
        widths.append((table.upper - table.lower).mean())
    assert widths[0] < widths[1]


def test_quantiles(run, houses, file, price_model, tmp_path):
    out = tmp_path / "out.parquet"
    done = run("predict", price_model, file, "-o", out, "--quantiles", "0.95,0.5, 0.05", "--keep", "id")
    assert (done.code, done.err) == (0, "")
    actual = pd.read_parquet(out)
    expected = deltauq.load(price_model).predict_quantiles(houses, [0.95, 0.5, 0.05])
    pd.testing.assert_frame_equal(actual[expected.columns], expected)
    np.testing.assert_allclose(actual[["quantile_0.05", "quantile_0.95"]], actual[["lower", "upper"]])


def test_quantiles_of_classes(run, file, size_model, tmp_path):
    done = run("predict", size_model, file, "-o", tmp_path / "out.csv", "--quantiles", "0.5")
    done.assert_input_error("size is a class: quantiles are for numbers")
    assert not (tmp_path / "out.csv").exists()


def test_classification(run, houses, file, size_model, tmp_path):
    out = tmp_path / "out.csv"
    assert run("predict", size_model, file, "-o", out).out.startswith("Columns that")
    actual = pd.read_csv(out)
    assert (actual.prediction == houses["size"]).mean() > 0.9
    assert json.loads(actual["set"][0])[0] in ("large", "small")


def test_pipe(houses, price_model, tmp_path):
    command = [sys.executable, "-m", "deltauq.cli", "predict", str(price_model), "/dev/stdin", "-o"]
    done = subprocess.run(
        [*command, str(tmp_path / "out.csv")],
        input=houses.to_csv(index=False),
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert len(pd.read_csv(tmp_path / "out.csv")) == 120


def test_trust(run, houses, file, tmp_path, monkeypatch):
    (tmp_path / "ownmodels.py").write_text("from sklearn.linear_model import Ridge\nclass Own(Ridge): pass\n")
    monkeypatch.syspath_prepend(tmp_path)
    import ownmodels

    model = deltauq.tables.fit(houses.drop(columns="size"), "price", model=ownmodels.Own())
    model.save(tmp_path / "model")
    command = ["predict", tmp_path / "model", file, "-o", tmp_path / "out.csv"]
    rejected = run(*command)
    assert rejected.code == 2 and "ownmodels.Own" in rejected.err and "--trust" in rejected.err
    assert run(*command, "--trust", "ownmodels.Other").code == 2
    assert run(*command, "--trust", "ownmodels.Own").code == 0


@pytest.mark.slow
def test_fit_and_predict_a_real_table(run, data_dir, tmp_path):
    table = load_uci("concrete")
    names = [f"x{k}" for k in range(table.X.shape[1])]
    frame = pd.DataFrame(table.X, columns=names).assign(strength=table.y)
    parts = []
    for k, (train, test) in enumerate(table.splits[:3]):
        data, new, out = (tmp_path / f"{name}{k}.parquet" for name in ("data", "new", "out"))
        model = tmp_path / f"model{k}"
        frame.iloc[train].to_parquet(data)
        frame.iloc[test].to_parquet(new)
        assert run("fit", data, "--target", "strength", "-o", model).code == 0
        assert run("predict", model, new, "-o", out, "--keep", "strength").code == 0
        parts.append(pd.read_parquet(out))
    actual = pd.concat(parts)
    errors = np.abs(actual.strength - actual.prediction)
    assert errors.mean() < 0.2 * table.y.std()
    covered = (actual.lower <= actual.strength) & (actual.strength <= actual.upper)
    assert abs(covered.mean() - 0.9) < 0.06
    by_risk = errors.groupby(actual.risk).mean()
    assert by_risk["low"] < by_risk["high"]
