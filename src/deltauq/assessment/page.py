"""An assessment as one HTML page."""

from __future__ import annotations

import numpy as np

from deltauq import plots
from deltauq._version import __version__
from deltauq.assessment.measures import BASELINE
from deltauq.assessment.result import Assessment
from deltauq.metrics import coverage_curve, risk_coverage
from deltauq.plots.page import Block, Figure, Section, Table, render_page

LEVELS = np.array([0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99])
KEPT = np.linspace(0.1, 1.0, 19)

RULE = (
    "A difference counts when, paired over the folds, it is larger than its standard error by Student's "
    "95 % quantile (with Nadeau and Bengio's correction for shared training rows) and larger than 1 % of "
    "the smaller error, or 0.05 in ranking, where no ranking below 0.1 counts as better. Everything else "
    "is a tie; of times, a factor below 1.5. A method errs more when any of its errors is larger, or is 5 "
    "% larger in the table (RMSE and log loss excepted, whose noise a few rows can make). It errs less "
    "when one is smaller and it does not err more.",
    "A method beats the trivial baseline when it errs less than the mean of y, or has a smaller Brier "
    "score than the class frequencies; no other is advised, nor an alternative that errs more than the "
    "plain model or whose intervals are twice as wide. A method gains when it errs less than the plain "
    "model, ranks its errors better, or beats the trivial baseline where the plain model does not. An "
    "alternative stands in the way of anchoring when it ranks better; where rankings tie, when it errs "
    "less; where errors tie as well, when it takes less time or, in the same time, has the larger mean "
    "ranking. Anchoring that errs less than the plain model yields to no alternative that does not. Use "
    "anchoring when it errs no more than the plain model, gains, and no alternative stands in the way. "
    "Otherwise use it for σ only, around the plain model's predictions, when that gains and no "
    "alternative stands in its way. Otherwise don't.",
)


def render_assessment(assessment: Assessment, title: str) -> str:
    """Return the page of an assessment.

    Parameters
    ----------
    assessment : Assessment
    title : str
        Names what was assessed.

    Returns
    -------
    html : str
    """
    regression = assessment.task == "regression"
    sections = [
        Section("The methods compared", _table_blocks(assessment)),
        *(_regression_sections(assessment) if regression else _classification_sections(assessment)),
        Section("How it was measured", [_protocol(assessment), *RULE]),
    ]
    footer = (
        f"deltauq {__version__}. {assessment.heading()}; {assessment.seconds:.0f} seconds. "
        "Method: Δ-UQ, arXiv 2110.02197."
    )
    return render_page(f"Assessment: {title}", assessment.verdict.sentence, sections, footer=footer)


def _table_blocks(assessment: Assessment) -> list[Block]:
    measures, regression = assessment.measures, assessment.task == "regression"
    chosen = assessment.methods.index(assessment.verdict.method)
    header = assessment.header()
    table = Table(
        header,
        assessment.cells(),
        f"{assessment.legend()} In bold: what the advice is to use.",
        bold=frozenset((chosen, column) for column in range(len(header))),
    )
    error = "trimmed_mae" if regression else "brier"
    # The trivial baseline may be so far off that the others could not be told apart.
    methods = [m for m in assessment.methods if m != BASELINE]
    errors = {m: measures.errors(m, error) - measures.errors("plain", error) for m in methods}
    # Half of 2 AUROC − 1 is AUROC over chance.
    unit = 1.0 if regression else 0.5
    ranks = {
        m: unit * (measures.ranks(m) - measures.ranks("plain")) for m in methods if measures.has_ranking(m)
    }
    name, rank = ("trimmed MAE", "rank correlation") if regression else ("Brier score", "AUROC for mistakes")
    figures = [
        _differences(assessment, errors, "The prediction", f"{name}, less the plain model's"),
        _differences(assessment, ranks, "Its uncertainty", f"{rank}, less the plain model's"),
    ]
    drawn = [figure for figure in figures if figure is not None]
    return [table, drawn] if drawn else [table]


def _differences(
    assessment: Assessment, gains: dict[str, np.ndarray], title: str, x_title: str
) -> Figure | None:
    """Draw how far every method that can be compared is from the plain model."""
    points = {
        assessment.label(method): assessment.measures.mean_and_error(gain)
        for method, gain in gains.items()
        if method != "plain" and np.sum(np.isfinite(gain)) > 1
    }
    if not points:
        return None
    means, errors = zip(*points.values(), strict=True)
    figure = plots.dot_plot(list(points), {title: (means, errors)}, x_title=x_title, reference=0.0)
    figure.update_layout(showlegend=False)
    better = "less" if title == "The prediction" else "more"
    caption = f"Paired over folds, with one standard error; {better} is better."
    return Figure(figure, title, caption, height=90 + 44 * len(points), tall=True)


def _regression_sections(assessment: Assessment) -> list[Section]:
    y = np.concatenate(assessment.targets)
    method = "center" if assessment.verdict.method == "center" else "anchored"
    mean, raw, calibrated = _joined(assessment, method)
    curves = {
        "calibrated": coverage_curve(y, mean, calibrated, LEVELS)[1],
        "plain, one width": coverage_curve(y, *_joined(assessment, "plain")[::2], LEVELS)[1],
    }
    if np.any(raw > 0):
        curves = {"raw": coverage_curve(y, mean, raw, LEVELS)[1], **curves}
    intervals = Figure(
        plots.coverage_curves(LEVELS, curves),
        assessment.label(method),
        f"Share of targets in Gaussian intervals. σ was scaled for {assessment.measures.level:.0%} only.",
    )
    sections = [Section("Do intervals hold what they claim?", [intervals])]
    ranking = _ranking(assessment, method)
    if not ranking:
        return sections
    blocks: list[Block] = [
        "Test rows in groups of equally many, ordered by their calibrated σ. Rising points: σ ranks the "
        "errors. Points on the diagonal: it also has their size.",
        [_by_spread(assessment, y, name) for name in ranking],
        _kept_figure(assessment, ranking, "mean |error| of the rows kept"),
    ]
    return [Section("Error against σ", blocks), *sections]


def _classification_sections(assessment: Assessment) -> list[Section]:
    method = "center" if assessment.verdict.method == "center" else "anchored"
    ranking = _ranking(assessment, method)
    if not ranking:
        return []
    figure = _kept_figure(assessment, ranking, "mistakes among the rows kept")
    return [Section("Mistakes against uncertainty", [figure])]


def _ranking(assessment: Assessment, method: str) -> list[str]:
    """Return the methods whose uncertainty is drawn: one anchored method, and the others, if they rank."""
    hidden = {"anchored", "center", BASELINE} - {method}
    shown = [name for name in assessment.methods if name not in hidden]
    ranking = [name for name in shown if assessment.measures.has_ranking(name)]
    return sorted(ranking, key=lambda name: name != method)


def _by_spread(assessment: Assessment, y: np.ndarray, method: str) -> Figure:
    mean, _, calibrated = _joined(assessment, method)
    figure = plots.error_by_spread(y - mean, {"calibrated σ": calibrated})
    return Figure(figure, assessment.label(method), height=360)


def _kept_figure(assessment: Assessment, methods: list[str], y_title: str) -> Figure:
    """Draw the error that remains when the most uncertain rows are left out."""
    series = {}
    for name in methods:
        kept, risk = risk_coverage(*_loss_and_uncertainty(assessment, name))
        series[assessment.label(name)] = (np.interp(KEPT, kept, risk), np.zeros(len(KEPT)))
    figure = plots.line_plot(KEPT, series, x_title="share of rows kept", y_title=y_title)
    figure.update_xaxes(tickformat=".0%")
    caption = "Rows are left out in the order of their uncertainty, the most uncertain first."
    return Figure(figure, "What is left when doubtful rows are left out", caption)


def _loss_and_uncertainty(assessment: Assessment, method: str) -> tuple[np.ndarray, np.ndarray]:
    """Return every test row's loss and its uncertainty, arrays of shape (n,)."""
    y = np.concatenate(assessment.targets)
    if assessment.task == "regression":
        mean, _, calibrated = _joined(assessment, method)
        return np.abs(y - mean), calibrated
    answers = assessment.answers[method]
    name = "spread" if assessment.measures.rank_name(method) == "auroc_spread" else "doubt"
    mistaken = np.concatenate([answer.label for answer in answers]) != y
    # One that says nothing in a fold ranks nothing there.
    doubts = [getattr(answer, name) for answer in answers]
    filled = [np.zeros(len(a.label)) if d is None else d for a, d in zip(answers, doubts, strict=True)]
    return mistaken.astype(np.float64), np.concatenate(filled)


def _joined(assessment: Assessment, method: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return mean, raw σ and calibrated σ of all test rows, arrays of shape (n,)."""
    answers = assessment.answers[method]
    mean = np.concatenate([answer.mean for answer in answers])
    raw = np.concatenate([answer.std for answer in answers])
    return mean, raw, np.concatenate([answer.calibrated for answer in answers])


def _protocol(assessment: Assessment) -> str:
    fits = "Every method was fitted to the training part of every fold and asked about its test part."
    if assessment.task == "classification":
        return fits
    return (
        f"{fits} A fifth of each training part was left out of fitting: it sets the scale of the "
        "intervals, in the same way for every method (split conformal prediction). Test rows never do."
    )
