"""Draws the pictures of the documentation: `make pictures`.

plotly draws each as an SVG file for light and for dark pages, in a headless Chromium.
"""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import numpy as np
from plotly.graph_objects import Figure
from plotly.offline import get_plotlyjs
from sklearn.svm import SVC, SVR

from deltauq import AnchoredClassifier, AnchoredRegressor, plots
from deltauq.data import gap_curve
from deltauq.demo import fit_band, predict_table
from deltauq.demo.page import LEVELS
from deltauq.demo.run import ESTIMATORS, N_POINTS
from deltauq.metrics import coverage_curve
from deltauq.plots import colors
from experiments import ResultLine, ResultStore, get_experiment
from experiments.data.classes import three_classes
from experiments.extrapolation import CURVE, LIMITS
from experiments.figure2 import N_ANCHORS
from experiments.intervals import draw_comparison
from experiments.plots import uncertainty_map
from experiments.summary import summarise

FOLDER = Path(__file__).parent / "pictures"
RESULTS = Path(__file__).parent.parent / "results"
SIZE = (540, 330)
N_CURVES = 12


def predictions() -> Figure:
    """The prediction of each of a few anchors, and their mean."""
    toy = gap_curve("hill", N_POINTS)
    x = np.linspace(toy.limits[0], toy.limits[1], 161)
    model = AnchoredRegressor(SVR(C=10, gamma=1.0), n_anchors=N_CURVES, random_state=0).fit(toy.X, toy.y)
    posterior = model.posterior(x[:, None], return_samples=True)
    figure = plots.mean_and_band(
        x, posterior.mean, {}, train=(toy.X[:, 0], toy.y), anchors=model.anchors_.X[:, 0], gap=toy.gap
    )
    for k, line in enumerate(posterior.samples):
        style = {"width": 1, "color": colors.BAND}
        figure.add_scatter(
            x=x, y=line, mode="lines", line=style, name=f"{N_CURVES} predictions", showlegend=k == 0
        )
    return figure


def band(name: str, y_range: tuple[float, float]) -> Figure:
    """The band of a base model on the data and in a gap."""
    curve = fit_band(name)
    return plots.mean_and_band(
        curve.x,
        curve.mean,
        {"± 2σ": 2 * curve.std},
        train=(curve.toy.X[:, 0], curve.toy.y),
        anchors=curve.anchors,
        truth=curve.toy.truth(curve.x),
        gap=curve.toy.gap,
        y_range=y_range,
    )


def class_uncertainty() -> Figure:
    """The uncertainty of a classifier in the plane."""
    toy = three_classes("separable")
    model = AnchoredClassifier(SVC(gamma=1.0), n_anchors=N_ANCHORS, random_state=0).fit(toy.X, toy.y)
    grid = np.linspace(-4.0, 4.0, 81)
    points = np.stack(np.meshgrid(grid, grid), axis=-1).reshape(-1, 2)
    uncertainty = model.uncertainty(points).reshape(len(grid), len(grid))
    return uncertainty_map((grid, grid), uncertainty, toy.X, anchors=model.anchors_.X)


def n_anchors() -> Figure:
    """Ranking and coverage against the number of anchors, from the lines of `ablation-anchors`."""
    rank: dict[int, list[float]] = {}
    cover: dict[int, list[float]] = {}
    for summary in summarise(lines_of("ablation-anchors")):
        rank.setdefault(summary.cell["n_anchors"], []).append(summary.metrics["spearman"].mean)
        cover.setdefault(summary.cell["n_anchors"], []).append(summary.metrics["coverage"].mean)
    counts = sorted(rank)
    no_band = np.full(len(counts), np.nan)
    series = {
        "rank correlation, σ with error": (np.array([np.mean(rank[k]) for k in counts]), no_band),
        "coverage of uncalibrated 90 % intervals": (np.array([np.mean(cover[k]) for k in counts]), no_band),
    }
    figure = plots.line_plot(counts, series, x_title="K", y_title="mean of 8 tables", log_x=True)
    figure.update_yaxes(range=[0, 1])
    return figure


def beyond_the_range() -> Figure:
    """Predicted against true thickness of digits, of networks trained on thin ones, from `extrapolation`."""
    lines = [line for line in lines_of("extrapolation") if line.cell.get("limit") == LIMITS[0]]
    thickness = LIMITS[0] + np.array(CURVE) + CURVE.step / 2
    no_bars = np.full(len(thickness), np.nan)
    names = {
        ("digits", "plain", None): "plain",
        ("rates", "plain", 1e-4): "plain, learning rate × 3",
        ("digits", "delta-uq", None): "anchored by value",
        ("digits", "delta-labelled", None): "labelled anchors",
    }
    series = {}
    for key, name in names.items():
        chosen = [x for x in lines if (x.cell["part"], x.cell["method"], x.cell.get("rate")) == key]
        bias = np.mean([x.details["bias"] for x in chosen], axis=0)
        series[name] = (thickness + bias, no_bars)
    figure = plots.line_plot(thickness, series, x_title="true thickness", y_title="mean prediction")
    dotted = {"dash": "dot", "width": 2, "color": colors.MUTED}
    figure.add_scatter(x=thickness, y=thickness, name="truth", mode="lines", line=dotted)
    end = thickness[-1] + CURVE.step / 2
    figure.add_vrect(x0=LIMITS[0], x1=end, fillcolor=colors.GAP_SHADE, line_width=0, layer="below")
    return figure


def lines_of(name: str) -> list[ResultLine]:
    """Return the lines of an experiment under the paper's profile."""
    return get_experiment(name).lines(ResultStore(RESULTS / f"{name}.jsonl"), "paper")


def pictures() -> Iterator[tuple[str, Figure, tuple[int, int]]]:
    """Yield every picture with its name and size."""
    yield "predictions", predictions(), SIZE
    for name, estimator in zip(("band", "forest"), ESTIMATORS, strict=True):
        yield name, band(estimator, (-2.2, 2.2)), SIZE
    table = predict_table()
    stds = {"raw": table.uncalibrated_std, "calibrated": table.std}
    yield "error-by-spread", plots.error_by_spread(table.y - table.mean, stds), SIZE
    observed = {name: coverage_curve(table.y, table.mean, std, LEVELS)[1] for name, std in stds.items()}
    yield "coverage", plots.coverage_curves(LEVELS, observed), SIZE
    yield "class-uncertainty", class_uncertainty(), (500, 440)
    yield "n-anchors", n_anchors(), SIZE
    size = (760, 440)
    yield "extrapolation", beyond_the_range(), size
    yield "intervals", draw_comparison(lines_of("intervals"), 1000, size), size


def with_dark_colors(value: Any) -> Any:
    """Return a figure's JSON with the colours for dark pages."""
    if isinstance(value, dict):
        return {key: with_dark_colors(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [with_dark_colors(inner) for inner in value]
    return colors.DARK_PARTNERS.get(value, value) if isinstance(value, str) else value


def main() -> int:
    """Draw all pictures, or those named in the arguments."""
    from playwright.sync_api import sync_playwright

    program = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    selected = set(sys.argv[1:])
    FOLDER.mkdir(exist_ok=True)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        page = browser.new_page()
        page.set_content("<html><body></body></html>")
        page.add_script_tag(content=get_plotlyjs())
        for name, figure, (width, height) in pictures():
            if selected and name not in selected:
                continue
            drawn = json.loads(figure.to_json())
            for suffix, content in (("", drawn), ("-dark", with_dark_colors(drawn))):
                options = {"format": "svg", "width": width, "height": height}
                image = page.evaluate(
                    "([figure, options]) => Plotly.toImage(figure, options)", [content, options]
                )
                path = FOLDER / f"{name}{suffix}.svg"
                path.write_text(decode(image), encoding="utf-8")
                print(f"wrote {path.relative_to(FOLDER.parent)}, {path.stat().st_size / 1e3:.0f} kB")
        browser.close()
    return 0


def decode(url: str) -> str:
    """Return the SVG of a data URL, with a newline at the end."""
    return unquote(url.split(",", 1)[1]) + "\n"


if __name__ == "__main__":
    sys.exit(main())
