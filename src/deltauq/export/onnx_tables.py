"""Table models as ONNX graphs, from the columns of the table to predictions."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from deltauq.calibration import conformal_quantile
from deltauq.export.onnx_graph import ML, Graph, add_posterior
from deltauq.tables.errors import require_pandas
from deltauq.tables.model import TableModel, error_std
from deltauq.tables.schema import REGRESSION

UNSEEN = "\0"
"""An unseen category: tables with NUL bytes raise an error."""


def add_table_model(graph: Graph, model: TableModel) -> None:
    """Add inputs, one per column, and outputs of a model of trees; see `export_onnx`."""
    X = graph.node("Concat", *_add_numbers(graph, model), *_add_categories(graph, model), axis=1)
    mean, std = add_posterior(graph, model.fitted.model, X)
    if model.task == REGRESSION:
        _add_regression_outputs(graph, model, mean, std)
    else:
        names = graph.constant(np.array([str(name) for name in model.fitted.model.classes_], dtype=object))
        best = graph.node("ArgMax", mean, axis=1, keepdims=0)
        graph.output("prediction", graph.node("Gather", names, best, axis=0), str)
        graph.output("probability", mean, np.float64, len(model.classes))
        graph.output("std", std, np.float64, len(model.classes))


def _add_numbers(graph: Graph, model: TableModel) -> list[str]:
    """Add the imputation of missing values, and the scaling if the model has one."""
    names = model.schema.number_names
    if not names:
        return []
    inputs = [graph.input(name, np.float64, 1) for name in names]
    steps = model.fitted.preprocessor.transformers_[0][1].named_steps
    X = graph.node("Concat", *inputs, axis=1)
    # The imputed values are what a row of missing values becomes.
    missing = require_pandas().DataFrame(np.nan, index=[0], columns=names)
    imputed = np.asarray(steps["simpleimputer"].transform(missing), dtype=np.float64)
    X = graph.node("Where", graph.node("IsNaN", X), graph.constant(imputed), X)
    if (scaler := steps.get("standardscaler")) is not None:
        X = graph.node("Sub", X, graph.constant(scaler.mean_[None]))
        X = graph.node("Div", X, graph.constant(scaler.scale_[None]))
    if (units := steps.get("unitscaler")) is not None:
        X = graph.node("Div", X, graph.constant(units.scale_[None]))
    return [X]


def _add_categories(graph: Graph, model: TableModel) -> list[str]:
    """Add, for each column of categories, the table of their encodings."""
    names = model.schema.category_names
    if not names:
        return []
    encoder = next(
        step for _, step, columns in model.fitted.preprocessor.transformers_ if list(columns) == names
    )
    tensors = []
    for k, name in enumerate(names):
        categories = [str(category) for category in encoder.categories_[k]]
        index = graph.node(
            "LabelEncoder",
            graph.input(name, str, 1),
            domain=ML,
            keys_strings=categories,
            values_int64s=list(range(len(categories))),
            default_int64=len(categories),
        )
        flat = graph.node("Reshape", index, graph.constant([-1]))
        encodings = graph.constant(_encode(encoder, names, k, [*categories, UNSEEN]))
        tensors.append(graph.node("Gather", encodings, flat, axis=0))
    return tensors


def _encode(encoder: Any, names: list[str], k: int, categories: list[str]) -> np.ndarray:
    """Return the encodings of categories of the k-th column, of shape (number of categories, width)."""
    first = [known[0] for known in encoder.categories_]
    rows = np.array([[*first[:k], category, *first[k + 1 :]] for category in categories], dtype=object)
    infrequent = getattr(encoder, "infrequent_categories_", [None] * len(names))
    widths = [
        len(known) - (0 if rare is None else len(rare) - 1)
        for known, rare in zip(encoder.categories_, infrequent, strict=True)
    ]
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Found unknown categories", UserWarning)
        encoded = encoder.transform(require_pandas().DataFrame(rows, columns=names))
    start = sum(widths[:k])
    return np.asarray(encoded[:, start : start + widths[k]], dtype=np.float64)


def _add_regression_outputs(graph: Graph, model: TableModel, mean: str, std: str) -> None:
    """Add prediction, std, lower and upper, in the units of the target."""

    def number(value: Any) -> str:
        return graph.constant(np.float64(value))

    flat = graph.constant([-1])
    mean, std = graph.node("Reshape", mean, flat), graph.node("Reshape", std, flat)
    prediction = graph.node(
        "Add", graph.node("Mul", mean, number(model.target_scale)), number(model.target_mean)
    )
    width = graph.node("Mul", graph.node("Add", std, number(model.delta)), number(model.target_scale))
    half = graph.node("Mul", width, number(conformal_quantile(model.fitted.scores, model.coverage)))
    error = graph.constant(error_std(model.fitted.scores, np.ones(())))
    graph.output("prediction", prediction, np.float64)
    graph.output("std", graph.node("Mul", width, error), np.float64)
    graph.output("lower", graph.node("Sub", prediction, half), np.float64)
    graph.output("upper", graph.node("Add", prediction, half), np.float64)
