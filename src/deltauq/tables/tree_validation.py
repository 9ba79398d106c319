"""Validation of fitted estimators from a file.

scikit-learn follows the nodes of a tree, and the indices of other models, without checks: an altered one
could read foreign memory or loop forever.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator


def check_estimators(part: Any) -> None:
    """Raise an error for an invalid estimator anywhere in an object, such as a fitted pipeline.

    Search trees of nearest neighbours are not checked but built again.
    """
    for estimator in _estimators_in(part, set()):
        check_trees(estimator, getattr(estimator, "n_features_in_", 0))
        if hasattr(estimator, "support_vectors_"):
            _check_support_vectors(estimator)
        if hasattr(estimator, "_tree"):
            _check_neighbors(estimator)


def check_trees(estimator: Any, n_columns: int) -> None:
    """Raise an error for a fitted estimator with an invalid tree over a number of columns."""
    for left, right, features, missing_left, is_leaf in _trees_of(estimator):
        inner = np.flatnonzero(~is_leaf)
        children = np.stack([left[inner], right[inner]]).astype(np.int64)
        # Children stand after their parents, so that every path ends.
        is_valid = np.all(children > inner) and np.all(children < len(is_leaf)) and len(is_leaf)
        is_known = (features[inner] >= 0) & (features[inner] < n_columns) & (missing_left[inner] <= 1)
        if not (is_valid and np.all(is_known)):
            raise _invalid("a tree", estimator)


def _trees_of(estimator: Any) -> Iterator[tuple[np.ndarray, ...]]:
    """Yield left and right children, features, the flags of missing values, and those of leaves, by tree."""
    for part in [estimator, *np.ravel(np.asarray(getattr(estimator, "estimators_", []), dtype=object))]:
        tree = getattr(part, "tree_", None) if isinstance(part, BaseEstimator) else None
        if tree is not None:
            left = tree.children_left
            yield left, tree.children_right, tree.feature, tree.missing_go_to_left, left == -1
    for predictors in getattr(estimator, "_predictors", []):
        for predictor in predictors:
            nodes = predictor.nodes
            categorical = nodes["bitset_idx"][nodes["is_categorical"] != 0]
            if np.any(categorical >= len(predictor.raw_left_cat_bitsets)):
                raise _invalid("a tree", estimator)
            names = ("left", "right", "feature_idx", "missing_go_to_left")
            yield *(nodes[name] for name in names), nodes["is_leaf"].astype(bool)


def _check_support_vectors(estimator: Any) -> None:
    n, n_columns = estimator.support_vectors_.shape
    counts = estimator._n_support
    is_classifier = hasattr(estimator, "classes_")
    n_pairs = len(counts) * (len(counts) - 1) // 2
    is_valid = (
        n_columns == estimator.n_features_in_
        and len(estimator.support_) == n
        and len(counts) == (len(estimator.classes_) if is_classifier else 2)
        and estimator._dual_coef_.shape == (len(counts) - 1, n)
        and len(estimator._intercept_) == n_pairs
        and not (is_classifier and (np.any(counts < 0) or np.sum(counts, dtype=np.int64) != n))
    )
    if not is_valid:
        raise _invalid("a support vector", estimator)


def _check_neighbors(estimator: Any) -> None:
    X, y = estimator._fit_X, getattr(estimator, "_y", estimator._fit_X)
    if X.shape != (len(y), estimator.n_features_in_) or estimator.n_samples_fit_ != len(y):
        raise _invalid("a row", estimator)
    if hasattr(estimator, "classes_") and np.any((y < 0) | (y >= len(estimator.classes_))):
        raise _invalid("a class", estimator)
    if estimator._tree is not None:
        metric = {"metric": estimator.effective_metric_, **estimator.effective_metric_params_}
        estimator._tree = type(estimator._tree)(X, estimator.leaf_size, **metric)


def _invalid(what: str, estimator: Any) -> ValueError:
    return ValueError(f"{what} of its {type(estimator).__name__} is not valid")


def _estimators_in(part: Any, seen: set[int]) -> Iterator[BaseEstimator]:
    """Yield every estimator in an object."""
    if id(part) in seen:
        return
    seen.add(id(part))
    if isinstance(part, BaseEstimator):
        yield part
        part = vars(part)
    if isinstance(part, dict):
        part = list(part.values())
    if isinstance(part, np.ndarray) and part.dtype == object:
        part = part.ravel().tolist()
    if isinstance(part, (list, tuple)):
        for each in part:
            yield from _estimators_in(each, seen)
