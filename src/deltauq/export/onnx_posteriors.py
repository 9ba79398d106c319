"""Anchored and stacked models as parts of ONNX graphs: mean and spread of their predictions.

X and the results are matrices of doubles with n rows.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from deltauq.calibration.difficulty import SMALLEST_RATIO
from deltauq.core.target import TARGETS
from deltauq.estimators import AnchoredClassifier, AnchoredRegressor, StackedClassifier, StackedRegressor
from deltauq.estimators.base_estimators import REGRESSION_FORESTS
from deltauq.export.onnx_graph import Graph
from deltauq.export.onnx_models import add_outputs
from deltauq.export.onnx_trees import add_outputs_of_trees
from deltauq.utils.errors import InputError


def add_anchored(graph: Graph, model: AnchoredRegressor | AnchoredClassifier, X: str) -> tuple[str, str]:
    """Add mean and variance over the stored anchors, of shape (n, o)."""
    if type(model.target_) not in TARGETS.values():
        raise InputError(f"ONNX export takes the targets {sorted(TARGETS)}, got {model.target_!r}.")
    # Differences are computed in doubles, as in Python: rows reach the same leaves.
    encoding, (k, d) = model.encoding_, model.anchors_.X.shape
    blocks = encoding.tuples(model.anchors_.X)
    rows = graph.node("Shape", X, start=0, end=1)
    shape = graph.node("Concat", rows, [k, len(blocks) * d], axis=0)
    columns = graph.node("Unsqueeze", X, [1])
    deltas = [graph.node("Sub", columns, offset[None]) for offset in encoding.offsets(*blocks)]
    anchors = graph.node("Expand", np.hstack(blocks)[None], shape)
    tuples = graph.node("Concat", anchors, *deltas, axis=2)
    pairs = graph.node("Reshape", tuples, [-1, encoding.width * d])
    width = len(model.classes_) if isinstance(model, AnchoredClassifier) else 1
    outputs = graph.node("Reshape", add_outputs(graph, model.estimator_, pairs), [-1, k, width])
    if model.anchors_.y is not None:
        labels = encoding.tuples(model.anchors_.y.reshape(k, 1))
        outputs = graph.node("Add", outputs, model.target_.decode(np.zeros((k, 1)), *labels)[None])
    mean, variance = _add_moments(graph, outputs)
    return add_outputs(graph, model.center_, X) if hasattr(model, "center_") else mean, variance


def add_stacked_regressor(graph: Graph, model: StackedRegressor, X: str) -> tuple[str, str]:
    """Add predictions and the expected sizes of their errors, of shape (n, 1)."""
    low, high = model.target_range_
    difficulty, members = model.difficulty_, _add_members(graph, model, X)
    means = graph.node("Concat", *(mean for mean, _ in members), axis=1)
    means = graph.node("Clip", means, 2 * low - high, 2 * high - low)
    mean = graph.node("MatMul", means, model.weights_[:, None])
    between = _add_mean(graph, _add_square(graph, graph.node("Sub", means, mean)), keepdims=1)
    variances = [*(variance for _, variance in members), between]
    terms = [
        graph.node("Mul", variance, weight)
        for variance, weight in zip(variances, difficulty.weights_, strict=True)
        if variance is not None
    ]
    scale = graph.node("Sqrt", graph.node("Sum", *terms, difficulty.constant_))
    features = graph.node("Concat", X, mean, graph.node("Log", scale), axis=1)
    ratio = graph.node("Max", add_outputs(graph, difficulty.forest_, features), SMALLEST_RATIO)
    sizes = graph.node("Min", graph.node("Mul", scale, ratio), difficulty.largest_)
    scaled = graph.node("Mul", mean, model.target_scale_)
    return graph.node("Add", scaled, model.target_mean_), graph.node("Mul", sizes, model.target_scale_)


def add_stacked_classifier(graph: Graph, model: StackedClassifier, X: str) -> tuple[str, str]:
    """Add probabilities and their standard deviations, of shape (n, c)."""
    members = _add_members(graph, model, X)
    logs = [
        graph.node("Mul", graph.node("Log", graph.node("Max", mean, model.floor_)), weight)
        for (mean, _), weight in zip(members, model.weights_, strict=True)
    ]
    proba = graph.node("Softmax", graph.node("Sum", *logs), axis=1)
    terms = []
    for (mean, variance), share in zip(members, model.weights_ / model.weights_.sum(), strict=True):
        square = _add_square(graph, graph.node("Sub", mean, proba))
        total = square if variance is None else graph.node("Add", variance, square)
        terms.append(graph.node("Mul", total, share))
    return proba, graph.node("Sqrt", graph.node("Sum", *terms))


def _add_members(graph: Graph, model: Any, X: str) -> list[tuple[str, str | None]]:
    """Add mean and variance of every member; the variance is None where it is zero."""
    members = []
    for name, member in zip(model.names_, model.estimators_, strict=True):
        try:
            members.append(_add_member(graph, member, X))
        except InputError as error:
            raise InputError(f'{str(error).removesuffix(".")} as the member "{name}".') from None
    return members


def _add_member(graph: Graph, member: Any, X: str) -> tuple[str, str | None]:
    if isinstance(member, (AnchoredRegressor, AnchoredClassifier)):
        return add_anchored(graph, member, X)
    if type(member) in REGRESSION_FORESTS:
        by_tree = add_outputs_of_trees(graph, member, X)
        return _add_moments(graph, graph.node("Unsqueeze", by_tree, [2]))
    return add_outputs(graph, member, X), None


def _add_moments(graph: Graph, outputs: str) -> tuple[str, str]:
    """Add mean and variance over the second axis, of shape (n, o), given outputs of shape (n, k, o)."""
    mean = _add_mean(graph, outputs, keepdims=1)
    variance = _add_mean(graph, _add_square(graph, graph.node("Sub", outputs, mean)), keepdims=0)
    return graph.node("Squeeze", mean, [1]), variance


def _add_mean(graph: Graph, tensor: str, keepdims: int) -> str:
    return graph.node("ReduceMean", tensor, [1], keepdims=keepdims)


def _add_square(graph: Graph, tensor: str) -> str:
    return graph.node("Mul", tensor, tensor)
