"""A table model as an ONNX graph: from the columns of the table to predictions."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from deltauq.calibration import conformal_quantile
from deltauq.export.onnx_graph import ML, Graph
from deltauq.export.onnx_trees import add_posterior
from deltauq.tables.errors import require_pandas
from deltauq.tables.model import TableModel, error_std
from deltauq.tables.schema import REGRESSION

UNKNOWN = "\0"
"""A word that no table has: NUL bytes are refused."""


def add_table_model(graph: Graph, model: TableModel) -> None:
    """Add inputs, one for each column, and outputs.

    Inputs have the shape (n, 1): words as strings, "" for a missing one; all others as doubles, NaN for a
    missing one, dates in days from the origin that the schema has, spans in days.

    Parameters
    ----------
    graph : Graph
    model : TableModel
        Of trees.
    """
    X = graph.node("Concat", *_add_numbers(graph, model), *_add_words(graph, model), axis=1)
    mean, std = add_posterior(graph, model.fitted.model, X)
    if model.task == REGRESSION:
        _add_intervals(graph, model, mean, std)
    else:
        _add_classes(graph, model, mean, std)


def _add_numbers(graph: Graph, model: TableModel) -> list[str]:
    """Fill gaps, and scale where the model does."""
    names = model.schema.number_names
    if not names:
        return []
    inputs = [graph.input(name, np.float64, 1) for name in names]
    steps = model.fitted.columns.transformers_[0][1].named_steps
    X = graph.node("Concat", *inputs, axis=1)
    # What stands for a gap is seen best where everything is one.
    gaps = _frame(names, np.full((1, len(names)), np.nan))
    filling = np.asarray(steps["simpleimputer"].transform(gaps), dtype=np.float64)
    X = graph.node("Where", graph.node("IsNaN", X), graph.constant(filling), X)
    if (scaler := steps.get("standardscaler")) is not None:
        X = graph.node("Sub", X, graph.constant(scaler.mean_[None]))
        X = graph.node("Div", X, graph.constant(scaler.scale_[None]))
    if (units := steps.get("unitscaler")) is not None:
        X = graph.node("Div", X, graph.constant(units.scale_[None]))
    return [X]


def _add_words(graph: Graph, model: TableModel) -> list[str]:
    """Look up, for each column of words, the numbers that a word becomes."""
    names = model.schema.category_names
    if not names:
        return []
    encoder = next(step for _, step, taken in model.fitted.columns.transformers_ if list(taken) == names)
    found = []
    for k, name in enumerate(names):
        words = [str(word) for word in encoder.categories_[k]]
        numbers = _lookup(encoder, names, k, [*words, UNKNOWN])
        index = graph.node(
            "LabelEncoder",
            graph.input(name, str, 1),
            domain=ML,
            keys_strings=words,
            values_int64s=list(range(len(words))),
            default_int64=len(words),
        )
        flat = graph.node("Reshape", index, graph.constant([-1]))
        found.append(graph.node("Gather", graph.constant(numbers), flat, axis=0))
    return found


def _lookup(encoder: Any, names: list[str], k: int, words: list[str]) -> np.ndarray:
    """Return what words of the k-th column become, of shape (number of words, width)."""
    others = [categories[0] for categories in encoder.categories_]
    rows = np.array([[*others[:k], word, *others[k + 1 :]] for word in words], dtype=object)
    infrequent = getattr(encoder, "infrequent_categories_", [None] * len(names))
    widths = [
        len(categories) - (0 if rare is None else len(rare) - 1)
        for categories, rare in zip(encoder.categories_, infrequent, strict=True)
    ]
    with warnings.catch_warnings():
        # Of the word that no table has.
        warnings.simplefilter("ignore")
        encoded = encoder.transform(_frame(names, rows))
    start = sum(widths[:k])
    return np.asarray(encoded[:, start : start + widths[k]], dtype=np.float64)


def _add_intervals(graph: Graph, model: TableModel, mean: str, std: str) -> None:
    """Add prediction, std, lower and upper, in the units of the target."""
    flat = graph.constant([-1])
    mean, std = graph.node("Reshape", mean, flat), graph.node("Reshape", std, flat)
    unit = graph.constant(np.float64(model.unit))
    prediction = graph.node("Add", graph.node("Mul", mean, unit), graph.constant(np.float64(model.center)))
    width = graph.node("Mul", graph.node("Add", std, graph.constant(np.float64(model.delta))), unit)
    half = graph.node(
        "Mul", width, graph.constant(np.float64(conformal_quantile(model.fitted.scores, model.coverage)))
    )
    error = error_std(model.fitted.scores, np.ones(()))
    graph.output("prediction", prediction, np.float64)
    graph.output("std", graph.node("Mul", width, graph.constant(error)), np.float64)
    graph.output("lower", graph.node("Sub", prediction, half), np.float64)
    graph.output("upper", graph.node("Add", prediction, half), np.float64)


def _add_classes(graph: Graph, model: TableModel, mean: str, std: str) -> None:
    """Add prediction, as text, and the probabilities of all classes with their spread."""
    n_classes = len(model.classes)
    names = graph.constant(np.array([str(name) for name in model.fitted.model.classes_], dtype=object))
    best = graph.node("ArgMax", mean, axis=1, keepdims=0)
    graph.output("prediction", graph.node("Gather", names, best, axis=0), str)
    graph.output("probability", mean, np.float64, n_classes)
    graph.output("std", std, np.float64, n_classes)


def _frame(names: list[str], rows: np.ndarray) -> Any:
    return require_pandas().DataFrame(rows, columns=names)
