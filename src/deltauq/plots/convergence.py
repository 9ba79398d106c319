"""How far a maximisation has come."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from deltauq.plots import _colours as colours
from deltauq.plots._layout import empty_figure

if TYPE_CHECKING:
    from plotly.graph_objects import Figure


def best_so_far(values: np.ndarray, *, n_initial: int = 0) -> Figure:
    """Draw the values of a maximisation in the order of evaluation, and the largest so far as a staircase.

    Parameters
    ----------
    values : array of shape (n,)
        NaN where an evaluation failed, which leaves a gap among the points.
    n_initial : int, default=0
        How many of the first points to shade: those drawn at random.

    Returns
    -------
    figure : plotly Figure
    """
    values = np.asarray(values, dtype=np.float64)
    figure = empty_figure(x_title="evaluation", y_title="value")
    number = np.arange(1, len(values) + 1)
    if n_initial:
        figure.add_vrect(x0=0.5, x1=n_initial + 0.5, fillcolor=colours.GAP_SHADE, line_width=0, layer="below")
    points = {"size": 6, "color": colours.ORANGE}
    figure.add_scatter(x=number, y=values, name="evaluated", mode="markers", marker=points)
    figure.add_scatter(
        x=number,
        y=np.fmax.accumulate(values),
        name="best so far",
        mode="lines",
        line={"width": 2.5, "color": colours.BLUE, "shape": "hv"},
    )
    figure.update_xaxes(range=[0.5, max(len(values), n_initial) + 0.5])
    return figure
