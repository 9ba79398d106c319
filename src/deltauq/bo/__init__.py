"""Bayesian optimisation with BoTorch: surrogates for any acquisition function, and a loop around them."""

from deltauq.utils.install import import_optional

import_optional("botorch", "deltauq.bo needs BoTorch", "bo")

from deltauq.bo.anchored import (
    DEFAULT_RECIPE,
    PAPER_SETTINGS,
    AnchoredSurrogate,
    SklearnSurrogate,
    default_network,
)
from deltauq.bo.baselines import DEUPSurrogate, DropoutSurrogate, EnsembleSurrogate, GPSurrogate
from deltauq.bo.history import History
from deltauq.bo.loop import OptimizationError, maximize
from deltauq.bo.optimizer import Optimizer
from deltauq.bo.posteriors import AnchorPosterior, AnchorSampler
from deltauq.bo.surrogate import PAPER_RECIPE, fit_together
from deltauq.bo.transforms import ClipWorst

__all__ = [
    "DEFAULT_RECIPE",
    "PAPER_RECIPE",
    "PAPER_SETTINGS",
    "AnchorPosterior",
    "AnchorSampler",
    "AnchoredSurrogate",
    "ClipWorst",
    "DEUPSurrogate",
    "DropoutSurrogate",
    "EnsembleSurrogate",
    "GPSurrogate",
    "History",
    "OptimizationError",
    "Optimizer",
    "SklearnSurrogate",
    "default_network",
    "fit_together",
    "maximize",
]
