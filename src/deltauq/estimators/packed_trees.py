"""Outputs of a fitted scikit-learn tree or forest under one anchor, without forming the tuple matrix.

The tree or forest was fitted on tuples ``[A, X - offset_1, X - offset_2, ...]``: `c` anchor columns and, for
each of the encoding's copies of the input, `d` columns of differences. Under one anchor A and the offsets are
constant, so rows descend by the differences alone, and splits on anchor columns are decided once for all.

Each row reaches the leaf that it reaches in scikit-learn, which casts tuples to float32, goes left where
``value <= threshold`` with the threshold in float64, and sends NaN where the split sends missing values.
Outputs equal those of `tree_outputs` to the last bit; hence no ``fastmath``.

Rows descend in groups: a split sorts the row numbers of its group into the left and the right part, so that a
node is fetched once for all rows that pass it. Rows of small groups go on one by one, all of them a step at a
time, because a node that serves a few rows costs more in mispredicted branches than it saves in fetches.

Indices are ``uint64``: for signed indices numba adds the test for Python's negative indices, and ``uint64``
mixed with signed integers would give ``float64``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import ArrayLike, NDArray

from deltauq.estimators.base_estimators import (
    TREE_FORESTS,
    TREES,
    count_tree_outputs,
    to_float32,
    trees_of,
)

# Groups of up to this many rows go on one by one; 8 to 32 are equally fast.
GROUP_LIMIT = 16
# The table of differences has at most this many rows and, unless the rows are very wide, this many values.
# The more rows descend together, the fewer times a node is fetched.
BLOCK_ROWS = 32768
BLOCK_VALUES = 1 << 20

u64 = np.uint64
_ZERO, _ONE, _TILE = u64(0), u64(1), u64(16)
# Columns of the difference table are this much longer than the block, so that they do not all start at the
# same cache set when the block is a power of two.
_PADDING = 16


def node_dtype(threshold: type[np.floating[Any]]) -> np.dtype[Any]:
    """Return the record of a node whose threshold has this type.

    The right child of a node follows the left one. A leaf is its own left child with an infinite threshold,
    so that a step from it stays there. `column` counts the columns of differences first and the c anchor
    columns after them. `leaf` numbers the leaves of all trees; at a split it is 1 if missing values go right,
    else 0.
    """
    fields = [("column", np.uint32), ("threshold", threshold), ("left", np.uint32), ("leaf", np.uint32)]
    return np.dtype(fields, align=True)


class PackedTrees:
    """A fitted tree or forest in a layout for which rows descend under one anchor at a time.

    Calls may run in several threads at once. A call allocates a table of differences, of at most 4 MB up to
    4,096 columns, and its output. A large `X` takes less time per row: give each thread one large block of
    rows rather than many small ones. `with_squares` adds the mean squares over the trees to the outputs.
    """

    def __init__(self, estimator: Any, n_anchor_columns: int, with_squares: bool = False) -> None:
        if type(estimator) not in TREES + TREE_FORESTS:
            raise TypeError(f"cannot pack a {type(estimator).__name__}")
        trees = trees_of(estimator)
        self._n_columns = int(estimator.n_features_in_) - n_anchor_columns
        self.n_outputs = sum(count_tree_outputs(trees[0]))
        self._depth = max(int(tree.tree_.max_depth) for tree in trees)
        roots = np.cumsum([0] + [int(tree.tree_.node_count) for tree in trees])
        self._roots = roots[:-1].astype(np.uint32)
        self._nodes = np.empty(roots[-1], dtype=node_dtype(np.float32))
        self._values = np.empty((sum(int(tree.tree_.n_leaves) for tree in trees), self.n_outputs))
        first_leaf = 0
        for tree, root in zip(trees, roots[:-1], strict=True):
            leaf_ids = pack(tree.tree_, self._nodes, int(root), first_leaf, n_anchor_columns)
            self._values[first_leaf : first_leaf + leaf_ids.size] = _node_values(tree, leaf_ids)
            first_leaf += leaf_ids.size
        if with_squares:
            self._values = np.hstack([self._values, self._values**2])
            self.n_outputs *= 2

    def outputs(self, X: NDArray[Any], anchor_columns: ArrayLike, offsets: ArrayLike) -> NDArray[np.float64]:
        """Return the `tree_outputs` of ``[anchor_columns, X - offset, ...]`` for one anchor, of shape (n, o).

        `offsets` are the offsets of all copies of X, one after the other.
        """
        X = np.ascontiguousarray(X, dtype=None if X.dtype in (np.float32, np.float64) else np.float64)
        # numba compiles separate code for read-only arrays: all arrays are made read-only.
        X = X.view()
        X.flags.writeable = False
        out = np.zeros((len(X), self.n_outputs))
        anchor, shift = to_float32(anchor_columns), np.array(offsets, dtype=np.float64)
        # Equal blocks, as few as the limits allow.
        most = min(BLOCK_ROWS, max(BLOCK_VALUES // self._n_columns, 256))
        n_blocks = max(-(-len(X) // most), 1)
        rules = (self._depth, GROUP_LIMIT, max(-(-len(X) // n_blocks), 1))
        _sum_outputs(X, anchor, shift, self._nodes, self._roots, rules, self._values, out)
        out /= self._roots.size
        return out


def pack(
    tree: Any, nodes: NDArray[Any], root: int, first_leaf: int, n_anchor_columns: int
) -> NDArray[np.intp]:
    """Write the nodes of one tree from index `root` on, and return the ids of its leaves.

    The tree has the attributes of scikit-learn's ``Tree``.
    """
    left, right = tree.children_left, tree.children_right
    parents, leaf_ids = np.flatnonzero(left != -1), np.flatnonzero(left == -1)
    # Siblings are in the order of their parents, so that subtrees of a depth-first tree stay together.
    pairs = root + 1 + 2 * np.arange(parents.size)
    place = np.empty(left.size, dtype=np.intp)
    place[0] = root
    place[left[parents]], place[right[parents]] = pairs, pairs + 1

    packed = np.empty(left.size, dtype=nodes.dtype)
    packed["column"] = 0
    # The modulo moves the anchor columns from the front to the back.
    packed["column"][parents] = (tree.feature[parents] - n_anchor_columns) % tree.n_features
    packed["threshold"] = np.inf
    thresholds = tree.threshold[parents]
    is_single = nodes["threshold"].dtype == np.float32
    packed["threshold"][parents] = _float32_below(thresholds) if is_single else thresholds
    packed["left"] = place
    packed["left"][parents] = pairs
    packed["leaf"] = tree.missing_go_to_left == 0
    packed["leaf"][leaf_ids] = first_leaf + np.arange(leaf_ids.size)
    nodes[place] = packed
    return leaf_ids


def _float32_below(thresholds: NDArray[np.float64]) -> NDArray[np.float32]:
    """Largest float32 that is not above each threshold; a float32 compares with both alike."""
    rounded = to_float32(thresholds)
    with np.errstate(over="ignore", under="ignore"):
        return np.where(rounded > thresholds, np.nextafter(rounded, np.float32(-np.inf)), rounded)


def _node_values(tree: Any, nodes: NDArray[np.intp]) -> NDArray[np.float64]:
    """Return the tree's outputs at the given nodes, shape (n_nodes, n_outputs).

    scikit-learn pads the classes of each target to the largest number of classes.
    """
    values = tree.tree_.value
    return np.hstack([values[nodes, k, :width] for k, width in enumerate(count_tree_outputs(tree))])


def compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    """Compile without the interpreter lock, cached on disk where some folder for the cache can be written."""
    try:
        return njit(nogil=True, cache=True)(function)
    except RuntimeError:  # numba found no writable folder
        return njit(nogil=True)(function)


@compiled
def fill_table(X: Any, start: Any, n_rows: Any, offset: Any, stride: Any, table: Any) -> None:
    """Write ``X - offset`` of a block of rows, column after column, each `stride` long.

    The columns of X repeat until there are as many as offsets.
    The difference is taken in float64 and rounded once to the type of the table, as it is when the tuple
    matrix is formed and cast.
    Tiles of rows keep the reads of X in the nearest cache while the writes go down the columns.
    """
    flat = X.reshape(X.size)
    width, n_columns = u64(X.shape[1]), u64(offset.size)
    first, rows, length = u64(start), u64(n_rows), u64(stride)
    done = _ZERO
    while done + _TILE <= rows:
        for column in range(n_columns):
            shift = offset[column]
            source = (first + done) * width + column % width
            target = column * length + done
            for i in range(_TILE):
                table[target + i] = np.float64(flat[source + i * width]) - shift
        done += _TILE
    while done < rows:
        for column in range(n_columns):
            value = np.float64(flat[(first + done) * width + column % width])
            table[column * length + done] = value - offset[column]
        done += _ONE


@compiled
def pass_anchor_splits(nodes: Any, anchor: Any, width: Any, node: Any) -> Any:
    """Follow splits on the anchor block, which are the same for all rows, to the first other node."""
    record = nodes[node]
    while record.column >= width:
        value = anchor[u64(record.column) - width]
        right = (value > record.threshold) | ((value != value) & (record.leaf == _ONE))
        node = u64(record.left) + u64(right)
        record = nodes[node]
    return node


@compiled
def _split_group(
    source: Any, target: Any, first: Any, stop: Any, column: Any, threshold: Any, missing_right: Any
) -> Any:
    """Sort the row numbers ``source[first:stop]`` into `target` and return where the right part starts.

    Left rows fill the range from the front, right rows from the back. Each row is written at both ends and
    only one of the two ends moves on, so that there is no branch to mispredict.
    """
    left, last = first, stop - _ONE
    if missing_right:
        for i in range(first, stop):
            row = source[i]
            target[left] = row
            target[last - i + left] = row
            left += u64(column[u64(row)] <= threshold)  # false for NaN
    else:
        for i in range(first, stop):
            row = source[i]
            target[left] = row
            target[last - i + left] = row
            left += _ONE - u64(column[u64(row)] > threshold)
    return left


@compiled
def _finish_rows(
    nodes: Any, table: Any, stride: Any, width: Any, rows: Any, at: Any, count: Any, leaves: Any
) -> None:
    """Bring the first `count` of `rows`, each at its own node `at`, to their leaves; both are overwritten.

    All rows take one step before any takes the next, so that their loads do not wait for each other. Every
    node that a row enters is written as its leaf, so that there is no branch; the last one remains.
    """
    # The anchor's values follow the columns of differences in the table, one value each.
    behind = (stride - _ONE) * width
    while count > _ZERO:
        n_going = _ZERO
        for i in range(count):
            row, record = u64(rows[i]), nodes[u64(at[i])]
            column = u64(record.column)
            value = table[column * stride + row if column < width else column + behind]
            right = (value > record.threshold) | ((value != value) & (record.leaf == _ONE))
            node = u64(record.left) + u64(right)
            child = nodes[node]
            leaves[row] = child.leaf
            rows[n_going], at[n_going] = row, node
            n_going += u64(u64(child.left) != node)
        count = n_going


@compiled
def _find_leaves(
    nodes: Any,
    root: Any,
    table: Any,
    stride: Any,
    anchor: Any,
    width: Any,
    n_rows: Any,
    group_limit: Any,
    rows: Any,
    pending: Any,
    leaves: Any,
) -> None:
    """Write the number of the leaf that each row of the block reaches in one tree.

    Groups of up to `group_limit` rows are left to `_finish_rows`. `rows` is scratch of shape (4, n_rows or
    more): a split reads the numbers of its group from one of the first two and writes the parts to the same
    range of the other; the last two are the rows to finish and their nodes. `pending` is scratch of shape
    (depth + 1, 4) for right parts to continue with later.
    """
    stride, width, limit = u64(stride), u64(width), u64(group_limit)
    for i in range(u64(n_rows)):
        rows[_ZERO, i] = i
    node, first, stop, side = u64(root), _ZERO, u64(n_rows), _ZERO
    single, at = rows[2], rows[3]
    n_pending = n_single = _ZERO
    while True:
        node = pass_anchor_splits(nodes, anchor, width, node)
        record = nodes[node]
        group = rows[side]
        is_leaf = u64(record.left) == node
        if is_leaf or stop - first <= limit:
            if is_leaf:
                for i in range(first, stop):
                    leaves[u64(group[i])] = record.leaf
            else:
                for i in range(first, stop):
                    single[n_single] = group[i]
                    at[n_single] = node
                    n_single += _ONE
            if n_pending == _ZERO:
                break
            n_pending -= _ONE
            later = pending[n_pending]
            node, first, stop, side = u64(later[0]), u64(later[1]), u64(later[2]), u64(later[3])
            continue
        side = _ONE - side
        start = u64(record.column) * stride
        column = table[start : start + u64(n_rows)]
        missing_right = record.leaf == _ONE
        middle = _split_group(group, rows[side], first, stop, column, record.threshold, missing_right)
        node = u64(record.left)
        if middle == first:
            node += _ONE
        elif middle < stop:
            later = pending[n_pending]
            later[0], later[1], later[2], later[3] = node + _ONE, middle, stop, side
            n_pending += _ONE
            stop = middle
    _finish_rows(nodes, table, stride, width, single, at, n_single, leaves)


@compiled
def _add_values(values: Any, leaves: Any, out: Any) -> None:
    """Add to each row of `out` the values of its leaf."""
    n_outputs = u64(out.shape[1])
    if n_outputs == _ONE:  # the loop over one output would cost more than the addition
        for i in range(u64(out.shape[0])):
            out[i, _ZERO] += values[u64(leaves[i]), _ZERO]
    else:
        for i in range(u64(out.shape[0])):
            leaf = u64(leaves[i])
            for j in range(n_outputs):
                out[i, j] += values[leaf, j]


@compiled
def _sum_outputs(
    X: Any, anchor: Any, offset: Any, nodes: Any, roots: Any, rules: Any, values: Any, out: Any
) -> None:
    """Add the trees' values in tree order to `out`; `rules` are depth, group limit and block size."""
    n_rows, width = X.shape[0], offset.size
    depth, group_limit, block = rules
    stride = block + _PADDING
    table = np.empty(width * stride + anchor.size, np.float32)
    table[width * stride :] = anchor
    rows = np.empty((4, block), np.uint32)
    pending = np.empty((depth + 1, 4), np.uint32)
    leaves = np.empty(block, np.uint32)
    for start in range(0, n_rows, block):
        size = min(block, n_rows - start)
        fill_table(X, start, size, offset, stride, table)
        for root in roots:
            _find_leaves(nodes, root, table, stride, anchor, width, size, group_limit, rows, pending, leaves)
            _add_values(values, leaves, out[start : start + size])
