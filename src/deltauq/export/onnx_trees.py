"""Trees and forests under K anchors as an ONNX graph."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import is_classifier

from deltauq.estimators import AnchoredClassifier, AnchoredRegressor
from deltauq.estimators.base_estimators import packable
from deltauq.export.onnx_graph import ML, Graph
from deltauq.utils.errors import InputError

AnchoredTrees = AnchoredRegressor | AnchoredClassifier


def check_exportable(model: AnchoredTrees) -> None:
    """Refuse what cannot be written as a graph of trees."""
    for base in (model.estimator_, getattr(model, "center_", model.estimator_)):
        if not packable(base):
            raise InputError(
                "ONNX export takes trees and forests of scikit-learn, and networks of deltauq.nn, "
                f"got {type(base).__name__}."
            )
        if base.n_outputs_ != 1:
            raise InputError(f"ONNX export takes one target, got {base.n_outputs_}.")


def add_posterior(graph: Graph, model: AnchoredTrees, X: str) -> tuple[str, str]:
    """Add mean and standard deviation over the stored anchors.

    Inputs are doubles, and so are differences from anchors before they are rounded to single precision, as
    scikit-learn rounds them: every row meets the leaves that it meets there.

    Parameters
    ----------
    graph : Graph
    model : fitted AnchoredRegressor or AnchoredClassifier, of trees
    X : str
        A tensor of shape (n, d), of doubles.

    Returns
    -------
    mean, std : str
        Tensors of shape (n, o), of doubles: targets, or probabilities of classes.
    """
    blocks = model.encoding_.tuples(model.anchors_)
    offset = model.encoding_.offset(*blocks)
    k, d = offset.shape
    anchors = graph.constant(np.hstack(blocks)[None].astype(np.float32))
    deltas = graph.node("Sub", graph.node("Unsqueeze", X, graph.constant([1])), graph.constant(offset[None]))
    deltas = graph.cast(deltas, np.float32)
    rows = graph.node("Shape", X, start=0, end=1)
    shape = graph.node("Concat", rows, graph.constant([k, len(blocks) * d]), axis=0)
    tuples = graph.node("Concat", graph.node("Expand", anchors, shape), deltas, axis=2)
    pairs = graph.node("Reshape", tuples, graph.constant([-1, model.encoding_.width * d]))
    outputs, width = add_trees(graph, model.estimator_, pairs)
    by_anchor = graph.node("Reshape", outputs, graph.constant([-1, k, width]))
    mean = graph.node("ReduceMean", by_anchor, graph.constant([1]), keepdims=1)
    gaps = graph.node("Sub", by_anchor, mean)
    variance = graph.node("ReduceMean", graph.node("Mul", gaps, gaps), graph.constant([1]), keepdims=0)
    std = graph.node("Sqrt", variance)
    if hasattr(model, "center_"):
        return add_trees(graph, model.center_, graph.cast(X, np.float32))[0], std
    return graph.node("Squeeze", mean, graph.constant([1])), std


def add_trees(graph: Graph, estimator: Any, X: str) -> tuple[str, int]:
    """Add the prediction of a tree or forest, or its probabilities.

    Parameters
    ----------
    graph : Graph
    estimator : fitted tree or forest
    X : str
        A tensor of shape (m, c), of single precision.

    Returns
    -------
    outputs : str
        A tensor of shape (m, o), of doubles.
    width : int
        o.
    """
    trees = getattr(estimator, "estimators_", [estimator])
    width = int(estimator.n_classes_) if is_classifier(estimator) else 1
    parts = [_tree_parts(tree.tree_, number, width, len(trees)) for number, tree in enumerate(trees)]
    lists = {name: np.concatenate([part[name] for part in parts]).tolist() for name in parts[0]}
    outputs = graph.node(
        "TreeEnsembleRegressor",
        X,
        domain=ML,
        n_targets=width,
        aggregate_function="SUM",
        post_transform="NONE",
        **lists,
    )
    return graph.cast(outputs, np.float64), width


def _tree_parts(tree: Any, number: int, width: int, n_trees: int) -> dict[str, np.ndarray]:
    """Return one tree as the attributes of its ONNX operator."""
    nodes = np.arange(tree.node_count)
    is_leaf = tree.children_left < 0
    leaves = nodes[is_leaf]
    return {
        "nodes_treeids": np.full(len(nodes), number),
        "nodes_nodeids": nodes,
        "nodes_featureids": np.where(is_leaf, 0, tree.feature),
        "nodes_values": np.where(is_leaf, 0.0, _rounded_down(tree.threshold)),
        "nodes_modes": np.where(is_leaf, "LEAF", "BRANCH_LEQ"),
        "nodes_missing_value_tracks_true": np.where(is_leaf, 0, tree.missing_go_to_left),
        "nodes_truenodeids": np.where(is_leaf, 0, tree.children_left),
        "nodes_falsenodeids": np.where(is_leaf, 0, tree.children_right),
        "target_treeids": np.full(len(leaves) * width, number),
        "target_nodeids": np.repeat(leaves, width),
        "target_ids": np.tile(np.arange(width), len(leaves)),
        "target_weights": tree.value[leaves, 0, :width].reshape(-1) / n_trees,
    }


def _rounded_down(thresholds: np.ndarray) -> np.ndarray:
    """Return the largest numbers of single precision that are no larger: they part such numbers alike."""
    near = thresholds.astype(np.float32)
    return np.where(near > thresholds, np.nextafter(near, np.float32(-np.inf)), near)
