"""Plotly figures from plain arrays.

plotly is imported when a figure is drawn, so that the package can be imported without it.
"""

from deltauq.plots.curves import (
    bin_by_spread,
    coverage_curves,
    error_by_spread,
    errors_by_width,
    mean_and_band,
)
from deltauq.plots.series import best_so_far, dot_plot, line_plot

__all__ = [
    "best_so_far",
    "bin_by_spread",
    "coverage_curves",
    "dot_plot",
    "error_by_spread",
    "errors_by_width",
    "line_plot",
    "mean_and_band",
]
