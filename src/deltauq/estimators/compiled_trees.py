"""Which compiled trees predict instead of an estimator, and their outputs without anchors."""

from __future__ import annotations

from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
from sklearn.base import BaseEstimator

from deltauq.estimators.base_estimators import TREE_FORESTS, has_fast_path, is_boosting, trees_of
from deltauq.estimators.boosting_readers import UnreadableTreesError

ROUNDING = 1e-13
"""A variance smaller than this, relative to the mean square, is a rounding error."""

_COMPILED: WeakKeyDictionary[BaseEstimator, Any] = WeakKeyDictionary()
"""Compiled trees of fitted estimators, which prediction itself must not change."""


def compile_trees(estimator: BaseEstimator, n_anchor_columns: int = 0, **options: Any) -> Any:
    """Return the compiled trees of an estimator with a fast path.

    An estimator is compiled once: its number of anchor columns and options must always be the same.

    Parameters
    ----------
    estimator : estimator
        A fitted tree, forest or gradient boosting; see `has_fast_path`.
    n_anchor_columns : int, default=0
        The number of columns that belong to anchors.
    **options : dict
        Of `PackedTrees`.

    Returns
    -------
    trees : PackedTrees, BoostedTrees or None
        None without numba, or if the trees cannot be read.
    """
    try:
        from deltauq.estimators.boosted_trees import BoostedTrees
        from deltauq.estimators.packed_trees import PackedTrees
    except ImportError:  # numba is missing, or does not fit the installed NumPy
        return None
    if estimator not in _COMPILED:
        kind = BoostedTrees if is_boosting(estimator) else PackedTrees
        try:
            _COMPILED[estimator] = kind(estimator, n_anchor_columns, **options)
        except UnreadableTreesError:
            _COMPILED[estimator] = None
    return _COMPILED[estimator]


def plain_outputs(estimator: Any, X: np.ndarray, **options: Any) -> np.ndarray | None:
    """Return the outputs of an estimator without anchors for n rows, or None if it has no compiled trees."""
    trees = compile_trees(estimator, **options) if has_fast_path(estimator) else None
    return None if trees is None else np.asarray(trees.outputs(X, np.empty(0), np.zeros(X.shape[1])))


def forest_moments(forest: Any, X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return mean and variance over the trees of a forest that predicts one target, of shape (n,)."""
    if type(forest) in TREE_FORESTS:
        moments = plain_outputs(forest, X, with_squares=True)
        if moments is not None:
            mean, squares = moments.T
            var = squares - mean**2
            return mean, np.where(var > ROUNDING * squares, var, 0.0)
    trees = trees_of(forest)
    # Bagging may give every tree other columns.
    columns = getattr(forest, "estimators_features_", [slice(None)] * len(trees))
    outputs = np.stack([tree.predict(X[:, used]) for tree, used in zip(trees, columns, strict=True)])
    return outputs.mean(axis=0), outputs.var(axis=0)
