"""Plotly figures that only the experiments draw; the others are in `deltauq.plots`."""

from experiments.plots.boxes import box_plot
from experiments.plots.contact_sheet import contact_sheet
from experiments.plots.planes import class_map, probability_map, uncertainty_map

__all__ = ["box_plot", "class_map", "contact_sheet", "probability_map", "uncertainty_map"]
