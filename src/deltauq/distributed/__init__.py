"""Prediction of large tables on several machines, by Ray."""

from __future__ import annotations

from typing import TYPE_CHECKING

from deltauq.distributed.runners import ClusterError, run_locally, run_on_ray
from deltauq.utils.lazy import attach

if TYPE_CHECKING:
    from deltauq.distributed.prediction import predict_parts

__all__ = ["ClusterError", "predict_parts", "run_locally", "run_on_ray"]

# Imported on first use: running tasks needs no tables.
__getattr__, __dir__ = attach(__name__, {"predict_parts": "deltauq.distributed.prediction"})
