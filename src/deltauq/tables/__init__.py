"""Tables of the user's own: read, fitted, predicted, evaluated, saved."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from deltauq.tables.errors import ModelFolderError, TableError
    from deltauq.tables.evaluation import Evaluation, evaluate
    from deltauq.tables.fitting import fit
    from deltauq.tables.folder import load
    from deltauq.tables.model import TableModel
    from deltauq.tables.streaming import Predicted, predict_file

__all__ = [
    "Evaluation",
    "ModelFolderError",
    "Predicted",
    "TableError",
    "TableModel",
    "evaluate",
    "fit",
    "load",
    "predict_file",
]

# Loaded on first use: the command line needs the words of this room before it needs scikit-learn.
_FILES = {
    "Evaluation": "evaluation",
    "ModelFolderError": "errors",
    "Predicted": "streaming",
    "TableError": "errors",
    "TableModel": "model",
    "evaluate": "evaluation",
    "fit": "fitting",
    "load": "folder",
    "predict_file": "streaming",
}


def __getattr__(name: str) -> Any:
    if name not in _FILES:
        raise AttributeError(f"module 'deltauq.tables' has no attribute {name!r}")
    return getattr(import_module(f"deltauq.tables.{_FILES[name]}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
