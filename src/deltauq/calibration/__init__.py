"""Calibration: conformal prediction, scaling of σ, and temperature scaling of logits."""

from deltauq.calibration.conformal import (
    ConformalClassifier,
    ConformalRegressor,
    classification_scores,
    conformal_quantile,
    quantiles_of_scores,
    regression_scores,
)
from deltauq.calibration.difficulty import Difficulty
from deltauq.calibration.scaling import GaussianScaler, choose_delta
from deltauq.calibration.temperature import TemperatureScaler, scale_logits

__all__ = [
    "ConformalClassifier",
    "ConformalRegressor",
    "Difficulty",
    "GaussianScaler",
    "TemperatureScaler",
    "choose_delta",
    "classification_scores",
    "conformal_quantile",
    "quantiles_of_scores",
    "regression_scores",
    "scale_logits",
]
