"""Outputs of fitted gradient boosting under one anchor, without forming the tuple matrix.

The model was fitted on tuples ``[A, X - offset_1, X - offset_2, ...]``, and its trees are packed as in
`packed_trees`. They have few leaves, so that it is faster to evaluate a whole tree without branches than to
follow a path through it. Under one anchor the splits on anchor columns are decided. What remains of a tree is
an expression of nested choices, ``left if value <= threshold else right``, and each choice is one loop over a
block of rows, which compiles to vector instructions.

Values are compared in the type in which the model compares them, and the leaves' values are added to the
baseline in the order of the trees. Outputs equal those of scikit-learn and LightGBM to the last bit, hence no
``fastmath``; XGBoost adds in float32.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from deltauq.estimators.boosting_readers import read_ensemble
from deltauq.estimators.packed_trees import compiled, fill_table, node_dtype, pack, pass_anchor_splits

# Smaller blocks cost more per operation; larger ones do not fit into the second-level cache.
BLOCK_ROWS = 1024
BLOCK_VALUES = 1 << 16

u64 = np.uint64
_ZERO, _ONE = u64(0), u64(1)
# The kinds of operations; see `_write_program`.
_ADD, _LEAF, _CHOICE, _CHOICE_OF_LEAF = (u64(kind) for kind in range(4))
# `value` is that of a leaf, and `column` is that of an output for `_ADD`.
_OPERATION = np.dtype(
    [
        ("kind", np.uint32),
        ("slot", np.uint32),
        ("column", np.uint32),
        ("missing_right", np.uint32),
        ("threshold", np.float64),
        ("value", np.float64),
    ],
    align=True,
)


class BoostedTrees:
    """Fitted gradient boosting in a layout that is evaluated under one anchor at a time.

    Calls may run in several threads at once. A call allocates a block of differences, of 0.5 MB up to 1,024
    columns, and its output. The trees of some models cannot be read: this raises `UnreadableTreesError`.
    """

    def __init__(self, estimator: Any, n_anchor_columns: int) -> None:
        ensemble = read_ensemble(estimator)
        self._baseline, self._link, self._columns = ensemble.baseline, ensemble.link, ensemble.columns
        trees = ensemble.trees
        self._n_columns = int(estimator.n_features_in_) - n_anchor_columns
        leaves = [np.count_nonzero(tree.children_left == -1) for tree in trees]
        # As many nodes as leaves are pending at most.
        self._most_leaves = max(leaves)
        roots = np.cumsum([0] + [tree.children_left.size for tree in trees])
        self._roots = roots[:-1].astype(np.uint32)
        self._nodes = np.empty(roots[-1], dtype=node_dtype(ensemble.dtype))
        self._values = np.empty(sum(leaves))
        first_leaf = 0
        for tree, root in zip(trees, roots[:-1], strict=True):
            leaf_ids = pack(tree, self._nodes, int(root), first_leaf, n_anchor_columns)
            self._values[first_leaf : first_leaf + leaf_ids.size] = tree.value[leaf_ids]
            first_leaf += leaf_ids.size

    def outputs(self, X: NDArray[Any], anchor_columns: ArrayLike, offsets: ArrayLike) -> NDArray[np.float64]:
        """Return the `tree_outputs` of ``[anchor_columns, X - offset, ...]`` for one anchor, of shape (n, o).

        `offsets` are the offsets of all copies of X, one after the other.
        """
        X = np.ascontiguousarray(X, dtype=None if X.dtype in (np.float32, np.float64) else np.float64)
        # numba compiles separate code for read-only arrays: all arrays are made read-only.
        X = X.view()
        X.flags.writeable = False
        raw = np.repeat(self._baseline[:, None], len(X), axis=1)
        anchor = np.array(anchor_columns, dtype=self._nodes["threshold"].dtype)
        shift = np.array(offsets, dtype=np.float64)
        block = min(BLOCK_ROWS, max(BLOCK_VALUES // self._n_columns, 64), max(len(X), 1))
        rules = (self._most_leaves, block)
        _sum_raw(X, anchor, shift, self._nodes, self._roots, self._columns, self._values, rules, raw)
        return self._link(raw)


@compiled
def _write_program(
    nodes: Any, roots: Any, columns: Any, values: Any, anchor: Any, width: Any, pending: Any, program: Any
) -> Any:
    """Write the operations that evaluate the trees under one anchor, and return their number.

    They are written in the order opposite to that in which they run: the last tree first, and of a tree the
    addition to its output, then a choice, then its left part, then its right part. Operands are slots, which
    contain one value per row. A part leaves its value in its slot; the left part of a choice has the next
    slot, unless it is a leaf, whose value is part of the operation.
    """
    count = _ZERO
    for back in range(u64(roots.size)):
        tree = u64(roots.size) - _ONE - back
        operation = program[count]
        operation.kind, operation.slot, operation.column = _ADD, _ZERO, columns[tree]
        count += _ONE
        pending[_ZERO, 0], pending[_ZERO, 1] = roots[tree], 0
        n_pending = _ONE
        while n_pending > _ZERO:
            n_pending -= _ONE
            slot = u64(pending[n_pending, 1])
            node = pass_anchor_splits(nodes, anchor, width, u64(pending[n_pending, 0]))
            while True:
                record, operation = nodes[node], program[count]
                count += _ONE
                operation.slot = slot
                if u64(record.left) == node:
                    operation.kind, operation.value = _LEAF, values[record.leaf]
                    break
                operation.column, operation.threshold = record.column, record.threshold
                operation.missing_right = record.leaf
                pending[n_pending, 0], pending[n_pending, 1] = u64(record.left) + _ONE, slot
                n_pending += _ONE
                node = pass_anchor_splits(nodes, anchor, width, u64(record.left))
                left = nodes[node]
                if u64(left.left) == node:
                    operation.kind, operation.value = _CHOICE_OF_LEAF, values[left.leaf]
                    break
                operation.kind = _CHOICE
                slot += _ONE
    return count


@compiled
def _fill(slot: Any, value: Any) -> None:
    """Give all rows the same value."""
    for i in range(u64(slot.size)):
        slot[i] = value


@compiled
def _choose(column: Any, threshold: Any, missing_right: Any, left: Any, slot: Any) -> None:
    """Write `left` to the rows of `slot` that go left."""
    # The other value is read where it is not needed too: otherwise the loop would have a branch.
    if missing_right:
        for i in range(u64(slot.size)):
            kept, other = slot[i], left[i]
            slot[i] = other if column[i] <= threshold else kept  # false for NaN
    else:
        for i in range(u64(slot.size)):
            kept, other = slot[i], left[i]
            slot[i] = kept if column[i] > threshold else other


@compiled
def _choose_leaf(column: Any, threshold: Any, missing_right: Any, value: Any, slot: Any) -> None:
    """Write `value` to the rows of `slot` that go left."""
    if missing_right:
        for i in range(u64(slot.size)):
            kept = slot[i]
            slot[i] = value if column[i] <= threshold else kept
    else:
        for i in range(u64(slot.size)):
            kept = slot[i]
            slot[i] = kept if column[i] > threshold else value


@compiled
def _add(slot: Any, out: Any) -> None:
    """Add the values to the output."""
    for i in range(u64(slot.size)):
        out[i] += slot[i]


@compiled
def _sum_raw(
    X: Any,
    anchor: Any,
    offset: Any,
    nodes: Any,
    roots: Any,
    columns: Any,
    values: Any,
    rules: Any,
    raw: Any,
) -> None:
    """Add the trees' values in tree order to `raw`, of shape (o, n).

    `rules` are the largest number of leaves of a tree and the block size.
    """
    n_rows, width = X.shape[0], offset.size
    most_leaves, block = rules
    program = np.empty(nodes.size + roots.size, _OPERATION)
    pending = np.empty((most_leaves, 2), np.uint32)
    count = _write_program(nodes, roots, columns, values, anchor, u64(width), pending, program)
    table = np.empty(width * block, nodes["threshold"].dtype)
    slots = np.empty((program["slot"][:count].max() + 1, block))
    for start in range(0, n_rows, block):
        size = min(block, n_rows - start)
        fill_table(X, start, size, offset, block, table)
        for step in range(count):
            operation = program[count - _ONE - step]
            column, slot = u64(operation.column), slots[u64(operation.slot), :size]
            if operation.kind == _ADD:
                _add(slot, raw[column, start : start + size])
            elif operation.kind == _LEAF:
                _fill(slot, operation.value)
            else:
                first = column * u64(block)
                inputs = table[first : first + u64(size)]
                threshold, missing_right = operation.threshold, operation.missing_right == _ONE
                if operation.kind == _CHOICE_OF_LEAF:
                    _choose_leaf(inputs, threshold, missing_right, operation.value, slot)
                else:
                    left = slots[u64(operation.slot) + _ONE, :size]
                    _choose(inputs, threshold, missing_right, left, slot)
