"""An evaluation as sentences, as tables, and as the sections of an HTML page."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from deltauq import plots
from deltauq.assessment.page import KEPT, kept_figure
from deltauq.assessment.scoring import METRICS, number
from deltauq.metrics import risk_coverage
from deltauq.plots.page import Block, Figure, Section, Table
from deltauq.tables.evaluation import OUTLIER_SHARE, Evaluation, UncertainRow
from deltauq.tables.model import RISK_LEVELS, RISK_SHARES
from deltauq.tables.schema import REGRESSION
from deltauq.tables.slices import SIGNIFICANCE, WorseSlice

STRENGTHS = (
    (0.1, "σ does not rank the {}"),
    (0.3, "σ ranks the {} weakly"),
    (0.6, "σ ranks the {} moderately"),
    (math.inf, "σ ranks the {} well"),
)
"""By the upper limit of a correlation, or of an AUROC scaled from chance to perfect."""
TRIMMED = f"without the {OUTLIER_SHARE:.0%} largest errors"
RISK_NOTE = (
    f"Of rows from the training distribution, at most {RISK_SHARES[1]:.0%} have a high risk, and at most "
    f"{RISK_SHARES[0]:.0%} a high or a moderate one. Clearly more than that indicates a distribution shift."
)
UNCERTAIN_NOTE = (
    "Rows are numbered from 1, without the header. In parentheses: the anchor's value. Numbers are compared "
    "in units of the anchors' standard deviation, categories by equality. Percentages are shares of the "
    "squared distance."
)


def summarize(evaluation: Evaluation) -> str:
    """Return coverage, error and ranking in a few sentences."""
    metrics, nominal = evaluation.metrics, evaluation.coverage
    coverage = f"Coverage {metrics['coverage']:.1%} (nominal {nominal:.0%}) on {evaluation.n_rows:,} rows"
    difference = metrics["coverage"] - nominal
    if abs(difference) > 2 * math.sqrt(nominal * (1 - nominal) / evaluation.n_rows):
        coverage += f", significantly {'higher' if difference > 0 else 'lower'}"
    if (k := evaluation.failing_decile) is not None:
        ends = {0: "the least uncertain tenth", len(evaluation.deciles) - 1: "the most uncertain tenth"}
        group = ends.get(k, f"decile {k + 1} of σ")
        coverage += f", but only {evaluation.deciles[k].coverage:.1%} in {group}"
    if evaluation.task == REGRESSION:
        mean = f"mean {number(metrics['mae'])}"
        if evaluation.trimmed:
            mean += f"; {number(evaluation.trimmed['mae'])} {TRIMMED}"
        error = f"Median absolute error {number(metrics['median_absolute_error'])} ({mean})"
        ranking = _ranking(metrics["spearman"], 0.0, "errors", "rank correlation")
    else:
        error = f"Accuracy {metrics['accuracy']:.1%}"
        ranking = _ranking(metrics["auroc_spread"], 0.5, "mistakes", "AUROC")
    return f"{coverage}. {error}. {ranking}."


def _ranking(value: float, chance: float, errors: str, name: str) -> str:
    """Say how well σ ranks errors."""
    if not math.isfinite(value):
        return f"The ranking of {errors} by σ is not defined"
    strength = (value - chance) / (1.0 - chance)
    text = next(text for limit, text in STRENGTHS if strength < limit)
    return f"{text.format(errors)} ({name} {number(value)})"


def evaluation_tables(evaluation: Evaluation, most: int | None) -> dict[str, Table]:
    """Return the tables of an evaluation by their titles; with at most so many slices and uncertain rows."""
    tables = {"Metrics": _metric_table(evaluation), "Risk": _risk_table(evaluation)}
    tables |= _slice_tables(evaluation, most)
    return {**tables, "Most uncertain rows": _uncertain_table(evaluation, most)}


def evaluation_sections(evaluation: Evaluation) -> list[Section]:
    """Return the sections of the page."""
    errors = "Error" if evaluation.task == REGRESSION else "Mistakes"
    return [
        Section("Metrics", [*evaluation.notes, _metric_table(evaluation)]),
        Section("Coverage", [_coverage_figure(evaluation), _decile_table(evaluation)]),
        Section("Risk", [_risk_table(evaluation), RISK_NOTE]),
        Section(f"{errors} against σ", [_error_figures(evaluation)]),
        Section("Slices with larger errors", _slice_blocks(evaluation)),
        Section("Most uncertain rows", [_uncertain_table(evaluation, None), UNCERTAIN_NOTE]),
    ]


def _metric_table(evaluation: Evaluation) -> Table:
    trimmed = evaluation.trimmed
    rows = []
    for name, metric in METRICS.items():
        if name in evaluation.metrics:
            row = [metric.meaning.format(f"{evaluation.coverage:.0%}"), metric.text(evaluation.metrics[name])]
            rows.append([*row, metric.text(trimmed.get(name, math.nan))] if trimmed else row)
    return Table(["metric", "value", *([TRIMMED] if trimmed else [])], rows)


def _risk_table(evaluation: Evaluation) -> Table:
    regression = evaluation.task == REGRESSION
    up_to, high = RISK_SHARES
    shares = (f"{1 - up_to:.0%} or more", f"about {up_to - high:.0%}", f"{high:.0%} or less")
    expected = dict(zip(RISK_LEVELS, shares, strict=True))
    rows = []
    for level, part in evaluation.risk.items():
        loss = number(part.median_loss) if regression else f"{part.loss:.1%}"
        share = f"{part.rows / evaluation.n_rows:.1%}"
        rows.append([level, f"{part.rows:,}", share, expected[level], loss, f"{part.coverage:.1%}"])
    loss = "median |error|" if regression else "mistakes"
    return Table(["risk", "rows", "share", "expected", loss, "coverage"], rows)


def _slice_tables(evaluation: Evaluation, most: int | None) -> dict[str, Table]:
    regression = evaluation.task == REGRESSION
    loss = "median |error|" if regression else "share of mistakes"
    tables = {}
    for title, parts, is_share in (
        (f"Slices with a larger {loss}", evaluation.large_loss, not regression),
        ("Slices with a larger share of missed targets", evaluation.often_missed, True),
    ):
        if parts:
            tables[title] = _slice_table(parts[:most], is_share)
    return tables


def _slice_table(parts: Sequence[WorseSlice], is_share: bool) -> Table:
    write = "{:.1%}".format if is_share else number
    rows = [[part.name, f"{part.rows:,}", write(part.inside), write(part.elsewhere)] for part in parts]
    return Table(["slice", "rows", "inside", "elsewhere"], rows)


def _uncertain_table(evaluation: Evaluation, most: int | None) -> Table:
    header = ["row", evaluation.target, "predicted", "σ", "covered", "differences from the nearest anchor"]
    return Table(header, [_uncertain_cells(row) for row in evaluation.uncertain[:most]])


def _uncertain_cells(row: UncertainRow) -> list[str]:
    # No line breaks within a feature: the column stays wide enough on narrow screens.
    differences = "; ".join(
        f"{part.feature} {part.value} ({part.anchor}), {part.share:.0%}".replace(" ", "\N{NO-BREAK SPACE}")
        for part in row.differences
    )
    covered = "no" if row.missed else "yes"
    values = (_value(row.target), _value(row.prediction))
    return [f"{row.row:,}", *values, number(row.spread), covered, differences or "none"]


def _value(value: Any) -> str:
    return number(value) if isinstance(value, float) else str(value)


def _coverage_figure(evaluation: Evaluation) -> Figure:
    nominal, observed = evaluation.curve
    if evaluation.task == REGRESSION:
        figure = plots.coverage_curves(nominal, {"intervals": observed})
        return Figure(figure, "Intervals", "Empirical coverage of intervals of every nominal coverage.")
    figure = plots.coverage_curves(nominal, {"rows with this confidence": observed})
    figure.update_xaxes(title_text="probability of the predicted class")
    figure.update_yaxes(title_text="accuracy")
    return Figure(figure, "Probabilities", "In ten bins of the probability; empty bins are left out.")


def _decile_table(evaluation: Evaluation) -> Table:
    regression = evaluation.task == REGRESSION
    rows = []
    for k, part in enumerate(evaluation.deciles, start=1):
        losses = (number(part.median_loss), number(part.loss))
        if not regression:
            losses = (f"{part.loss:.1%}", number(part.size))
        spread = f"{number(part.low)} to {number(part.high)}"
        rows.append([f"{k}", f"{part.rows:,}", spread, f"{part.coverage:.1%}", *losses])
    losses = ("median |error|", "mean |error|") if regression else ("mistakes", "classes in the set")
    caption = (
        f"By decile of σ, the least uncertain rows first. The nominal coverage, {evaluation.coverage:.0%}, "
        "is guaranteed on average over all rows, not in each decile."
    )
    return Table(["decile", "rows", "σ", "coverage", *losses], rows, caption)


def _error_figures(evaluation: Evaluation) -> list[Figure]:
    scores = evaluation.rows
    if evaluation.task != REGRESSION:
        losses = np.interp(KEPT, *risk_coverage(scores.loss, scores.spread))
        figure = kept_figure({"rows kept": losses}, "mistakes among the rows kept")
        figure.figure.update_yaxes(tickformat=".0%")
        return [figure]
    errors = scores.loss[np.argsort(scores.spread, kind="stable")]
    losses = np.array([np.median(errors[: math.ceil(share * len(errors))]) for share in KEPT])
    by_width = Figure(
        plots.errors_by_width(scores.loss, scores.size / 2, evaluation.coverage),
        "Rows in groups of equal size, by σ",
        "Rising points: σ ranks the errors. Points on the diagonal: intervals have their nominal coverage in "
        "each group; above it they are too narrow.",
    )
    return [by_width, kept_figure({"rows kept": losses}, "median |error| of the rows kept")]


def _slice_blocks(evaluation: Evaluation) -> list[Block]:
    large = "errors above the median" if evaluation.task == REGRESSION else "mistakes"
    rule = (
        f"{evaluation.n_slices:,} slices were compared: each by the categories, values or quartiles of one "
        f"column. A slice is listed if it has significantly more {large}, or more missed targets, than as "
        f"many rows drawn at random (significance {SIGNIFICANCE:.0%}, Bonferroni correction)."
    )
    tables = _slice_tables(evaluation, None)
    if not tables:
        return ["No slice is significantly worse than the rest.", rule]
    return [*(Table(table.header, table.rows, title) for title, table in tables.items()), rule]
