"""The band of an anchored network in a gap."""

import numpy as np
import pytest

pytest.importorskip("torch")

from experiments import ResultLine
from experiments.gap import EXPERIMENT


@pytest.mark.slow
def test_the_uncertainty_grows_in_the_gap():
    lines = []
    for cell in EXPERIMENT.cells("quick"):
        outcome = EXPERIMENT.run(cell, "quick")
        lines.append(ResultLine("gap", 1, "quick", cell, outcome.metrics, 0.0, details=outcome.details))
    chosen = [line.metrics for line in lines if line.cell["method"] == "chosen"]
    # How far differs between seeds and curves, by a factor of two and more.
    assert np.mean([metrics["sigma_gap_over_data"] for metrics in chosen]) > 4
    assert max(metrics["rmse"] for metrics in chosen) < 0.15
    assert len(EXPERIMENT.figures(lines)) == len(lines) == 4
