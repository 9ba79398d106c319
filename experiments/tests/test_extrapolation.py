"""Targets beyond the range of training: the splits, the metrics, and small runs of every method."""

import json

import numpy as np
import pytest

from experiments import ResultLine, extrapolation
from experiments.digit_models import thickness
from experiments.extrapolation import Predictions, Size

TINY = {"quick": Size(600, 1, 1)}


@pytest.fixture
def tiny(data_dir, monkeypatch):
    monkeypatch.setattr(extrapolation, "SIZES", TINY)
    monkeypatch.setattr(extrapolation, "N_MEMBERS", 2)


@pytest.mark.parametrize("method", extrapolation.METHODS)
def test_digits(method, tiny):
    cell = {"part": "digits", "limit": 175, "method": method, "seed": 0}
    outcome = extrapolation.run(cell, "quick")
    metrics = outcome.metrics
    for rows in ("inside", "25", "50"):
        assert metrics[f"mae_{rows}"] >= abs(metrics[f"bias_{rows}"]) and metrics[f"sigma_{rows}"] > 0
    assert 0.7 < metrics["coverage_inside"] <= 1.0
    assert metrics["width_25"] == pytest.approx(metrics["width_inside"]) or method != "plain"
    assert len(json.loads(json.dumps(outcome.details))["bias"]) == len(extrapolation.CURVE)


def test_recipe(tiny):
    cell = {"part": "recipe", "method": "delta-labelled", "rate": 1e-3}
    assert 0.0 < extrapolation.run(cell, "quick").metrics["mae_held_out"] < 50.0


def test_unseen_digits_are_test_digits_and_thick_training_digits(data_dir):
    x, y = extrapolation.unseen_digits(200, 600)
    np.testing.assert_array_equal(thickness(x), y)
    assert len(y) > 600 and (y[600:] > 200).all() and (y[:600] <= 200).mean() > 0.9


@pytest.mark.parametrize("method", extrapolation.MODELS)
def test_tables(method, tiny, monkeypatch):
    monkeypatch.setattr(extrapolation, "N_TRAIN", {"quick": 100})
    cell = {"part": "tables", "dataset": "boston", "method": method, "seed": 0}
    metrics = extrapolation.run(cell, "quick").metrics
    assert metrics["n_train"] == 100
    assert metrics["mae_beyond"] > metrics["mae_inside"] > 0.1
    assert -metrics["mae_beyond"] <= metrics["bias_beyond"] < 0.0, "predictions are within the range"
    assert 0.0 <= metrics["coverage_beyond"] < metrics["coverage_inside"] <= 1.0


@pytest.mark.parametrize("dataset", ["wine", "energy"])
def test_test_rows_beyond_have_larger_targets_than_all_others(dataset, data_dir):
    train, inside, beyond = extrapolation.split_by_target(dataset, 0, 1000)
    y = extrapolation.load_rows(dataset)[1]
    assert y[beyond].min() > max(y[train].max(), y[inside].max())
    assert len(np.unique(np.concatenate([train, inside, beyond]))) == len(train) + len(inside) + len(beyond)


def test_the_limit_is_below_a_largest_target_with_many_rows(monkeypatch):
    y = np.repeat([1.0, 2.0, 3.0], 10)
    monkeypatch.setattr(extrapolation, "load_rows", lambda dataset: (y[:, None], y))
    train, inside, beyond = extrapolation.split_by_target("any", 0, 5)
    assert (len(train), len(inside)) == (5, 15) and (y[beyond] == 3.0).all() and len(beyond) == 10


def test_metrics_of_predictions():
    half = np.array([1.0, 1.0, 4.0])
    mean = np.array([0.0, 2.0, 4.0])
    result = Predictions(mean, half / 2, mean - half, mean + half)
    metrics = result.metrics(np.array([1.0, 4.0, 8.0]), "new", unit=2.0)
    assert metrics["bias_new"] == pytest.approx(-14 / 3) == -metrics["mae_new"]
    assert metrics["sigma_new"] == pytest.approx(2.0) and metrics["width_new"] == pytest.approx(8.0)
    assert metrics["coverage_new"] == pytest.approx(2 / 3)
    assert metrics["sigma_ratio_new"] == pytest.approx(3 / 7)


def test_an_empty_bin_has_no_mean_error():
    curve = extrapolation.bias_curve(np.array([-60.0, -59.0, 0.0, 90.0]), np.array([9.0, 1.0, 2.0, 3.0]))
    assert curve == [1.0, None, None, 2.0, None, None, None, None, None, 3.0]


def test_figures():
    pytest.importorskip("plotly")
    curve = [0.5, *[None] * (len(extrapolation.CURVE) - 1)]
    cells = [cell for cell in extrapolation.cells("quick") if cell["part"] == "digits"]
    lines = [
        ResultLine("extrapolation", 1, "quick", cell, {}, 1.0, details={"bias": curve}) for cell in cells
    ]
    figures = extrapolation.figures(lines)
    assert len(figures) == 2 and not extrapolation.figures([])
    names = [trace.name for trace in figures[0].figure.data]
    assert names == ["plain", "ensemble", "Δ-UQ", "labelled anchors"]
