"""Predictions with their bands, and how far these can be trusted."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from deltauq.plots import _colours as colours
from deltauq.plots._layout import add_diagonal, empty_figure, series_styles

if TYPE_CHECKING:
    from plotly.graph_objects import Figure


PERCENT = ".0%"


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
        Half widths, the widest first; at most two.
    train : (x, y), arrays of shape (m,)
    anchors : array of shape (K,), optional
        Shown as ticks along the bottom.
    truth : array of shape (n,), optional
    gap : (float, float), optional
        An interval to shade.
    y_range : (float, float), optional
        What is shown; everything by default.

    Returns
    -------
    figure : plotly Figure
    """
    figure = empty_figure(x_title="x", y_title="y")
    low, high = y_range or _span(mean, *bands.values(), extra=train[1])
    if gap is not None:
        figure.add_vrect(x0=gap[0], x1=gap[1], fillcolor=colours.GAP_SHADE, line_width=0, layer="below")
    for (name, half), fill in zip(bands.items(), _band_fills(len(bands)), strict=True):
        _add_band(figure, x, mean, half, name, fill)
    if truth is not None:
        figure.add_scatter(
            x=x, y=truth, name="truth", mode="lines", line={"dash": "dot", "width": 2, "color": colours.MUTED}
        )
    figure.add_scatter(x=x, y=mean, name="mean", mode="lines", line={"width": 2.5, "color": colours.BLUE})
    points = {"size": 6, "color": colours.ORANGE}
    figure.add_scatter(x=train[0], y=train[1], name="data", mode="markers", marker=points)
    if anchors is not None:
        ticks = {"symbol": "line-ns", "size": 11, "line": {"width": 1.5, "color": colours.GREEN}}
        floor = np.full(len(anchors), low + 0.035 * (high - low))
        figure.add_scatter(
            x=anchors, y=floor, name="anchors", mode="markers", marker=ticks, hovertemplate="anchor %{x:.2f}"
        )
    figure.update_yaxes(range=[low, high])
    figure.update_xaxes(range=[float(x[0]), float(x[-1])])
    return figure


def error_by_spread(error: np.ndarray, stds: Mapping[str, np.ndarray], *, n_bins: int = 8) -> Figure:
    """Draw the RMS error of rows grouped by σ against the σ of the group.

    Rising points mean that σ ranks errors; points on the diagonal mean that it also has their size.

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
    for (name, std), (colour, symbol) in zip(stds.items(), series_styles(len(stds)), strict=True):
        spread, rms, doubt = bin_by_spread(error, std, n_bins)
        reach = max(reach, float(spread.max()), float((rms + doubt).max()))
        figure.add_scatter(
            x=spread,
            y=rms,
            name=name,
            mode="markers+lines",
            marker={"size": 9, "symbol": symbol, "color": colour},
            line={"width": 1.5, "color": colour},
            error_y={"type": "data", "array": doubt, "color": colour, "thickness": 1, "width": 3},
            hovertemplate="σ %{x:.3g}, error %{y:.3g}",
        )
    add_diagonal(figure, 1.08 * reach, "σ = error")
    figure.update_xaxes(range=[0, 1.08 * reach])
    figure.update_yaxes(range=[0, 1.08 * reach])
    return figure


def errors_by_width(
    error: np.ndarray, half_width: np.ndarray, coverage: float, *, n_bins: int = 10
) -> Figure:
    """Draw how large errors are in groups of rows whose intervals are about equally wide.

    Of each group, the quantile of the absolute errors at the nominal coverage is drawn against the median
    half-width: on the diagonal, intervals hold as often as they claim. A few outliers move neither. Axes are
    logarithmic unless there are zeros.

    Parameters
    ----------
    error : array of shape (n,)
    half_width : array of shape (n,)
        Of the intervals.
    coverage : float
        What the intervals are to hold.
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
    ((colour, symbol),) = series_styles(1)
    figure.add_scatter(
        x=x,
        y=y,
        name="groups",
        mode="markers+lines",
        marker={"size": 9, "symbol": symbol, "color": colour},
        line={"width": 1.5, "color": colour},
        hovertemplate="half-width %{x:.3g}, error %{y:.3g}",
    )
    ends = [min(x.min(), y.min()), max(x.max(), y.max())]
    line = {"dash": "dot", "width": 1.5, "color": colours.MUTED}
    figure.add_scatter(x=ends, y=ends, name="as claimed", mode="lines", line=line, hoverinfo="skip")
    # Each axis ends where its points do: one group with large errors would squeeze the others otherwise.
    log = bool(ends[0] > 0)
    for update, values in ((figure.update_xaxes, x), (figure.update_yaxes, y)):
        low, high = np.log10([values.min(), values.max()]) if log else (values.min(), values.max())
        margin = 0.08 * (high - low) or 0.1 * abs(high) or 1.0
        update(type="log" if log else "linear", range=[low - margin, high + margin])
        if log:
            update(tickvals=[float(f"{value:.2g}") for value in np.geomspace(values.min(), values.max(), 5)])
    return figure


def coverage_curves(levels: np.ndarray, observed: Mapping[str, np.ndarray]) -> Figure:
    """Draw how often intervals hold the target against how often they claim to.

    Parameters
    ----------
    levels : array of shape (l,)
        Nominal levels in (0, 1).
    observed : mapping of name to array of shape (l,)
        At most eight.

    Returns
    -------
    figure : plotly Figure
    """
    figure = empty_figure(x_title="nominal coverage", y_title="observed coverage")
    for (name, shares), (colour, symbol) in zip(observed.items(), series_styles(len(observed)), strict=True):
        figure.add_scatter(
            x=levels,
            y=shares,
            name=name,
            mode="markers+lines",
            marker={"size": 8, "symbol": symbol, "color": colour},
            line={"width": 2, "color": colour},
            hovertemplate="nominal %{x:.0%}, observed %{y:.0%}",
        )
    add_diagonal(figure, 1.0, "nominal")
    figure.update_xaxes(range=[0, 1], tickformat=PERCENT)
    figure.update_yaxes(range=[0, 1], tickformat=PERCENT)
    return figure


def bin_by_spread(
    error: np.ndarray, std: np.ndarray, n_bins: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Group rows by σ into bins of equally many.

    Parameters
    ----------
    error, std : arrays of shape (n,)
    n_bins : int

    Returns
    -------
    spread, rms, doubt : arrays of shape (b,), b = min(n_bins, n)
        RMS of σ, RMS of the error, and the standard error of the latter.
    """
    error, std = np.asarray(error, dtype=np.float64), np.asarray(std, dtype=np.float64)
    bins = np.array_split(np.argsort(std, kind="stable"), min(n_bins, len(std)))
    spread = np.array([np.sqrt(np.mean(std[rows] ** 2)) for rows in bins])
    rms = np.array([np.sqrt(np.mean(error[rows] ** 2)) for rows in bins])
    # Of a square root: half the relative standard error of what stands under it.
    doubt_of_square = np.array([np.std(error[rows] ** 2) / np.sqrt(len(rows)) for rows in bins])
    doubt = np.divide(doubt_of_square, 2 * rms, out=np.zeros_like(rms), where=rms > 0)
    return spread, rms, doubt


def _add_band(
    figure: Figure, x: np.ndarray, mean: np.ndarray, half: np.ndarray, name: str, fill: str
) -> None:
    # One closed outline rather than two lines: it hides and shows as one entry of the legend.
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
        raise ValueError(f"At most two bands can be told apart in a figure, got {n}.")
    return [colours.WIDE_BAND, colours.BAND][2 - n :]


def _span(mean: np.ndarray, *halves: np.ndarray, extra: np.ndarray) -> tuple[float, float]:
    """Return the range that holds the bands and the points, with a margin."""
    reach = np.max(np.stack([np.zeros_like(mean), *halves]), axis=0)
    low = min(float(np.min(mean - reach)), float(np.min(extra)))
    high = max(float(np.max(mean + reach)), float(np.max(extra)))
    margin = 0.06 * (high - low)
    return low - margin, high + margin
