"""Several methods compared: one row per dataset, or one line over a number; progress of a maximisation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from deltauq.plots import colors
from deltauq.plots.layout import add_series, empty_figure, error_bars, series_styles

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

Numbers = Sequence[float] | np.ndarray
Series = Mapping[str, tuple[Numbers, Numbers]]
"""Name to means and standard deviations, both of shape (n,); NaN is not drawn."""


def dot_plot(rows: Sequence[str], series: Series, *, x_title: str, reference: float | None = None) -> Figure:
    """Draw one dot per row and series with a bar of one standard deviation to either side.

    Parameters
    ----------
    rows : sequence of n strings
        The labels, the first on top.
    series : mapping of name to (mean, std), arrays of shape (n,)
        At most eight. A series of NaN only is not drawn, but the others keep their colours and symbols.
    x_title : str
    reference : float, optional
        Where to draw a vertical line.

    Returns
    -------
    figure : plotly Figure
    """
    figure = empty_figure(x_title=x_title, y_title="")
    drawn = {
        name: style
        for name, style in zip(series, series_styles(len(series)), strict=True)
        if np.isfinite(series[name][0]).any()
    }
    # A row is one unit high: its label on top, below it the dots, none of whose bars hides another.
    # Labels next to the dots would leave too little width on small screens.
    shifts = np.linspace(-0.1, 0.4, len(drawn)) if len(drawn) > 1 else np.full(len(drawn), 0.15)
    for (name, (colour, symbol)), shift in zip(drawn.items(), shifts, strict=True):
        mean, std = series[name]
        figure.add_scatter(
            x=mean,
            y=np.arange(len(rows)) + shift,
            name=name,
            mode="markers",
            marker={"size": 8, "symbol": symbol, "color": colour},
            error_x=error_bars(std, colour),
            customdata=list(rows),
            hovertemplate="%{customdata}: %{x:.3g} ± %{error_x.array:.2g}",
        )
    name_style = {"xref": "paper", "x": 0, "xanchor": "left", "yanchor": "top", "showarrow": False}
    for row, name in enumerate(rows):
        figure.add_annotation(text=name, y=row - 0.5, font={"size": 13, "color": colors.MUTED}, **name_style)
        figure.add_hline(y=row - 0.5, line={"width": 1, "color": colors.GRID}, layer="below")
    if reference is not None:
        figure.add_vline(
            x=reference, line={"dash": "dot", "width": 1.5, "color": colors.MUTED}, layer="below"
        )
    figure.update_yaxes(visible=False, range=[len(rows) - 0.5, -0.5])
    return figure


def line_plot(x: Numbers, series: Series, *, x_title: str, y_title: str, log_x: bool = False) -> Figure:
    """Draw a line per series over a number, with a bar of one standard deviation up and down.

    Parameters
    ----------
    x : array of shape (n,)
        Ascending.
    series : mapping of name to (mean, std), arrays of shape (n,)
        At most eight.
    x_title, y_title : str
    log_x : bool, default=False
        Whether the x axis is logarithmic, with ticks at the values of x.

    Returns
    -------
    figure : plotly Figure
    """
    figure = empty_figure(x_title=x_title, y_title=y_title)
    for (name, (mean, std)), style in zip(series.items(), series_styles(len(series)), strict=True):
        add_series(figure, list(x), mean, name, style, "%{x:.4g}: %{y:.3g} ± %{error_y.array:.2g}", std)
    if log_x:
        figure.update_xaxes(type="log", tickvals=list(x), ticktext=[f"{value:g}" for value in x])
    return figure


def best_so_far(values: np.ndarray, *, n_initial: int = 0) -> Figure:
    """Draw the values of a maximisation in the order of evaluation, and the best value so far as steps.

    Parameters
    ----------
    values : array of shape (n,)
        NaN where an evaluation failed.
    n_initial : int, default=0
        The number of initial random points, which are shaded.

    Returns
    -------
    figure : plotly Figure
    """
    values = np.asarray(values, dtype=np.float64)
    figure = empty_figure(x_title="evaluation", y_title="value")
    number = np.arange(1, len(values) + 1)
    if n_initial:
        figure.add_vrect(x0=0.5, x1=n_initial + 0.5, fillcolor=colors.GAP_SHADE, line_width=0, layer="below")
    points = {"size": 6, "color": colors.ORANGE}
    figure.add_scatter(x=number, y=values, name="evaluated", mode="markers", marker=points)
    figure.add_scatter(
        x=number,
        y=np.fmax.accumulate(values),
        name="best so far",
        mode="lines",
        line={"width": 2.5, "color": colors.BLUE, "shape": "hv"},
    )
    figure.update_xaxes(range=[0.5, max(len(values), n_initial) + 0.5])
    return figure
