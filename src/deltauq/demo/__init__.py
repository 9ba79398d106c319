"""The demonstration of `deltauq demo`: error bands over a gap in the data, and intervals on a real table."""

from deltauq.demo.page import render_demo
from deltauq.demo.run import Band, Demo, TableResult, fit_band, predict_table, run_demo

__all__ = ["Band", "Demo", "TableResult", "fit_band", "predict_table", "render_demo", "run_demo"]
