"""Measures of predictions and of their error bars: plain arrays in, floats out."""

from deltauq.metrics.regression import coverage, mae, rmse, spearman, width

__all__ = ["coverage", "mae", "rmse", "spearman", "width"]
