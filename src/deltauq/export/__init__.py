"""Export to ONNX and MLflow, and loading of saved models; no code from a file is run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from deltauq.export.loading import load
from deltauq.utils.lazy import attach

if TYPE_CHECKING:
    from deltauq.export.mlflow import export_mlflow
    from deltauq.export.onnx import export_onnx

__all__ = ["export_mlflow", "export_onnx", "load"]

# Imported on first use: loading a model needs none of the exporters.
__getattr__, __dir__ = attach(
    __name__, {"export_mlflow": "deltauq.export.mlflow", "export_onnx": "deltauq.export.onnx"}
)
