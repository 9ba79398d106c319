"""Uncertainty estimates for any predictive model by anchor marginalisation (Δ-UQ)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from deltauq._version import __version__
from deltauq.utils.lazy import attach

if TYPE_CHECKING:
    from deltauq.assessment import assess
    from deltauq.core import Posterior
    from deltauq.estimators import (
        AnchoredClassifier,
        AnchoredRegressor,
        StackedClassifier,
        StackedRegressor,
    )
    from deltauq.export import load
    from deltauq.utils.versions import show_versions

__all__ = [
    "AnchoredClassifier",
    "AnchoredRegressor",
    "Posterior",
    "StackedClassifier",
    "StackedRegressor",
    "__version__",
    "assess",
    "load",
    "show_versions",
]

# Imported on first use, so that `import deltauq` is fast.
__getattr__, __dir__ = attach(
    __name__,
    {
        "AnchoredClassifier": "deltauq.estimators",
        "AnchoredRegressor": "deltauq.estimators",
        "Posterior": "deltauq.core",
        "StackedClassifier": "deltauq.estimators",
        "StackedRegressor": "deltauq.estimators",
        "assess": "deltauq.assessment",
        "load": "deltauq.export",
        "show_versions": "deltauq.utils.versions",
    },
)
