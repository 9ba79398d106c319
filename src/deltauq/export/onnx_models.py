"""Fitted estimators and transformers of scikit-learn as parts of ONNX graphs.

X, the predictions and the probabilities are matrices of doubles with m rows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LinearRegression, LogisticRegression, Ridge, RidgeCV
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler

from deltauq.estimators.base_estimators import TREE_FORESTS, TREES
from deltauq.estimators.smooth import WIDEST, GaussianKernels
from deltauq.export.onnx_graph import Graph
from deltauq.export.onnx_trees import add_boosting, add_forest, add_probabilities
from deltauq.tables.preprocessing import UnitScaler
from deltauq.utils.errors import InputError

Builder = Callable[[Graph, Any, str], str]


def add_outputs(graph: Graph, estimator: Any, X: str) -> str:
    """Add the predictions of a fitted estimator, of shape (m, 1), or its probabilities, of shape (m, c)."""
    # Subclasses may predict otherwise, but those of pipelines have the same steps.
    kind = Pipeline if isinstance(estimator, Pipeline) else type(estimator)
    if kind not in ESTIMATORS:
        kinds = "trees, forests, histogram gradient boosting and linear models of scikit-learn"
        raise InputError(f"ONNX export takes {kinds}, got {kind.__name__}.")
    return ESTIMATORS[kind](graph, estimator, X)


def add_steps(graph: Graph, steps: Sequence[Any], X: str) -> str:
    """Add fitted transformers, one after the other."""
    for step in steps:
        if type(step) not in TRANSFORMERS:
            names = ", ".join(kind.__name__ for kind in TRANSFORMERS)
            raise InputError(f"ONNX export takes the transformers {names}, got {type(step).__name__}.")
        X = TRANSFORMERS[type(step)](graph, step, X)
    return X


def _add_pipeline(graph: Graph, pipeline: Any, X: str) -> str:
    *steps, last = [step for _, step in pipeline.steps if step is not None and step != "passthrough"]
    return add_outputs(graph, last, add_steps(graph, steps, X))


def _add_linear(graph: Graph, model: Any, X: str) -> str:
    coefficients = np.atleast_2d(model.coef_)
    if len(coefficients) != 1:
        raise InputError(f"ONNX export takes one target, got {len(coefficients)}.")
    return graph.node("Add", graph.node("MatMul", X, coefficients.T), np.float64(model.intercept_))


def _add_logistic(graph: Graph, model: Any, X: str) -> str:
    is_one_by_one = model.solver == "liblinear" or getattr(model, "multi_class", None) == "ovr"
    if is_one_by_one and len(model.classes_) > 2:
        raise InputError(
            "ONNX export takes LogisticRegression of all classes at once, not one versus the rest."
        )
    scores = graph.node("Add", graph.node("MatMul", X, model.coef_.T), model.intercept_[None])
    return add_probabilities(graph, scores, len(model.classes_))


def _add_imputer(graph: Graph, imputer: Any, X: str) -> str:
    if imputer.add_indicator or not np.isnan(imputer.missing_values) or np.isnan(imputer.statistics_).any():
        raise InputError("ONNX export takes a SimpleImputer of NaN that keeps all columns and adds none.")
    return graph.node("Where", graph.node("IsNaN", X), imputer.statistics_[None], X)


def _add_scaler(graph: Graph, scaler: Any, X: str) -> str:
    if scaler.with_mean:
        X = graph.node("Sub", X, scaler.mean_[None])
    return graph.node("Div", X, scaler.scale_[None]) if scaler.with_std else X


def _add_units(graph: Graph, scaler: Any, X: str) -> str:
    filled = graph.node("Where", graph.node("IsNaN", X), scaler.fill_[None], X)
    return graph.node("Div", filled, scaler.scale_[None])


def _add_kernels(graph: Graph, kernels: Any, X: str) -> str:
    centres = kernels.centers_
    squares = graph.node("ReduceSumSquare", X, [1], keepdims=1)
    products = graph.node("MatMul", X, -2.0 * centres.T)
    distances = graph.node("Sum", squares, products, np.sum(centres**2, axis=1)[None])
    factor = -WIDEST / centres.shape[1]
    kernel = graph.node("Exp", graph.node("Mul", graph.node("Max", distances, 0.0), factor))
    features = [X]
    for normalization in kernels.normalizations_:
        features.append(graph.node("MatMul", kernel, normalization))
        kernel = graph.node("Mul", graph.node("Mul", kernel, kernel), kernel)
    return graph.node("Concat", *features, axis=1)


ESTIMATORS: dict[type, Builder] = {
    **dict.fromkeys((*TREES, *TREE_FORESTS), add_forest),
    **dict.fromkeys((HistGradientBoostingRegressor, HistGradientBoostingClassifier), add_boosting),
    **dict.fromkeys((LinearRegression, Ridge, RidgeCV), _add_linear),
    LogisticRegression: _add_logistic,
    Pipeline: _add_pipeline,
}
TRANSFORMERS: dict[type, Builder] = {
    SimpleImputer: _add_imputer,
    StandardScaler: _add_scaler,
    UnitScaler: _add_units,
    GaussianKernels: _add_kernels,
}
