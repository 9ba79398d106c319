"""Bayesian optimisation with BoTorch: surrogates for any acquisition function, and a loop around them."""

try:
    import botorch as _botorch  # noqa: F401
except ImportError as error:
    from deltauq.utils.install import install_command

    raise ImportError(f"deltauq.bo needs BoTorch: {install_command('bo')}.") from error

from deltauq.bo.anchored import AnchoredSurrogate, SklearnSurrogate
from deltauq.bo.baselines import DEUPSurrogate, DropoutSurrogate, EnsembleSurrogate, GPSurrogate
from deltauq.bo.history import History
from deltauq.bo.loop import OptimizationError, maximize
from deltauq.bo.optimizer import Optimizer
from deltauq.bo.posteriors import AnchorPosterior, AnchorSampler
from deltauq.bo.surrogate import fit_together
from deltauq.bo.transforms import ClipWorst

__all__ = [
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
    "fit_together",
    "maximize",
]
