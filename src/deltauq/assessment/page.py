"""The sections of an assessment's HTML page."""

from __future__ import annotations

import numpy as np
from scipy.stats import norm

from deltauq import plots
from deltauq.assessment.comparison import BASELINE
from deltauq.assessment.result import Assessment
from deltauq.metrics import coverage_curve, risk_coverage
from deltauq.plots.page import Block, Figure, Section

LEVELS = np.array([0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99])
KEPT = np.linspace(0.1, 1.0, 19)
PROTOCOL = (
    "Every method was fitted to the training part of every fold and predicted its test part. For "
    "regression, a fifth of each training part was held out and calibrates the intervals of every method "
    "(split conformal prediction).",
    "Differences are paired over the folds and tested with Student's t and the correction of Nadeau and "
    "Bengio for shared training rows. `deltauq.assessment.decide` documents the rule of the recommendation.",
)


def assessment_sections(assessment: Assessment) -> list[Section]:
    """Return the sections of the page."""
    (table,) = assessment.tables().values()
    figures = _differences(assessment)
    sections = [Section("Comparison of the methods", [table, figures] if figures else [table])]
    if assessment.task == "regression":
        sections += _regression_sections(assessment)
    elif ranking := _ranking_methods(assessment, _anchored_method(assessment)):
        figure = _kept_figure(assessment, ranking, "mistakes among the rows kept")
        sections.append(Section("Mistakes against uncertainty", [figure]))
    return [*sections, Section("Protocol", PROTOCOL)]


def kept_figure(curves: dict[str, np.ndarray], y_title: str) -> Figure:
    """Return a plot of the losses that remain at the shares `KEPT` of the most certain rows."""
    series = {name: (losses, np.zeros(len(KEPT))) for name, losses in curves.items()}
    figure = plots.line_plot(KEPT, series, x_title="share of rows kept", y_title=y_title)
    figure.update_xaxes(tickformat=".0%")
    caption = "The most uncertain rows are left out first. A rising line: uncertainty ranks the errors."
    return Figure(figure, "Error without the most uncertain rows", caption)


def _differences(assessment: Assessment) -> list[Figure]:
    """Return how far every method is from the plain model, in the prediction and in its uncertainty."""
    metrics, regression = assessment.metrics, assessment.task == "regression"
    # The trivial baseline can be so much worse that differences between the others would be invisible.
    methods = [name for name in assessment.methods if name not in ("plain", BASELINE)]
    error = "trimmed_mae" if regression else "brier"
    errors = {name: metrics.losses(name, error) - metrics.losses("plain", error) for name in methods}
    scale = 1.0 if regression else 0.5  # half of 2 AUROC − 1 is AUROC over chance
    ranks = {
        name: scale * (metrics.ranks(name) - metrics.ranks("plain"))
        for name in methods
        if metrics.has_ranking(name)
    }
    axes = ("trimmed MAE", "rank correlation") if regression else ("Brier score", "AUROC for mistakes")
    figures = []
    for gains, title, axis, better in zip(
        (errors, ranks), ("Prediction", "Uncertainty"), axes, ("less", "more"), strict=True
    ):
        points = {metrics.label(n): metrics.mean_and_error(g) for n, g in gains.items()}
        points = {name: point for name, point in points.items() if np.isfinite(point[0])}
        if points:
            means, bars = zip(*points.values(), strict=True)
            x_title = f"{axis}, minus the plain model's"
            figure = plots.dot_plot(list(points), {title: (means, bars)}, x_title=x_title, reference=0.0)
            figure.update_layout(showlegend=False)
            caption = f"Paired over folds, with one standard error; {better} is better."
            figures.append(Figure(figure, title, caption, height=90 + 44 * len(points), tall=True))
    return figures


def _regression_sections(assessment: Assessment) -> list[Section]:
    y, method = np.concatenate(assessment.targets), _anchored_method(assessment)
    mean, raw, calibrated = _joined(assessment, method)
    plain_mean, _, plain_calibrated = _joined(assessment, "plain")
    curves = {
        "calibrated": coverage_curve(y, mean, calibrated, LEVELS)[1],
        "plain, constant width": coverage_curve(y, plain_mean, plain_calibrated, LEVELS)[1],
    }
    if np.any(raw > 0):
        curves = {"raw": coverage_curve(y, mean, raw, LEVELS)[1], **curves}
    level = f"{assessment.metrics.coverage:.0%}"
    caption = f"Empirical coverage of Gaussian intervals. σ was calibrated for {level} only."
    intervals = Figure(plots.coverage_curves(LEVELS, curves), assessment.metrics.label(method), caption)
    sections = [Section("Coverage of intervals", [intervals])]
    ranking = _ranking_methods(assessment, method)
    if not ranking:
        return sections
    by_spread = []
    for name in ranking:
        mean, _, calibrated = _joined(assessment, name)
        figure = plots.error_by_spread(y - mean, {"calibrated σ": calibrated})
        by_spread.append(Figure(figure, assessment.metrics.label(name), height=360))
    blocks: list[Block] = [
        "Test rows in groups of equal size, ordered by their calibrated σ. Rising points: σ ranks the "
        "errors. Points on the diagonal: σ also has their size.",
        by_spread,
        _kept_figure(assessment, ranking, "mean |error| of the rows kept"),
    ]
    return [Section("Error against σ", blocks), *sections]


def _anchored_method(assessment: Assessment) -> str:
    return "center" if assessment.recommendation.method == "center" else "anchored"


def _ranking_methods(assessment: Assessment, method: str) -> list[str]:
    """Return the methods whose uncertainty is drawn: one anchored method, and the others that rank."""
    hidden = {"anchored", "center", BASELINE} - {method}
    names = [name for name in assessment.methods if name not in hidden]
    ranking = [name for name in names if assessment.metrics.has_ranking(name)]
    return sorted(ranking, key=lambda name: name != method)


def _kept_figure(assessment: Assessment, methods: list[str], y_title: str) -> Figure:
    curves = {}
    for name in methods:
        curve = risk_coverage(*_loss_and_uncertainty(assessment, name))
        curves[assessment.metrics.label(name)] = np.interp(KEPT, *curve)
    return kept_figure(curves, y_title)


def _loss_and_uncertainty(assessment: Assessment, method: str) -> tuple[np.ndarray, np.ndarray]:
    """Return the loss and the uncertainty of all test rows, arrays of shape (n,)."""
    y = np.concatenate(assessment.targets)
    if assessment.task == "regression":
        mean, _, calibrated = _joined(assessment, method)
        return np.abs(y - mean), calibrated
    parts = assessment.predictions[method]
    by_spread = assessment.metrics.rank_name(method) == "auroc_spread"
    mistaken = np.concatenate([part.value for part in parts]) != y
    scores = [part.spread if by_spread else part.error_score for part in parts]
    # A fold without uncertainties ranks nothing.
    filled = [np.zeros(len(p.value)) if s is None else s for p, s in zip(parts, scores, strict=True)]
    return mistaken.astype(np.float64), np.concatenate(filled)


def _joined(assessment: Assessment, method: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return mean, raw σ and calibrated σ of all test rows, arrays of shape (n,)."""
    parts = assessment.predictions[method]
    value, std = (np.concatenate([getattr(part, name) for part in parts]) for name in ("value", "spread"))
    half_widths = np.concatenate([part.sizes() for part in parts]) / 2.0
    return value, std, half_widths / norm.ppf((1.0 + assessment.metrics.coverage) / 2.0)
