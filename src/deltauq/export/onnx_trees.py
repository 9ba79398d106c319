"""Trees, forests and gradient boosting of scikit-learn as ONNX operators."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import is_classifier

from deltauq.estimators.base_estimators import trees_of
from deltauq.estimators.boosting_readers import read_ensemble
from deltauq.export.onnx_graph import ML, Graph
from deltauq.utils.errors import InputError

LINKS = {"IdentityLink": "Identity", "LogLink": "Exp"}
"""The operators that return targets, given raw outputs of boosting."""


def add_forest(graph: Graph, estimator: Any, X: str) -> str:
    """Add the prediction or the probabilities of a tree or forest; all matrices are of doubles."""
    trees = _trees(estimator)
    width = int(estimator.n_classes_) if is_classifier(estimator) else 1
    values = [tree.value[:, 0, :width] / len(trees) for tree in trees]
    return _add_trees(graph, _rounded(graph, X), trees, values, [range(width)] * len(trees))


def add_outputs_of_trees(graph: Graph, forest: Any, X: str) -> str:
    """Add the prediction of every tree of a regression forest, of shape (m, number of trees)."""
    trees = _trees(forest)
    values = [tree.value[:, 0, :1] for tree in trees]
    return _add_trees(graph, _rounded(graph, X), trees, values, [[k] for k in range(len(trees))])


def add_boosting(graph: Graph, estimator: Any, X: str) -> str:
    """Add the prediction or the probabilities of histogram gradient boosting, as `add_forest`."""
    if estimator.is_categorical_ is not None:
        raise InputError(f"ONNX export takes no categories in {type(estimator).__name__}: encode them first.")
    if is_classifier(estimator) and len(estimator.classes_) < 2:
        raise InputError(f"ONNX export takes {type(estimator).__name__} of two classes or more.")
    ensemble = read_ensemble(estimator)
    values = [tree.value[:, None] for tree in ensemble.trees]
    raw = _add_trees(graph, X, ensemble.trees, values, [[int(k)] for k in ensemble.columns])
    raw = graph.node("Add", raw, ensemble.baseline[None])
    if is_classifier(estimator):
        return add_probabilities(graph, raw, len(estimator.classes_))
    return graph.node(LINKS[type(estimator._loss.link).__name__], raw)


def add_probabilities(graph: Graph, scores: str, n_classes: int) -> str:
    """Add the probabilities of scores, of which two classes have one column."""
    if n_classes > 2:
        return graph.node("Softmax", scores, axis=1)
    second = graph.node("Sigmoid", scores)
    return graph.node("Concat", graph.node("Sub", 1.0, second), second, axis=1)


def _trees(estimator: Any) -> list[Any]:
    if estimator.n_outputs_ != 1:
        raise InputError(f"ONNX export takes one target, got {estimator.n_outputs_}.")
    return [tree.tree_ for tree in trees_of(estimator)]


def _rounded(graph: Graph, X: str) -> str:
    """Add the rounding of inputs to single precision, as in scikit-learn: rows reach the same leaves."""
    return graph.cast(graph.cast(X, np.float32), np.float64)


def _add_trees(graph: Graph, X: str, trees: list[Any], values: list[np.ndarray], targets: list[Any]) -> str:
    """Add the sum over trees.

    Parameters
    ----------
    X : str
        A matrix of doubles.
    trees : list of trees
        With the attributes of scikit-learn's ``Tree``.
    values : list of arrays of shape (nodes, w)
        The values of the nodes of each tree.
    targets : list of int sequences of length w
        The columns of the result that the values of each tree are added to.
    """
    parts = [_tree_parts(*tree) for tree in zip(range(len(trees)), trees, values, targets, strict=True)]
    merged = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    # Thresholds and sums are doubles; the operator rounds its results only.
    outputs = graph.node(
        "TreeEnsembleRegressor",
        X,
        domain=ML,
        n_targets=1 + max(map(max, targets)),
        aggregate_function="SUM",
        post_transform="NONE",
        nodes_values_as_tensor=graph.tensor(merged.pop("nodes_values")),
        target_weights_as_tensor=graph.tensor(merged.pop("target_weights")),
        **{name: part.tolist() for name, part in merged.items()},
    )
    return graph.cast(outputs, np.float64)


def _tree_parts(number: int, tree: Any, values: np.ndarray, targets: Any) -> dict[str, np.ndarray]:
    """Return one tree as the attributes of its ONNX operator."""
    nodes = np.arange(len(tree.children_left))
    is_leaf = tree.children_left < 0
    leaves = nodes[is_leaf]
    return {
        "nodes_treeids": np.full(len(nodes), number),
        "nodes_nodeids": nodes,
        "nodes_featureids": np.where(is_leaf, 0, tree.feature),
        "nodes_values": np.where(is_leaf, 0.0, tree.threshold),
        "nodes_modes": np.where(is_leaf, "LEAF", "BRANCH_LEQ"),
        "nodes_missing_value_tracks_true": np.where(is_leaf, 0, tree.missing_go_to_left),
        "nodes_truenodeids": np.where(is_leaf, 0, tree.children_left),
        "nodes_falsenodeids": np.where(is_leaf, 0, tree.children_right),
        "target_treeids": np.full(len(leaves) * len(targets), number),
        "target_nodeids": np.repeat(leaves, len(targets)),
        "target_ids": np.tile(targets, len(leaves)),
        "target_weights": values[leaves].reshape(-1),
    }
