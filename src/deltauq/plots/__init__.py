"""Plotly figures from plain arrays, and HTML pages.

plotly is imported when a figure is drawn, so that the package can be imported without it.
"""

from deltauq.plots import colors
from deltauq.plots.curves import (
    bin_by_spread,
    coverage_curves,
    error_by_spread,
    errors_by_width,
    mean_and_band,
)
from deltauq.plots.layout import empty_figure, series_styles
from deltauq.plots.page import Block, Code, Details, Figure, Section, Table, render_page
from deltauq.plots.series import best_so_far, dot_plot, line_plot

__all__ = [
    "Block",
    "Code",
    "Details",
    "Figure",
    "Section",
    "Table",
    "best_so_far",
    "bin_by_spread",
    "colors",
    "coverage_curves",
    "dot_plot",
    "empty_figure",
    "error_by_spread",
    "errors_by_width",
    "line_plot",
    "mean_and_band",
    "render_page",
    "series_styles",
]
