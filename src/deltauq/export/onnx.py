"""The K-anchor predictor as an ONNX file: anchors inside, mean and standard deviation out."""

from __future__ import annotations

import json
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from deltauq._version import __version__
from deltauq.estimators import AnchoredClassifier, AnchoredRegressor
from deltauq.export.onnx_graph import Graph, require_onnx
from deltauq.export.onnx_trees import add_posterior, check_exportable
from deltauq.tables import TableModel
from deltauq.utils.filesystem import atomic_write


def export_onnx(model: Any, path: str | PathLike[str], *, link: str | None = None) -> Path:
    """Write a model to a file that ONNX runtimes read, in any language and without Python.

    The file holds the anchors, which are rows of the training data unless they were drawn otherwise.

    Parameters
    ----------
    model : TableModel, AnchoredRegressor, AnchoredClassifier or deltauq.nn.Anchored
        Fitted; of the first three, those over trees and forests.
    path : path
    link : {"sigmoid", "softmax"}, optional
        Of a network: mean and std are those of probabilities.

    Returns
    -------
    path : Path

    Notes
    -----
    Inputs and outputs, all with n rows:

    - of a table model, one input for each column, of shape (n, 1): words as strings, with "" for a missing
      one; everything else as doubles, with NaN for a missing one, dates in days from the origin that stands
      in the file's metadata. Outputs are `prediction`, `std`, `lower` and `upper`, of a date in days from
      the metadata's own `origin`; or `prediction` (as text), `probability` and `std`. Where a column has
      such a name, the output's ends in an underscore. Risk and sets are not in it.
    - of an anchored estimator, `X`, doubles of shape (n, d); outputs are `mean` and `std`, as `predict` or
      `predict_proba` returns them.
    - of a network, `x`, as the network takes it; outputs are `mean` and `std`.

    With doubles every row meets the leaves that it meets in scikit-learn. Rows that were rounded to single
    precision on the way may not: trees split between differences that rounding alone sets apart.

    All pairs of rows and anchors are in memory at once: give some thousand rows at a time.
    """
    path = Path(path)
    require_onnx()
    if link is not None and not hasattr(model, "site"):
        raise ValueError("link is for networks: other models return targets or probabilities as they are.")
    if isinstance(model, TableModel):
        proto = _of_table(model)
    elif isinstance(model, (AnchoredRegressor, AnchoredClassifier)):
        proto = _of_estimator(model)
    else:
        proto = _of_network(model, link)
    with atomic_write(path) as part:
        part.write_bytes(proto.SerializeToString())
    return path


def _of_table(model: TableModel) -> Any:
    from deltauq.export.onnx_tables import add_table_model

    check_exportable(model.fitted.model)
    graph = Graph()
    add_table_model(graph, model)
    about = {
        "target": model.target,
        "task": model.task,
        "coverage": f"{model.coverage:g}",
        "columns": json.dumps(
            [{"name": c.name, "kind": c.kind, "origin": c.origin} for c in model.schema.columns]
        ),
        "classes": json.dumps(model.classes),
    }
    if model.origin:
        about["origin"] = model.origin
    return graph.model({**about, **_about(len(model.fitted.model.anchors_))})


def _of_estimator(model: AnchoredRegressor | AnchoredClassifier) -> Any:
    check_exportable(model)
    graph = Graph()
    mean, std = add_posterior(graph, model, graph.input("X", np.float64, model.n_features_in_))
    delta, scale = (np.asarray(value, dtype=np.float64) for value in (model.delta_, model.scale_))
    std = graph.node("Mul", graph.node("Add", std, graph.constant(delta)), graph.constant(scale))
    shape = (len(model.classes_),) if isinstance(model, AnchoredClassifier) else ()
    flat = graph.constant([-1, *shape])
    graph.output("mean", graph.node("Reshape", mean, flat), np.float64, *shape)
    graph.output("std", graph.node("Reshape", std, flat), np.float64, *shape)
    classes = np.asarray(getattr(model, "classes_", ())).tolist()
    return graph.model({"classes": json.dumps(classes, default=str), **_about(len(model.anchors_))})


def _of_network(model: Any, link: str | None) -> Any:
    if not hasattr(model, "site"):
        raise TypeError(
            "ONNX export takes a table model, an anchored estimator or an anchored network, "
            f"got {type(model).__name__}."
        )
    from deltauq.export.onnx_networks import network_graph

    return network_graph(model, link, {"link": link or "", **_about(len(model.anchors))})


def _about(n_anchors: int) -> dict[str, str]:
    return {"deltauq": __version__, "n_anchors": str(n_anchors)}
