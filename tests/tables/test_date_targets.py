"""Dates as targets."""

import json

import numpy as np
import pandas as pd
import pytest

import deltauq
from deltauq.tables import TableError, evaluate, fit, predict_file
from deltauq.tables.folder import METADATA_FILE, metadata_digest
from deltauq.tables.schema import from_days

DAY = pd.Timedelta(days=1)


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(0)
    area = rng.uniform(0, 300, 120)
    sold = pd.Timestamp("2024-02-01") + pd.to_timedelta((area + rng.normal(0, 9, 120)).round(), unit="D")
    return pd.DataFrame({"area": area, "rooms": rng.integers(1, 7, 120), "sold": sold})


@pytest.fixture(scope="module")
def model(table):
    return fit(table, "sold", model="tree", n_train_anchors=5)


def test_predictions_equal_those_of_days(model, table):
    first = table.sold.min()
    by_days = fit(
        table.assign(sold=(table.sold - first) / DAY), "sold", model="tree", n_train_anchors=5
    ).predict(table)
    actual = model.predict(table)
    for name in ("prediction", "lower", "upper"):
        np.testing.assert_allclose((actual[name] - first) / DAY, by_days[name], atol=1e-6)
    np.testing.assert_allclose(actual["std"], by_days["std"])
    assert f"sold was taken as a number of days since {first.isoformat()}+00:00." in model.report["notes"]


def test_folder_and_output_formats_keep_dates(model, table, tmp_path):
    model.save(tmp_path / "model")
    again, expected = deltauq.load(tmp_path / "model"), model.predict(table)
    table.drop(columns="sold").to_csv(tmp_path / "new.csv", index=False)
    for name in ("out.csv", "out.parquet", "out.arrow"):
        predict_file(again, tmp_path / "new.csv", tmp_path / name, batch_rows=50)
    stamps = ["prediction", "lower", "upper"]
    pd.testing.assert_frame_equal(pd.read_parquet(tmp_path / "out.parquet"), expected)
    pd.testing.assert_frame_equal(pd.read_feather(tmp_path / "out.arrow"), expected)
    written = pd.read_csv(tmp_path / "out.csv", parse_dates=stamps)
    pd.testing.assert_frame_equal(written, expected, check_dtype=False)


def test_invalid_origin_in_a_folder_raises(model, tmp_path):
    model.save(tmp_path / "model")
    metadata = json.loads((tmp_path / "model" / METADATA_FILE).read_text())
    for change in ({"origin": "once upon a time"}, {"origin": "2024-01-01"}, {}):
        other = {name: value for name, value in metadata.items() if name != "origin"} | change
        (tmp_path / "model" / METADATA_FILE).write_text(
            json.dumps({**other, "sha256": metadata_digest(other)})
        )
        with pytest.raises(deltauq.tables.ModelFolderError, match="does not contain a valid model"):
            deltauq.load(tmp_path / "model")


@pytest.mark.parametrize("written", [False, True])
def test_evaluation_compares_dates(written, model, table):
    fresh = table.assign(sold=table.sold.dt.strftime("%Y-%m-%d")) if written else table
    actual, predicted = evaluate(model, fresh), model.predict(table)
    error = (predicted.prediction - table.sold).abs() / DAY
    assert actual.metrics["mae"] == pytest.approx(error.mean(), rel=1e-6)
    inside = (predicted.lower <= table.sold) & (table.sold <= predicted.upper)
    assert actual.metrics["coverage"] == pytest.approx(inside.mean())
    assert actual.notes[-1] == "sold is a date: errors, σ and widths are in days."
    assert actual.training_rows == len(table)
    first = actual.uncertain[0]
    assert pd.Timestamp(first.target) == table.sold[first.row - 1]
    assert pd.Timestamp(first.prediction) == predicted.prediction[first.row - 1].floor("min")
    json.dumps(actual.to_dict())


def test_evaluating_with_numbers_instead_of_dates_raises(model, table):
    with pytest.raises(TableError, match=r'sold contains "7(\.0)?", where dates are expected'):
        evaluate(model, table.assign(sold=7))


def test_dates_as_classes_are_unchanged(table):
    months = table.assign(sold=table.area.gt(150).map({True: "2024-06-01", False: "2024-01-01"}))
    model = fit(months, "sold", task="classification", model="linear")
    assert model.classes == ["2024-01-01", "2024-06-01"]
    stamped = months.assign(sold=pd.to_datetime(months.sold))
    assert evaluate(model, stamped).metrics["accuracy"] > 0.9


def test_dates_are_clipped_to_the_calendar():
    actual = from_days(np.array([-np.inf, -1e300, -0.5, 0.0, 1.25, 1e9]), "2024-01-01T00:00:00+00:00")
    expected = ["0001-01-01", "0001-01-01", "2023-12-31T12", "2024-01-01", "2024-01-02T06", "9999-12-31"]
    assert actual.tolist() == np.array(expected, dtype="datetime64[ms]").tolist()
