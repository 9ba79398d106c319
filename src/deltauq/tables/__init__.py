"""Models of tables: fit, predict, evaluate, save and load."""

from __future__ import annotations

from typing import TYPE_CHECKING

from deltauq.utils.lazy import attach

if TYPE_CHECKING:
    from deltauq.tables.errors import ModelFolderError, TableError
    from deltauq.tables.evaluation import evaluate
    from deltauq.tables.evaluation_result import Evaluation
    from deltauq.tables.fitting import fit
    from deltauq.tables.folder import load
    from deltauq.tables.model import TableModel
    from deltauq.tables.prediction import PredictionSummary, predict_file

__all__ = [
    "Evaluation",
    "ModelFolderError",
    "PredictionSummary",
    "TableError",
    "TableModel",
    "evaluate",
    "fit",
    "load",
    "predict_file",
]

# Imported on first use: the command line needs the options of this package before it needs scikit-learn.
__getattr__, __dir__ = attach(
    __name__,
    {
        "Evaluation": "deltauq.tables.evaluation_result",
        "ModelFolderError": "deltauq.tables.errors",
        "PredictionSummary": "deltauq.tables.prediction",
        "TableError": "deltauq.tables.errors",
        "TableModel": "deltauq.tables.model",
        "evaluate": "deltauq.tables.evaluation",
        "fit": "deltauq.tables.fitting",
        "load": "deltauq.tables.folder",
        "predict_file": "deltauq.tables.prediction",
    },
)
