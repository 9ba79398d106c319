"""Outputs of a fitted scikit-learn tree or forest under one anchor, without forming the tuple matrix.

The tree or forest was fitted on tuples ``[A, X - offset]``: `c` columns that hold the anchor and `d` columns
of differences, both constant up to X for one anchor.  The rows of X therefore descend with the differences
alone, and the splits on the anchor's columns are decided once for all of them.

Each row reaches the leaf it reaches in scikit-learn, which casts the tuple to float32 and goes left where
``value <= threshold`` with the threshold in float64, and where the split sends missing values if the value is
NaN.  The outputs are bit for bit those of `plain_outputs`.
"""

from __future__ import annotations

from functools import cache
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import is_classifier
from sklearn.ensemble import (
    ExtraTreesClassifier,
    ExtraTreesRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.tree import (
    DecisionTreeClassifier,
    DecisionTreeRegressor,
    ExtraTreeClassifier,
    ExtraTreeRegressor,
)

_TREES = (DecisionTreeRegressor, DecisionTreeClassifier, ExtraTreeRegressor, ExtraTreeClassifier)
_FORESTS = (RandomForestRegressor, RandomForestClassifier, ExtraTreesRegressor, ExtraTreesClassifier)

# One node of a packed tree.  The right child follows the left.  A leaf is its own left child with an infinite
# threshold, so that a step from it stays there.  `column` counts the d difference columns first and the
# c anchor columns after them.  `leaf` numbers the leaves of all trees; at a split it
# is 1 where missing values go right, else 0.
_NODE = np.dtype(
    [("column", np.uint32), ("threshold", np.float32), ("left", np.uint32), ("leaf", np.uint32)], align=True
)

# Rows up to which a group of rows leaves the descent in groups for that one by one; 8 to 32 measure alike.
_GROUP_LIMIT = 16
# The table of differences holds at most this many rows and, unless the rows are very wide, this many values.
# The more rows descend together, the fewer times a node is fetched.
_BLOCK_ROWS = 32768
_BLOCK_VALUES = 1 << 20


def packable(estimator: object) -> bool:
    """Whether `PackedTrees` can stand in for the estimator's own prediction.

    Only the exact types qualify, because a subclass may override how it predicts.
    """
    return type(estimator) in _TREES + _FORESTS


@cache
def _kernels() -> ModuleType | None:
    """Import the compiled kernels, or None where numba is missing or does not fit the installed numpy."""
    try:
        from deltauq.estimators import _tree_kernels
    except ImportError:
        return None
    return _tree_kernels


def numba_available() -> bool:
    """Whether the compiled kernels can be used."""
    return _kernels() is not None


def _kernel(name: str) -> Any:
    kernels = _kernels()
    if kernels is None:
        raise ImportError("PackedTrees needs numba to predict; plain_outputs does not")
    return getattr(kernels, name)


def plain_outputs(estimator: Any, Z: ArrayLike) -> NDArray[np.float64]:
    """Return the outputs of a packable estimator on formed tuples, with scikit-learn alone.

    The trees are added in their order.  A forest's own ``predict`` adds them in the order in which its
    threads finish, so that its last bits may differ from call to call.

    Parameters
    ----------
    estimator : fitted tree or forest
    Z : array-like of shape (m, c + d)
        Tuple matrix; it is cast to float32 once.

    Returns
    -------
    ndarray of shape (m, n_outputs)
        Predicted values, or class probabilities with the classes of several outputs side by side.
    """
    trees = _trees_of(estimator)
    Z32 = _to_float32(Z)
    total = np.zeros((Z32.shape[0], sum(_widths(trees[0]))))
    for tree in trees:
        total += _tree_outputs(tree, Z32)
    total /= len(trees)
    return total


class PackedTrees:
    """A fitted tree or forest laid out so that rows descend under one anchor at a time.

    Calls may run in several threads at once; they share only what is not written.  A call holds a table of
    differences, 4 MB at most up to 4,096 columns, and its output.  A larger `X` takes less time per row: give
    each thread one large block of rows rather than many small ones.

    Parameters
    ----------
    estimator : fitted tree or forest
        One for which `packable` holds.
    n_anchor_columns : int
        Number c of leading columns that are constant for one anchor.

    Attributes
    ----------
    n_outputs : int
        Columns of the output: 1 for single-output regression, the number of outputs for multi-output
        regression, the number of classes for classification (summed over the outputs).
    """

    n_outputs: int

    def __init__(self, estimator: Any, n_anchor_columns: int) -> None:
        if not packable(estimator):
            raise TypeError(f"cannot pack a {type(estimator).__name__}")
        trees = _trees_of(estimator)
        self._n_anchor_columns = n_anchor_columns
        self._n_columns = int(estimator.n_features_in_) - n_anchor_columns
        if n_anchor_columns < 0 or self._n_columns < 1:
            raise ValueError(
                f"{n_anchor_columns} anchor columns of {estimator.n_features_in_} leave no column of X"
            )
        self.n_outputs = sum(_widths(trees[0]))
        self._depth = max(int(tree.tree_.max_depth) for tree in trees)
        roots = np.cumsum([0] + [int(tree.tree_.node_count) for tree in trees])
        self._roots = roots[:-1].astype(np.uint32)
        self._nodes = np.empty(roots[-1], dtype=_NODE)
        n_leaves = sum(int(tree.tree_.n_leaves) for tree in trees)
        self._values = np.empty((n_leaves, self.n_outputs))
        self._leaf_ids = np.empty(n_leaves, dtype=np.intp)
        first_leaf = 0
        for tree, root in zip(trees, roots[:-1], strict=True):
            leaf_ids = _pack(tree.tree_, self._nodes, int(root), first_leaf, n_anchor_columns)
            stop = first_leaf + leaf_ids.size
            self._leaf_ids[first_leaf:stop] = leaf_ids
            self._values[first_leaf:stop] = _node_values(tree, leaf_ids)
            first_leaf = stop

    def outputs(
        self,
        X: NDArray[Any],
        anchor_columns: ArrayLike,
        offset: ArrayLike,
        *,
        group_limit: int = _GROUP_LIMIT,
    ) -> NDArray[np.float64]:
        """Return the outputs of all rows under one anchor.

        They are those of `plain_outputs` on the tuples ``[anchor_columns, X - offset]``.

        Parameters
        ----------
        X : ndarray of shape (n, d)
            Rows, float64 or float32, C-contiguous (others are copied); not modified.
        anchor_columns : array-like of shape (c,)
        offset : array-like of shape (d,)
        group_limit : int
            Rows up to which a group of rows goes on one by one.  It changes the time, never the result.

        Returns
        -------
        ndarray of shape (n, n_outputs)
        """
        X, anchor, shift = self._checked(X, anchor_columns, offset)
        out = np.zeros((X.shape[0], self.n_outputs))
        rules = (self._depth, group_limit, self._block(X.shape[0]))
        _kernel("sum_outputs")(X, anchor, shift, self._nodes, self._roots, rules, self._values, out)
        out /= self._roots.size
        return out

    def leaves(
        self,
        X: NDArray[Any],
        anchor_columns: ArrayLike,
        offset: ArrayLike,
        *,
        group_limit: int = _GROUP_LIMIT,
    ) -> NDArray[np.intp]:
        """Return each row's leaf in each tree, numbered as by scikit-learn's ``apply``.

        The parameters are those of `outputs`.

        Returns
        -------
        ndarray of shape (n_trees, n)
        """
        X, anchor, shift = self._checked(X, anchor_columns, offset)
        numbers = np.empty((self._roots.size, X.shape[0]), dtype=np.uint32)
        rules = (self._depth, group_limit, self._block(X.shape[0]))
        _kernel("number_leaves")(X, anchor, shift, self._nodes, self._roots, rules, numbers)
        return self._leaf_ids[numbers]

    def _block(self, n_rows: int) -> int:
        """Rows per table of differences: equal blocks, as few as the limits allow."""
        most = min(_BLOCK_ROWS, max(_BLOCK_VALUES // self._n_columns, 256))
        n_blocks = max(-(-n_rows // most), 1)
        return max(-(-n_rows // n_blocks), 1)

    def _checked(
        self, X: NDArray[Any], anchor_columns: ArrayLike, offset: ArrayLike
    ) -> tuple[NDArray[Any], NDArray[np.float32], NDArray[np.float64]]:
        """Bring the arrays to the types the kernels expect; the kernels themselves check no shapes."""
        X = np.ascontiguousarray(X, dtype=None if X.dtype in (np.float32, np.float64) else np.float64)
        if X.ndim != 2 or X.shape[1] != self._n_columns:
            raise ValueError(f"X has shape {X.shape}, expected (n, {self._n_columns})")
        # numba compiles anew for arrays that cannot be written; let all of them be of that kind.
        X = X.view()
        X.flags.writeable = False
        anchor = _to_float32(anchor_columns)
        shift = np.array(offset, dtype=np.float64)
        if anchor.shape != (self._n_anchor_columns,) or shift.shape != (self._n_columns,):
            raise ValueError(
                f"anchor columns and offset have shapes {anchor.shape} and {shift.shape}, "
                f"expected ({self._n_anchor_columns},) and ({self._n_columns},)"
            )
        return X, anchor, shift


def _pack(
    tree: Any, nodes: NDArray[Any], root: int, first_leaf: int, n_anchor_columns: int
) -> NDArray[np.intp]:
    """Write the nodes of one scikit-learn ``Tree`` from index `root` on.

    The pairs of siblings stand in the order of their parents, so that a depth-first tree keeps a subtree
    together.

    Returns
    -------
    ndarray of shape (n_leaves,)
        Node ids of the leaves in the order in which they are numbered from `first_leaf` on.
    """
    left, right = tree.children_left, tree.children_right
    parents, leaf_ids = np.flatnonzero(left != -1), np.flatnonzero(left == -1)
    pairs = root + 1 + 2 * np.arange(parents.size)
    place = np.empty(left.size, dtype=np.intp)
    place[0] = root
    place[left[parents]], place[right[parents]] = pairs, pairs + 1

    packed = np.empty(left.size, dtype=_NODE)
    packed["column"] = 0
    # The modulo moves the anchor columns from the front to the back.
    packed["column"][parents] = (tree.feature[parents] - n_anchor_columns) % tree.n_features
    packed["threshold"] = np.inf
    packed["threshold"][parents] = _float32_below(tree.threshold[parents])
    packed["left"] = place
    packed["left"][parents] = pairs
    packed["leaf"] = tree.missing_go_to_left == 0
    packed["leaf"][leaf_ids] = first_leaf + np.arange(leaf_ids.size)
    nodes[place] = packed
    return leaf_ids


def _float32_below(thresholds: NDArray[np.float64]) -> NDArray[np.float32]:
    """Largest float32 that is not above each threshold; a float32 compares with both alike."""
    rounded = _to_float32(thresholds)
    with np.errstate(over="ignore", under="ignore"):
        return np.where(rounded > thresholds, np.nextafter(rounded, np.float32(-np.inf)), rounded)


def _to_float32(values: ArrayLike) -> NDArray[np.float32]:
    """C-contiguous float32 copy; values beyond float32 become infinite, as they do in a plain cast."""
    with np.errstate(over="ignore", under="ignore"):
        return np.array(values, dtype=np.float32, order="C")


def _trees_of(estimator: Any) -> list[Any]:
    return [estimator] if isinstance(estimator, _TREES) else list(estimator.estimators_)


def _widths(tree: Any) -> list[int]:
    """Columns of the output that belong to each of the tree's targets."""
    if is_classifier(tree):
        return [int(count) for count in np.atleast_1d(tree.n_classes_)]
    return [1] * int(tree.n_outputs_)


def _node_values(tree: Any, nodes: NDArray[np.intp]) -> NDArray[np.float64]:
    """Return the tree's outputs at the given nodes, shape (n_nodes, n_outputs).

    scikit-learn pads the classes of each target to the largest number of classes.
    """
    values = tree.tree_.value
    return np.hstack([values[nodes, k, :width] for k, width in enumerate(_widths(tree))])


def _tree_outputs(tree: Any, Z32: NDArray[np.float32]) -> NDArray[np.float64]:
    """One tree's own prediction on float32 tuples, shape (m, n_outputs)."""
    if is_classifier(tree):
        probabilities = tree.predict_proba(Z32, check_input=False)
        return np.hstack(probabilities) if isinstance(probabilities, list) else probabilities
    return tree.predict(Z32, check_input=False).reshape(Z32.shape[0], -1)
