"""Models that leave the process: written and read without ever running code from a file."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from deltauq.export.files import load

if TYPE_CHECKING:
    from deltauq.export.mlflow import export_mlflow
    from deltauq.export.onnx import export_onnx

__all__ = ["export_mlflow", "export_onnx", "load"]

# Loaded on first use: reading a model needs nothing of what writes it for others.
_FILES = {"export_mlflow": "mlflow", "export_onnx": "onnx"}


def __getattr__(name: str) -> Any:
    if name not in _FILES:
        raise AttributeError(f"module 'deltauq.export' has no attribute {name!r}")
    return getattr(import_module(f"deltauq.export.{_FILES[name]}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
