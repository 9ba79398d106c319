"""Figures that the report draws from result lines."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from deltauq import plots
from deltauq.plots.page import Figure
from experiments.display_names import DISPLAY_NAMES
from experiments.plots import class_map, probability_map, uncertainty_map
from experiments.results import ResultLine
from experiments.summary import Spread, summarise


def dot_figure(
    lines: Sequence[ResultLine],
    metric: str,
    *,
    rows: str,
    series: str,
    title: str,
    caption: str,
    x_title: str,
    reference: float | None = None,
) -> Figure:
    """Draw a metric's mean and standard deviation over the seeds as dots with bars.

    Parameters
    ----------
    lines : sequence of ResultLine
        Cells may differ by the two words below and the seed.
    rows, series : str
        Words of the cells: one names the rows of the figure, the other its colours.
    reference : float, optional
        Where to draw a vertical line.
    """
    summaries = summarise(lines)
    found = {
        (str(summary.cell[rows]), str(summary.cell[series])): summary.metrics[metric]
        for summary in summaries
        if metric in summary.metrics
    }
    names = list(dict.fromkeys(name for name, _ in found))
    # One without the metric keeps its place: every series then looks the same in all figures of these lines.
    kinds = list(dict.fromkeys(str(summary.cell[series]) for summary in summaries))
    plot = plots.dot_plot(
        [DISPLAY_NAMES.get(name, name) for name in names],
        {DISPLAY_NAMES.get(kind, kind): _column(found, names, kind) for kind in kinds},
        x_title=x_title,
        reference=reference,
    )
    height = 130 + len(names) * (24 + 7 * len(kinds))
    return Figure(plot, title, caption, height=height, tall=True)


def relative_to(
    lines: Sequence[ResultLine], metric: str, *, word: str, reference: str, without: Sequence[str] = ()
) -> list[ResultLine]:
    """Divide a metric by that of the reference's cell, seed by seed.

    Parameters
    ----------
    word, reference : str
        The cell divided by is the one that has this value of this word and is otherwise the same.
    without : sequence of str
        Values of the word that are not compared.

    Returns
    -------
    lines : list of ResultLine
        With this metric only; without any where there is nothing to compare, the reference's own included.
    """

    def others(line: ResultLine) -> tuple[tuple[str, str], ...]:
        return tuple(sorted((key, str(value)) for key, value in line.cell.items() if key != word))

    def ratio(line: ResultLine) -> dict[str, float]:
        divisor = divisors.get(others(line))
        compared = line.cell[word] not in (reference, *without)
        return {metric: line.metrics[metric] / divisor} if compared and divisor else {}

    divisors = {others(line): line.metrics[metric] for line in lines if line.cell[word] == reference}
    return [replace(line, metrics=ratio(line)) for line in lines]


def table1_figures(lines: Sequence[ResultLine]) -> list[Figure]:
    """Return accuracy and ranking by encoding."""
    return [
        dot_figure(
            lines,
            metric,
            rows="function",
            series="encoding",
            title=title,
            caption=caption,
            x_title=x_title,
            reference=0.0,
        )
        for metric, title, caption, x_title in (
            ("r2", "Accuracy", "Bars: one standard deviation over the seeds.", "R²"),
            (
                "spearman",
                "Does σ rank the errors?",
                "1: perfectly. 0, the dotted line: not at all.",
                "rank correlation of σ with the error",
            ),
        )
    ]


def table2_figures(lines: Sequence[ResultLine]) -> list[Figure]:
    """Return ranking by method, and accuracy relative to the plain forest."""
    return [
        dot_figure(
            lines,
            "spearman",
            rows="dataset",
            series="method",
            title="Does σ rank the errors?",
            caption="1: perfectly. 0: not at all. Bars: one standard deviation over the trials.",
            x_title="rank correlation of σ with the error",
        ),
        dot_figure(
            # Two methods predict as the plain forest does: their ratio is 1 by construction.
            relative_to(lines, "mae", word="method", reference="plain", without=("deup", "tree-spread-5")),
            "mae",
            rows="dataset",
            series="method",
            title="Error relative to the plain forest",
            caption="Left of the dotted line: better than the plain forest of the same split. DEUP and the "
            "spread of 5 trees predict as the plain forest does and are left out.",
            x_title="MAE / MAE of the plain forest",
            reference=1.0,
        ),
    ]


def figure2_figures(lines: Sequence[ResultLine]) -> list[Figure]:
    """Return the data, the uncertainty, and the view under every single anchor, of the first draw."""
    pictures = {line.cell["layout"]: line.details for line in lines if line.details}
    figures, by_anchor = [], []
    for letter, layout in (("A", "separable"), ("B", "nested")):
        if layout in pictures:
            arrays = {name: np.asarray(value) for name, value in pictures[layout].items()}
            figures += _plane_figures(arrays, letter)
            by_anchor += _anchor_figures(arrays, letter)
    return figures + by_anchor


def _plane_figures(arrays: Mapping[str, np.ndarray], letter: str) -> list[Figure]:
    grid, X = (arrays["grid"], arrays["grid"]), arrays["X"]
    names = [f"class {label}" for label in range(3)]
    return [
        Figure(
            class_map(grid, arrays["predicted"], (X, arrays["y"]), names),
            f"({letter}) Data and prediction",
            height=460,
        ),
        Figure(
            uncertainty_map(grid, arrays["uncertainty"], X, anchors=arrays["anchors"]),
            f"({letter}) Uncertainty",
            "Sum over classes of the variance of their probabilities over the anchors, which are crosses.",
            height=460,
        ),
    ]


def _anchor_figures(arrays: Mapping[str, np.ndarray], letter: str) -> list[Figure]:
    grid = arrays["grid"][::2]
    return [
        Figure(
            probability_map(
                (grid, grid),
                arrays["top_by_anchor"][k],
                arrays["percent_by_anchor"][k] / 100,
                arrays["X"],
                anchor=anchor,
            ),
            f"({letter}) Under anchor {k + 1} alone",
            "The predicted class, the paler the less probable; the cross is the anchor." if k == 0 else "",
            height=420,
        )
        for k, anchor in enumerate(arrays["anchors"])
    ]


def ablation_anchors_figures(lines: Sequence[ResultLine]) -> list[Figure]:
    """Return ranking and accuracy against the number of anchors."""
    best: dict[tuple[int, int], float] = {}
    for line in lines:
        key = line.cell["dataset"], line.cell["seed"]
        best[key] = line.metrics["mae"] if line.cell["n_anchors"] == 100 else best.get(key, math.nan)
    relative = [
        replace(line, metrics={"mae": line.metrics["mae"] / best[line.cell["dataset"], line.cell["seed"]]})
        for line in lines
    ]
    return [
        _over_anchors(
            lines,
            "dataset",
            "spearman",
            "Does σ rank the errors?",
            "Bars: one standard deviation over the trials.",
            "rank correlation of σ with the error",
        ),
        _over_anchors(
            relative,
            "dataset",
            "mae",
            "Accuracy",
            "Relative to 100 anchors of the same trial.",
            "MAE / MAE with 100",
        ),
    ]


def ablation_anchors_images_figures(lines: Sequence[ResultLine]) -> list[Figure]:
    """Return ranking of errors and of strange images against the number of anchors, by score."""
    entropy, sigma = "entropy of the scaled logits", "σ"
    return [
        _over_anchors(
            by_score(lines, {"spearman": sigma, "spearman_entropy": entropy}),
            "score",
            "value",
            "Ranking of the errors",
            "Test images with impulse noise of severity 5. Bars: one standard deviation over the trials.",
            "rank correlation with the error",
        ),
        _over_anchors(
            by_score(lines, {"auroc_sigma": sigma, "auroc": entropy}),
            "score",
            "value",
            "Telling SVHN from CIFAR-10",
            "Bars: one standard deviation over the trials.",
            "AUROC",
        ),
    ]


def ablation_prior_figures(lines: Sequence[ResultLine], names: Mapping[str, str]) -> list[Figure]:
    """Return how well scores tell SVHN from CIFAR-10, by the prior of the anchors, whose names are given."""
    scores = {"auroc_sigma": "σ", "auroc": "entropy of the scaled logits"}
    named = [replace(line, cell={**line.cell, "prior": names[line.cell["prior"]]}) for line in lines]
    return [
        dot_figure(
            by_score(named, scores),
            "value",
            rows="prior",
            series="score",
            title="Telling SVHN from CIFAR-10, by where the anchors come from",
            caption="10 anchors. Bars: one standard deviation over the trials. Dotted line: chance.",
            x_title="AUROC",
            reference=0.5,
        )
    ]


def by_score(lines: Sequence[ResultLine], scores: Mapping[str, str]) -> list[ResultLine]:
    """Split lines by metric: each line becomes one for every metric, called "value", and its name, the score.

    Parameters
    ----------
    scores : mapping of str to str
        Metric to the value of the word "score" in the new cells.
    """
    return [
        replace(line, cell={**line.cell, "score": score}, metrics={"value": line.metrics[metric]})
        for line in lines
        for metric, score in scores.items()
    ]


def _over_anchors(
    lines: Sequence[ResultLine], word: str, metric: str, title: str, caption: str, y_title: str
) -> Figure:
    """Draw a metric over the number of anchors, with one line for each value of a word of the cells."""
    found = {
        (str(summary.cell[word]), str(summary.cell["n_anchors"])): summary.metrics[metric]
        for summary in summarise(lines)
    }
    numbers = sorted({int(number) for _, number in found})
    series = {
        DISPLAY_NAMES.get(kind, kind): _column(
            {(number, kind): spread for (kind, number), spread in found.items()},
            [str(number) for number in numbers],
            kind,
        )
        for kind in dict.fromkeys(kind for kind, _ in found)
    }
    plot = plots.line_plot(numbers, series, x_title="anchors, K", y_title=y_title, log_x=True)
    return Figure(plot, title, caption, height=520)


def _column(
    found: Mapping[tuple[str, str], Spread], names: Sequence[str], kind: str
) -> tuple[list[float], list[float]]:
    nothing = Spread(math.nan, math.nan, 0)
    spreads = [found.get((name, kind), nothing) for name in names]
    return [spread.mean for spread in spreads], [spread.std for spread in spreads]
