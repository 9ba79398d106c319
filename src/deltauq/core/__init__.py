"""Encodings, targets, anchors and their priors, and moments over anchors."""

from deltauq.core.anchors import (
    AnchorPrior,
    Anchors,
    BalancedPrior,
    DataPrior,
    KMeansPrior,
    NormalPrior,
    SetPrior,
    get_prior,
)
from deltauq.core.encoding import Difference, Encoding, Full, Identity, TwoAnchor, get_encoding
from deltauq.core.posterior import Moments, Posterior, StreamingPosterior
from deltauq.core.target import DifferenceTarget, Target, ValueTarget, get_target

__all__ = [
    "AnchorPrior",
    "Anchors",
    "BalancedPrior",
    "DataPrior",
    "Difference",
    "DifferenceTarget",
    "Encoding",
    "Full",
    "Identity",
    "KMeansPrior",
    "Moments",
    "NormalPrior",
    "Posterior",
    "SetPrior",
    "StreamingPosterior",
    "Target",
    "TwoAnchor",
    "ValueTarget",
    "get_encoding",
    "get_prior",
    "get_target",
]
