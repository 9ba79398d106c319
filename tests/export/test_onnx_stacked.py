"""Predictions of ONNX files, by onnxruntime, equal those of stacked estimators."""

import json

import numpy as np
import pytest
from sklearn.ensemble import (
    ExtraTreesClassifier,
    ExtraTreesRegressor,
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
)

from deltauq import AnchoredClassifier, AnchoredRegressor
from deltauq.estimators import StackedClassifier, StackedRegressor, classification_members, regression_members
from deltauq.export import export_onnx
from tests.export.helpers import assert_near, assert_nearly_all_near, metadata_of, run

pytest.importorskip("onnx", reason="onnx is not installed")


def numbers(n, seed):
    """Return rows with missing values, and a nonlinear target."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    y = 1000.0 + 50.0 * (X[:, 0] * X[:, 1] + X[:, 1] + np.sin(2 * X[:, 2]) + 0.2 * rng.normal(size=n))
    return np.where(rng.random(X.shape) < 0.1, np.nan, X), y


@pytest.fixture
def keep_all(monkeypatch):
    """All four members are kept."""
    for function in ("stacked_regressor.fit_weights", "stacked_classifier.fit_exponents"):
        monkeypatch.setattr(f"deltauq.estimators.{function}", lambda *_: np.array([0.4, 0.3, 0.2, 0.1]))


def test_regressor(keep_all, tmp_path):
    X, y = numbers(150, 0)
    members = [
        ("anchored", AnchoredRegressor(HistGradientBoostingRegressor(max_iter=20), n_anchors=20)),
        ("boosting", HistGradientBoostingRegressor(max_iter=20)),
        ("forest", ExtraTreesRegressor(20)),
        regression_members(len(X), quick=True)[-1],
    ]
    model = StackedRegressor(members, quick=True, random_state=0).fit(X, y)
    assert len(model.names_) == 4
    # Variances over anchors, over trees and between members have a part.
    assert np.count_nonzero(model.difficulty_.weights_) == 3
    path = export_onnx(model, tmp_path / "model.onnx")
    # Some rows are far from the data: members are clipped, and so are expected errors.
    new = np.vstack([numbers(1000, 1)[0], 1e4 * numbers(50, 2)[0]])
    mean, std = model.predict(new, return_std=True)
    outputs = run(path, X=new)
    assert_near(outputs["mean"], mean)
    assert_nearly_all_near(outputs["std"], std, unit=np.std(y))
    assert json.loads(metadata_of(path)["classes"]) == []


@pytest.mark.parametrize("n_classes", [2, 3])
def test_classifier(n_classes, keep_all, tmp_path):
    X, y = numbers(150, 0)
    labels = np.digitize(y, np.quantile(y, np.arange(1, n_classes) / n_classes)) * 10
    members = [
        ("anchored", AnchoredClassifier(HistGradientBoostingClassifier(max_iter=10), n_anchors=10)),
        ("boosting", HistGradientBoostingClassifier(max_iter=10)),
        ("forest", ExtraTreesClassifier(20)),
        classification_members(len(X), quick=True)[-1],
    ]
    model = StackedClassifier(members, quick=True, random_state=0).fit(X, labels)
    assert len(model.names_) == 4
    path = export_onnx(model, tmp_path / "model.onnx")
    new = np.vstack([numbers(1000, 1)[0], 1e4 * numbers(50, 2)[0]])
    proba, std = model.predict_proba(new, return_std=True)
    outputs = run(path, X=new)
    assert_near(outputs["mean"], proba)
    assert_near(outputs["std"], std)
    assert json.loads(metadata_of(path)["classes"]) == model.classes_.tolist()


def test_smooth_features_without_training_rows(tmp_path):
    X, y = numbers(100, 0)
    members = regression_members(len(X), quick=True, store_rows=False)[-1:]
    model = StackedRegressor(members, quick=True, random_state=0).fit(X, y)
    mean, std = model.predict(X, return_std=True)
    outputs = run(export_onnx(model, tmp_path / "model.onnx"), X=X)
    assert_near(outputs["mean"], mean)
    assert_nearly_all_near(outputs["std"], std, unit=np.std(y))
