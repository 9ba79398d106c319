"""Table models as MLflow models: MLflow loads them through this module, and nothing is unpickled."""

from __future__ import annotations

import tempfile
import warnings
from importlib import import_module
from os import PathLike
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

from deltauq._version import __version__
from deltauq.tables import TableModel, load
from deltauq.utils.install import install_command

if TYPE_CHECKING:
    import pandas as pd


class PyFunc:
    """A table model as MLflow calls it.

    Parameters
    ----------
    model : TableModel
    """

    def __init__(self, model: TableModel) -> None:
        self.model = model

    def predict(self, model_input: pd.DataFrame) -> pd.DataFrame:
        """Return the predictions of a table of n rows, as `TableModel.predict` gives them."""
        return self.model.predict(model_input)


def export_mlflow(model: TableModel, path: str | PathLike[str]) -> Path:
    """Write a table model to a folder that MLflow loads, serves and registers.

    It holds the model folder and the name of this module, by which MLflow reads it: what serves it needs
    deltauq. Columns are checked by the model itself, and not by a signature, which would refuse flags and
    dates in writing that the model reads.

    Parameters
    ----------
    model : TableModel
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
    """Return mlflow.pyfunc, or say in one line what to install."""
    try:
        with warnings.catch_warnings():
            # Of type hints of its own.
            warnings.simplefilter("ignore")
            return import_module("mlflow.pyfunc")
    except ImportError as error:
        raise ImportError(f"MLflow models need mlflow: {install_command('mlflow')}.") from error


def _load_pyfunc(path: str) -> PyFunc:
    """Return the model of a folder that `export_mlflow` wrote; MLflow calls this."""
    return PyFunc(load(path))
