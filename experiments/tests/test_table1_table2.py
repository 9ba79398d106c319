"""The experiments themselves, on a few cells."""

import dataclasses

import numpy as np
import pytest

from experiments import (
    NAMES,
    ResultStore,
    ablation_anchors,
    base_estimators,
    figure2,
    get_experiment,
    table1,
    table2,
    table2_study,
)
from experiments.__main__ import main


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("profile", ["quick", "paper"])
def test_cells_are_different_and_plain(name, profile):
    experiment = get_experiment(name)
    cells = experiment.cells(profile)
    assert len({experiment.key(cell, profile) for cell in cells}) == len(cells) > 0


def test_unknown_experiment():
    with pytest.raises(ValueError, match="'table9'"):
        get_experiment("table9")


def test_difference_beats_identity_in_table1():
    outcomes = {
        encoding: table1.run({"function": "ackley-2d", "encoding": encoding, "seed": 0}, "quick").metrics
        for encoding in ("identity", "difference")
    }
    assert outcomes["difference"]["spearman"] > outcomes["identity"]["spearman"] + 0.1
    assert outcomes["difference"]["r2"] > outcomes["identity"]["r2"] - 0.03


def test_table2_splits_are_disjoint_and_the_same_for_all(data_dir):
    table = table2.openml_table(216)
    train, validation, test = table2.split(table, 3, None)
    assert (len(train), len(validation)) == (200, 100)
    assert len(np.unique(np.concatenate([train, validation, test]))) == len(table.y)
    np.testing.assert_array_equal(train, table2.split(table, 3, 500)[0])


@pytest.mark.parametrize("method", table2.METHODS)
def test_table2_methods_run_on_a_real_table(method, data_dir):
    if method in ("quantile-forest", "ngboost"):
        pytest.importorskip(method.replace("-", "_"))
    metrics = table2.run({"dataset": 216, "method": method, "seed": 0}, "quick").metrics
    assert 0.001 < metrics["mae"] < 0.006
    assert ("spearman" in metrics) == (method != "plain")


def test_the_command_runs_and_resumes(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(table1, "DIMENSIONS", (2,))
    monkeypatch.setattr(table1, "N_TRAIN", 50)
    assert main(["table1", "--results", str(tmp_path)]) == 0
    assert "Profile quick: 6 lines, nothing missing." in capsys.readouterr().out
    assert main(["table1", "--results", str(tmp_path)]) == 0
    assert len(list(ResultStore(tmp_path / "table1.jsonl"))) == 6


def test_figure2_uncertainty(monkeypatch):
    monkeypatch.setattr(figure2, "GRID", np.linspace(-3.2, 3.2, 33))
    apart = figure2.run({"layout": "separable", "seed": 0}, "quick")
    assert apart.metrics["boundaries_over_centers"] > 3
    nested = figure2.run({"layout": "nested", "seed": 0}, "quick")
    assert min(nested.metrics["small_1"], nested.metrics["small_2"]) > nested.metrics["large"]
    picture = apart.details
    assert np.shape(picture["uncertainty"]) == (33, 33)
    assert np.shape(picture["percent_by_anchor"]) == np.shape(picture["top_by_anchor"]) == (5, 17, 17)
    assert np.min(picture["percent_by_anchor"]) >= 33 and np.max(picture["percent_by_anchor"]) <= 100


@pytest.mark.parametrize("base", ["tree", "knn"])
def test_bases_measure_plain_and_anchored_on_the_same_rows(base, data_dir):
    cell = {"n_train": 200, "dataset": 216, "base": base, "seed": 0}
    plain, value, difference = (
        base_estimators.run({**cell, "method": method}, "quick").metrics
        for method in ("plain", "value", "difference")
    )
    assert all(anchored[n] == plain[n] for anchored in (value, difference) for n in ("n_train", "n_test"))
    assert plain["n_train"] == 200 and 0.1 < plain["mae"] < 1.5, "of a standardised target"
    assert difference["mae"] < 1.1 * plain["mae"] and difference["mae"] != value["mae"]
    assert "spearman" not in plain and value["spearman"] > 0 and difference["spearman"] > 0


def test_more_anchors_rank_better(data_dir):
    few, many = (
        ablation_anchors.run({"dataset": 41539, "n_anchors": n, "seed": 0}, "quick").metrics for n in (2, 50)
    )
    assert many["spearman"] > few["spearman"] and many["mae"] < few["mae"]


def test_study_uses_training_rows_only(data_dir, monkeypatch):
    cell = {"n_train": 200, "dataset": 41539, "pairing": "random", "n_train_anchors": 20, "n_anchors": 20}
    before = table2_study.run({**cell, "seed": 0}, "quick")
    table = table2.openml_table(41539)
    train, validation, test = table2.split(table, 0, None)
    X, y = table.X.copy(), table.y.copy()
    for rows in (validation, test):
        X[rows], y[rows] = 1e6, -1e6
    spoilt = dataclasses.replace(table, X=X, y=y)
    monkeypatch.setattr(table2_study, "openml_table", lambda dataset: spoilt)
    assert table2_study.run({**cell, "seed": 0}, "quick") == before
    y[train[:20]] += 100
    assert table2_study.run({**cell, "seed": 0}, "quick") != before
