"""Predictions of ONNX files, by onnxruntime, equal those of the models."""

import json
import re
import sys

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import ExtraTreesRegressor, RandomForestClassifier, RandomForestRegressor
from sklearn.svm import SVR
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

from deltauq import AnchoredClassifier, AnchoredRegressor
from deltauq.core import Target
from deltauq.export import export_onnx
from deltauq.tables import fit
from deltauq.utils.install import install_command

pytest.importorskip("onnx", reason="onnx is not installed")
onnxruntime = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")

NEAR = 1e-4


def run(path, **inputs):
    """Return the outputs of a file by name."""
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, session.run(names, inputs), strict=True))


def rows(n, seed, digits):
    rng = np.random.default_rng(seed)
    X = np.round(rng.normal(size=(n, 6)), digits)
    return X, X[:, 0] * X[:, 1] + np.sin(2 * X[:, 2]) + 0.1 * rng.normal(size=n)


def leaves(model, X):
    """Return the leaf that every tree has for every pair of row and anchor."""
    tuples = [model.encoding_.encode(X, np.broadcast_to(anchor, X.shape)) for anchor in model.anchors_.X]
    return np.array([model.estimator_.apply(rows) for rows in tuples])


# -- forests ------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module", params=[1, 16], ids=["on a grid", "anywhere"])
def forest(request, tmp_path_factory):
    """A forest with its file and ten thousand rows, rounded to a number of digits.

    Values on a grid that has no exact binary form are the harder ones: trees split between differences that

    """
    X, y = rows(300, 0, request.param)
    base = RandomForestRegressor(10, random_state=0)
    model = AnchoredRegressor(base, n_anchors=20, n_train_anchors=20, random_state=0).fit(X, y)
    path = export_onnx(model, tmp_path_factory.mktemp("forest") / "model.onnx")
    return model, path, rows(10_000, 1, request.param)[0], request.param


def test_forest_in_double_precision(forest):
    model, path, X, _ = forest
    mean, std = model.predict(X, return_std=True)
    outputs = run(path, X=X)
    # Far below what another leaf would change.
    np.testing.assert_allclose(outputs["mean"], mean, atol=1e-6)
    np.testing.assert_allclose(outputs["std"], std, atol=1e-6)


def test_forest_in_single_precision(forest):
    model, path, X, digits = forest
    mean, std = model.predict(X, return_std=True)
    single = X.astype(np.float32).astype(np.float64)
    outputs = run(path, X=single)
    flips = (leaves(model, single) != leaves(model, X)).any(axis=(0, 2))
    near = (np.abs(outputs["mean"] - mean) < NEAR) & (np.abs(outputs["std"] - std) < NEAR)
    print(f"{flips.sum()} of {len(X)} rows flip a branch, {(~near).sum()} differ by more than {NEAR}.")
    assert near[~flips].all()
    if digits == 16:
        assert near.mean() >= 0.999
    else:
        assert flips.mean() > 0.1  # the reason for doubles


@pytest.mark.parametrize("encoding", ["difference", "full", "identity", "two-anchor"])
@pytest.mark.parametrize("target", ["difference", "value"])
@pytest.mark.parametrize("center", ["anchored", "estimator"])
@pytest.mark.parametrize("base", [DecisionTreeRegressor(), ExtraTreesRegressor(5)])
def test_regressors(base, center, target, encoding, table, tmp_path):
    X, y = table
    options = {"target": target, "encoding": encoding, "center": center, "calibrate": "cv", "random_state": 0}
    # More anchors than rows: they repeat.
    model = AnchoredRegressor(base, n_anchors=70, **options).fit(X[:50], y[:50])
    mean, std = model.predict(X, return_std=True)
    outputs = run(export_onnx(model, tmp_path / "model.onnx"), X=X)
    np.testing.assert_allclose(outputs["mean"], mean, atol=1e-5)
    np.testing.assert_allclose(outputs["std"], std, atol=1e-5)


@pytest.mark.parametrize("center", ["anchored", "estimator"])
@pytest.mark.parametrize("encoding", ["difference", "full", "identity"])
def test_missing_values(encoding, center, table, tmp_path):
    X, y = table
    gaps = np.where(np.random.default_rng(0).random(X.shape) < 0.2, np.nan, X)
    base = RandomForestRegressor(5)
    model = AnchoredRegressor(base, n_anchors=20, encoding=encoding, center=center, random_state=0).fit(
        gaps, y
    )
    mean, std = model.predict(gaps, return_std=True)
    outputs = run(export_onnx(model, tmp_path / "model.onnx"), X=gaps)
    np.testing.assert_allclose(outputs["mean"], mean, atol=1e-5)
    np.testing.assert_allclose(outputs["std"], std, atol=1e-5)


@pytest.mark.parametrize("center", ["anchored", "estimator"])
@pytest.mark.parametrize("base", [DecisionTreeClassifier(max_depth=3), RandomForestClassifier(5)])
def test_classifiers(base, center, labelled, tmp_path):
    X, y = labelled
    model = AnchoredClassifier(base, center=center, calibrate="cv", random_state=0).fit(X, y)
    proba, std = model.predict_proba(X, return_std=True)
    path = export_onnx(model, tmp_path / "model.onnx")
    outputs = run(path, X=X)
    np.testing.assert_allclose(outputs["mean"], proba, atol=1e-6)
    np.testing.assert_allclose(outputs["std"], std, atol=1e-6)
    about = onnxruntime.InferenceSession(path).get_modelmeta().custom_metadata_map
    assert json.loads(about["classes"]) == ["blue", "green", "red"] and about["n_anchors"] == "20"


def test_one_row_and_no_rows(table, tmp_path):
    X, y = table
    model = AnchoredRegressor(DecisionTreeRegressor(), random_state=0).fit(X, y)
    path = export_onnx(model, tmp_path / "model.onnx")
    np.testing.assert_allclose(run(path, X=X[:1])["mean"], model.predict(X[:1]), atol=1e-6)
    assert run(path, X=X[:0])["std"].shape == (0,)


# -- tables -------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def streets():
    """Numbers, categories, flags and dates with missing values, and infrequent categories."""
    rng = np.random.default_rng(0)
    n = 300
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
    frame["size"] = np.where(frame.area > 110, "large", "small")
    frame.loc[::17, "area"] = np.nan
    frame.loc[::19, "town"] = None
    return frame


def inputs_of(model, frame):
    """Return the inputs of the graph, as documented by `export_onnx`."""
    X = model.schema.read(frame)
    return {
        column.name: X[[column.name]].to_numpy(dtype=object if column.kind == "category" else np.float64)
        for column in model.schema.columns
    }


@pytest.mark.parametrize("base", ["tree", RandomForestRegressor(5)])
@pytest.mark.parametrize("anchors", ["data", "normal"])  # labelled anchors, and a model of values
def test_table_regression(anchors, base, streets, tmp_path):
    model = fit(streets.drop(columns="size"), "price", model=base, anchors=anchors)
    fresh = streets.assign(town=streets.town.where(streets.index % 5 > 0, "Linz"), street="somewhere")
    for frame in (streets, fresh):
        outputs = run(export_onnx(model, tmp_path / "model.onnx"), **inputs_of(model, frame))
        expected = model.predict(frame)
        for name in ("prediction", "std", "lower", "upper"):
            np.testing.assert_allclose(outputs[name], expected[name], rtol=1e-5, atol=1e-4)


def test_columns_with_names_of_outputs(tmp_path):
    rng = np.random.default_rng(0)
    table = pd.DataFrame(rng.normal(size=(60, 3)), columns=["prediction", "std", "std_"])
    table["y"] = table["prediction"] - table["std"]
    model = fit(table, "y", model=DecisionTreeRegressor(random_state=0))
    outputs = run(export_onnx(model, tmp_path / "m.onnx"), **inputs_of(model, table))
    assert list(outputs) == ["prediction_", "std__", "lower", "upper"]
    np.testing.assert_allclose(outputs["prediction_"], model.predict(table)["prediction"], rtol=NEAR)


def test_date_target(streets, tmp_path):
    model = fit(streets.drop(columns="size"), "sold", model="tree")
    path = export_onnx(model, tmp_path / "model.onnx")
    outputs, expected = run(path, **inputs_of(model, streets)), model.predict(streets)
    about = onnxruntime.InferenceSession(path).get_modelmeta().custom_metadata_map
    origin = pd.Timestamp(about["origin"]).tz_localize(None)
    for name in ("prediction", "lower", "upper"):
        difference = origin + pd.to_timedelta(outputs[name], unit="D") - expected[name]
        assert difference.abs().max() < pd.Timedelta("1min")


@pytest.mark.parametrize("center", ["anchored", "estimator"])
def test_table_classification(center, streets, tmp_path):
    model = fit(streets.drop(columns="price"), "size", model="tree", center=center)
    outputs = run(export_onnx(model, tmp_path / "model.onnx"), **inputs_of(model, streets))
    expected = model.predict(streets)
    assert outputs["prediction"].tolist() == expected.prediction.tolist()
    for k, name in enumerate(model.classes):
        np.testing.assert_allclose(outputs["probability"][:, k], expected[f"probability_{name}"], atol=1e-6)
        np.testing.assert_allclose(outputs["std"][:, k], expected[f"std_{name}"], atol=1e-6)


@pytest.mark.parametrize("kept", [["area"], ["town"]])
def test_columns_of_one_kind(kept, streets, tmp_path):
    model = fit(streets[[*kept, "price"]], "price", model="tree")
    outputs = run(export_onnx(model, tmp_path / "model.onnx"), **inputs_of(model, streets))
    np.testing.assert_allclose(outputs["prediction"], model.predict(streets).prediction, rtol=1e-5)


# -- networks -----------------------------------------------------------------------------------------------


def network(kind):
    """Return an anchored network, trained for a step, with inputs."""
    torch = pytest.importorskip("torch", reason="torch is not installed")
    pytest.importorskip("onnxscript", reason="onnxscript is not installed")
    from deltauq.nn import MLP, Anchored, ResNet20

    torch.manual_seed(0)
    layers = [torch.nn.Linear(3, 16), torch.nn.ReLU(), torch.nn.Linear(16, 4)]
    x = torch.randn(64, 3)
    if kind == "convolution":
        net, x = Anchored(ResNet20(), 5), torch.randn(8, 3, 32, 32)
    elif kind == "hidden":
        net = Anchored(torch.nn.Sequential(*layers), 7, at="2")
    elif kind == "averaged":
        net = Anchored(torch.nn.Sequential(*layers), 7, mask=0.5, average_masked=True)
    else:
        net = Anchored(MLP(3, hidden=(32, 32)), 20, encoding=kind)
    net.train()
    net(x)
    net.set_anchors(x)
    return net, x


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "link"),
    [
        ("difference", None),
        ("two-anchor", "sigmoid"),
        ("hidden", "softmax"),
        ("averaged", "softmax"),
        ("convolution", "softmax"),
    ],
)
def test_networks(kind, link, tmp_path):
    net, x = network(kind)
    path = export_onnx(net, tmp_path / "net.onnx", link=link)
    assert not list(tmp_path.glob("*.data"))  # the file contains the weights
    assert net.training
    for n in (1, 2, 7):
        posterior = net.posterior(3 * x[:n], link=link)
        mean, var = posterior.mean, posterior.var
        if link is not None:
            mean, var = posterior.link_mean, posterior.link_var
        outputs = run(path, x=(3 * x[:n]).numpy())
        np.testing.assert_allclose(outputs["mean"], mean, atol=NEAR)
        np.testing.assert_allclose(outputs["std"], var.sqrt(), atol=NEAR)


# -- invalid input ------------------------------------------------------------------------------------------


class Ratio(Target):
    """y / y_R, which the graph does not know."""

    needs_labels = True

    def encode(self, y, *anchor_targets):
        return y / anchor_targets[0]

    def decode(self, output, *anchor_targets):
        return output * anchor_targets[0]


def test_invalid_input(table, tmp_path):
    X, y = table
    path = tmp_path / "model.onnx"
    svm = AnchoredRegressor(SVR(), random_state=0).fit(X, y)
    with pytest.raises(ValueError, match=r"takes trees and forests .* got SVR"):
        export_onnx(svm, path)
    two = AnchoredRegressor(DecisionTreeRegressor(), random_state=0).fit(X, np.column_stack([y, y]))
    with pytest.raises(ValueError, match="takes one target, got 2"):
        export_onnx(two, path)
    own = AnchoredRegressor(DecisionTreeRegressor(), target=Ratio(), random_state=0).fit(X, np.abs(y) + 1)
    with pytest.raises(ValueError, match=r"takes the targets .*'value'\], got Ratio"):
        export_onnx(own, path)
    with pytest.raises(ValueError, match="link is for networks"):
        export_onnx(svm, path, link="softmax")
    with pytest.raises(TypeError, match=r"takes a table model.* got DecisionTreeRegressor"):
        export_onnx(DecisionTreeRegressor(), path)
    assert list(tmp_path.iterdir()) == []


def test_missing_package(table, tmp_path, monkeypatch):
    X, y = table
    model = AnchoredRegressor(DecisionTreeRegressor(), random_state=0).fit(X, y)
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(ImportError, match=re.escape(f"need onnx: {install_command('export')}.")):
        export_onnx(model, tmp_path / "model.onnx")
