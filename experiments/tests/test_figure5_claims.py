"""What figure5's note says of its lines is what they say."""

from pathlib import Path

import numpy as np
import pytest

from experiments import ResultStore, get_experiment
from experiments.figure5_methods import METHODS

RESULTS = Path(__file__).parents[2] / "results" / "figure5.jsonl"
ENSEMBLES = [name for name, method in METHODS.items() if method.members > 1]
SINGLE = [name for name, method in METHODS.items() if method.members == 1 and not method.kind.mask]
SHIFTED, HALVED = "delta-masked-rows-temperature-shifted", "delta-masked-rows"


@pytest.fixture(scope="module")
def lines():
    return get_experiment("figure5").lines(ResultStore(RESULTS), "paper")


@pytest.fixture(scope="module")
def mean(lines):
    """``mean(method, metric, severity)``: the mean over the seeds."""

    def mean(method, metric, severity):
        name = f"{metric}_{severity}"
        return np.mean([line.metrics[name] for line in lines if line.cell["method"] == method])

    return mean


def test_delta_uq_is_better_calibrated_than_the_plain_network_everywhere(lines):
    found = {(line.cell["method"], line.cell["seed"]): np.array(line.details["ece"]) for line in lines}
    seeds = [seed for method, seed in found if method == "delta-uq"]
    assert seeds == [0, 1, 2, 3, 4]
    assert all((found["delta-uq", seed] < found["plain", seed]).all() for seed in seeds)


def test_sigma_plays_no_part(mean, lines):
    for severity in range(6):
        with_sigma, without = (mean(name, "ece", severity) for name in ("delta-uq", "delta-mean-scaled"))
        assert with_sigma == pytest.approx(without, abs=5e-4)
    fitted, temperature = (
        [line.metrics for line in lines if line.cell["method"] == f"delta-masked-rows-both-{name}-shifted"]
        for name in ("fitted", "temperature")
    )
    assert len(fitted) == len(temperature) >= 3
    for one, other in zip(fitted, temperature, strict=True):
        assert one == pytest.approx(other, abs=1e-4)


def test_by_the_median_nothing_is_best_everywhere(mean):
    below = {
        severity: {
            name
            for name in SINGLE + ENSEMBLES
            if mean(name, "ece", severity) < mean(SHIFTED, "ece", severity)
        }
        for severity in range(6)
    }
    assert "mc-dropout" in below[4] and not below[3] and not below[5]
    assert below[1] >= {"temperature", "delta-uq", "ensemble", "ensemble-5"}
    assert below[2] == {"delta-uq", "delta-mean-scaled", "ensemble-5"}
    assert mean(HALVED, "ece", 5) == min(mean(name, "ece", 5) for name in METHODS)


@pytest.mark.parametrize(("metric", "method"), [("ece_mean", SHIFTED), ("ece_worst", HALVED)])
def test_masked_rows_are_best_where_bad_corruptions_count(metric, method, mean):
    for severity in range(1, 6):
        rivals = [mean(name, metric, severity) for name in SINGLE + ENSEMBLES]
        assert mean(method, metric, severity) < min(rivals)


@pytest.mark.parametrize("metric", ["nll", "brier"])
def test_masked_rows_have_the_best_proper_scores_of_single_networks(metric, mean):
    for severity in range(1, 6):
        rivals = min(mean(name, metric, severity) for name in SINGLE)
        assert mean(HALVED, metric, severity) < rivals
        assert mean("delta-masked-rows-both", metric, severity) < rivals
    if metric == "nll":
        for severity in (3, 4, 5):
            assert max(mean(name, "nll", severity) for name in (HALVED, SHIFTED)) < mean(
                "ensemble-5", "nll", severity
            )
