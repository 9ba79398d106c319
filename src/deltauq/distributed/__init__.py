"""Past one machine: Ray does the work, and nothing distributed is written here."""

from __future__ import annotations

from typing import TYPE_CHECKING

from deltauq.utils.lazy import attach

if TYPE_CHECKING:
    from deltauq.distributed.prediction import predict_parts
    from deltauq.distributed.running import ClusterError, run_here, run_on_ray

__all__ = ["ClusterError", "predict_parts", "run_here", "run_on_ray"]

# Imported on first use: running cells needs no tables.
__getattr__, __dir__ = attach(
    __name__,
    {
        "ClusterError": "deltauq.distributed.running",
        "predict_parts": "deltauq.distributed.prediction",
        "run_here": "deltauq.distributed.running",
        "run_on_ray": "deltauq.distributed.running",
    },
)
