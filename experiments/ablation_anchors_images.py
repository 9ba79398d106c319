"""`ablation-anchors-images`: what more anchors at prediction buy an image classifier, from 2 to 50."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.special import softmax

from deltauq.metrics import auroc, spearman
from deltauq.plots import Figure
from experiments.figures import by_score, over_anchors
from experiments.image_configs import AnchorSetting
from experiments.image_data import image_source, load_image_set
from experiments.image_logits import logits
from experiments.runner import Cell, Experiment, Outcome
from experiments.scoring import separation, spread, spread_scaled
from experiments.store import ResultLine
from experiments.table5 import ANCHORED, run_of
from experiments.tables import TableSpec

N_ANCHORS = (2, 3, 5, 10, 20, 50)
SHIFTED = "test/impulse_noise/5"
SEEDS = {"quick": range(1), "paper": range(3)}


def cells(profile: str) -> list[Cell]:
    """Return one cell per number of anchors and trial."""
    return [{"n_anchors": n_anchors, "seed": seed} for seed in SEEDS[profile] for n_anchors in N_ANCHORS]


def run(cell: Cell, profile: str) -> Outcome:
    """Ask the anchored network of `table5` under the first K of 50 anchors."""
    training = run_of(ANCHORED, "steps", cell["seed"], profile)
    test, svhn, shifted = (
        logits(training, images, AnchorSetting(number=max(N_ANCHORS)))[: cell["n_anchors"]]
        for images in ("test", "svhn", SHIFTED)
    )
    error = errors(shifted, load_image_set(SHIFTED, profile).labels)
    metrics = {
        "spearman": spearman(spread(shifted), error),
        "spearman_entropy": spearman(spread_scaled(shifted).ood_score, error),
        "auroc_sigma": auroc(spread(test), spread(svhn)),
        **separation(spread_scaled(test), spread_scaled(svhn), load_image_set("test", profile).labels),
    }
    return Outcome(metrics, {"corruption": image_source(SHIFTED)})


def errors(under_anchors: np.ndarray, classes: np.ndarray) -> np.ndarray:
    """Return the error of every image, of shape (n,): the probability that the true class is denied."""
    probabilities = softmax(under_anchors.mean(axis=0), axis=-1)
    return 1.0 - probabilities[np.arange(len(classes)), classes]


def figures(lines: Sequence[ResultLine]) -> list[Figure]:
    """Return the ranking of errors and OOD detection over the number of anchors, by score."""
    entropy, sigma = "entropy of the scaled logits", "σ"
    return [
        over_anchors(
            by_score(lines, {"spearman": sigma, "spearman_entropy": entropy}),
            "score",
            "value",
            "Ranking of the errors",
            "Test images with impulse noise of severity 5. Bars: one standard deviation over the trials.",
            "rank correlation with the error",
        ),
        over_anchors(
            by_score(lines, {"auroc_sigma": sigma, "auroc": entropy}),
            "score",
            "value",
            "OOD detection of SVHN",
            "Bars: one standard deviation over the trials.",
            "AUROC",
        ),
    ]


EXPERIMENT = Experiment(
    "ablation-anchors-images",
    1,
    "Number of anchors for image classifiers",
    cells,
    run,
    tables=(
        TableSpec(
            "Ranking of errors under impulse noise, and of SVHN against CIFAR-10",
            ("spearman", "spearman_entropy", "auroc", "auroc_sigma", "accuracy", "ece"),
            "n_anchors",
            best=None,
            labels={
                "n_anchors": "K",
                "spearman": "σ with error",
                "spearman_entropy": "entropy with error",
                "auroc_sigma": "AUROC of σ",
            },
            note="Error: one minus the probability of the true class, on test images with impulse noise of "
            "severity 5. σ: over anchors, of the classes' sigmoids. Entropy: of the scaled logits.",
        ),
    ),
    figures=figures,
    notes=(
        "The anchored networks of `table5` with the first K of 50 training images as anchors. In the paper, "
        "whose figure has no numbers, the correlation of uncertainty with error increases with K up to some "
        "value."
    ),
)
