"""Plotly figures from plain arrays.

plotly is imported when a figure is made, so that the package can be used without it.
"""

from deltauq.plots.boxes import box_plot
from deltauq.plots.contact_sheet import contact_sheet
from deltauq.plots.convergence import best_so_far
from deltauq.plots.curves import (
    bin_by_spread,
    coverage_curves,
    error_by_spread,
    errors_by_width,
    mean_and_band,
)
from deltauq.plots.planes import class_map, probability_map, uncertainty_map
from deltauq.plots.series import dot_plot, line_plot

__all__ = [
    "best_so_far",
    "bin_by_spread",
    "box_plot",
    "class_map",
    "contact_sheet",
    "coverage_curves",
    "dot_plot",
    "error_by_spread",
    "errors_by_width",
    "line_plot",
    "mean_and_band",
    "probability_map",
    "uncertainty_map",
]
