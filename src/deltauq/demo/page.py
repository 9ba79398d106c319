"""The demonstration as one HTML page."""

from __future__ import annotations

import numpy as np

from deltauq import plots
from deltauq._version import __version__
from deltauq.demo import classes, gap, table, words
from deltauq.demo.run import Demo
from deltauq.plots.page import Block, Code, Figure, Section, Table, render_page
from experiments.figure2 import N_ANCHORS, PlaneMap

LEAD = (
    "`deltauq` trains a model once, on pairs of an anchor R and a difference, [R, x − R]. It then asks the "
    "model about a new x with K different anchors. The mean of the K answers is the prediction; their spread "
    "σ says how much the answer depends on the anchor. σ ranks predictions by doubt. Before calibration it "
    "is not the size of an error, and it knows nothing of the noise in the data."
)

CODE = """from sklearn.svm import SVR
from deltauq import AnchoredRegressor

model = AnchoredRegressor(SVR(C=10, gamma=1), calibrate="cv", random_state=0)
mean, std = model.fit(X, y).predict(X_new, return_std=True)"""

REMINDERS = (
    "The spread comes from the anchors alone. Whether it grows where the model knows little depends on the "
    "base model and its settings, as the first part shows. Look before you trust it.",
    'Without `calibrate="cv"`, compare values of σ with each other and not with errors. With it, σ is right '
    "on average for rows like those in training; in a gap or outside the data nothing guarantees that.",
    'Anchoring changes the predictions, for better or worse. `center="estimator"` keeps those of the plain '
    "model and takes only the spread from the anchors.",
)


def render_demo(demo: Demo) -> str:
    """Return the page that shows a demonstration's findings."""
    sections = [
        Section("In code", [Code(CODE)]),
        Section("1. A gap in the data", _gap_blocks(demo.gap)),
        Section("2. A real table", _table_blocks(demo.table)),
        Section("3. Three classes", _class_blocks(demo.classes)),
        Section("What to keep in mind", REMINDERS),
    ]
    footer = (
        f"deltauq {__version__}. Everything on this page was computed in {demo.seconds:.0f} seconds. "
        "Method: Δ-UQ, arXiv 2110.02197."
    )
    return render_page("deltauq: an error bar by anchoring", LEAD, sections, footer=footer)


def _gap_blocks(study: gap.GapStudy) -> list[Block]:
    y_range = _common_range(study.chosen, study.contrast)
    return [
        f"{gap.N_ROWS} noisy points of a curve, none of them between −1 and 1. Each serves as an anchor too "
        "(the ticks at the bottom). The inner band is mean ± 2σ as it comes (raw). The outer band is the "
        "same after calibration: one factor on σ and a floor under it, fitted in folds of the points.",
        [
            _curve_figure(study.chosen, y_range, "The band opens in the gap and outside the data."),
            _curve_figure(
                study.contrast,
                y_range,
                "The forest joins the two sides without a doubt. It is wrong, and its band does not say so.",
            ),
        ],
        f"The inner band of {gap.CHOSEN} is thinner than the noise. The raw spread says where the model "
        "doubts more, not by how much it errs. The outer band has about the right size where there is data; "
        "in the gap its size is an extrapolation.",
        _gap_table(study),
        words.which_open(study),
        "Trees and neighbours carry the nearest known values into the gap. Where both sides know the same "
        "value, all anchors give much the same answer and the band stays shut. A Gaussian process has an "
        "error bar of its own; it is here for comparison.",
    ]


def _gap_table(study: gap.GapStudy) -> Table:
    rows = [(o.name, words.ratio(o.step), words.ratio(o.hill), o.verdict) for o in study.openings]
    caption = (
        f"Mean σ in the gap over mean σ where there is data: the smallest of {len(gap.SEEDS)} draws of the "
        "data. “Sides agree”: the curve above, equally high on both sides of the gap. “Sides differ”: "
        f"another curve. The band counts as open from {gap.OPEN_RATIO:.0f}× on."
    )
    return Table(("base model", "sides differ", "sides agree", "opens"), rows, caption)


def _common_range(*curves: gap.Curve) -> tuple[float, float]:
    """Return one range for all pictures: bands on different scales cannot be compared by eye."""
    low = min(float(np.min(curve.mean - 2 * curve.std)) for curve in curves)
    high = max(float(np.max(curve.mean + 2 * curve.std)) for curve in curves)
    return low - 0.4, high + 0.1


def _curve_figure(curve: gap.Curve, y_range: tuple[float, float], caption: str) -> Figure:
    figure = plots.mean_and_band(
        curve.x,
        curve.mean,
        {"calibrated": 2 * curve.std, "raw": 2 * curve.raw_std},
        train=(curve.toy.X[:, 0], curve.toy.y),
        anchors=curve.anchors,
        truth=curve.toy.truth(curve.x),
        gap=curve.toy.gap,
        y_range=y_range,
    )
    return Figure(figure, curve.name, caption)


def _table_blocks(study: table.TableStudy) -> list[Block]:
    header = ("model", "MAE", "rank corr.", "coverage", "width")
    caption = (
        "MAE: mean absolute error. Rank corr.: Spearman's, of σ with the absolute error. Coverage and width: "
        f"of intervals that claim {table.LEVEL:.0%}."
    )
    raw, calibrated = study.raw, study.calibrated
    assert raw.std is not None and calibrated.std is not None
    return [
        f"scikit-learn's diabetes data: {table.N_TRAIN} patients to train, {len(study.y)} to test, and a "
        f"random forest of {table.N_TREES} trees with 100 anchors, as in the paper's tables.",
        Table(header, [words.model_row(row) for row in study.models()], caption),
        words.accuracy(study),
        words.ranking(study),
        words.scale(study),
        [
            Figure(
                plots.error_by_spread(study.error, {"raw": raw.std, "calibrated": calibrated.std}),
                "Error against σ",
                "Test rows in eight groups by σ, with standard errors. Rising points: σ ranks. Points on the "
                "dotted line: σ has the size of the error.",
            ),
            Figure(
                plots.coverage_curves(
                    table.LEVELS,
                    {"raw": study.coverage_at(raw), "calibrated": study.coverage_at(calibrated)},
                ),
                "Coverage",
                "How often intervals hold the target, against how often they claim to. Below the dotted line "
                "they are too narrow.",
            ),
        ],
    ]


def _class_blocks(study: classes.ClassStudy) -> list[Block]:
    return [
        f"After figure 2 of the paper: a support vector classifier, `SVC(gamma=1)`, with {N_ANCHORS} "
        "anchors. The uncertainty is the variance of the probabilities over the anchors, summed over the "
        "classes. Crosses are the anchors. Each map has a colour scale of its own.",
        f"(A) The classes are apart. {words.boundaries(study)} The doubt lies where there are no points and "
        "the boundary could be elsewhere.",
        _maps(study.separable, "A"),
        f"(B) Two small classes lie inside a large one. {words.nesting(study)}",
        _maps(study.nested, "B"),
        f"{N_ANCHORS} anchors are few, and the maps change with them. Far from all points the kernel "
        "vanishes, every anchor gives the same answer, and the uncertainty is zero: here it does not detect "
        "strange inputs.",
    ]


def _maps(plane: PlaneMap, name: str) -> list[Figure]:
    grid = (classes.GRID, classes.GRID)
    data = plots.class_map(grid, plane.predicted, (plane.toy.X, plane.toy.y), classes.NAMES)
    doubt = plots.uncertainty_map(grid, plane.uncertainty, plane.toy.X, anchors=plane.anchors)
    return [
        Figure(data, f"({name}) Points and predicted class", height=460),
        Figure(doubt, f"({name}) Uncertainty", height=460),
    ]
