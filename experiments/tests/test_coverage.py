"""Coverage of intervals on a real table."""

import numpy as np
import pytest

from deltauq.calibration import ConformalRegressor
from deltauq.core import Posterior
from experiments import ResultStore, coverage, run_experiment

pytest.importorskip("pandas")


class _AsItIs:
    def posterior(self, posterior):
        return posterior


@pytest.mark.parametrize("n", [9, 10, 77, 500])
def test_nominal_coverage_is_that_of_conformal_prediction(n):
    # Of n + 1 distinct scores in any order, the last is held in exactly this share of the cases.
    scores = np.arange(1.0, n + 2)
    covered = 0
    for last in range(n + 1):
        seen = Posterior(np.zeros(n), np.zeros(n))
        conformal = ConformalRegressor(_AsItIs(), delta=1.0).conformalize(seen, np.delete(scores, last))
        _, upper = conformal.predict_interval(Posterior(np.zeros(1), np.zeros(1)), 0.9)
        covered += scores[last] <= upper[0]
    assert coverage.nominal_coverage(n, 0.9) == pytest.approx(covered / (n + 1))


@pytest.mark.slow
def test_intervals_on_a_real_table(data_dir, tmp_path, monkeypatch):
    monkeypatch.setitem(coverage.DATASETS, "quick", ("yacht",))
    store = ResultStore(tmp_path / "coverage.jsonl")
    lines = list(run_experiment(coverage.EXPERIMENT, store))
    assert len(lines) == 6 and not list(run_experiment(coverage.EXPERIMENT, store))
    of_estimator = [line for line in lines if line.cell.get("part") == coverage.ESTIMATOR]
    assert len(of_estimator) == 4
    for line in of_estimator:
        assert line.metrics["coverage"] > 0.75 and line.metrics["mae"] < 2.0
    for line in (line for line in lines if line not in of_estimator):
        measured = line.metrics
        assert measured["promised"] == pytest.approx(64 / 71)
        # 31 test rows and 70 held-out ones: three standard deviations of what is by chance.
        assert abs(measured["coverage"] - measured["promised"]) < 3 * np.sqrt(0.09 * (1 / 31 + 1 / 70))
        assert measured["width_ratio"] == pytest.approx(measured["width"] / measured["width_constant"])
        assert measured["mae"] < 2.0 and measured["n_test"] == 31
