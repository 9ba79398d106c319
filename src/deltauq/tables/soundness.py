"""Fitted trees that come from a file: whether every step in them leads somewhere.

scikit-learn follows the nodes of a tree without looking, so that an altered one could read memory that is
not its own, or walk in circles.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator


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
            raise ValueError(f"a tree of its {type(estimator).__name__} is not sound")


def _trees_of(estimator: Any) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]]:
    """Yield left and right children, features, and what is a leaf, of each tree."""
    for part in [estimator, *getattr(estimator, "estimators_", [])]:
        tree = getattr(part, "tree_", None) if isinstance(part, BaseEstimator) else None
        if tree is not None:
            yield tree.children_left, tree.children_right, tree.feature, tree.children_left == -1
    for predictors in getattr(estimator, "_predictors", []):
        for predictor in predictors:
            nodes = predictor.nodes
            yield nodes["left"], nodes["right"], nodes["feature_idx"], nodes["is_leaf"].astype(bool)
