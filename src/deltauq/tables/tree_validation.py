"""Fitted estimators that come from a file: whether every index in them leads somewhere.

scikit-learn follows the nodes of a tree and the indices of other models without looking, so that an altered
one could read memory that is not its own, or walk in circles.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator


def check_estimators(part: Any) -> None:
    """Refuse whatever holds an estimator that is not sound, however deep.

    Parameters
    ----------
    part : object
        Such as a fitted pipeline. Search trees of nearest neighbours are built anew.
    """
    for estimator in _estimators_in(part, set()):
        check_trees(estimator, getattr(estimator, "n_features_in_", 0))
        if hasattr(estimator, "support_vectors_"):
            _check_support_vectors(estimator)
        if hasattr(estimator, "_tree"):
            _check_neighbors(estimator)


def check_trees(estimator: Any, n_columns: int) -> None:
    """Refuse an estimator with a tree that is not sound.

    Parameters
    ----------
    estimator : fitted scikit-learn estimator
    n_columns : int
        Of what it predicts from.
    """
    for left, right, features, is_leaf in _trees_of(estimator):
        inner = np.flatnonzero(~is_leaf)
        children = np.stack([left[inner], right[inner]]).astype(np.int64)
        # Nodes stand after their parents, so that every way down ends.
        sound = np.all(children > inner) and np.all(children < len(is_leaf))
        if not (sound and len(is_leaf) and np.all((features[inner] >= 0) & (features[inner] < n_columns))):
            raise _unsound("a tree", estimator)


def _trees_of(estimator: Any) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]]:
    """Yield left and right children, features, and what is a leaf, of each tree."""
    for part in [estimator, *np.ravel(np.asarray(getattr(estimator, "estimators_", []), dtype=object))]:
        tree = getattr(part, "tree_", None) if isinstance(part, BaseEstimator) else None
        if tree is not None:
            yield tree.children_left, tree.children_right, tree.feature, tree.children_left == -1
    for predictors in getattr(estimator, "_predictors", []):
        for predictor in predictors:
            nodes = predictor.nodes
            categorical = nodes["bitset_idx"][nodes["is_categorical"] != 0]
            if np.any(categorical >= len(predictor.raw_left_cat_bitsets)):
                raise _unsound("a tree", estimator)
            yield nodes["left"], nodes["right"], nodes["feature_idx"], nodes["is_leaf"].astype(bool)


def _check_support_vectors(estimator: Any) -> None:
    """Refuse a support vector machine whose arrays do not belong together."""
    n, n_columns = estimator.support_vectors_.shape
    counts = estimator._n_support
    is_classifier = hasattr(estimator, "classes_")
    n_pairs = len(counts) * (len(counts) - 1) // 2
    sound = (
        n_columns == estimator.n_features_in_
        and len(estimator.support_) == n
        and len(counts) == (len(estimator.classes_) if is_classifier else 2)
        and estimator._dual_coef_.shape == (len(counts) - 1, n)
        and len(estimator._intercept_) == n_pairs
        and not (is_classifier and (np.any(counts < 0) or np.sum(counts, dtype=np.int64) != n))
    )
    if not sound:
        raise _unsound("the support vectors", estimator)


def _check_neighbors(estimator: Any) -> None:
    """Refuse rows that do not belong together, and build the search tree over them anew."""
    X, y = estimator._fit_X, getattr(estimator, "_y", estimator._fit_X)
    if X.shape != (len(y), estimator.n_features_in_) or estimator.n_samples_fit_ != len(y):
        raise _unsound("the rows", estimator)
    if hasattr(estimator, "classes_") and np.any((y < 0) | (y >= len(estimator.classes_))):
        raise _unsound("the classes", estimator)
    if estimator._tree is not None:
        metric = {"metric": estimator.effective_metric_, **estimator.effective_metric_params_}
        estimator._tree = type(estimator._tree)(X, estimator.leaf_size, **metric)


def _unsound(what: str, estimator: Any) -> ValueError:
    verb = "is" if what == "a tree" else "are"
    return ValueError(f"{what} of its {type(estimator).__name__} {verb} not sound")


def _estimators_in(part: Any, seen: set[int]) -> Iterator[BaseEstimator]:
    """Yield every estimator that a part is or holds."""
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
