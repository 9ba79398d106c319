"""From a spread that ranks to statements that hold: scaled logits, intervals and sets."""

from deltauq.calibration.conformal import ConformalClassifier, ConformalRegressor
from deltauq.calibration.gaussian import GaussianScaler
from deltauq.calibration.scale import SpreadScaler, scale_logits
from deltauq.calibration.temperature import TemperatureScaler

__all__ = [
    "ConformalClassifier",
    "ConformalRegressor",
    "GaussianScaler",
    "SpreadScaler",
    "TemperatureScaler",
    "scale_logits",
]
