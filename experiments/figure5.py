"""`figure5`: calibration of image classifiers under the corruptions of CIFAR-10-C.

A network is evaluated on all image sets at once. The metrics of all methods that use it are stored in the
cache, its logits are not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from deltauq.metrics import accuracy, brier, ece, nll
from deltauq.plots import Figure
from experiments import paper_values
from experiments.cache import shared_arrays
from experiments.data.corruptions import CORRUPTIONS, FIGURE5, SEVERITIES
from experiments.display_names import DISPLAY_NAMES
from experiments.image_configs import (
    AVERAGE_MASKED,
    SCHEDULES,
    TRAINING_IMAGES,
    AnchorSetting,
    NetworkKind,
    TrainingRun,
)
from experiments.image_data import LabelledImages, image_source, load_image_set
from experiments.image_logits import Predictor, predictor
from experiments.image_networks import trained
from experiments.plots import box_plot
from experiments.runner import Cell, Experiment, Outcome
from experiments.scoring import (
    FitScorer,
    Scorer,
    fitted_spread,
    fitted_temperature,
    mean_logits,
    mean_probabilities,
    spread_scaled,
)
from experiments.store import ResultLine
from experiments.table5 import DROPOUT, MASK
from experiments.tables import TableSpec

VERSION = 1
METRICS = {"ece": ece, "brier": brier, "nll": nll, "accuracy": accuracy}
TITLES = {
    "ece": "Expected calibration error",
    "brier": "Brier score",
    "nll": "Negative log-likelihood",
    "accuracy": "Accuracy",
}
SUMMARIES: dict[str, Callable[..., Any]] = {"mean": np.mean, "worst": np.max}
"""Summaries over the corruptions besides the median, which a few severe ones do not change."""
CLEAN = 0
"""The severity of clean images."""

MEASURED = {"quick": FIGURE5[:2], "paper": FIGURE5}
"""Corruptions by profile."""
N_IMAGES = {"quick": 10, "paper": 10_000}
SEEDS = {"quick": 1, "paper": 5}

PLOTTED = (
    "plain",
    "temperature",
    "mc-dropout",
    "ensemble",
    "svi",
    "delta-uq",
    "delta-masked",
    "delta-masked-rows-temperature-shifted",
)
"""Methods in the figures, which have eight colours."""

HELD_OUT = ("validation",)
"""Images that are left out of training if a method fits its scorer."""
SHIFTED = HELD_OUT + tuple(
    f"validation/{name}/{severity}" for name in CORRUPTIONS if name not in FIGURE5 for severity in SEVERITIES
)
"""The same, with and without corruptions that figure5 does not measure."""

PLAIN = NetworkKind("ResNet20", raw=True)
ANCHORED = replace(PLAIN, anchored=True)
MASKED = replace(ANCHORED, mask=MASK)
MASKED_ROWS = replace(MASKED, mask_rows=True)


@dataclass(frozen=True)
class Method:
    """Networks and a scorer of their logits.

    Attributes
    ----------
    scorer : Scorer or None
        None if it is fitted.
    kind : NetworkKind
    members : int
        Number of networks. Their seeds are consecutive, modulo the number of seeds.
    fit : FitScorer or None
        Fits the scorer to images that are left out of training.
    fit_on : tuple of str
        The sets of these images.
    anchors : AnchorSetting
        For anchored networks.
    """

    scorer: Scorer | None = None
    kind: NetworkKind = PLAIN
    members: int = 1
    fit: FitScorer | None = None
    fit_on: tuple[str, ...] = HELD_OUT
    anchors: AnchorSetting = TRAINING_IMAGES

    @property
    def held_out(self) -> bool:
        """Whether images are left out of training."""
        return self.fit is not None

    def same_networks(self, other: Method) -> bool:
        """Return whether two methods have the same networks."""
        return (self.kind, self.members, self.held_out) == (other.kind, other.members, other.held_out)

    def same_logits(self, other: Method) -> bool:
        """Return whether two methods differ only in their scorers."""
        return self.same_networks(other) and self.anchors == other.anchors


METHODS = {
    "plain": Method(mean_logits(1.0)),
    "delta-uq": Method(spread_scaled, ANCHORED),
    "delta-masked": Method(spread_scaled, MASKED),
    "delta-masked-rows": Method(spread_scaled, MASKED_ROWS),
    "temperature": Method(fit=fitted_temperature),
    "mc-dropout": Method(mean_probabilities, replace(PLAIN, dropout=DROPOUT)),
    "svi": Method(mean_probabilities, replace(PLAIN, variational=True)),
    "delta-masked-rows-temperature": Method(kind=MASKED_ROWS, fit=fitted_temperature),
    "scaled": Method(mean_logits(0.5)),
    "delta-mean": Method(mean_logits(1.0), ANCHORED),
    "delta-mean-scaled": Method(mean_logits(0.5), ANCHORED),
    "delta-masked-mean": Method(mean_logits(1.0), MASKED),
    "delta-masked-rows-mean": Method(mean_logits(1.0), MASKED_ROWS),
    "delta-masked-both": Method(mean_probabilities, MASKED, anchors=AVERAGE_MASKED),
    "delta-masked-rows-both": Method(mean_probabilities, MASKED_ROWS, anchors=AVERAGE_MASKED),
    "temperature-shifted": Method(fit=fitted_temperature, fit_on=SHIFTED),
    "delta-masked-rows-temperature-shifted": Method(kind=MASKED_ROWS, fit=fitted_temperature, fit_on=SHIFTED),
    "delta-masked-rows-both-temperature-shifted": Method(
        kind=MASKED_ROWS, fit=fitted_temperature, fit_on=SHIFTED, anchors=AVERAGE_MASKED
    ),
    "delta-masked-rows-both-fitted-shifted": Method(
        kind=MASKED_ROWS, fit=fitted_spread, fit_on=SHIFTED, anchors=AVERAGE_MASKED
    ),
    "ensemble": Method(mean_probabilities, members=3),
    "ensemble-5": Method(mean_probabilities, members=5),
}


def methods_with_same_logits(name: str) -> list[str]:
    """Return all methods that use the logits of this one."""
    return [other for other, method in METHODS.items() if method.same_logits(METHODS[name])]


def trains(name: str) -> bool:
    """Return whether a method is the first of those with its networks."""
    first = next(other for other, method in METHODS.items() if method.same_networks(METHODS[name]))
    return METHODS[name].members == 1 and first == name


def cells(profile: str) -> list[Cell]:
    """Return one cell per method and seed.

    Cells that train come first, the first seed of every method before the second, so that processes do not
    wait for the same training. Cells that use trained networks follow.
    """
    n_seeds = SEEDS[profile]
    cells = [
        {"method": name, "seed": seed}
        for seed in range(n_seeds)
        for name, method in METHODS.items()
        # An ensemble with as many members as there are seeds exists once.
        if seed == 0 or method.members < n_seeds
        if profile == "paper" or name != "ensemble-5"
    ]
    return sorted(cells, key=lambda cell: not trains(cell["method"]))


def run(cell: Cell, profile: str) -> Outcome:
    """Measure calibration on all image sets, after training if no other cell has trained the network."""
    corruptions = MEASURED[profile]
    clean, shifted = np.split(measured(cell["method"], cell["seed"], profile), [1])
    by_metric = shifted.reshape(len(corruptions), len(SEVERITIES), len(METRICS)).transpose(2, 0, 1)
    metrics = {
        f"{name}_{severity}": float(value)
        for name, first, figures in zip(METRICS, clean[0], by_metric, strict=True)
        for severity, value in zip((CLEAN, *SEVERITIES), (first, *np.median(figures, axis=0)), strict=True)
    }
    details = {name: np.round(figures, 5).tolist() for name, figures in zip(METRICS, by_metric, strict=True)}
    sources = sorted({image_source(images) for images in image_sets(profile)[1:]})
    return Outcome(metrics, {"source": sources, "corruptions": list(corruptions), **details})


def derived(line: ResultLine) -> dict[str, float]:
    """Return mean and maximum of the calibration error over the corruptions, by severity."""
    by_corruption = np.array(line.details["ece"])
    return {
        f"ece_{name}_{severity}": float(value)
        for name, summarise in SUMMARIES.items()
        for severity, value in zip(SEVERITIES, summarise(by_corruption, axis=0), strict=True)
    }


def image_sets(profile: str) -> list[str]:
    """Return the names of all image sets: the clean one, then every corruption with its severities."""
    return [
        "test",
        *(f"test/{name}/{severity}" for name in MEASURED[profile] for severity in SEVERITIES),
    ]


def runs_of(method: Method, seed: int, profile: str) -> list[TrainingRun]:
    """Return the trainings of a cell."""
    schedule = replace(SCHEDULES[profile]["long"], held_out=method.held_out)
    # An ensemble of the quick profile has members that no other cell trains.
    n_seeds = max(SEEDS[profile], method.members)
    return [
        TrainingRun(method.kind, schedule, (seed + member) % n_seeds, profile)
        for member in range(method.members)
    ]


def measured(name: str, seed: int, profile: str) -> np.ndarray:
    """Return the metrics of a method, of shape (sets, metrics), from the cache if possible.

    All methods with the same logits are measured together.
    """
    method, names = METHODS[name], methods_with_same_logits(name)
    runs = runs_of(method, seed, profile)
    sets = image_sets(profile)
    configuration = {
        "version": VERSION,
        "runs": [run.configuration() for run in runs],
        "methods": {other: METHODS[other].fit_on if METHODS[other].fit else None for other in names},
        "images": [[images, image_source(images)] for images in sets],
        "n_images": N_IMAGES[profile],
        "anchors": method.anchors.configuration(),
    }

    def make() -> dict[str, np.ndarray]:
        predictors = [predictor(trained(run), run, method.anchors, N_IMAGES[profile]) for run in runs]
        print(f"  figure5 of {runs[0]} ({len(runs)}): {len(sets)} image sets", flush=True)
        scorers = scorers_of(names, predictors[0], profile)
        return evaluate_sets(predictors, scorers, (_first(images, profile) for images in sets))

    return shared_arrays(f"figure5-{runs[0]}-{len(runs)}", configuration, make)[name]


def scorers_of(names: Sequence[str], predict: Predictor, profile: str) -> dict[str, Scorer]:
    """Return the scorers of methods with the same logits; held-out images are predicted once."""
    methods = {name: METHODS[name] for name in names}
    scorers = {name: method.scorer for name, method in methods.items() if method.scorer is not None}
    fits = {name: (method.fit, method.fit_on) for name, method in methods.items() if method.fit is not None}
    needed = dict.fromkeys(images for _, fit_on in fits.values() for images in fit_on)
    sets = {images: load_image_set(images, profile) for images in needed}
    logits = {images: predict(image_set.images).astype(np.float64) for images, image_set in sets.items()}
    for name, (fit, fit_on) in fits.items():
        scorers[name] = fit(
            np.concatenate([logits[images] for images in fit_on], axis=1),
            np.concatenate([sets[images].labels for images in fit_on]),
        )
    return scorers


def evaluate_sets(
    predictors: Sequence[Predictor], scorers: Mapping[str, Scorer], sets: Iterable[LabelledImages]
) -> dict[str, np.ndarray]:
    """Return the metrics of methods, by name, of shape (sets, metrics), with a predictor for each member."""
    figures: dict[str, list[list[float]]] = {name: [] for name in scorers}
    for image_set in sets:
        logits = np.concatenate([predict(image_set.images) for predict in predictors]).astype(np.float64)
        for name, scorer in scorers.items():
            probabilities = scorer(logits).probabilities
            figures[name].append([metric(image_set.labels, probabilities) for metric in METRICS.values()])
    return {name: np.array(rows) for name, rows in figures.items()}


def figures(lines: Sequence[ResultLine]) -> list[Figure]:
    """Return a box plot of each metric: the spread over corruptions, by severity and method."""
    sources = sorted({source for line in lines for source in line.details["source"]})
    caption = (
        "A box shows the quartiles over the corruptions, each the mean over the seeds; its whiskers reach "
        f"from the mildest to the worst. 0: clean images. {' and '.join(sources).capitalize()} images."
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
    """Return the values of methods by their display name, of shape (corruptions, 1 + severities)."""
    boxes = {}
    for name in PLOTTED:
        of_method = [line for line in lines if line.cell["method"] == name]
        if of_method:
            shifted = np.mean([line.details[metric] for line in of_method], axis=0)
            clean = np.full((len(shifted), 1), np.nan)
            clean[0] = np.mean([line.metrics[f"{metric}_{CLEAN}"] for line in of_method])
            boxes[DISPLAY_NAMES[name]] = np.concatenate([clean, shifted], axis=1)
    return boxes


def _first(images: str, profile: str) -> LabelledImages:
    image_set, n = load_image_set(images, profile), N_IMAGES[profile]
    return LabelledImages(image_set.images[:n], image_set.labels[:n])


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
