"""Table models as MLflow models, which MLflow loads through this module."""

from __future__ import annotations

import tempfile
import warnings
from os import PathLike
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

from deltauq._version import __version__
from deltauq.tables import TableModel, load
from deltauq.utils.install import import_optional

if TYPE_CHECKING:
    import pandas as pd


class PyFunc:
    """A table model with the interface of MLflow."""

    def __init__(self, model: TableModel) -> None:
        self.model = model

    def predict(self, model_input: pd.DataFrame) -> pd.DataFrame:
        """Return the predictions of `TableModel.predict` for a table of n rows."""
        return self.model.predict(model_input)


def export_mlflow(model: TableModel, path: str | PathLike[str]) -> Path:
    """Write a table model to a folder that MLflow loads, serves and registers.

    It contains the model folder and the name of this module, which MLflow imports: deltauq must be installed
    where the model is served. There is no signature: it would reject flags and dates as text, which the model
    reads, and the model checks its columns itself.

    Parameters
    ----------
    model : TableModel
        A fitted table model.
    path : path
        A folder that does not exist yet.

    Returns
    -------
    path : Path
    """
    path = Path(path)
    if not isinstance(model, TableModel):
        raise TypeError(f"MLflow export takes a table model, got {type(model).__name__}.")
    if path.exists():
        raise FileExistsError(f"{path} exists: name a new folder.")
    pyfunc = require_pyfunc()
    with tempfile.TemporaryDirectory() as folder:
        model.save(Path(folder) / "model")
        pyfunc.save_model(
            path,
            loader_module=__name__,
            data_path=str(Path(folder) / "model"),
            pip_requirements=[f"deltauq[tables]=={__version__}"],
            metadata={"target": model.target, "task": model.task, "coverage": model.coverage},
        )
    return path


def require_pyfunc() -> ModuleType:
    """Return mlflow.pyfunc, or raise an error that says what to install."""
    with warnings.catch_warnings():
        # MLflow warns of its own type hints on import.
        warnings.filterwarnings("ignore", ".*type hint", UserWarning)
        return import_optional("mlflow.pyfunc", "MLflow models need mlflow", "mlflow")


def _load_pyfunc(path: str) -> PyFunc:
    """Load the model folder written by `export_mlflow`; called by MLflow."""
    return PyFunc(load(path))
