"""The demonstration as one HTML page."""

from __future__ import annotations

import numpy as np

from deltauq import plots
from deltauq._version import __version__
from deltauq.demo.run import N_POINTS, N_TRAIN, N_TREES, Band, Demo, TableResult
from deltauq.metrics import coverage_curve
from deltauq.plots.page import Block, Code, Figure, Section, render_page

LEVELS = np.array([0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99])

LEAD = (
    "`deltauq` trains one model on pairs of an input x and an anchor R, a row of the training data. It "
    "learns the difference of their targets. For a new x, each of K anchors gives a prediction: its known "
    "target plus the output of the model. The mean of the K predictions is the prediction. Their standard "
    "deviation σ measures how much it depends on the anchor. σ ranks predictions by uncertainty. Before "
    "calibration it does not have the size of an error."
)

CODE = """from sklearn.svm import SVR
from deltauq import AnchoredRegressor

model = AnchoredRegressor(SVR(C=10, gamma=2), calibrate="cv", random_state=0)
mean, std = model.fit(X, y).predict(X_new, return_std=True)"""

LIMITATIONS = (
    "σ comes from the anchors alone. Whether it grows away from the data depends on the base estimator and "
    "its parameters, as the first part shows. Check it before you rely on it.",
    'Without `calibrate="cv"`, compare values of σ with each other and not with errors. With it, σ has the '
    "right size on average for rows like the training rows. In a gap or outside the data there is no "
    "guarantee.",
    'Anchoring changes the predictions, for better or worse. `center="estimator"` keeps the predictions of '
    "the plain model and uses the anchors for σ only.",
)


def render_demo(demo: Demo) -> str:
    """Return the results of `run_demo` as an HTML page."""
    sections = [
        Section("In code", [Code(CODE)]),
        Section("1. A gap in the data", _band_blocks(demo.bands)),
        Section("2. A real table", _table_blocks(demo.table)),
        Section("Limitations", LIMITATIONS),
    ]
    footer = f"deltauq {__version__}. Computed in {demo.seconds:.0f} seconds. Method: Δ-UQ, arXiv 2110.02197."
    return render_page("deltauq: uncertainty by anchoring", LEAD, sections, footer=footer)


def _band_blocks(bands: list[Band]) -> list[Block]:
    # One range for all figures, so that their bands can be compared.
    low = min(float((band.mean - 2 * band.std).min()) for band in bands)
    high = max(float((band.mean + 2 * band.std).max()) for band in bands)
    return [
        f"{N_POINTS} noisy points of a curve, none of them between −1 and 1. All of them are anchors (the "
        "ticks at the bottom). The inner band is mean ± 2σ before calibration (uncalibrated), the outer band "
        "mean ± 2σ after it.",
        [_band_figure(band, (low - 0.4, high + 0.1)) for band in bands],
        "Trees carry the nearest training values into the gap. Both sides have about the same value, so "
        "all anchors give nearly the same prediction, and σ stays small although the prediction is wrong. "
        "The σ of the support vector machine grows in the gap. Calibration gives σ the size of the errors at "
        "the data. Its size in the gap is an extrapolation.",
    ]


def _band_figure(band: Band, y_range: tuple[float, float]) -> Figure:
    figure = plots.mean_and_band(
        band.x,
        band.mean,
        {"calibrated": 2 * band.std, "uncalibrated": 2 * band.uncalibrated_std},
        train=(band.toy.X[:, 0], band.toy.y),
        anchors=band.anchors,
        truth=band.toy.truth(band.x),
        gap=band.toy.gap,
        y_range=y_range,
    )
    caption = f"Mean uncalibrated σ in the gap is {band.gap_ratio:.1f} times that at the data."
    return Figure(figure, band.name, caption)


def _table_blocks(table: TableResult) -> list[Block]:
    stds = {"uncalibrated": table.uncalibrated_std, "calibrated": table.std}
    observed = {name: coverage_curve(table.y, table.mean, std, LEVELS)[1] for name, std in stds.items()}
    return [
        f"scikit-learn's diabetes data, {N_TRAIN} training rows and {len(table.y)} test rows. The base "
        f"estimator is a random forest of {N_TREES} trees.",
        table.score_table(),
        [
            Figure(
                plots.error_by_spread(table.y - table.mean, stds),
                "Error against σ",
                "Test rows in eight groups by σ, with standard errors. Rising points: σ ranks the errors. "
                "Points on the dotted line: σ has the size of the errors.",
            ),
            Figure(
                plots.coverage_curves(LEVELS, observed),
                "Coverage",
                "Empirical against nominal coverage. Below the dotted line, intervals are too narrow.",
            ),
        ],
    ]
