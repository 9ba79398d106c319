"""The nine tables: every method runs on a real one, and the study keeps to training rows."""

import pytest

from experiments import uci, uci_study


@pytest.mark.parametrize("method", uci.METHODS + uci.WITHOUT_NETWORK)
def test_coverage_of_every_method(method, data_dir, monkeypatch):
    monkeypatch.setattr(uci, "FOREST_TREES", 3)
    monkeypatch.setattr(uci, "GP_ROWS", 100)
    if method == "gp":
        pytest.importorskip("botorch")
    network = "none" if method in uci.WITHOUT_NETWORK else "1x50"
    cell = {"dataset": "boston", "network": network, "method": method, "seed": 0}
    metrics = uci.run(cell, "quick").metrics
    assert 1.5 < metrics["rmse"] < 6.0
    assert metrics["crps"] < metrics["mae"] + (method == "delta-uq-raw")
    assert 0.75 <= metrics["coverage_conformal"] <= 1.0
    if method != "delta-uq-raw":
        assert 0.75 <= metrics["coverage"] <= 1.0


@pytest.mark.parametrize("setting", uci_study.SETTINGS)
def test_study_uses_training_rows_only(setting, data_dir, monkeypatch):
    seen = []
    monkeypatch.setattr(
        uci_study, "measure", lambda cell, profile, table, train, test, *_: seen.extend((train, test))
    )
    cell = {"dataset": "yacht", "network": "1x50", "method": setting, "seed": 0}
    uci_study.run(cell, "quick")
    rows = set(uci.uci_table("yacht").splits[0][0].tolist())
    assert set(seen[0].tolist()) | set(seen[1].tolist()) == rows
    assert not set(seen[0].tolist()) & set(seen[1].tolist())
