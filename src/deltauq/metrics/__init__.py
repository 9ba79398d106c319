"""Metrics of predictions and their uncertainty, for plain arrays.

The negative log-likelihood is `gaussian_nll` for regression and `nll` for class probabilities.
"""

from deltauq.metrics.classification import accuracy, brier, calibration_curve, ece, entropy, nll
from deltauq.metrics.ood import aupr, auroc, fpr95
from deltauq.metrics.regression import (
    coverage,
    coverage_curve,
    crps,
    gaussian_nll,
    mae,
    miscalibration,
    r2,
    rmse,
    sharpness,
    spearman,
    width,
)
from deltauq.metrics.selective import aurc, ause, risk_coverage

__all__ = [
    "accuracy",
    "aupr",
    "aurc",
    "auroc",
    "ause",
    "brier",
    "calibration_curve",
    "coverage",
    "coverage_curve",
    "crps",
    "ece",
    "entropy",
    "fpr95",
    "gaussian_nll",
    "mae",
    "miscalibration",
    "nll",
    "r2",
    "risk_coverage",
    "rmse",
    "sharpness",
    "spearman",
    "width",
]
