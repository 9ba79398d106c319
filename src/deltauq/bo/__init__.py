"""Sequential optimisation on BoTorch: surrogates for any acquisition function."""

try:
    import botorch as _botorch  # noqa: F401
except ImportError as error:
    raise ImportError("deltauq.bo needs BoTorch: pip install 'deltauq[bo]'.") from error

from deltauq.bo.anchored import AnchoredSurrogate, fit_together
from deltauq.bo.posteriors import AnchorPosterior, AnchorSampler
from deltauq.bo.rivals import DEUPSurrogate, DropoutSurrogate, EnsembleSurrogate, GPSurrogate
from deltauq.bo.sklearn import SklearnSurrogate

__all__ = [
    "AnchorPosterior",
    "AnchorSampler",
    "AnchoredSurrogate",
    "DEUPSurrogate",
    "DropoutSurrogate",
    "EnsembleSurrogate",
    "GPSurrogate",
    "SklearnSurrogate",
    "fit_together",
]
