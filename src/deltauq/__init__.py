"""An honest error bar for any predictive model, by anchor marginalisation (Δ-UQ)."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from deltauq._version import __version__

if TYPE_CHECKING:
    from deltauq.assessment import assess
    from deltauq.core import Posterior
    from deltauq.estimators import AnchoredClassifier, AnchoredRegressor
    from deltauq.export import load

__all__ = ["AnchoredClassifier", "AnchoredRegressor", "Posterior", "__version__", "assess", "load"]

# Loaded on first use, so that `import deltauq` costs next to nothing.
_ROOMS = {
    "AnchoredClassifier": "deltauq.estimators",
    "AnchoredRegressor": "deltauq.estimators",
    "Posterior": "deltauq.core",
    "assess": "deltauq.assessment",
    "load": "deltauq.export",
}


def __getattr__(name: str) -> Any:
    if name not in _ROOMS:
        raise AttributeError(f"module 'deltauq' has no attribute {name!r}")
    return getattr(import_module(_ROOMS[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
