"""Coverage of intervals on a real table."""

import numpy as np
import pytest

from experiments import ResultStore, coverage, run_experiment

pytest.importorskip("pandas")


@pytest.mark.slow
def test_intervals_on_a_real_table(data_dir, tmp_path, monkeypatch):
    monkeypatch.setitem(coverage.DATASETS, "quick", ("yacht",))
    store = ResultStore(tmp_path / "coverage.jsonl")
    lines = list(run_experiment(coverage.EXPERIMENT, store))
    assert len(lines) == 6 and not list(run_experiment(coverage.EXPERIMENT, store))
    assert sum(line.cell["part"] == coverage.FIT for line in lines) == 2
    for line in lines:
        # Three standard deviations of the coverage of 31 test rows, with at least 69 scored ones.
        assert abs(line.metrics["coverage"] - 0.9) < 3 * np.sqrt(0.09 * (1 / 31 + 1 / 69))
        assert line.metrics["mae"] < 2.0 and line.metrics["width"] > 0.0
