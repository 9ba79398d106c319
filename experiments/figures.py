"""Figures drawn from result lines."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

from deltauq import plots
from deltauq.plots import Figure
from experiments.display_names import DISPLAY_NAMES
from experiments.store import ResultLine
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
        Their cells may differ in the two keys below and the seed.
    rows, series : str
        Keys of the cells, for the rows and the colours.
    reference : float, optional
        Position of a vertical line.
    """
    summaries = summarise(lines)
    spreads = {
        (str(summary.cell[rows]), str(summary.cell[series])): summary.metrics[metric]
        for summary in summaries
        if metric in summary.metrics
    }
    names = list(dict.fromkeys(name for name, _ in spreads))
    # Including series without the metric, so that the colours are the same in all figures of these lines.
    kinds = list(dict.fromkeys(str(summary.cell[series]) for summary in summaries))
    plot = plots.dot_plot(
        [DISPLAY_NAMES.get(name, name) for name in names],
        {DISPLAY_NAMES.get(kind, kind): _column(spreads, names, kind) for kind in kinds},
        x_title=x_title,
        reference=reference,
    )
    height = 130 + len(names) * (24 + 7 * len(kinds))
    return Figure(plot, title, caption, height=height, tall=True)


def relative_to(
    lines: Sequence[ResultLine], metric: str, *, key: str, reference: str, without: Sequence[str] = ()
) -> list[ResultLine]:
    """Divide a metric by that of the reference's cell, seed by seed.

    Parameters
    ----------
    key, reference : str
        The reference is the cell with this value of this key, and is otherwise the same.
    without : sequence of str
        Values of the key that are not compared.

    Returns
    -------
    lines : list of ResultLine
        With this metric only, or without any if there is nothing to compare.
    """

    def others(line: ResultLine) -> tuple[tuple[str, str], ...]:
        return tuple(sorted((name, str(value)) for name, value in line.cell.items() if name != key))

    def ratio(line: ResultLine) -> dict[str, float]:
        divisor = divisors.get(others(line))
        compared = line.cell[key] not in (reference, *without)
        return {metric: line.metrics[metric] / divisor} if compared and divisor else {}

    divisors = {others(line): line.metrics[metric] for line in lines if line.cell[key] == reference}
    return [replace(line, metrics=ratio(line)) for line in lines]


def by_score(lines: Sequence[ResultLine], scores: Mapping[str, str]) -> list[ResultLine]:
    """Return a line for every metric in `scores`, with the metric "value" and the cell key "score"."""
    return [
        replace(line, cell={**line.cell, "score": score}, metrics={"value": line.metrics[metric]})
        for line in lines
        for metric, score in scores.items()
    ]


def over_anchors(
    lines: Sequence[ResultLine], key: str, metric: str, title: str, caption: str, y_title: str
) -> Figure:
    """Draw a metric over the number of anchors, with one line for each value of a key of the cells."""
    spreads = {
        (str(summary.cell[key]), str(summary.cell["n_anchors"])): summary.metrics[metric]
        for summary in summarise(lines)
    }
    numbers = sorted({int(number) for _, number in spreads})
    series = {
        DISPLAY_NAMES.get(kind, kind): _column(
            {(number, kind): spread for (kind, number), spread in spreads.items()},
            [str(number) for number in numbers],
            kind,
        )
        for kind in dict.fromkeys(kind for kind, _ in spreads)
    }
    plot = plots.line_plot(numbers, series, x_title="anchors, K", y_title=y_title, log_x=True)
    return Figure(plot, title, caption, height=520)


def _column(
    spreads: Mapping[tuple[str, str], Spread], names: Sequence[str], kind: str
) -> tuple[list[float], list[float]]:
    missing = Spread(math.nan, math.nan, 0)
    column = [spreads.get((name, kind), missing) for name in names]
    return [spread.mean for spread in column], [spread.std for spread in column]
