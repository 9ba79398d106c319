"""Encodings, anchor priors, and moments over anchors."""

from deltauq.core.anchors import (
    AnchorPrior,
    BalancedPrior,
    DataPrior,
    KMeansPrior,
    NormalPrior,
    SetPrior,
    get_prior,
)
from deltauq.core.encoding import Difference, Encoding, Identity, TwoAnchor, get_encoding
from deltauq.core.posterior import Moments, Posterior, StreamingPosterior

__all__ = [
    "AnchorPrior",
    "BalancedPrior",
    "DataPrior",
    "Difference",
    "Encoding",
    "Identity",
    "KMeansPrior",
    "Moments",
    "NormalPrior",
    "Posterior",
    "SetPrior",
    "StreamingPosterior",
    "TwoAnchor",
    "get_encoding",
    "get_prior",
]
