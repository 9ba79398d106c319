"""Predictions with error bands, and figures that compare errors with σ and with intervals."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from deltauq.plots import colors
from deltauq.plots.layout import add_diagonal, add_series, empty_figure, series_styles

if TYPE_CHECKING:
    from plotly.graph_objects import Figure


def mean_and_band(
    x: np.ndarray,
    mean: np.ndarray,
    bands: Mapping[str, np.ndarray],
    *,
    train: tuple[np.ndarray, np.ndarray],
    anchors: np.ndarray | None = None,
    truth: np.ndarray | None = None,
    gap: tuple[float, float] | None = None,
    y_range: tuple[float, float] | None = None,
) -> Figure:
    """Draw a prediction over one input with its error bands, its training points and its anchors.

    Parameters
    ----------
    x, mean : arrays of shape (n,)
        x ascending.
    bands : mapping of name to array of shape (n,)
        Half-widths, the widest first; at most two.
    train : (x, y), arrays of shape (m,)
    anchors : array of shape (K,), optional
        Drawn as ticks along the bottom.
    truth : array of shape (n,), optional
    gap : (float, float), optional
        An interval to shade.
    y_range : (float, float), optional
        Limits of the y axis; by default, everything is visible.

    Returns
    -------
    figure : plotly Figure
    """
    figure = empty_figure(x_title="x", y_title="y")
    low, high = y_range or _span(mean, *bands.values(), extra=train[1])
    if gap is not None:
        figure.add_vrect(x0=gap[0], x1=gap[1], fillcolor=colors.GAP_SHADE, line_width=0, layer="below")
    for (name, half), fill in zip(bands.items(), _band_fills(len(bands)), strict=True):
        _add_band(figure, x, mean, half, name, fill)
    if truth is not None:
        figure.add_scatter(
            x=x, y=truth, name="truth", mode="lines", line={"dash": "dot", "width": 2, "color": colors.MUTED}
        )
    figure.add_scatter(x=x, y=mean, name="mean", mode="lines", line={"width": 2.5, "color": colors.BLUE})
    points = {"size": 6, "color": colors.ORANGE}
    figure.add_scatter(x=train[0], y=train[1], name="data", mode="markers", marker=points)
    if anchors is not None:
        ticks = {"symbol": "line-ns", "size": 11, "line": {"width": 1.5, "color": colors.GREEN}}
        floor = np.full(len(anchors), low + 0.035 * (high - low))
        figure.add_scatter(
            x=anchors, y=floor, name="anchors", mode="markers", marker=ticks, hovertemplate="anchor %{x:.2f}"
        )
    figure.update_yaxes(range=[low, high])
    figure.update_xaxes(range=[float(x[0]), float(x[-1])])
    return figure


def error_by_spread(error: np.ndarray, stds: Mapping[str, np.ndarray], *, n_bins: int = 8) -> Figure:
    """Draw the RMS error of rows grouped by σ against the σ of the group.

    If the points rise, σ ranks errors. If they lie on the diagonal, it also has the size of the errors.

    Parameters
    ----------
    error : array of shape (n,)
    stds : mapping of name to array of shape (n,)
        Standard deviations to compare, at most eight.
    n_bins : int, default=8
        Groups of equally many rows.

    Returns
    -------
    figure : plotly Figure
    """
    figure = empty_figure(x_title="σ of the group (RMS)", y_title="error of the group (RMS)")
    reach = 0.0
    for (name, std), style in zip(stds.items(), series_styles(len(stds)), strict=True):
        spread, rms, standard_error = bin_by_spread(error, std, n_bins)
        reach = max(reach, float(spread.max()), float((rms + standard_error).max()))
        add_series(figure, spread, rms, name, style, "σ %{x:.3g}, error %{y:.3g}", standard_error)
    add_diagonal(figure, 0.0, 1.08 * reach, "σ = error")
    figure.update_xaxes(range=[0, 1.08 * reach])
    figure.update_yaxes(range=[0, 1.08 * reach])
    return figure


def errors_by_width(
    error: np.ndarray, half_width: np.ndarray, coverage: float, *, n_bins: int = 10
) -> Figure:
    """Draw the errors of rows grouped by the width of their intervals against that width.

    For each group, the quantile of the absolute errors at the nominal coverage is drawn against the median
    half-width. On the diagonal, the empirical coverage of the group is the nominal coverage. Both are robust
    to outliers. The axes are logarithmic unless there are zeros.

    Parameters
    ----------
    error : array of shape (n,)
    half_width : array of shape (n,)
        Half-widths of the intervals.
    coverage : float
        Nominal coverage of the intervals.
    n_bins : int, default=10
        Groups of equally many rows.

    Returns
    -------
    figure : plotly Figure
    """
    error = np.abs(np.asarray(error, dtype=np.float64))
    half_width = np.asarray(half_width, dtype=np.float64)
    bins = np.array_split(np.argsort(half_width, kind="stable"), min(n_bins, len(error)))
    x = np.array([np.median(half_width[rows]) for rows in bins])
    y = np.array([np.quantile(error[rows], coverage) for rows in bins])
    figure = empty_figure(
        x_title="median half-width of intervals in the group", y_title=f"{coverage:.0%} of errors are below"
    )
    (style,) = series_styles(1)
    add_series(figure, x, y, "groups", style, "half-width %{x:.3g}, error %{y:.3g}")
    start, end = min(x.min(), y.min()), max(x.max(), y.max())
    add_diagonal(figure, start, end, "nominal")
    # Each axis has its own range, so that a group with large errors does not squeeze the others.
    log = bool(start > 0)
    for update, values in ((figure.update_xaxes, x), (figure.update_yaxes, y)):
        low, high = np.log10([values.min(), values.max()]) if log else (values.min(), values.max())
        margin = 0.08 * (high - low) or 0.1 * abs(high) or 1.0
        update(type="log" if log else "linear", range=[low - margin, high + margin])
        if log:
            update(tickvals=[float(f"{value:.2g}") for value in np.geomspace(values.min(), values.max(), 5)])
    return figure


def coverage_curves(levels: np.ndarray, observed: Mapping[str, np.ndarray]) -> Figure:
    """Draw the empirical coverage of intervals against their nominal coverage.

    Parameters
    ----------
    levels : array of shape (l,)
        Nominal coverage, in (0, 1).
    observed : mapping of name to array of shape (l,)
        Empirical coverage of at most eight methods.

    Returns
    -------
    figure : plotly Figure
    """
    figure = empty_figure(x_title="nominal coverage", y_title="empirical coverage")
    for (name, shares), style in zip(observed.items(), series_styles(len(observed)), strict=True):
        add_series(figure, levels, shares, name, style, "nominal %{x:.0%}, empirical %{y:.0%}")
    add_diagonal(figure, 0.0, 1.0, "nominal")
    figure.update_xaxes(range=[0, 1], tickformat=".0%")
    figure.update_yaxes(range=[0, 1], tickformat=".0%")
    return figure


def bin_by_spread(
    error: np.ndarray, std: np.ndarray, n_bins: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Group rows by σ into bins of equally many rows.

    Parameters
    ----------
    error, std : arrays of shape (n,)
    n_bins : int

    Returns
    -------
    spread, rms, standard_error : arrays of shape (b,), b = min(n_bins, n)
        RMS of σ, RMS of the error, and the standard error of the latter.
    """
    error, std = np.asarray(error, dtype=np.float64), np.asarray(std, dtype=np.float64)
    bins = np.array_split(np.argsort(std, kind="stable"), min(n_bins, len(std)))
    spread = np.array([np.sqrt(np.mean(std[rows] ** 2)) for rows in bins])
    rms = np.array([np.sqrt(np.mean(error[rows] ** 2)) for rows in bins])
    # Delta method: the standard error of √m is that of the mean square m, divided by 2√m.
    of_square = np.array([np.std(error[rows] ** 2) / np.sqrt(len(rows)) for rows in bins])
    return spread, rms, np.divide(of_square, 2 * rms, out=np.zeros_like(rms), where=rms > 0)


def _add_band(
    figure: Figure, x: np.ndarray, mean: np.ndarray, half: np.ndarray, name: str, fill: str
) -> None:
    # One closed outline rather than two lines: a click in the legend then hides the whole band.
    figure.add_scatter(
        x=np.concatenate([x, x[::-1]]),
        y=np.concatenate([mean - half, (mean + half)[::-1]]),
        name=name,
        mode="lines",
        fill="toself",
        fillcolor=fill,
        line={"width": 0, "color": fill},
        hoverinfo="skip",
    )


def _band_fills(n: int) -> list[str]:
    if n > 2:
        raise ValueError(f"A figure has at most two bands, got {n}.")
    return [colors.WIDE_BAND, colors.BAND][2 - n :]


def _span(mean: np.ndarray, *halves: np.ndarray, extra: np.ndarray) -> tuple[float, float]:
    """Return the range of the bands and the points, with a margin."""
    reach = np.max(np.stack([np.zeros_like(mean), *halves]), axis=0)
    low = min(float(np.min(mean - reach)), float(np.min(extra)))
    high = max(float(np.max(mean + reach)), float(np.max(extra)))
    margin = 0.06 * (high - low)
    return low - margin, high + margin
