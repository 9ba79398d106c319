"""Box plots of several methods."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from deltauq.plots.layout import empty_figure, series_styles

if TYPE_CHECKING:
    from plotly.graph_objects import Figure


def box_plot(
    groups: Sequence[str], series: Mapping[str, np.ndarray], *, x_title: str, y_title: str
) -> Figure:
    """Draw a box per group and series: quartiles, median, and whiskers from the minimum to the maximum.

    Parameters
    ----------
    groups : sequence of g strings
        Labels of the x axis, each with one box of every series.
    series : mapping of name to array of shape (m, g)
        m values in each group; at most eight series. NaN is ignored, and a group of NaN only has no box.
    """
    figure = empty_figure(x_title=x_title, y_title=y_title)
    for (name, values), (colour, _) in zip(series.items(), series_styles(len(series)), strict=True):
        columns = [column[~np.isnan(column)] for column in np.asarray(values, dtype=np.float64).T]
        drawn = [k for k, column in enumerate(columns) if len(column)]
        # The quartiles are computed here, so that the page does not store every value.
        low, q1, median, q3, high = (
            np.array([np.quantile(columns[k], (0.0, 0.25, 0.5, 0.75, 1.0)) for k in drawn]).reshape(-1, 5).T
        )
        figure.add_box(
            x=[groups[k] for k in drawn],
            lowerfence=low,
            q1=q1,
            median=median,
            q3=q3,
            upperfence=high,
            name=name,
            offsetgroup=name,
            line={"width": 1.5, "color": colour},
            hoverinfo="x+y+name",
        )
    figure.update_layout(boxmode="group", boxgap=0.2, boxgroupgap=0.15)
    figure.update_xaxes(type="category", categoryorder="array", categoryarray=list(groups))
    return figure
