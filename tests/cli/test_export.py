import json

import pytest

import deltauq
from deltauq.tables import fit


@pytest.fixture(scope="module")
def tree_model(houses, tmp_path_factory):
    folder = tmp_path_factory.mktemp("models") / "tree"
    fit(houses.drop(columns="size"), "price", model="tree", n_train_anchors=5).save(folder)
    return folder


@pytest.fixture(scope="module")
def knn_model(houses, tmp_path_factory):
    folder = tmp_path_factory.mktemp("models") / "knn"
    fit(houses.drop(columns="size"), "price", model="knn", quick=True).save(folder)
    return folder


def test_onnx(run, tree_model, tmp_path):
    onnx = pytest.importorskip("onnx", reason="onnx is not installed")
    out = tmp_path / "model.onnx"
    done = run("export", tree_model, "-o", out)
    assert (done.code, done.out, done.err) == (0, f"ONNX file: {out}\n", "")
    graph = onnx.load(out).graph
    assert [value.name for value in graph.input] == ["area", "rooms", "sold", "town"]
    assert [value.name for value in graph.output] == ["prediction", "std", "lower", "upper"]
    actual = json.loads(run("export", tree_model, "-o", out, "--json").out)
    assert actual == {"model": str(tree_model), "format": "onnx", "out": str(out)}


def test_mlflow(run, tree_model, tmp_path, monkeypatch):
    pytest.importorskip("mlflow.version", reason="mlflow is not installed")
    monkeypatch.setenv("MLFLOW_DISABLE_TELEMETRY", "true")
    done = run("export", tree_model, "-o", tmp_path / "served", "--format", "mlflow")
    assert done.code == 0 and done.out == f"MLflow model: {tmp_path / 'served'}\n"
    assert deltauq.load(tmp_path / "served" / "data" / "model").target == "price"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nowhere", "-o", "model.onnx"], "there is no model folder or file nowhere"),
        (["KNN", "-o", "model.onnx"], "got KNeighborsRegressor"),
        (["TREE", "-o", "no/model.onnx"], "is not a folder"),
        (["TREE", "-o", "model.onnx", "--link", "softmax"], "link is for networks"),
        (["TREE", "-o", "model", "--format", "mlflow", "--link", "softmax"], "--link is for networks"),
        (["TREE", "-o", "model", "--format", "pickle"], "--format"),
    ],
)
def test_input_errors(arguments, message, run, tree_model, knn_model, tmp_path, monkeypatch):
    pytest.importorskip("onnx", reason="onnx is not installed")
    monkeypatch.chdir(tmp_path)
    folders = {"TREE": tree_model, "KNN": knn_model}
    done = run("export", *(folders.get(word, word) for word in arguments))
    done.assert_input_error(message)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("n_anchors", [0, 1])
def test_network_with_too_few_anchors(n_anchors, run, tmp_path):
    torch = pytest.importorskip("torch", reason="torch is not installed")
    pytest.importorskip("onnxscript", reason="onnxscript is not installed")
    from deltauq.nn import MLP, Anchored

    net = Anchored(MLP(3, hidden=(4,)), 2)
    if n_anchors:
        net.set_anchors(torch.zeros(n_anchors, 3))
    net.save(tmp_path / "net.safetensors")
    done = run("export", tmp_path / "net.safetensors", "-o", tmp_path / "net.onnx")
    done.assert_input_error("at least two anchors")
