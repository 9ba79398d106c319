"""`figure5`: calibration of image classifiers under the corruptions of CIFAR-10-C.

A training is asked about all sets of images at once, and its figures for all methods that are made from it
stay in the cache; logits do not.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from deltauq.data.corruptions import CORRUPTIONS as ALL
from deltauq.data.corruptions import FIGURE5, SEVERITIES
from deltauq.experiments import paper
from deltauq.experiments.artifacts import shared_arrays
from deltauq.experiments.image_kinds import READ_TWICE, SCHEDULES, TRAINING_IMAGES, Anchors, Kind, Run
from deltauq.experiments.image_networks import trained
from deltauq.experiments.image_runs import Predictor, predictor
from deltauq.experiments.image_sets import Pictures, pictures, source
from deltauq.experiments.judgements import (
    Fit,
    Judge,
    fitted_spread,
    fitted_temperature,
    mean_logits,
    mean_probabilities,
    spread_scaled,
)
from deltauq.experiments.labels import LABELS
from deltauq.experiments.results import ResultLine
from deltauq.experiments.runner import Cell, Experiment, Outcome
from deltauq.experiments.table5 import DROPOUT, MASK
from deltauq.metrics import accuracy, brier, ece, nll
from deltauq.report import Figure, TableView, plots

VERSION = 1
METRICS = {"ece": ece, "brier": brier, "nll": nll, "accuracy": accuracy}
TITLES = {
    "ece": "Expected calibration error",
    "brier": "Brier score",
    "nll": "Negative log-likelihood",
    "accuracy": "Accuracy",
}
CLEAN = 0
"""Stands for the severity of images as they are."""

CORRUPTIONS = {"quick": FIGURE5[:2], "paper": FIGURE5}
N_IMAGES = {"quick": 10, "paper": 10_000}
SEEDS = {"quick": 1, "paper": 5}

HELD_OUT = ("validation",)
"""The images that are left out of training where something is fitted."""
SHIFTED = HELD_OUT + tuple(
    f"validation/{name}/{severity}" for name in ALL if name not in FIGURE5 for severity in SEVERITIES
)
"""The same, also under the corruptions that figure5 does not measure."""

PLAIN = Kind("ResNet20", raw=True)
ANCHORED = replace(PLAIN, anchored=True)
MASKED = replace(ANCHORED, mask=MASK)
MASKED_ROWS = replace(MASKED, mask_rows=True)


@dataclass(frozen=True)
class Method:
    """Networks and what is done with their logits.

    Attributes
    ----------
    judge : Judge or None
        What makes probabilities of logits.
    kind : Kind
    members : int
        Networks, of seeds that follow each other, the first after the last.
    fit : Fit or None
        In place of a judge: what fits one on 5,000 images that are left out of training.
    fit_on : tuple of str
        Sets of these images.
    anchors : Anchors
        For anchored networks.
    """

    judge: Judge | None = None
    kind: Kind = PLAIN
    members: int = 1
    fit: Fit | None = None
    fit_on: tuple[str, ...] = HELD_OUT
    anchors: Anchors = TRAINING_IMAGES

    @property
    def held_out(self) -> bool:
        """Whether images are left out of training."""
        return self.fit is not None

    def same_networks(self, other: Method) -> bool:
        """Tell whether two methods are made from the same trainings."""
        mine, theirs = ((m.kind, m.members, m.held_out) for m in (self, other))
        return mine == theirs

    def same_logits(self, other: Method) -> bool:
        """Tell whether two methods differ only in what they make of their networks' logits."""
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
    "delta-masked-both": Method(mean_probabilities, MASKED, anchors=READ_TWICE),
    "delta-masked-rows-both": Method(mean_probabilities, MASKED_ROWS, anchors=READ_TWICE),
    "temperature-shifted": Method(fit=fitted_temperature, fit_on=SHIFTED),
    "delta-masked-rows-temperature-shifted": Method(kind=MASKED_ROWS, fit=fitted_temperature, fit_on=SHIFTED),
    "delta-masked-rows-both-temperature-shifted": Method(
        kind=MASKED_ROWS, fit=fitted_temperature, fit_on=SHIFTED, anchors=READ_TWICE
    ),
    "delta-masked-rows-both-fitted-shifted": Method(
        kind=MASKED_ROWS, fit=fitted_spread, fit_on=SHIFTED, anchors=READ_TWICE
    ),
    "ensemble": Method(mean_probabilities, members=3),
    "ensemble-5": Method(mean_probabilities, members=5),
}
SHOWN = (
    "plain",
    "temperature",
    "mc-dropout",
    "ensemble",
    "svi",
    "delta-uq",
    "delta-masked",
    "delta-masked-rows",
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
    return sorted(found, key=lambda cell: not _trains(cell["method"]))


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
    method, names = METHODS[name], _companions(name)
    runs = runs_of(method, seed, profile)
    sets = image_sets(profile)
    configuration = {
        "version": VERSION,
        "runs": [run.configuration() for run in runs],
        "methods": names,
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
    sets : iterable of Pictures

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
            plots.box_plot(groups, _boxes(lines, metric), x_title="severity", y_title=title.lower()),
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
            boxes[LABELS[name]] = np.concatenate([clean, shifted], axis=1)
    return boxes


def _companions(name: str) -> list[str]:
    """Return all methods on the same logits, in their order."""
    return [other for other, method in METHODS.items() if method.same_logits(METHODS[name])]


def _trains(name: str) -> bool:
    """Tell whether a method is the first to ask for a training of its own."""
    first = next(other for other, method in METHODS.items() if method.same_networks(METHODS[name]))
    return METHODS[name].members == 1 and first == name


def _first(images: str, profile: str) -> Pictures:
    given, n = pictures(images, profile), N_IMAGES[profile]
    return Pictures(given.images[:n], given.labels[:n])


def _table(metric: str) -> TableView:
    columns = {f"{metric}_{severity}": f"severity {severity}" for severity in SEVERITIES}
    return TableView(
        f"{TITLES[metric]}: median over the corruptions, by severity",
        (f"{metric}_{CLEAN}", *columns),
        "method",
        best=None,
        paper=paper.FIGURE5 if metric == "accuracy" else {},
        labels={**LABELS, f"{metric}_{CLEAN}": "clean", **columns},
    )


EXPERIMENT = Experiment(
    "figure5",
    VERSION,
    "Calibration under corruptions",
    cells,
    run,
    tables=tuple(_table(metric) for metric in METRICS),
    figures=figures,
    notes=(
        "ResNet-20 on CIFAR-10, 200 epochs with the paper's steps, images in [0, 1]; sixteen corruptions of "
        "CIFAR-10-C, generated anew, 10,000 test images each. The paper shows boxes without figures. Anchors "
        "are 10 training images shared by all test images. The network with a temperature is trained on "
        "45,000 images and its temperature fitted on the other 5,000, so that every method has the same "
        "50,000. MC dropout: 10 passes, rate 0.1 after every residual block. Variational: 10 draws, all "
        "convolutions and the head with prior N(0, 0.2²), which pulls on weights as the weight decay of the "
        "others does; standard deviations begin at 0.01. Ensembles are made of the 5 plain networks, 3 at a "
        "time, so that their trials share members; one ensemble has all 5. “T(σ)”: logits scaled by a "
        "function of σ that is fitted on the images held out, as the temperature is; “corrupted too”: fitted "
        "on these images and on the same under motion blur, snow and JPEG compression, which are not among "
        "the sixteen. Networks are asked in float32. The plain networks and seeds 0 to 2 of the others, but "
        "for those with masked rows and a temperature, were trained while the compiler chose between ways of "
        "summing by timing them: trained anew, they may differ as seeds do. The plain network of seed 0 was "
        "trained anew, and does not differ in a single digit.\n\n"
        "Δ-UQ's calibration error is below the plain network's under all corruptions at all severities, in "
        "every seed, and its median below that of a temperature, fitted on clean images, from severity 2 on. "
        "This is the factor of 0.5: without σ the means are the same to three digits, and the plain "
        "network's halved logits are as well calibrated, to about what seeds differ by. From severity 2 on "
        "its median is below that of an ensemble of three and from 3 on like that of an ensemble of five; "
        "they classify better. MC dropout is worse calibrated up to severity 2 and better from 3 on; the "
        "variational network is better at 5, and at 4 by less than seeds differ. They pay for it on clean "
        "images, with 2.4 and 0.8 points of accuracy against Δ-UQ, the variational one with more from "
        "severity 2 on.\n\n"
        "Networks with masked anchors are less sure, and as they are better calibrated, by batches more than "
        "by rows. Halving their logits harms the former up to severity 3, the latter up to 1, and helps both "
        "above: at 5 the halved logits of networks with masked rows are, on average, the best calibrated of "
        "all, ensembles included. None is best calibrated at every severity: one factor for all images has "
        "to choose between clean and severely corrupted ones. “Both readings” chooses the middle without "
        "anything fitted: every anchor is also hidden, [0, X − R], where it moves the logits far more; the "
        "logits of the two are averaged, and probabilities over the anchors. So does a temperature that has "
        "met other corruptions, and with masked rows it is the best choice by calibration error: 0.020 to "
        "0.022 up to severity 3, like Δ-UQ's at 1 and 2 and below MC dropout's, which is lower at 4 and the "
        "same at 5; on average over the severities the lowest of all, before MC dropout by no more than "
        "seeds differ, with two points more accuracy on clean images. The spread over anchors gives nothing "
        "to choose by: T(σ), asked in both readings and fitted with corrupted images among the others, comes "
        "out as the temperature, to the last digit, in all three trainings.\n\n"
        "Networks with masked rows also classify more corrupted images than all single networks without "
        "masks, on average: at severity 5 six points more than the plain one. So they have the best scores "
        "that judge calibration and accuracy together: by negative log-likelihood and Brier score, with "
        "halved logits or in both readings, they are better than every single network without masks from "
        "severity 1 on (with the temperature at all but 4, where MC dropout is as good), and by negative "
        "log-likelihood better than an ensemble of five from 3 on. On clean and mildly corrupted images "
        "ensembles are best. Of the two trainings that were asked in both readings these have the better "
        "scores up to severity 2, and halved logits the better negative log-likelihood at 4 and 5."
    ),
)
