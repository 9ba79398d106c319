"""The sections of an assessment's HTML page."""

from __future__ import annotations

import numpy as np
from scipy.stats import norm

from deltauq import plots
from deltauq.assessment.fold_metrics import BASELINE
from deltauq.assessment.result import Assessment
from deltauq.assessment.scoring import METRICS
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
    metrics = assessment.metrics
    (table,) = assessment.tables().values()
    figures = _differences(assessment)
    sections = [Section("Comparison of the methods", [table, figures] if figures else [table])]
    method = "center" if assessment.recommendation.method == "center" else "anchored"
    # One anchored method, and the others that rank.
    names = [method, *(n for n in assessment.methods if n not in ("anchored", "center", BASELINE))]
    ranking = [name for name in names if metrics.has_ranking(name)]
    if assessment.task == "regression":
        if ranking:
            sections.append(_error_section(assessment, ranking))
        sections.append(_coverage_section(assessment, method))
    elif ranking:
        figure = _kept_figure(assessment, ranking, "misclassifications among the rows kept")
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
    error = "trimmed_mae" if regression else "brier"
    rank_axis = "rank correlation" if regression else "AUROC for misclassifications"
    figures = []
    for title, axis, better in (
        ("Prediction", METRICS[error].header, "less"),
        ("Uncertainty", rank_axis, "more"),
    ):
        points = {}
        # The trivial baseline can be so much worse that differences between the others would be invisible.
        for method in (name for name in assessment.methods if name not in ("plain", BASELINE)):
            name = error if title == "Prediction" else metrics.rank_name(method)
            difference, standard_error, _ = assessment.against_plain(method)[name].values()
            if np.isfinite(difference) and np.isfinite(metrics.mean(method, name)):
                points[metrics.label(method)] = (difference, standard_error)
        if points:
            means, bars = zip(*points.values(), strict=True)
            x_title = f"{axis}, minus the plain model's"
            figure = plots.dot_plot(list(points), {title: (means, bars)}, x_title=x_title, reference=0.0)
            figure.update_layout(showlegend=False)
            caption = f"Paired over folds, with one standard error; {better} is better."
            figures.append(Figure(figure, title, caption, height=90 + 44 * len(points), tall=True))
    return figures


def _error_section(assessment: Assessment, methods: list[str]) -> Section:
    by_spread = []
    for name in methods:
        error, _, calibrated = _joined(assessment, name)
        figure = plots.error_by_spread(error, {"calibrated σ": calibrated})
        by_spread.append(Figure(figure, assessment.metrics.label(name), height=360))
    blocks: list[Block] = [
        "Test rows in groups of equal size, ordered by their calibrated σ. Rising points: σ ranks the "
        "errors. Points on the diagonal: σ also has their size.",
        by_spread,
        _kept_figure(assessment, methods, "mean |error| of the rows kept"),
    ]
    return Section("Error against σ", blocks)


def _coverage_section(assessment: Assessment, method: str) -> Section:
    error, raw, calibrated = _joined(assessment, method)
    plain_error, _, plain_calibrated = _joined(assessment, "plain")
    series = {"uncalibrated": (error, raw)} if np.any(raw > 0) else {}
    series |= {"calibrated": (error, calibrated), "plain, constant width": (plain_error, plain_calibrated)}
    curves = {name: coverage_curve(e, np.zeros_like(e), std, LEVELS)[1] for name, (e, std) in series.items()}
    level = f"{assessment.metrics.coverage:.0%}"
    caption = f"Empirical coverage of Gaussian intervals. σ was calibrated for {level} only."
    intervals = Figure(plots.coverage_curves(LEVELS, curves), assessment.metrics.label(method), caption)
    return Section("Coverage of intervals", [intervals])


def _kept_figure(assessment: Assessment, methods: list[str], y_title: str) -> Figure:
    curves = {}
    for name in methods:
        if assessment.task == "regression":
            error, _, uncertainty = _joined(assessment, name)
            loss = np.abs(error)
        else:
            parts = assessment.predictions[name]
            loss = np.concatenate([part.value for part in parts]) != np.concatenate(assessment.targets)
            by_spread = assessment.metrics.rank_name(name) == "auroc_spread"
            scores = [part.spread if by_spread else part.error_score for part in parts]
            # A fold without uncertainties ranks nothing.
            filled = (np.zeros(len(p.value)) if s is None else s for p, s in zip(parts, scores, strict=True))
            uncertainty = np.concatenate(list(filled))
        curve = risk_coverage(loss.astype(np.float64), uncertainty)
        curves[assessment.metrics.label(name)] = np.interp(KEPT, *curve)
    return kept_figure(curves, y_title)


def _joined(assessment: Assessment, method: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return error, uncalibrated σ and calibrated σ of all test rows, arrays of shape (n,)."""
    parts = assessment.predictions[method]
    value, std, size = map(
        np.concatenate, zip(*((part.value, part.spread, part.sizes()) for part in parts), strict=True)
    )
    factor = norm.ppf((1.0 + assessment.metrics.coverage) / 2.0)
    return np.concatenate(assessment.targets) - value, std, size / 2.0 / factor
