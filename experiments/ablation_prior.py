"""`ablation-prior`: CIFAR-10 against SVHN with anchors from other places than the training images."""

from __future__ import annotations

from functools import partial

from deltauq.metrics import auroc
from experiments.figures import ablation_prior_figures
from experiments.image_kinds import Anchors
from experiments.image_runs import logits
from experiments.image_sets import pictures
from experiments.runner import Cell, Experiment, Outcome
from experiments.scoring import separation, spread, spread_scaled
from experiments.table5 import ANCHORED, run_of
from experiments.tables import TableSpec

PRIORS = {
    "data": "CIFAR-10",
    "balanced": "CIFAR-10, one of each class",
    "kmeans": "CIFAR-10, k-means centres",
    **{f"impulse-{severity}": f"impulse noise {severity}" for severity in range(1, 6)},
    "normal": "N(0, I)",
    "svhn": "SVHN",
}
"""Word of the cells to what readers see."""
SEEDS = {"quick": range(1), "paper": range(3)}


def cells(profile: str) -> list[Cell]:
    """Return one cell per prior and trial."""
    return [{"prior": prior, "seed": seed} for seed in SEEDS[profile] for prior in PRIORS]


def run(cell: Cell, profile: str) -> Outcome:
    """Ask the anchored network of `table5` under 10 anchors of a prior."""
    training = run_of(ANCHORED, "steps", cell["seed"], profile)
    test, svhn = (logits(training, images, Anchors(cell["prior"])) for images in ("test", "svhn"))
    metrics = separation(spread_scaled(test), spread_scaled(svhn), pictures("test", profile).labels)
    return Outcome({**metrics, "auroc_sigma": auroc(spread(test), spread(svhn))})


EXPERIMENT = Experiment(
    "ablation-prior",
    1,
    "Where anchors come from",
    cells,
    run,
    tables=(
        TableSpec(
            "Telling SVHN from CIFAR-10 with 10 anchors",
            ("auroc", "aupr", "fpr95", "accuracy", "ece", "auroc_sigma"),
            "prior",
            best=None,
            labels={**PRIORS, "prior": "anchors", "auroc_sigma": "AUROC of σ"},
            note="SVHN: the first 10,000 of its 26,032 test images; anchors from SVHN are 10 of these.",
        ),
    ),
    figures=partial(ablation_prior_figures, names=PRIORS),
    notes="The anchored networks of `table5`; only the anchors at prediction differ. Impulse noise is put on "
    "the very training images that are the anchors in the first row, by our generator. K-means centres are "
    "of the first 5,000 training images. In the paper corrupted anchors do worse the stronger the "
    "corruption, N(0, I) does better than DUQ, and SVHN as well as CIFAR-10; it prints no figures. Here, "
    "too, corrupted anchors do worse the stronger the corruption, and SVHN as well as CIFAR-10; but N(0, I) "
    "does worst. The AUROC of σ alone rises from 0.90 to between 0.92 and 0.95 on average where anchors have "
    "impulse noise, of any strength. That was seen on SVHN itself: `beyond` asks it of other images.",
)
