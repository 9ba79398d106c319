"""The options `--date-format`, `--decimal` and `--encoding`."""

import json

import numpy as np
import pandas as pd
import pytest

import deltauq


@pytest.fixture
def table():
    """Forty rows with ambiguous dates and numbers, and a town in latin-1."""
    n = np.arange(40)
    return pd.DataFrame(
        {
            "sold": [f"{1 + k % 9:02d}/{1 + k // 9:02d}/2024" for k in n],
            "area": [f"{20 + k},{k:03d}" for k in n],
            "town": np.where(n % 2, "Köln", "Ulm"),
            "price": 3.5 * n,
        }
    )


OPTIONS = ["--date-format", "%d/%m/%Y", "--decimal", ",", "--encoding", "latin-1"]


@pytest.mark.parametrize(
    ("removed", "message"),
    [(0, "by --date-format"), (2, "by --decimal"), (4, "by --encoding")],
)
def test_error_names_the_missing_option(removed, message, table, run, tmp_path):
    table.to_csv(tmp_path / "x.csv", index=False, encoding="latin-1")
    options = OPTIONS[:removed] + OPTIONS[removed + 2 :]
    for command in (["fit", "-o", tmp_path / "model"], ["assess"]):
        done = run(*command, tmp_path / "x.csv", "--target", "price", "--model", "linear", *options)
        done.assert_input_error(message)


def test_fit_predict_and_evaluate_agree(table, run, tmp_path):
    table.to_csv(tmp_path / "x.csv", index=False, encoding="latin-1")
    model = tmp_path / "model"
    done = run("fit", tmp_path / "x.csv", "--target", "price", "--model", "linear", "-o", model, *OPTIONS)
    assert (done.code, done.err) == (0, "")
    read = deltauq.load(model).schema.read(table)
    np.testing.assert_allclose(read.area, 20 + 1.001 * np.arange(40))
    assert read.sold.max() == 124  # from January 1st to May 4th
    assert set(read.town) == {"Köln", "Ulm"}
    assert run("predict", model, tmp_path / "x.csv", "-o", tmp_path / "out.csv", *OPTIONS[4:]).code == 0
    done = run("evaluate", model, tmp_path / "x.csv", "--json", *OPTIONS[4:])
    assert json.loads(done.out)["rows"] == 40
    # A later table in other formats, which are then named.
    other = table.assign(sold=table.sold.str.replace("/", "."), area=table.area.str.replace(",", "."))
    other.to_csv(tmp_path / "other.csv", index=False)
    done = run("predict", model, tmp_path / "other.csv", "-o", tmp_path / "other-out.csv")
    done.assert_input_error('"01.01.2024" in row 1, where dates are expected')
    assert "--date-format" in done.err and not (tmp_path / "other-out.csv").exists()
    formats = ["--date-format", "%d.%m.%Y", "--decimal", "."]
    assert run("predict", model, tmp_path / "other.csv", "-o", tmp_path / "other-out.csv", *formats).code == 0
    pd.testing.assert_frame_equal(pd.read_csv(tmp_path / "other-out.csv"), pd.read_csv(tmp_path / "out.csv"))


def test_invalid_formats(table, run, tmp_path, price_model):
    table.to_csv(tmp_path / "x.csv", index=False)
    for option, value in (("--decimal", "comma"), ("--date-format", "%Q"), ("--encoding", "klingon")):
        for command in (
            ["fit", tmp_path / "x.csv", "--target", "price"],
            ["predict", price_model, tmp_path / "x.csv"],
        ):
            done = run(*command, "-o", tmp_path / "out.csv", option, value)
            done.assert_input_error(value)


def test_spreadsheet(run, tmp_path, price_model):
    (tmp_path / "x.xlsx").write_bytes(b"PK\x03\x04")
    for command in (
        ["fit", tmp_path / "x.xlsx", "--target", "price"],
        ["predict", price_model, tmp_path / "x.xlsx"],
    ):
        done = run(*command, "-o", tmp_path / "out.csv")
        done.assert_input_error("is a spreadsheet: save its sheet as CSV")
