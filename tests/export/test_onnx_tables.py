"""Predictions of ONNX files, by onnxruntime, equal those of table models."""

import json

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import (
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.tree import DecisionTreeRegressor

from deltauq.export import export_onnx
from deltauq.tables import fit
from deltauq.utils.errors import InputError
from tests.export.helpers import assert_near, assert_nearly_all_near, inputs_of, metadata_of, run

pytest.importorskip("onnx", reason="onnx is not installed")


def streets(n):
    """Numbers, categories, flags and dates with missing values, and infrequent categories."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "town": rng.choice(["Ulm", "Bern", "Graz"], n),
            "area": rng.uniform(20, 200, n).round(1),
            "street": [f"street {int(k)}" for k in np.minimum(rng.geometric(0.08, n), 60)],
            "new": rng.random(n) < 0.3,
            "sold": pd.Timestamp("2024-01-01") + pd.to_timedelta(rng.integers(0, 700, n), unit="D"),
        }
    )
    frame["price"] = 3 * frame.area + 50 * (frame.town == "Bern") + rng.normal(0, 9, n)
    size = frame.area + rng.normal(0, 20, n)
    frame["size"] = np.select([size > 150, size > 80], ["large", "medium"], "small")
    frame.loc[::17, "area"] = np.nan
    frame.loc[::19, "town"] = None
    return frame


ROWS = streets(600)
TRAIN = ROWS[:200]
NEW = ROWS.assign(
    town=ROWS.town.where(ROWS.index % 5 > 0, "Linz"),
    street=ROWS.street.where(ROWS.index % 7 > 0, "elsewhere"),
)
"""Rows of which some have unseen categories."""


def fit_regression(model, **options):
    return fit(TRAIN.drop(columns="size"), "price", model=model, quick=True, **options)


def fit_classes(model):
    return fit(TRAIN.drop(columns="price"), "size", model=model, quick=True)


@pytest.fixture(scope="module")
def tree():
    return fit_regression("tree")


def assert_same_numbers(model, path, frame):
    outputs, expected = run(path, **inputs_of(model, frame)), model.predict(frame)
    unit = expected["std"].mean()
    assert_near(outputs["prediction"], expected["prediction"], unit)
    for name in ("std", "lower", "upper"):
        assert_nearly_all_near(outputs[name], expected[name], unit)


def assert_same_classes(model, path, frame):
    outputs, expected = run(path, **inputs_of(model, frame)), model.predict(frame)
    assert outputs["prediction"].tolist() == expected["prediction"].tolist()
    for k, name in enumerate(model.classes):
        assert_near(outputs["probability"][:, k], expected[f"probability_{name}"])
        assert_near(outputs["std"][:, k], expected[f"std_{name}"])


def test_default_model_of_numbers(tmp_path):
    model = fit_regression("auto")
    path = export_onnx(model, tmp_path / "model.onnx")
    assert_same_numbers(model, path, NEW)
    about = metadata_of(path)
    assert (about["target"], about["task"], about["coverage"]) == ("price", "regression", "0.9")
    assert json.loads(about["members"]) == model.fitted.model.names_


def test_default_model_of_classes(tmp_path):
    model = fit_classes("auto")
    path = export_onnx(model, tmp_path / "model.onnx")
    assert_same_classes(model, path, NEW)
    assert json.loads(metadata_of(path)["classes"]) == ["large", "medium", "small"]


@pytest.mark.parametrize(
    "base", ["linear", RandomForestRegressor(5), HistGradientBoostingRegressor(max_iter=20)]
)
def test_base_models_of_numbers(base, tmp_path):
    model = fit_regression(base)
    assert_same_numbers(model, export_onnx(model, tmp_path / "model.onnx"), NEW)


@pytest.mark.parametrize(
    "base", ["tree", "linear", RandomForestClassifier(5), HistGradientBoostingClassifier(max_iter=10)]
)
def test_base_models_of_classes(base, tmp_path):
    model = fit_classes(base)
    assert_same_classes(model, export_onnx(model, tmp_path / "model.onnx"), NEW)


@pytest.mark.slow
@pytest.mark.parametrize("base", ["forest", "boosting"])
def test_large_base_models(base, tmp_path):
    model = fit_regression(base)
    assert_same_numbers(model, export_onnx(model, tmp_path / "numbers.onnx"), NEW)
    model = fit_classes(base)
    assert_same_classes(model, export_onnx(model, tmp_path / "classes.onnx"), NEW)


def with_gaps(frame):
    """Missing values in all columns, of which most have none in training."""
    columns = ["town", "area", "street", "new", "sold"]
    gaps = np.random.default_rng(0).random((len(frame), len(columns))) < 0.3
    return frame.assign(**frame[columns].mask(gaps))


@pytest.mark.parametrize("fit_model", [fit_regression, fit_classes])
@pytest.mark.parametrize("model", ["auto", "tree", "linear"])
def test_missing_values_in_any_column(fit_model, model, tmp_path):
    fitted = fit_model(model)
    check = assert_same_numbers if fitted.task == "regression" else assert_same_classes
    check(fitted, export_onnx(fitted, tmp_path / "model.onnx"), with_gaps(NEW))


def test_anchors_without_targets(tmp_path):
    model = fit_regression("tree", anchors="normal")
    assert_same_numbers(model, export_onnx(model, tmp_path / "model.onnx"), NEW)


def test_columns_with_names_of_outputs(tmp_path):
    rng = np.random.default_rng(0)
    table = pd.DataFrame(rng.normal(size=(60, 3)), columns=["prediction", "std", "std_"])
    table["y"] = table["prediction"] - table["std"]
    model = fit(table, "y", model=DecisionTreeRegressor(random_state=0))
    outputs = run(export_onnx(model, tmp_path / "m.onnx"), **inputs_of(model, table))
    assert list(outputs) == ["prediction_", "std__", "lower", "upper"]
    assert_near(outputs["prediction_"], model.predict(table)["prediction"])


def test_date_target(tmp_path):
    model = fit(TRAIN.drop(columns="size"), "sold", model="tree")
    path = export_onnx(model, tmp_path / "model.onnx")
    outputs, expected = run(path, **inputs_of(model, NEW)), model.predict(NEW)
    origin = pd.Timestamp(metadata_of(path)["origin"]).tz_localize(None)
    for name in ("prediction", "lower", "upper"):
        difference = origin + pd.to_timedelta(outputs[name], unit="D") - expected[name]
        assert (difference.abs() < pd.Timedelta("1min")).mean() >= 0.99


@pytest.mark.parametrize("kept", [["area"], ["town"]])
def test_columns_of_one_kind(kept, tmp_path):
    model = fit(TRAIN[[*kept, "price"]], "price", model="tree")
    assert_same_numbers(model, export_onnx(model, tmp_path / "model.onnx"), NEW)


def test_one_row_and_no_rows(tree, tmp_path):
    path = export_onnx(tree, tmp_path / "model.onnx")
    assert_same_numbers(tree, path, NEW)
    assert_same_numbers(tree, path, NEW[:1])
    empty = {name: values[:0] for name, values in inputs_of(tree, NEW).items()}
    assert run(path, **empty)["upper"].shape == (0,)


@pytest.mark.parametrize(("base", "kind"), [("svm", "SV[RC]"), ("knn", "KNeighbors"), ("mlp", "MLP")])
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_other_models_raise(base, kind, tmp_path):
    small = TRAIN[["area", "price"]][:40]
    model = fit(small, "price", model=base, quick=True)
    with pytest.raises(InputError, match=rf'got {kind}.* as the member "(anchored|plain)"\.$'):
        export_onnx(model, tmp_path / "model.onnx")
    assert list(tmp_path.iterdir()) == []
