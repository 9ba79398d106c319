"""Measures of predictions and of their error bars: plain arrays in, floats out.

The negative log-likelihood is `gaussian_nll` for regression and `nll` for class probabilities.
"""

from deltauq.metrics import classification, ood, regression, selective
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
    "classification",
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
    "ood",
    "r2",
    "regression",
    "risk_coverage",
    "rmse",
    "selective",
    "sharpness",
    "spearman",
    "width",
]
