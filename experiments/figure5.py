"""`figure5`: calibration of image classifiers under the corruptions of CIFAR-10-C.

A training is asked about all sets of images at once, and its figures for all methods that are made from it
stay in the cache; logits do not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from deltauq.metrics import accuracy, brier, ece, nll
from deltauq.plots.page import Figure
from experiments import paper_values
from experiments.cache import shared_arrays
from experiments.data.corruptions import FIGURE5, SEVERITIES
from experiments.display_names import DISPLAY_NAMES
from experiments.figure5_methods import METHODS, Method, companions, trains
from experiments.image_kinds import SCHEDULES, Run
from experiments.image_networks import trained
from experiments.image_runs import Predictor, predictor
from experiments.image_sets import Pictures, pictures, source
from experiments.plots import box_plot
from experiments.results import ResultLine
from experiments.runner import Cell, Experiment, Outcome
from experiments.scoring import Judge
from experiments.tables import TableSpec

VERSION = 1
METRICS = {"ece": ece, "brier": brier, "nll": nll, "accuracy": accuracy}
TITLES = {
    "ece": "Expected calibration error",
    "brier": "Brier score",
    "nll": "Negative log-likelihood",
    "accuracy": "Accuracy",
}
OVER: dict[str, Callable[..., Any]] = {"mean": np.mean, "worst": np.max}
"""What else sums up the corruptions: other than in a median, a few bad ones count."""
CLEAN = 0
"""Stands for the severity of images as they are."""

CORRUPTIONS = {"quick": FIGURE5[:2], "paper": FIGURE5}
N_IMAGES = {"quick": 10, "paper": 10_000}
SEEDS = {"quick": 1, "paper": 5}

SHOWN = (
    "plain",
    "temperature",
    "mc-dropout",
    "ensemble",
    "svi",
    "delta-uq",
    "delta-masked",
    "delta-masked-rows-temperature-shifted",
)
"""In the figures, which have eight colours."""


def cells(profile: str) -> list[Cell]:
    """Return one cell per method and seed.

    Those that train come first, the first seed of every method before the second: several processes then
    never wait for one training. What is made from trained networks follows.
    """
    n_seeds = SEEDS[profile]
    found = [
        {"method": name, "seed": seed}
        for seed in range(n_seeds)
        for name, method in METHODS.items()
        # As many members as seeds make one ensemble only, and more than that would be trained for it alone.
        if seed == 0 or method.members < n_seeds
        if profile == "paper" or name != "ensemble-5"
    ]
    return sorted(found, key=lambda cell: not trains(cell["method"]))


def run(cell: Cell, profile: str) -> Outcome:
    """Train, unless another cell has, and measure calibration on all sets of images."""
    corruptions = CORRUPTIONS[profile]
    clean, shifted = np.split(measured(cell["method"], cell["seed"], profile), [1])
    by_metric = shifted.reshape(len(corruptions), len(SEVERITIES), len(METRICS)).transpose(2, 0, 1)
    metrics = {
        f"{name}_{severity}": float(value)
        for name, first, figures in zip(METRICS, clean[0], by_metric, strict=True)
        for severity, value in zip((CLEAN, *SEVERITIES), (first, *np.median(figures, axis=0)), strict=True)
    }
    details = {name: np.round(figures, 5).tolist() for name, figures in zip(METRICS, by_metric, strict=True)}
    sources = sorted({source(images) for images in image_sets(profile)[1:]})
    return Outcome(metrics, {"source": sources, "corruptions": list(corruptions), **details})


def derived(line: ResultLine) -> dict[str, float]:
    """Return mean and maximum of the calibration error over the corruptions, by severity."""
    by_corruption = np.array(line.details["ece"])
    return {
        f"ece_{name}_{severity}": float(value)
        for name, sum_up in OVER.items()
        for severity, value in zip(SEVERITIES, sum_up(by_corruption, axis=0), strict=True)
    }


def image_sets(profile: str) -> list[str]:
    """Return the names of all sets: the clean one, then every corruption with its severities."""
    return [
        "test",
        *(f"test/{name}/{severity}" for name in CORRUPTIONS[profile] for severity in SEVERITIES),
    ]


def runs_of(method: Method, seed: int, profile: str) -> list[Run]:
    """Return the trainings behind a cell."""
    schedule = replace(SCHEDULES[profile]["long"], held_out=method.held_out)
    # An ensemble of the quick profile has members that no other cell asks for.
    n_seeds = max(SEEDS[profile], method.members)
    return [
        Run(method.kind, schedule, (seed + member) % n_seeds, profile) for member in range(method.members)
    ]


def measured(name: str, seed: int, profile: str) -> np.ndarray:
    """Return the figures of a method, of shape (sets, metrics): from the cache if they are there.

    They are made together with those of all methods on the same logits.
    """
    method, names = METHODS[name], companions(name)
    runs = runs_of(method, seed, profile)
    sets = image_sets(profile)
    configuration = {
        "version": VERSION,
        "runs": [run.configuration() for run in runs],
        "methods": {other: METHODS[other].fit_on if METHODS[other].fit else None for other in names},
        "images": [[images, source(images)] for images in sets],
        "n_images": N_IMAGES[profile],
        "anchors": method.anchors.configuration(),
    }

    def make() -> dict[str, np.ndarray]:
        asks = [predictor(trained(run), run, method.anchors, N_IMAGES[profile]) for run in runs]
        print(f"  figure5 of {runs[0]} ({len(runs)}): {len(sets)} sets of images", flush=True)
        judges = judges_of(names, asks[0], profile)
        return judge_sets(asks, judges, (_first(images, profile) for images in sets))

    return shared_arrays(f"figure5-{runs[0]}-{len(runs)}", configuration, make)[name]


def judges_of(names: Sequence[str], ask: Predictor, profile: str) -> dict[str, Judge]:
    """Return what methods on the same logits make of them; the images held out are asked about once."""
    methods = {name: METHODS[name] for name in names}
    judges = {name: method.judge for name, method in methods.items() if method.judge is not None}
    fits = {name: (method.fit, method.fit_on) for name, method in methods.items() if method.fit is not None}
    asked = dict.fromkeys(images for _, fit_on in fits.values() for images in fit_on)
    sets = {images: pictures(images, profile) for images in asked}
    logits = {images: ask(given.images).astype(np.float64) for images, given in sets.items()}
    for name, (fit, fit_on) in fits.items():
        judges[name] = fit(
            np.concatenate([logits[images] for images in fit_on], axis=1),
            np.concatenate([sets[images].labels for images in fit_on]),
        )
    return judges


def judge_sets(
    asks: Sequence[Predictor], judges: Mapping[str, Judge], sets: Iterable[Pictures]
) -> dict[str, np.ndarray]:
    """Measure methods on sets of images.

    Parameters
    ----------
    asks : sequence of Predictor
        One of each member.
    judges : mapping of str to Judge
        By method.

    Returns
    -------
    figures : dict of str to array of shape (sets, metrics)
    """
    figures: dict[str, list[list[float]]] = {name: [] for name in judges}
    for given in sets:
        logits = np.concatenate([ask(given.images) for ask in asks]).astype(np.float64)
        for name, judge in judges.items():
            probabilities = judge(logits).probabilities
            figures[name].append([metric(given.labels, probabilities) for metric in METRICS.values()])
    return {name: np.array(rows) for name, rows in figures.items()}


def figures(lines: Sequence[ResultLine]) -> list[Figure]:
    """Return a box plot of each metric: the spread over corruptions, by severity and method."""
    sources = sorted({source for line in lines for source in line.details["source"]})
    caption = (
        "A box holds the quartiles over the corruptions, each the mean over the seeds; its whiskers reach "
        f"from the mildest to the worst. 0: images as they are. {' and '.join(sources).capitalize()} images."
    )
    groups = [str(severity) for severity in (CLEAN, *SEVERITIES)]
    return [
        Figure(
            box_plot(groups, _boxes(lines, metric), x_title="severity", y_title=title.lower()),
            title,
            caption if metric == "ece" else "",
            height=480,
        )
        for metric, title in TITLES.items()
    ]


def _boxes(lines: Sequence[ResultLine], metric: str) -> dict[str, np.ndarray]:
    """Return the figures of methods by their label, of shape (corruptions, 1 + severities)."""
    boxes = {}
    for name in SHOWN:
        of_method = [line for line in lines if line.cell["method"] == name]
        if of_method:
            shifted = np.mean([line.details[metric] for line in of_method], axis=0)
            clean = np.full((len(shifted), 1), np.nan)
            clean[0] = np.mean([line.metrics[f"{metric}_{CLEAN}"] for line in of_method])
            boxes[DISPLAY_NAMES[name]] = np.concatenate([clean, shifted], axis=1)
    return boxes


def _first(images: str, profile: str) -> Pictures:
    given, n = pictures(images, profile), N_IMAGES[profile]
    return Pictures(given.images[:n], given.labels[:n])


def _table(metric: str, over: str) -> TableSpec:
    names = {CLEAN: "clean"} if metric in METRICS else {}
    names |= {severity: f"severity {severity}" for severity in SEVERITIES}
    columns = {f"{metric}_{severity}": name for severity, name in names.items()}
    return TableSpec(
        f"{TITLES[metric.split('_')[0]]}: {over}, by severity",
        tuple(columns),
        "method",
        best=None,
        paper=paper_values.FIGURE5 if metric == "accuracy" else {},
        labels={**columns},
    )


EXPERIMENT = Experiment(
    "figure5",
    VERSION,
    "Calibration under corruptions",
    cells,
    run,
    tables=(
        *(_table(metric, "median over the corruptions") for metric in METRICS),
        _table("ece_mean", "mean over the corruptions"),
        _table("ece_worst", "the worst corruption"),
    ),
    figures=figures,
    derived=derived,
    notes=(
        "ResNet-20 on CIFAR-10, 200 epochs with the paper's steps, images in [0, 1]; sixteen corruptions of "
        "CIFAR-10-C, generated by this project, 10,000 test images each. The paper shows boxes without "
        "numbers. Anchors are 10 training images shared by all test images. “Rows”: anchors masked by row "
        "instead of by batch; “T”: a temperature; “T(σ)”: logits scaled by a function of σ; “shifted”: "
        "fitted on held-out images with and without three other corruptions. Δ-UQ is better calibrated than "
        "the plain network because of the factor 0.5. With masked rows and a shifted temperature it has the "
        "lowest calibration error on average over the severities."
    ),
)
