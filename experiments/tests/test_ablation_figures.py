"""The figures of the ablations on images, from lines made up here."""

import numpy as np
import pytest

pytest.importorskip("plotly")

from experiments import ablation_anchors_images, ablation_prior
from experiments.store import ResultLine

ENTROPY = "entropy of the scaled logits"


def lines_of(experiment, metrics):
    rng = np.random.default_rng(0)
    for cell in experiment.cells("paper"):
        yield ResultLine(
            experiment.name, 1, "paper", cell, {name: float(rng.random()) for name in metrics}, 1.0
        )


def mean_of(lines, metric, key, value):
    return np.mean([line.metrics[metric] for line in lines if line.cell[key] == value])


def test_every_prior_has_a_dot_for_each_score():
    experiment = ablation_prior.EXPERIMENT
    lines = list(lines_of(experiment, ("auroc", "auroc_sigma", "ece")))
    (figure,) = experiment.figures(lines)
    rows = [note.text for note in figure.figure.layout.annotations]
    assert rows == list(ablation_prior.PRIORS.values())
    traces = {trace.name: trace for trace in figure.figure.data}
    assert set(traces) == {"σ", ENTROPY}
    for place, prior in enumerate(ablation_prior.PRIORS):
        assert traces["σ"].x[place] == pytest.approx(mean_of(lines, "auroc_sigma", "prior", prior))
        assert traces[ENTROPY].x[place] == pytest.approx(mean_of(lines, "auroc", "prior", prior))


def test_scores_are_drawn_over_the_number_of_anchors():
    experiment = ablation_anchors_images.EXPERIMENT
    metrics = {"spearman": "σ", "spearman_entropy": ENTROPY, "auroc_sigma": "σ", "auroc": ENTROPY}
    lines = list(lines_of(experiment, metrics))
    figures = experiment.figures(lines)
    assert len(figures) == 2
    for figure, pair in zip(
        figures, (("spearman", "spearman_entropy"), ("auroc_sigma", "auroc")), strict=True
    ):
        for metric, trace in zip(pair, figure.figure.data, strict=True):
            assert trace.name == metrics[metric]
            assert list(trace.x) == list(ablation_anchors_images.N_ANCHORS)
            expected = [mean_of(lines, metric, "n_anchors", k) for k in trace.x]
            np.testing.assert_allclose(trace.y, expected)
