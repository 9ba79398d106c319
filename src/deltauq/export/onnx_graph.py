"""ONNX graphs: a builder, and trees and forests under K anchors."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import numpy as np
from sklearn.base import is_classifier

from deltauq.core.target import TARGETS
from deltauq.estimators import AnchoredClassifier, AnchoredRegressor
from deltauq.estimators.base_estimators import TREE_FORESTS, TREES
from deltauq.utils.errors import InputError
from deltauq.utils.install import import_optional

EXTRA = "export"
OPSET, ML_OPSET, IR_VERSION = 18, 3, 9
"""Versions of the operators, of those for trees, and of the file; supported by runtimes since 2023."""
ML = "ai.onnx.ml"
ROWS = "n"


def require_onnx() -> ModuleType:
    """Return onnx, or raise an error that says what to install."""
    return import_optional("onnx", "ONNX files need onnx", EXTRA)


class Graph:
    """Builds a graph: constants, inputs and nodes are added, and the names of their tensors returned."""

    def __init__(self) -> None:
        self._onnx = require_onnx()
        self._nodes: list[Any] = []
        self._constants: list[Any] = []
        self._inputs: list[Any] = []
        self._outputs: list[Any] = []
        self._n_names = 0

    def cast(self, tensor: str, dtype: Any) -> str:
        """Add a conversion to another dtype."""
        return self.node("Cast", tensor, to=self._kind(dtype))

    def input(self, name: str, dtype: Any, *shape: int) -> str:
        """Add an input of shape (n, *shape)."""
        self._inputs.append(self._value(name, dtype, shape))
        return name

    def output(self, name: str, tensor: str, dtype: Any, *shape: int) -> None:
        """Add an output of shape (n, *shape); underscores are appended to the name of an input."""
        while any(name == value.name for value in self._inputs):
            name += "_"
        self._nodes.append(self._onnx.helper.make_node("Identity", [tensor], [name]))
        self._outputs.append(self._value(name, dtype, shape))

    def constant(self, value: Any) -> str:
        """Add an array, with its dtype."""
        name = self._new_name()
        self._constants.append(self._onnx.numpy_helper.from_array(np.asarray(value), name))
        return name

    def node(self, operator: str, *inputs: str, domain: str = "", **attributes: Any) -> str:
        """Add an operation with one output."""
        name = self._new_name()
        make = self._onnx.helper.make_node
        self._nodes.append(make(operator, list(inputs), [name], domain=domain, **attributes))
        return name

    def model(self, metadata: dict[str, str]) -> Any:
        """Return the checked model."""
        helper = self._onnx.helper
        graph = helper.make_graph(
            self._nodes, "deltauq", self._inputs, self._outputs, initializer=self._constants
        )
        model = helper.make_model(
            graph,
            ir_version=IR_VERSION,
            producer_name="deltauq",
            opset_imports=[helper.make_opsetid("", OPSET), helper.make_opsetid(ML, ML_OPSET)],
        )
        helper.set_model_props(model, metadata)
        self._onnx.checker.check_model(model)
        return model

    def _new_name(self) -> str:
        # Names of columns rarely begin with "#".
        self._n_names += 1
        return f"#{self._n_names}"

    def _value(self, name: str, dtype: Any, shape: tuple[int, ...]) -> Any:
        return self._onnx.helper.make_tensor_value_info(name, self._kind(dtype), [ROWS, *shape])

    def _kind(self, dtype: Any) -> int:
        if dtype is str:
            return int(self._onnx.TensorProto.STRING)
        return int(self._onnx.helper.np_dtype_to_tensor_dtype(np.dtype(dtype)))


def check_exportable(model: AnchoredRegressor | AnchoredClassifier) -> None:
    """Raise an error unless the base estimators are trees or forests of one target."""
    for base in (model.estimator_, getattr(model, "center_", model.estimator_)):
        if type(base) not in TREES + TREE_FORESTS:
            kinds = "trees and forests of scikit-learn, and networks of deltauq.nn"
            raise InputError(f"ONNX export takes {kinds}, got {type(base).__name__}.")
        if base.n_outputs_ != 1:
            raise InputError(f"ONNX export takes one target, got {base.n_outputs_}.")
    if type(model.target_) not in TARGETS.values():
        raise InputError(f"ONNX export takes the targets {sorted(TARGETS)}, got {model.target_!r}.")


def add_posterior(graph: Graph, model: AnchoredRegressor | AnchoredClassifier, X: str) -> tuple[str, str]:
    """Add mean and standard deviation over the stored anchors.

    X is a tensor of doubles of shape (n, d), the results of shape (n, o).
    """
    # Differences are computed in doubles and then rounded, as in scikit-learn: rows reach the same leaves.
    encoding, (k, d) = model.encoding_, model.anchors_.X.shape
    blocks = encoding.tuples(model.anchors_.X)
    anchors = graph.constant(np.hstack(blocks)[None].astype(np.float32))
    rows = graph.node("Shape", X, start=0, end=1)
    shape = graph.node("Concat", rows, graph.constant([k, len(blocks) * d]), axis=0)
    columns = graph.node("Unsqueeze", X, graph.constant([1]))
    deltas = [
        graph.cast(graph.node("Sub", columns, graph.constant(offset[None])), np.float32)
        for offset in encoding.offsets(*blocks)
    ]
    tuples = graph.node("Concat", graph.node("Expand", anchors, shape), *deltas, axis=2)
    pairs = graph.node("Reshape", tuples, graph.constant([-1, encoding.width * d]))
    outputs, width = add_trees(graph, model.estimator_, pairs)
    by_anchor = graph.node("Reshape", outputs, graph.constant([-1, k, width]))
    if model.anchors_.y is not None:
        labels = encoding.tuples(model.anchors_.y.reshape(k, 1))
        added = model.target_.decode(np.zeros((k, 1)), *labels)
        by_anchor = graph.node("Add", by_anchor, graph.constant(added[None]))
    mean = graph.node("ReduceMean", by_anchor, graph.constant([1]), keepdims=1)
    deviations = graph.node("Sub", by_anchor, mean)
    variance = graph.node(
        "ReduceMean", graph.node("Mul", deviations, deviations), graph.constant([1]), keepdims=0
    )
    std = graph.node("Sqrt", variance)
    if hasattr(model, "center_"):
        return add_trees(graph, model.center_, graph.cast(X, np.float32))[0], std
    return graph.node("Squeeze", mean, graph.constant([1])), std


def add_trees(graph: Graph, estimator: Any, X: str) -> tuple[str, int]:
    """Add the prediction of a tree or forest, or its probabilities.

    X is a tensor of single precision, of shape (m, c). Returns a tensor of doubles, of shape (m, o), and o.
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
    # The largest single-precision numbers not above the thresholds: they split inputs equally.
    near = tree.threshold.astype(np.float32)
    thresholds = np.where(near > tree.threshold, np.nextafter(near, np.float32(-np.inf)), near)
    return {
        "nodes_treeids": np.full(len(nodes), number),
        "nodes_nodeids": nodes,
        "nodes_featureids": np.where(is_leaf, 0, tree.feature),
        "nodes_values": np.where(is_leaf, 0.0, thresholds),
        "nodes_modes": np.where(is_leaf, "LEAF", "BRANCH_LEQ"),
        "nodes_missing_value_tracks_true": np.where(is_leaf, 0, tree.missing_go_to_left),
        "nodes_truenodeids": np.where(is_leaf, 0, tree.children_left),
        "nodes_falsenodeids": np.where(is_leaf, 0, tree.children_right),
        "target_treeids": np.full(len(leaves) * width, number),
        "target_nodeids": np.repeat(leaves, width),
        "target_ids": np.tile(np.arange(width), len(leaves)),
        "target_weights": tree.value[leaves, 0, :width].reshape(-1) / n_trees,
    }
