"""Figures that the report draws from result lines."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

from deltauq import plots
from deltauq.plots.page import Figure
from experiments.display_names import DISPLAY_NAMES
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


def over_anchors(
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
