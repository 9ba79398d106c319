"""`export_onnx`: a model with its anchors as an ONNX file that returns mean and standard deviation."""

from __future__ import annotations

import json
import logging
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from deltauq._version import __version__
from deltauq.estimators import AnchoredClassifier, AnchoredRegressor, StackedClassifier, StackedRegressor
from deltauq.export.onnx_graph import EXTRA, OPSET, ROWS, Graph, require_onnx
from deltauq.export.onnx_posteriors import add_anchored, add_stacked_classifier, add_stacked_regressor
from deltauq.export.onnx_tables import add_table_model
from deltauq.tables import TableModel
from deltauq.utils.errors import InputError
from deltauq.utils.filesystem import atomic_write
from deltauq.utils.install import import_optional


def export_onnx(model: Any, path: str | PathLike[str], *, link: str | None = None) -> Path:
    """Write a model to an ONNX file, which can be used from many languages without Python.

    The file contains the anchors and their targets, which by default are rows of the training data.

    Parameters
    ----------
    model : TableModel, an anchored or stacked estimator, or deltauq.nn.Anchored
        A fitted model. Table models and estimators are supported if they consist of trees, forests, histogram
        gradient boosting and linear models of scikit-learn: these are all members of "auto", and the base
        estimators "tree", "forest", "boosting" and "linear".
    path : path
        The file to write.
    link : {"sigmoid", "softmax"}, optional
        For networks: mean and std are those of probabilities.

    Returns
    -------
    path : Path

    Notes
    -----
    Inputs and outputs, all with n rows:

    - Table model: one input per column, of shape (n, 1). Categories are strings, "" for a missing value.
      All other columns are doubles, NaN for a missing value; dates are days from the column's origin in the
      metadata of the file. Outputs are `prediction`, `std`, `lower` and `upper` (of a date: in days from
      `origin` in the metadata), or `prediction` (as text), `probability` and `std`. An underscore is appended
      to the name of an output that is the name of a column. Risk and prediction sets are not exported.
    - Anchored or stacked estimator: `X`, doubles of shape (n, d). Outputs are `mean` and `std`, as returned
      by `predict` or `predict_proba`.
    - Network: `x`, the input of the network. Outputs are `mean` and `std`.

    With doubles, every row reaches the same leaves as in scikit-learn. Rows that were rounded to single
    precision may not: trees also split between differences that are due to rounding. Sums over trees are
    rounded to single precision.

    All pairs of rows and anchors are in memory at once: pass some thousand rows at a time.
    """
    path = Path(path)
    require_onnx()
    # If deltauq.nn was not imported, the model is none of its networks.
    is_network = isinstance(model, getattr(sys.modules.get("deltauq.nn"), "Anchored", ()))
    if link is not None and not is_network:
        raise ValueError("link is for networks: other models return targets or probabilities.")
    if isinstance(model, TableModel):
        proto = _export_table_model(model)
    elif isinstance(model, (AnchoredRegressor, AnchoredClassifier, StackedRegressor, StackedClassifier)):
        proto = _export_estimator(model)
    elif is_network:
        proto = _export_network(model, link)
    else:
        kinds = "a table model, an anchored or stacked estimator, or an anchored network"
        raise TypeError(f"ONNX export takes {kinds}, got {type(model).__name__}.")
    with atomic_write(path) as part:
        part.write_bytes(proto.SerializeToString())
    return path


def _export_table_model(model: TableModel) -> Any:
    graph = Graph()
    add_table_model(graph, model)
    columns = [{"name": c.name, "kind": c.kind, "origin": c.origin} for c in model.schema.columns]
    metadata = {
        "deltauq": __version__,
        "target": model.target,
        "task": model.task,
        "coverage": f"{model.coverage:g}",
        "columns": json.dumps(columns),
        "classes": json.dumps(model.classes),
        "members": json.dumps(model.fitted.model.names_),
    }
    if model.origin:
        metadata["origin"] = model.origin
    return graph.model(metadata)


def _export_estimator(model: Any) -> Any:
    graph = Graph()
    X = graph.input("X", np.float64, model.n_features_in_)
    if isinstance(model, StackedRegressor):
        mean, sizes = add_stacked_regressor(graph, model, X)
        std = graph.node("Mul", sizes, model.std_factor_)
    elif isinstance(model, StackedClassifier):
        mean, std = add_stacked_classifier(graph, model, X)
    else:
        mean, variance = add_anchored(graph, model, X)
        delta, scale = (np.asarray(value, dtype=np.float64) for value in (model.delta_, model.scale_))
        std = graph.node("Mul", graph.node("Add", graph.node("Sqrt", variance), delta), scale)
    classes = np.asarray(getattr(model, "classes_", ())).tolist()
    shape = (len(classes),) if classes else ()
    for name, tensor in (("mean", mean), ("std", std)):
        graph.output(name, graph.node("Reshape", tensor, [-1, *shape]), np.float64, *shape)
    metadata = {"deltauq": __version__, "classes": json.dumps(classes, default=str)}
    if hasattr(model, "anchors_"):
        metadata["n_anchors"] = str(len(model.anchors_))
    return graph.model(metadata)


def _export_network(net: Any, link: str | None) -> Any:
    """Return the ONNX model of a network, made by PyTorch's exporter."""
    import_optional("onnxscript", "ONNX files of networks need onnxscript", EXTRA)
    import torch

    from deltauq.nn import AnchorPredictor, evaluation_mode

    if len(net.anchors) < 2:
        raise InputError(f"ONNX export takes networks with at least two anchors, got {len(net.anchors)}.")
    device = net.anchors.device
    try:
        with evaluation_mode(net), _quiet_exporter():
            program = torch.onnx.export(
                AnchorPredictor(net.cpu(), link).eval(),
                (net.anchors[:2].clone(),),  # a copy: the exporter identifies tensors by their memory
                input_names=["#x"],
                output_names=["#mean", "#std"],
                dynamic_shapes={"x": {0: torch.export.Dim(ROWS)}},
                opset_version=OPSET,
                dynamo=True,
                verbose=False,
            )
    finally:
        net.to(device)
    assert program is not None
    model = program.model_proto
    _rename_tensors(model.graph, ("x", "mean", "std"))
    metadata = {"deltauq": __version__, "link": link or "", "n_anchors": str(len(net.anchors))}
    require_onnx().helper.set_model_props(model, metadata)
    return model


@contextmanager
def _quiet_exporter() -> Iterator[None]:
    """Hide the exporter's messages about packages that are not installed and about its own internals."""
    logger = logging.getLogger("torch.onnx")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", ".*treespec.*", FutureWarning)
            yield
    finally:
        logger.setLevel(level)


def _rename_tensors(graph: Any, names: tuple[str, ...]) -> None:
    """Remove "#" from these names, and rename inner tensors to which the exporter has given them."""
    new = {name: f"inner {name}" for name in names} | {f"#{name}": name for name in names}
    for node in graph.node:
        for tensors in (node.input, node.output):
            tensors[:] = [new.get(name, name) for name in tensors]
    for value in (*graph.input, *graph.output, *graph.value_info, *graph.initializer):
        value.name = new.get(value.name, value.name)
