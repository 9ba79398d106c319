"""Table models as ONNX graphs, from the columns of the table to predictions."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from deltauq.calibration import quantiles_of_scores
from deltauq.export.onnx_graph import ML, Graph
from deltauq.export.onnx_models import add_steps
from deltauq.export.onnx_posteriors import add_stacked_classifier, add_stacked_regressor
from deltauq.tables.errors import require_pandas
from deltauq.tables.model import TableModel
from deltauq.tables.schema import REGRESSION

UNSEEN = "\0"
"""An unseen category: tables with NUL bytes raise an error."""


def add_table_model(graph: Graph, model: TableModel) -> None:
    """Add inputs, one per column, and the outputs of a table model; see `export_onnx`."""
    X = graph.node("Concat", *_add_numbers(graph, model), *_add_categories(graph, model), axis=1)
    if model.task == REGRESSION:
        _add_regression_outputs(graph, model, X)
    else:
        _add_class_outputs(graph, model, X)


def _add_numbers(graph: Graph, model: TableModel) -> list[str]:
    """Add the imputation and scaling of numbers."""
    names = model.schema.number_names
    if not names:
        return []
    X = graph.node("Concat", *(graph.input(name, np.float64, 1) for name in names), axis=1)
    pipeline = model.fitted.preprocessor.transformers_[0][1]
    return [add_steps(graph, [step for _, step in pipeline.steps], X)]


def _add_categories(graph: Graph, model: TableModel) -> list[str]:
    """Add, for each column of categories, the table of their encodings, and that of their mean targets."""
    names = model.schema.category_names
    if not names:
        return []
    (_, encoder, _), (_, means, with_means) = model.fitted.preprocessor.transformers_[1:3]
    tensors, of_means = [], []
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
        encodings = _encode(encoder, names, k, [*categories, UNSEEN])
        index = graph.node("Reshape", index, [-1])
        tensors.append(graph.node("Gather", encodings, index, axis=0))
        if name in with_means:
            column = list(with_means).index(name)
            rows = np.tile(np.array([*categories, UNSEEN], dtype=object)[:, None], len(with_means))
            frame = require_pandas().DataFrame(rows, columns=list(with_means))
            of_means.append(graph.node("Gather", means.transform(frame)[:, [column]], index, axis=0))
    return tensors + of_means


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


def _add_regression_outputs(graph: Graph, model: TableModel, X: str) -> None:
    """Add prediction, std, lower and upper."""
    stacked = model.fitted.model
    mean, sizes = (graph.node("Reshape", tensor, [-1]) for tensor in add_stacked_regressor(graph, stacked, X))
    tails = [(1.0 - model.coverage) / 2.0, (1.0 + model.coverage) / 2.0]
    lower, upper = quantiles_of_scores(stacked.scores_, tails)
    graph.output("prediction", mean, np.float64)
    graph.output("std", graph.node("Mul", sizes, stacked.std_factor_), np.float64)
    for name, score in (("lower", lower), ("upper", upper)):
        graph.output(name, graph.node("Add", mean, graph.node("Mul", sizes, score)), np.float64)


def _add_class_outputs(graph: Graph, model: TableModel, X: str) -> None:
    """Add prediction, probability and std."""
    proba, std = add_stacked_classifier(graph, model.fitted.model, X)
    names = np.array([str(name) for name in model.fitted.model.classes_], dtype=object)
    best = graph.node("ArgMax", proba, axis=1, keepdims=0)
    graph.output("prediction", graph.node("Gather", names, best, axis=0), str)
    graph.output("probability", proba, np.float64, len(names))
    graph.output("std", std, np.float64, len(names))
