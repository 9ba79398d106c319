"""Predictions of ONNX files, by onnxruntime, equal those of anchored estimators and networks."""

import json
import re
import sys

import numpy as np
import pytest
from sklearn.ensemble import (
    ExtraTreesRegressor,
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.linear_model import LinearRegression, LogisticRegression, Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import PolynomialFeatures, StandardScaler
from sklearn.svm import SVR
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

from deltauq import AnchoredClassifier, AnchoredRegressor
from deltauq.core import Target
from deltauq.export import export_onnx
from deltauq.utils.install import install_command
from tests.export.helpers import assert_near, metadata_of, run

pytest.importorskip("onnx", reason="onnx is not installed")

NEAR = 1e-4


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
    about = metadata_of(path)
    assert json.loads(about["classes"]) == ["blue", "green", "red"] and about["n_anchors"] == "20"


def test_one_row_and_no_rows(table, tmp_path):
    X, y = table
    model = AnchoredRegressor(DecisionTreeRegressor(), random_state=0).fit(X, y)
    path = export_onnx(model, tmp_path / "model.onnx")
    np.testing.assert_allclose(run(path, X=X[:1])["mean"], model.predict(X[:1]), atol=1e-6)
    assert run(path, X=X[:0])["std"].shape == (0,)


# -- gradient boosting and linear models --------------------------------------------------------------------


def boosting(**options):
    return HistGradientBoostingRegressor(max_iter=20, **options)


@pytest.mark.parametrize("encoding", ["difference", "full", "two-anchor"])
@pytest.mark.parametrize("target", ["difference", "value"])
@pytest.mark.parametrize("center", ["anchored", "estimator"])
@pytest.mark.parametrize("digits", [1, 16], ids=["on a grid", "anywhere"])
def test_boosting(digits, center, target, encoding, tmp_path):
    X, y = rows(80, 0, digits)
    options = {"target": target, "encoding": encoding, "center": center, "n_anchors": 20}
    model = AnchoredRegressor(boosting(), **options, calibrate=2.0, random_state=0).fit(X, y)
    new = rows(1000, 1, digits)[0]
    mean, std = model.predict(new, return_std=True)
    outputs = run(export_onnx(model, tmp_path / "model.onnx"), X=new)
    assert_near(outputs["mean"], mean)
    assert_near(outputs["std"], std)


@pytest.mark.parametrize("gaps", [0.0, 0.2], ids=["only when predicting", "always"])
def test_missing_values_of_boosting(gaps, tmp_path):
    """Without missing values in training, NaN goes where more rows go."""
    rng = np.random.default_rng(0)
    X, y = rows(200, 0, 16)
    X[rng.random(X.shape) < gaps] = np.nan
    model = AnchoredRegressor(boosting(), n_anchors=20, random_state=0).fit(X, y)
    new = rows(1000, 1, 16)[0]
    new[rng.random(new.shape) < 0.2] = np.nan
    mean, std = model.predict(new, return_std=True)
    outputs = run(export_onnx(model, tmp_path / "model.onnx"), X=new)
    assert_near(outputs["mean"], mean)
    assert_near(outputs["std"], std)


def test_boosting_of_counts(table, tmp_path):
    X, y = table
    base = boosting(loss="poisson", min_samples_leaf=5)
    model = AnchoredRegressor(base, target="value", random_state=0).fit(X, np.exp(y))
    mean, std = model.predict(X, return_std=True)
    outputs = run(export_onnx(model, tmp_path / "model.onnx"), X=X)
    assert_near(outputs["mean"], mean)
    assert_near(outputs["std"], std)


def test_boosting_without_splits(table, tmp_path):
    X, y = table
    model = AnchoredRegressor(boosting(min_samples_leaf=10**6), random_state=0).fit(X, y)
    mean, std = model.predict(X, return_std=True)
    outputs = run(export_onnx(model, tmp_path / "model.onnx"), X=X)
    assert_near(outputs["mean"], mean)
    assert_near(outputs["std"], std)


@pytest.mark.parametrize("center", ["anchored", "estimator"])
@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("base", [HistGradientBoostingClassifier(max_iter=10), LogisticRegression()])
def test_classifiers_with_links(base, n_classes, center, labelled, tmp_path):
    X, y = (part[: 30 * n_classes] for part in labelled)
    model = AnchoredClassifier(base, center=center, random_state=0).fit(X, y)
    proba, std = model.predict_proba(X, return_std=True)
    outputs = run(export_onnx(model, tmp_path / "model.onnx"), X=X)
    assert_near(outputs["mean"], proba)
    assert_near(outputs["std"], std)


@pytest.mark.parametrize("base", [Ridge(), make_pipeline(StandardScaler(), LinearRegression())])
def test_linear_models(base, table, tmp_path):
    X, y = table
    model = AnchoredRegressor(base, calibrate="cv", random_state=0).fit(X, y)
    mean, std = model.predict(X, return_std=True)
    outputs = run(export_onnx(model, tmp_path / "model.onnx"), X=X)
    assert_near(outputs["mean"], mean)
    assert_near(outputs["std"], std)


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
    with pytest.raises(ValueError, match=r"takes trees, forests, .* and linear models .* got SVR"):
        export_onnx(svm, path)
    squares = AnchoredRegressor(make_pipeline(PolynomialFeatures(), Ridge()), random_state=0).fit(X, y)
    with pytest.raises(ValueError, match=r"the transformers SimpleImputer, .* got PolynomialFeatures"):
        export_onnx(squares, path)
    two = AnchoredRegressor(DecisionTreeRegressor(), random_state=0).fit(X, np.column_stack([y, y]))
    with pytest.raises(ValueError, match="takes one target, got 2"):
        export_onnx(two, path)
    two = AnchoredRegressor(Ridge(), random_state=0).fit(X, np.column_stack([y, y]))
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
