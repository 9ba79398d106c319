"""Past one machine: Ray does the work, and nothing distributed is written here."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from deltauq.distributed.prediction import predict_parts
    from deltauq.distributed.running import ClusterError, run_here, run_on_ray

__all__ = ["ClusterError", "predict_parts", "run_here", "run_on_ray"]

# Loaded on first use: a sweep needs no tables.
_FILES = {
    "ClusterError": "running",
    "predict_parts": "prediction",
    "run_here": "running",
    "run_on_ray": "running",
}


def __getattr__(name: str) -> Any:
    if name not in _FILES:
        raise AttributeError(f"module 'deltauq.distributed' has no attribute {name!r}")
    return getattr(import_module(f"deltauq.distributed.{_FILES[name]}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
