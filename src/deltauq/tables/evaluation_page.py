"""An evaluation as sentences, as tables, and as one HTML page."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from deltauq import plots
from deltauq._version import __version__
from deltauq.metrics import risk_coverage
from deltauq.plots.page import Block, Figure, Section, Table, render_page
from deltauq.tables.evaluation import Evaluation, UncertainRow
from deltauq.tables.judging import OUTLIER_SHARE
from deltauq.tables.model import RISK_LEVELS, RISK_SHARES
from deltauq.tables.schema import REGRESSION
from deltauq.tables.slices import CHANCE, Worse

KEPT = np.linspace(0.1, 1.0, 19)
MEASURES = {
    "median_absolute_error": "median absolute error",
    "mae": "mean absolute error",
    "rmse": "root mean squared error",
    "r2": "R², the share of variance explained",
    "spearman": "rank correlation of σ with |error|: 1 is perfect, 0 says nothing",
    "coverage": "share of targets held, of {promised} promised",
    "median_width": "median width of intervals",
    "width": "mean width of intervals",
    "nll": "negative log-likelihood of normal errors, in nats",
    "crps": "continuous ranked probability score",
    "accuracy": "share of rows predicted right",
    "log_loss": "negative log-likelihood of the right class, in nats",
    "brier": "Brier score, from 0 to 2",
    "ece": "expected calibration error",
    "auroc_spread": "how well σ tells mistakes (AUROC): 1 is perfect, 0.5 says nothing",
    "auroc_confidence": "how well a low probability tells mistakes (AUROC)",
    "set_size": "mean number of classes in a set",
}
SHARES = {"coverage", "accuracy"}
RISK_NOTE = (
    "Of rows drawn like the training table, at most 5 % have a high risk, and at most 20 % a high or a "
    "moderate one. Clearly more than that: the rows differ from the training table."
)
TRIMMED = f"without the {OUTLIER_SHARE:.0%} largest errors"


def describe(found: Evaluation) -> str:
    """Return what matters most, in a few sentences."""
    measured = found.judged.metrics
    kind = "Intervals" if found.task == REGRESSION else "Sets"
    held = f"{kind} of {found.coverage:.0%} held {measured['coverage']:.1%} of {found.n_rows:,} targets"
    verdict = f"{held}, {_against_promise(found)}{_failing(found)}."
    if found.task == REGRESSION:
        rank = measured["spearman"]
        return (
            f"{verdict} The median absolute error is {_number(measured['median_absolute_error'])} "
            f"({_means(found)}); σ {_about_rank(rank, 0.0, 'errors')} (rank correlation {_number(rank)})."
        )
    rank = measured["auroc_spread"]
    return (
        f"{verdict} {measured['accuracy']:.1%} of rows are predicted right; σ "
        f"{_about_rank(rank, 0.5, 'mistakes')} (AUROC {_number(rank)})."
    )


def measure_table(found: Evaluation) -> tuple[list[str], list[list[str]]]:
    """Return the header and the rows of the table of measures: what each is, and its values."""
    promised, trimmed = f"{found.coverage:.0%}", found.judged.trimmed
    header = ["measure", "value", *([TRIMMED] if trimmed else [])]
    rows = []
    for name, meaning in MEASURES.items():
        if name in found.judged.metrics:
            value = found.judged.metrics[name]
            row = [meaning.format(promised=promised), f"{value:.1%}" if name in SHARES else _number(value)]
            if trimmed:
                row.append(_number(trimmed[name]) if name in trimmed else "–")
            rows.append(row)
    return header, rows


def risk_table(found: Evaluation) -> tuple[list[str], list[list[str]]]:
    """Return the header and the rows of the table of levels of risk."""
    regression = found.task == REGRESSION
    up_to, high = RISK_SHARES
    shares = (f"{1 - up_to:.0%} or more", f"about {up_to - high:.0%}", f"{high:.0%} or less")
    expected = dict(zip(RISK_LEVELS, shares, strict=True))
    header = ["risk", "rows", "share", "expected", "median |error|" if regression else "mistakes", "held"]
    rows = []
    for level, part in found.risk.items():
        loss = _number(part.median_loss) if regression else f"{part.loss:.1%}"
        share = f"{part.rows / found.n_rows:.1%}"
        rows.append([level, f"{part.rows:,}", share, expected[level], loss, f"{part.coverage:.1%}"])
    return header, rows


def slice_table(found: Evaluation, parts: Sequence[Worse], share: bool) -> tuple[list[str], list[list[str]]]:
    """Return the header and the rows of a table of slices; `share` says that losses are shares."""
    write = "{:.1%}".format if share else _number
    rows = [[part.name, f"{part.rows:,}", write(part.loss), write(part.elsewhere)] for part in parts]
    return ["slice", "rows", "there", "elsewhere"], rows


def uncertain_table(found: Evaluation) -> tuple[list[str], list[list[str]]]:
    """Return the header and the rows of the table of uncertain rows."""
    header = ["row", found.target, "predicted", "σ", "held", "apart from its nearest anchor by"]
    return header, [_uncertain_cells(row) for row in found.uncertain]


def render_evaluation(found: Evaluation, title: str) -> str:
    """Return the page of an evaluation.

    Parameters
    ----------
    found : Evaluation
    title : str
        Names what was evaluated.

    Returns
    -------
    html : str
    """
    sections = [
        Section("Measures", [*found.notes, Table(*measure_table(found))]),
        Section(_held_title(found), _held_blocks(found)),
        Section("Levels of risk", [Table(*risk_table(found)), RISK_NOTE]),
        Section(
            "Error against σ" if found.task == REGRESSION else "Mistakes against σ", _error_blocks(found)
        ),
        Section("Where it is worst", _slice_blocks(found)),
        Section("The most uncertain rows", _uncertain_blocks(found)),
    ]
    footer = (
        f"deltauq {__version__}. {found.model}, {found.task}; {found.n_rows:,} rows. "
        "Method: Δ-UQ, arXiv 2110.02197."
    )
    return render_page(f"Evaluation: {title}", describe(found), sections, footer=footer)


def _against_promise(found: Evaluation) -> str:
    """Say whether the coverage may be that of a promise kept, by two standard errors."""
    error = math.sqrt(found.coverage * (1 - found.coverage) / found.n_rows)
    short = found.coverage - found.judged.metrics["coverage"]
    if abs(short) <= 2 * error:
        return "as promised"
    return "fewer than promised" if short > 0 else "more than promised"


def _failing(found: Evaluation) -> str:
    """Name the tenth of rows in which the coverage fails most, if it fails in any."""
    if found.failing is None:
        return ""
    ends = {0: "the most certain tenth", len(found.groups) - 1: "the most uncertain tenth"}
    where = ends.get(found.failing, f"decile {found.failing + 1} of σ")
    return f", but only {found.groups[found.failing].coverage:.1%} in {where}"


def _means(found: Evaluation) -> str:
    trimmed = found.judged.trimmed
    mean = f"mean {_number(found.judged.metrics['mae'])}"
    return f"{mean}; {_number(trimmed['mae'])} {TRIMMED}" if trimmed else mean


def _about_rank(value: float, chance: float, errors: str) -> str:
    """Say what a rank correlation or an AUROC means; the scale from chance to perfect has four parts."""
    if not math.isfinite(value):
        return f"cannot be compared with {errors}"
    strength = (value - chance) / (1.0 - chance)
    words = (
        (0.1, f"says next to nothing of {errors}"),
        (0.3, f"ranks {errors} a little"),
        (0.6, f"ranks {errors}"),
    )
    return next((said for limit, said in words if strength < limit), f"ranks {errors} well")


def _held_title(found: Evaluation) -> str:
    claim = "intervals" if found.task == REGRESSION else "probabilities and sets"
    return f"Do {claim} hold what they claim?"


def _held_blocks(found: Evaluation) -> list[Block]:
    claimed, observed = found.judged.curve
    blocks: list[Block] = []
    if found.task == REGRESSION:
        figure = plots.coverage_curves(claimed, {"intervals": observed})
        blocks.append(Figure(figure, "Intervals", "Share of targets inside, for intervals of every level."))
    else:
        figure = plots.coverage_curves(claimed, {"rows that are so confident": observed})
        figure.update_xaxes(title_text="probability of the predicted class")
        figure.update_yaxes(title_text="share predicted right")
        blocks.append(
            Figure(figure, "Probabilities", "In ten bins of the probability; empty ones are left out.")
        )
    rows = []
    for k, part in enumerate(found.groups, start=1):
        row = [
            f"{k}",
            f"{part.rows:,}",
            f"{_number(part.low)} to {_number(part.high)}",
            f"{part.coverage:.1%}",
        ]
        if found.task == REGRESSION:
            rows.append([*row, _number(part.median_loss), _number(part.loss)])
        else:
            rows.append([*row, f"{part.loss:.1%}", _number(part.size)])
    losses = (
        ["median |error|", "mean |error|"] if found.task == REGRESSION else ["mistakes", "classes in the set"]
    )
    caption = (
        f"By decile of σ, the most certain rows first. {found.coverage:.0%} is promised on average over all "
        "rows, and not in each decile."
    )
    return [*blocks, Table(["decile", "rows", "σ", "held", *losses], rows, caption)]


def _error_blocks(found: Evaluation) -> list[Block]:
    judged = found.judged
    regression = found.task == REGRESSION
    if regression:
        y_title = "median |error| of the rows kept"
        errors = judged.loss[np.argsort(judged.spread, kind="stable")]
        losses = np.array([np.median(errors[: math.ceil(share * len(errors))]) for share in KEPT])
    else:
        y_title = "mistakes among the rows kept"
        losses = np.interp(KEPT, *risk_coverage(judged.loss, judged.spread))
    series = {"rows kept": (losses, np.zeros(len(KEPT)))}
    figure = plots.line_plot(KEPT, series, x_title="share of rows kept", y_title=y_title)
    figure.update_xaxes(tickformat=".0%")
    if not regression:
        figure.update_yaxes(tickformat=".0%")
    caption = "Rows are left out in the order of σ, the most uncertain first. A rising line: σ finds errors."
    left_out = Figure(figure, "What is left when doubtful rows are left out", caption)
    if not regression:
        return [left_out]
    by_spread = Figure(
        plots.errors_by_width(judged.loss, judged.size / 2, found.coverage),
        "Rows in groups of equally many, by σ",
        "Rising points: σ ranks the errors. Points on the diagonal: intervals hold in each group what they "
        "claim; above it they are too narrow.",
    )
    return [[by_spread, left_out]]


def _slice_blocks(found: Evaluation) -> list[Block]:
    regression = found.task == REGRESSION
    large = "errors above the median of all rows, or misses," if regression else "mistakes, or misses,"
    rule = (
        f"{found.n_slices:,} slices were compared, each by the categories, values or quartiles of a column. "
        f"One is shown when it has more {large} than as many rows drawn at random, by more than would happen "
        f"to any of the {found.n_slices:,} with a probability of {CHANCE:.0%}."
    )
    blocks: list[Block] = []
    loss = "Median |error|" if regression else "Share of mistakes"
    held = "intervals" if regression else "sets"
    for parts, caption, share in (
        (found.large_loss, f"{loss}, in slices where it is larger than elsewhere.", not regression),
        (found.often_missed, f"Share of targets that {held} miss, where it is larger than elsewhere.", True),
    ):
        if parts:
            header, rows = slice_table(found, parts, share)
            blocks.append(Table(header, rows, caption))
    if not blocks:
        blocks.append("No slice is worse than the rest by more than chance.")
    return [*blocks, rule]


def _uncertain_blocks(found: Evaluation) -> list[Block]:
    header, rows = uncertain_table(found)
    return [
        Table(header, rows, "Rows are numbered from 1, without the header."),
        "In brackets: the anchor's value. Numbers are compared in units of the anchors' standard deviation, "
        "words by being alike or not. Per cent are of the squared distance.",
    ]


def _uncertain_cells(row: UncertainRow) -> list[str]:
    # No line breaks within a feature: the column stays wide enough to be read on a telephone.
    apart = "; ".join(
        f"{part.feature} {part.value} ({part.anchor}), {part.share:.0%}".replace(" ", "\N{NO-BREAK SPACE}")
        for part in row.apart
    )
    return [
        f"{row.row:,}",
        _value(row.target),
        _value(row.prediction),
        _number(row.spread),
        "no" if row.missed else "yes",
        apart or "nothing",
    ]


def _value(value: Any) -> str:
    return _number(value) if isinstance(value, float) else str(value)


def _number(value: float) -> str:
    """Return three digits or all before the point, without an exponent where it can be helped."""
    if not math.isfinite(value):
        return "–"
    return f"{value:,.0f}" if 1e3 <= abs(value) < 1e12 else f"{value:.3g}"
