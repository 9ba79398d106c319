"""Compiled descent of many rows through packed trees under one anchor.

Rows follow a tree in groups: a split sorts the row numbers of its group into the left and the right part,
so that a node is fetched once for all rows that pass it, and splits on the anchor block are decided once
for the whole group.  Rows of groups that have become small go on one by one, all of them a step at a time,
because a node that serves a few rows costs more in mispredicted branches than it saves in fetches.

Everything that serves as an index is ``uint64``: for signed indices numba adds the wrap-around test of
Python's negative indices, and mixing ``uint64`` with signed integers would give ``float64``.  There is no
``fastmath``, because the outputs are promised to the bit.

The layout of ``nodes`` is described in :mod:`deltauq.estimators.trees`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numba import njit

u64 = np.uint64
_ZERO, _ONE, _TILE = u64(0), u64(1), u64(16)
# Columns of the difference table are this much longer than the block, so that they do not all start at the
# same cache set when the block is a power of two.
_PADDING = 16


def _compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    """Compile without the interpreter lock, cached on disk where some folder for the cache can be written."""
    try:
        return njit(nogil=True, cache=True)(function)
    except RuntimeError:  # numba found no writable folder
        return njit(nogil=True)(function)


@_compiled
def _fill_table(X: Any, start: Any, n_rows: Any, offset: Any, stride: Any, table: Any) -> None:
    """Write ``float32(X - offset)`` of a block of rows, column after column, each `stride` long.

    The difference is taken in float64 and rounded once, as it is when the tuple matrix is formed and cast.
    Tiles of rows keep the reads of X in the nearest cache while the writes go down the columns.
    """
    flat = X.reshape(X.size)
    width = u64(offset.size)
    first, rows, length = u64(start), u64(n_rows), u64(stride)
    done = _ZERO
    while done + _TILE <= rows:
        for column in range(width):
            shift = offset[column]
            source = (first + done) * width + column
            target = column * length + done
            for i in range(_TILE):
                table[target + i] = np.float32(np.float64(flat[source + i * width]) - shift)
        done += _TILE
    while done < rows:
        for column in range(width):
            value = np.float64(flat[(first + done) * width + column]) - offset[column]
            table[column * length + done] = np.float32(value)
        done += _ONE


@_compiled
def _pass_anchor_splits(nodes: Any, anchor: Any, width: Any, node: Any) -> Any:
    """Follow splits on the anchor block, which all rows answer alike, to the first other node."""
    record = nodes[node]
    while record.column >= width:
        value = anchor[u64(record.column) - width]
        right = (value > record.threshold) | ((value != value) & (record.leaf == _ONE))
        node = u64(record.left) + u64(right)
        record = nodes[node]
    return node


@_compiled
def _split_group(
    source: Any, target: Any, first: Any, stop: Any, column: Any, threshold: Any, missing_right: Any
) -> Any:
    """Sort the row numbers ``source[first:stop]`` into `target` and return where the right part starts.

    Left rows fill the range from the front, right rows from the back.  Each row is written at both ends and
    only one of the two ends moves on, so there is no branch to mispredict.
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


@_compiled
def _finish_rows(
    nodes: Any, table: Any, stride: Any, width: Any, rows: Any, at: Any, count: Any, leaves: Any
) -> None:
    """Bring the first `count` of `rows`, each at its own node `at`, to their leaves; both are overwritten.

    All rows take one step before any takes the next: their chains of loads do not wait for each other.  A row
    writes down each node it enters as if that were its leaf, so that there is no branch; the last one holds.
    """
    # The anchor's values follow the columns of differences in the table, one value each.
    behind = (stride - _ONE) * width
    while count > _ZERO:
        n_going = _ZERO
        for i in range(count):
            row, record = u64(rows[i]), nodes[u64(at[i])]
            column = u64(record.column)
            place = column * stride + row if column < width else column + behind
            value = table[place]
            right = (value > record.threshold) | ((value != value) & (record.leaf == _ONE))
            node = u64(record.left) + u64(right)
            child = nodes[node]
            leaves[row] = child.leaf
            rows[n_going], at[n_going] = row, node
            n_going += u64(u64(child.left) != node)
        count = n_going


@_compiled
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

    Groups of up to `group_limit` rows are left to `_finish_rows`.  `rows` is scratch of shape (4, n_rows or
    more): a split reads the numbers of its group in one of the first two and writes the parts to the same
    range of the other; the last two hold the rows to finish and where they are.  `pending` is scratch of
    shape (depth + 1, 4) for the right parts left for later.
    """
    stride, width, limit = u64(stride), u64(width), u64(group_limit)
    for i in range(u64(n_rows)):
        rows[_ZERO, i] = i
    node, first, stop, side = u64(root), _ZERO, u64(n_rows), _ZERO
    single, at = rows[2], rows[3]
    n_pending = n_single = _ZERO
    while True:
        node = _pass_anchor_splits(nodes, anchor, width, node)
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


@_compiled
def _scratch(n_rows: Any, width: Any, anchor: Any, depth: Any) -> Any:
    """Buffers for blocks of up to `n_rows`: table, stride, row numbers, pending groups and leaf numbers."""
    stride = n_rows + _PADDING
    table = np.empty(width * stride + anchor.size, np.float32)
    table[width * stride :] = anchor
    rows = np.empty((4, n_rows), np.uint32)
    pending = np.empty((depth + 1, 4), np.uint32)
    return table, stride, rows, pending, np.empty(n_rows, np.uint32)


@_compiled
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


@_compiled
def sum_outputs(
    X: Any, anchor: Any, offset: Any, nodes: Any, roots: Any, rules: Any, values: Any, out: Any
) -> None:
    """Add the trees' values in tree order to `out`.

    Parameters
    ----------
    X : ndarray of shape (n, d), float64 or float32, C-contiguous
    anchor : ndarray of shape (c,), float32
    offset : ndarray of shape (d,), float64
    nodes : structured ndarray of shape (n_nodes,)
    roots : ndarray of shape (n_trees,), uint32
    rules : tuple of three int
        Depth of the deepest tree; rows up to which a group leaves the descent in groups; rows, at least one,
        for which the differences are held at a time.
    values : ndarray of shape (n_leaves, n_outputs), float64
    out : ndarray of shape (n, n_outputs), float64
    """
    n_rows, width = X.shape
    depth, group_limit, block = rules
    table, stride, rows, pending, leaves = _scratch(block, width, anchor, depth)
    for start in range(0, n_rows, block):
        size = min(block, n_rows - start)
        _fill_table(X, start, size, offset, stride, table)
        for root in roots:
            _find_leaves(nodes, root, table, stride, anchor, width, size, group_limit, rows, pending, leaves)
            _add_values(values, leaves, out[start : start + size])


@_compiled
def number_leaves(X: Any, anchor: Any, offset: Any, nodes: Any, roots: Any, rules: Any, out: Any) -> None:
    """Write the leaf numbers to `out` of shape (n_trees, n), uint32; parameters as in `sum_outputs`."""
    n_rows, width = X.shape
    depth, group_limit, block = rules
    table, stride, rows, pending, leaves = _scratch(block, width, anchor, depth)
    for start in range(0, n_rows, block):
        size = min(block, n_rows - start)
        _fill_table(X, start, size, offset, stride, table)
        for tree in range(roots.size):
            _find_leaves(
                nodes, roots[tree], table, stride, anchor, width, size, group_limit, rows, pending, leaves
            )
            out[tree, start : start + size] = leaves[:size]
