"""Trees of fitted gradient boosting of scikit-learn, LightGBM and XGBoost, in one form."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, softmax
from sklearn.base import is_classifier

Link = Callable[[NDArray[np.float64]], NDArray[np.float64]]
"""Returns outputs of shape (n, c), given raw outputs of shape (o, n)."""


class UnreadableTreesError(ValueError):
    """The trees have another form than nested comparisons of a column with a threshold."""


@dataclass(frozen=True)
class Tree:
    """A tree of gradient boosting, with the attributes of scikit-learn's ``Tree`` that predict.

    A row goes left where its value is at most the threshold. Leaves have the child -1.
    """

    children_left: NDArray[Any]
    children_right: NDArray[Any]
    feature: NDArray[Any]
    threshold: NDArray[Any]
    missing_go_to_left: NDArray[Any]
    value: NDArray[np.float64]
    n_features: int


@dataclass(frozen=True)
class Ensemble:
    """The trees of fitted gradient boosting.

    Attributes
    ----------
    trees : list of Tree
    columns : int array of shape (number of trees,)
        The raw output that each tree adds to.
    baseline : array of shape (o,)
        What the trees are added to.
    link : Link
    dtype : type
        The floating-point type that inputs are rounded to before they are compared.
    """

    trees: list[Tree]
    columns: NDArray[np.uint32]
    baseline: NDArray[np.float64]
    link: Link
    dtype: type[np.floating[Any]] = np.float64


def read_ensemble(estimator: Any) -> Ensemble:
    """Return the trees of a fitted estimator, or raise `UnreadableTreesError`."""
    readers = {"sklearn": _read_sklearn, "lightgbm": _read_lightgbm, "xgboost": _read_xgboost}
    return readers[type(estimator).__module__.partition(".")[0]](estimator)


def _read_sklearn(estimator: Any) -> Ensemble:
    n_features, loss = int(estimator.n_features_in_), estimator._loss
    predictors = [predictor for iteration in estimator._predictors for predictor in iteration]
    baseline = np.asarray(estimator._baseline_prediction[0], dtype=np.float64)
    n_classes = len(estimator.classes_) if is_classifier(estimator) else None

    def tree(nodes: NDArray[Any]) -> Tree:
        left, right = (
            np.where(nodes["is_leaf"], -1, nodes[side].astype(np.intp)) for side in ("left", "right")
        )
        return Tree(
            left,
            right,
            nodes["feature_idx"],
            nodes["num_threshold"],
            nodes["missing_go_to_left"],
            nodes["value"],
            n_features,
        )

    def link(raw: NDArray[np.float64]) -> NDArray[np.float64]:
        if n_classes is None:
            return np.asarray(loss.link.inverse(raw[0]))[:, None]
        return np.asarray(loss.predict_proba(raw.T))[:, :n_classes]

    trees = [tree(predictor.nodes) for predictor in predictors]
    return Ensemble(trees, _outputs_in_turn(trees, len(baseline)), baseline, link)


def _outputs_in_turn(trees: list[Tree], n_outputs: int) -> NDArray[np.uint32]:
    """Return the outputs of trees of which every iteration adds one to each output."""
    return np.arange(len(trees), dtype=np.uint32) % np.uint32(n_outputs)


# -- LightGBM ----------------------------------------------------------------------------------------


def _identity(raw: NDArray[np.float64]) -> NDArray[np.float64]:
    return raw.T


def _two_classes(raw: NDArray[np.float64]) -> NDArray[np.float64]:
    positive = expit(raw[0])
    return np.column_stack([1.0 - positive, positive])


def _several_classes(raw: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.asarray(softmax(raw.T, axis=1))


_LIGHTGBM_LINKS: dict[str, Link] = {
    **dict.fromkeys(("regression", "regression_l1", "huber", "fair", "quantile", "mape"), _identity),
    "binary": _two_classes,
    "multiclass": _several_classes,
}


def _read_lightgbm(estimator: Any) -> Ensemble:
    model = estimator.booster_.dump_model()
    objective, *options = model.get("objective", "").split()
    if "sqrt" in options or model.get("average_output", False):
        raise UnreadableTreesError(objective)
    if objective not in _LIGHTGBM_LINKS:
        raise UnreadableTreesError(objective)
    slope = float(dict(option.split(":") for option in options).get("sigmoid", 1.0))
    n_features = model["max_feature_idx"] + 1
    trees = [_lightgbm_tree(info["tree_structure"], n_features) for info in model["tree_info"]]
    n_outputs = model["num_tree_per_iteration"]
    return Ensemble(
        trees,
        _outputs_in_turn(trees, n_outputs),
        np.zeros(n_outputs),
        lambda raw: _LIGHTGBM_LINKS[objective](slope * raw),
    )


def _lightgbm_tree(root: dict[str, Any], n_features: int) -> Tree:
    """Return a tree of nested dictionaries, its nodes in depth-first order."""
    rows: list[tuple[int, float, bool, float]] = []
    left, right = [], []
    pending: list[tuple[dict[str, Any], list[int] | None, int]] = [(root, None, 0)]
    while pending:
        node, links, parent = pending.pop()
        index = len(rows)
        if links is not None:
            links[parent] = index
        left.append(-1)
        right.append(-1)
        if "leaf_value" in node:
            rows.append((0, 0.0, False, node["leaf_value"]))
            continue
        missing, threshold = node["missing_type"], node["threshold"]
        if node["decision_type"] != "<=" or missing == "Zero":
            raise UnreadableTreesError(node["decision_type"])
        # Without missing values in training, NaN is read as zero.
        goes_left = node["default_left"] if missing == "NaN" else threshold >= 0.0
        rows.append((node["split_feature"], threshold, goes_left, 0.0))
        pending += [(node["right_child"], right, index), (node["left_child"], left, index)]
    feature, thresholds, missing_left, value = (np.array(column) for column in zip(*rows, strict=True))
    children = np.array(left), np.array(right)
    return Tree(*children, feature, thresholds, missing_left, value.astype(np.float64), n_features)


# -- XGBoost -----------------------------------------------------------------------------------------

_XGBOOST_LINKS: dict[str, Link] = {
    **dict.fromkeys(
        ("reg:squarederror", "reg:absoluteerror", "reg:pseudohubererror", "reg:quantileerror"), _identity
    ),
    "binary:logistic": _two_classes,
    "multi:softprob": _several_classes,
}


def _read_xgboost(estimator: Any) -> Ensemble:
    learner = json.loads(estimator.get_booster().save_raw("json"))["learner"]
    objective, booster = learner["objective"]["name"], learner["gradient_booster"]
    if booster["name"] != "gbtree" or objective not in _XGBOOST_LINKS:
        raise UnreadableTreesError(objective)
    n_features = int(learner["learner_model_param"]["num_feature"])
    columns = np.array(booster["model"]["tree_info"], dtype=np.uint32)
    n_outputs = int(columns.max()) + 1
    base = np.atleast_1d(json.loads(learner["learner_model_param"]["base_score"])).astype(np.float64)
    if objective == "binary:logistic":
        base = np.log(base) - np.log1p(-base)
    trees = list(_xgboost_trees(booster["model"]["trees"], n_features))
    last = getattr(estimator, "best_iteration", None) if estimator.early_stopping_rounds else None
    if last is not None:
        kept = (last + 1) * n_outputs * int(booster["model"]["gbtree_model_param"]["num_parallel_tree"])
        trees, columns = trees[:kept], columns[:kept]
    baseline = np.broadcast_to(base, (n_outputs,)).copy()
    return Ensemble(trees, columns, baseline, _XGBOOST_LINKS[objective], np.float32)


def _xgboost_trees(trees: list[dict[str, Any]], n_features: int) -> Iterator[Tree]:
    for tree in trees:
        parameters = tree["tree_param"]
        is_pruned = int(parameters["num_deleted"]) > 0
        if is_pruned or any(tree["split_type"]) or int(parameters["size_leaf_vector"]) > 1:
            raise UnreadableTreesError("pruned nodes, categories or vector leaves")
        conditions = np.array(tree["split_conditions"], dtype=np.float32)
        left, right = np.array(tree["left_children"]), np.array(tree["right_children"])
        yield Tree(
            left,
            right,
            np.array(tree["split_indices"]),
            # Rows go left where their value is below the condition.
            np.nextafter(conditions, np.float32(-np.inf)),
            np.array(tree["default_left"]),
            np.where(left == -1, conditions, 0.0).astype(np.float64),
            n_features,
        )
