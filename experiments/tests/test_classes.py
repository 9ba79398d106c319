"""Classifiers on tables of KEEL."""

import numpy as np
import pytest
from scipy.special import logit
from sklearn.linear_model import LogisticRegression

from experiments import classes


@pytest.mark.parametrize("method", classes.METHODS)
def test_methods_run_on_a_real_table(method, data_dir):
    metrics = classes.run({"n_train": 100, "dataset": "wdbc", "method": method, "seed": 0}, "quick").metrics
    assert 0.85 < metrics["accuracy"] <= 1.0
    # Better than the shares of the classes.
    assert 0.0 < metrics["nll"] < 0.6 and 0.0 < metrics["brier"] < 0.4


def test_sizes_are_compared_on_training_rows(data_dir):
    cell = {"part": "size", "n_train": 300, "dataset": "vehicle", "seed": 0}
    plain, anchored = (
        classes.run({**cell, "setting": name}, "quick").metrics for name in ("plain", "10 anchors, 2 x")
    )
    assert anchored["nll"] < plain["nll"]


def test_splits_are_disjoint_and_stratified(data_dir):
    table = classes.keel_table("vowel")
    train, test = classes.split(table, 0, 300)
    assert len(train) == 300 and len(np.unique(np.concatenate([train, test]))) == len(table.y)
    assert set(np.bincount(table.y[train])) <= {27, 28}
    train, test = classes.split(classes.keel_table("heart"), 0, 300)
    assert (len(train), len(test)) == (162, 108)
    train, test = classes.split(classes.keel_table("letter"), 0, 2000)
    assert (len(train), len(test)) == (2000, 2000)


def test_only_large_tables_have_many_training_rows(data_dir):
    cells = classes.cells("paper")
    assert {cell["dataset"] for cell in cells if cell.get("n_train") == 2000} == {
        name for name in classes.KEEL if len(classes.keel_table(name).y) >= 2500
    }


def test_temperature_lowers_confidence_where_labels_are_noise():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(60, 10)), rng.integers(2, size=60)
    plain = LogisticRegression()
    scaled = classes.TemperatureScaled(LogisticRegression(), 1e-12, 0).fit(X, y)
    plain_proba, proba = plain.fit(X, y).predict_proba(X), scaled.predict_proba(X)
    ratio = logit(plain_proba[:, 0]) / logit(proba[:, 0])
    np.testing.assert_allclose(ratio, scaled.scaler.temperature_, rtol=1e-4)
    assert ratio[0] > 2.0


def test_floor():
    proba = classes.with_floor(np.array([[1.0, 0.0], [0.5, 0.5]]), 0.01)
    np.testing.assert_allclose(proba, [[1 / 1.01, 0.01 / 1.01], [0.5, 0.5]])
