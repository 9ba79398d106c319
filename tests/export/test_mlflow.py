"""MLflow loads and serves the folders of `export_mlflow`, without unpickling."""

import json
import re
import shutil
import sys

import numpy as np
import pandas as pd
import pytest

from deltauq.export import export_mlflow
from deltauq.export.mlflow import require_pyfunc
from deltauq.tables import ModelFolderError, fit
from deltauq.utils.install import install_command


@pytest.fixture(scope="module")
def pyfunc():
    pytest.importorskip("mlflow.version", reason="mlflow is not installed")
    patch = pytest.MonkeyPatch()
    patch.setenv("MLFLOW_DISABLE_TELEMETRY", "true")
    yield require_pyfunc()
    patch.undo()


@pytest.fixture(scope="module")
def frame():
    rng = np.random.default_rng(0)
    n = 120
    frame = pd.DataFrame(
        {
            "area": rng.uniform(20, 200, n).round(2),  # exact in JSON
            "new": rng.random(n) < 0.3,
            "town": rng.choice(["Ulm", "Bern"], n),
            "sold": pd.Timestamp("2024-01-01") + pd.to_timedelta(rng.integers(0, 700, n), unit="D"),
        }
    )
    frame["price"] = 3 * frame.area + 50 * (frame.town == "Bern") + rng.normal(0, 9, n)
    frame.loc[::17, "area"] = np.nan
    frame.loc[::19, "town"] = None
    return frame


@pytest.fixture(scope="module")
def model(frame):
    return fit(frame, "price", quick=True)


@pytest.fixture(scope="module")
def folder(model, pyfunc, tmp_path_factory):
    return export_mlflow(model, tmp_path_factory.mktemp("mlflow") / "model")


def test_load(folder, model, frame, pyfunc):
    loaded = pyfunc.load_model(str(folder))
    pd.testing.assert_frame_equal(loaded.predict(frame), model.predict(frame))
    assert loaded.metadata.metadata == {"target": "price", "task": "regression", "coverage": 0.9}


def test_serve(folder, model, frame, pyfunc):
    from mlflow.pyfunc import scoring_server

    loaded = pyfunc.load_model(str(folder))
    # As sent by a client: dates as text, missing values as null.
    request = json.dumps({"dataframe_split": json.loads(frame.to_json(orient="split", date_format="iso"))})
    answer = scoring_server.invocations(request, "application/json", loaded, None)
    assert answer.status == 200, answer.response
    actual = pd.DataFrame(json.loads(answer.response)["predictions"])
    expected = model.predict(frame)
    np.testing.assert_allclose(actual["prediction"], expected["prediction"])
    assert actual["risk"].tolist() == expected["risk"].tolist()


def test_serve_classes(frame, pyfunc, tmp_path):
    from mlflow.pyfunc import scoring_server

    model = fit(frame.drop(columns=["town", "price"]).assign(dear=frame.price > 300), "dear", model="tree")
    loaded = pyfunc.load_model(str(export_mlflow(model, tmp_path / "model")))
    expected = model.predict(frame)
    pd.testing.assert_frame_equal(loaded.predict(frame), expected)
    request = json.dumps({"dataframe_split": json.loads(frame.to_json(orient="split", date_format="iso"))})
    answer = scoring_server.invocations(request, "application/json", loaded, None)
    assert answer.status == 200, answer.response
    actual = pd.DataFrame(json.loads(answer.response)["predictions"])
    for name in ("prediction", "set"):
        assert actual[name].tolist() == expected[name].tolist()
    np.testing.assert_allclose(actual["probability_True"], expected["probability_True"])


def test_no_pickle(folder):
    names = {path.name for path in folder.rglob("*") if path.is_file()}
    assert {"MLmodel", "metadata.json", "model.skops"} <= names
    assert not [name for name in names if name.endswith((".pkl", ".pickle", ".joblib"))]
    assert "loader_module: deltauq.export.mlflow" in (folder / "MLmodel").read_text()


def test_altered_model_raises(folder, pyfunc, tmp_path):
    copy = shutil.copytree(folder, tmp_path / "copy")
    (copy / "data" / "model" / "model.skops").write_bytes(b"\x80\x04.")
    with pytest.raises(ModelFolderError, match="was altered"):
        pyfunc.load_model(str(copy))


def test_invalid_input(model, folder, pyfunc, tmp_path):
    with pytest.raises(FileExistsError, match="name a new folder"):
        export_mlflow(model, folder)
    with pytest.raises(TypeError, match="takes a table model, got dict"):
        export_mlflow({}, tmp_path / "other")
    assert list(tmp_path.iterdir()) == []


def test_missing_package(model, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "mlflow.pyfunc", None)
    with pytest.raises(
        ImportError, match=re.escape(f"MLflow models need mlflow: {install_command('mlflow')}.")
    ):
        export_mlflow(model, tmp_path / "model")
