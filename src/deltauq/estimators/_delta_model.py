"""A base model trained on tuples, with the anchors it predicts by."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from weakref import WeakKeyDictionary

import numpy as np
from joblib import effective_n_jobs
from sklearn.base import BaseEstimator, clone
from sklearn.utils.parallel import Parallel, delayed

from deltauq.core import AnchorPrior, Encoding, Posterior, StreamingPosterior
from deltauq.estimators import pairing, trees
from deltauq.estimators._duration import warn_if_slow
from deltauq.estimators._epochs import fit_by_epochs
from deltauq.estimators._readout import Readout
from deltauq.estimators._rows import TrainingRows
from deltauq.estimators.base_estimators import (
    is_kernel_machine,
    limit_leaves,
    max_pairs,
    trains_by_epochs,
    weight_keyword,
)

ROWS_PER_CALL = 16_384
KERNEL_ROWS_PER_CALL = 2_048
PACKED_ROWS_PER_BLOCK = 1_000_000
BYTES_PER_CALL = 64_000_000


_PACKED: WeakKeyDictionary[BaseEstimator, trees.PackedTrees] = WeakKeyDictionary()
"""Packed trees of fitted bases, kept outside them: prediction must not change an estimator."""


@dataclass(frozen=True)
class Recipe:
    """How a Δ-model is made: the constructor's words, resolved."""

    base: BaseEstimator
    encoding: Encoding
    prior: AnchorPrior
    n_anchors: int
    n_train_anchors: int | str
    pairing: str

    def train(self, data: TrainingRows, rng: np.random.Generator, *, n_fits: int = 0) -> DeltaModel:
        """Train a clone of the base on tuples of rows and anchors.

        With `n_fits`, warn first if so many fits like this one are slow.
        """
        train_rng, predict_rng = rng.spawn(2)
        base = clone(self.base)
        if self.n_train_anchors == "auto":
            limit_leaves(base)
        anchors, weights = pairing.draw_train_anchors(data, self.prior, self._n_pool(base, data), train_rng)
        if trains_by_epochs(base):
            fit_by_epochs(base, data, anchors, weights, self.encoding, train_rng)
        else:
            self._fit_on_pairs(base, data, anchors, weights, train_rng, n_fits)
        chosen = pairing.choose_anchors(anchors, weights, self.n_anchors, predict_rng)
        return DeltaModel(base, self.encoding, chosen)

    def _n_pool(self, base: BaseEstimator, data: TrainingRows) -> int:
        """Return how many anchors training draws on: M shared ones, or a row's worth of choice each."""
        support = self.prior.support(data.X)
        if self.pairing == "random" or (trains_by_epochs(base) and self.n_train_anchors == "auto"):
            n_anchors = len(data)
        else:
            n_anchors = pairing.count_train_anchors(len(data), self.n_train_anchors, base)
        return n_anchors if support is None else min(n_anchors, support)

    def _fit_on_pairs(
        self,
        base: BaseEstimator,
        data: TrainingRows,
        anchors: np.ndarray,
        weights: np.ndarray | None,
        rng: np.random.Generator,
        n_fits: int,
    ) -> None:
        # Trees cast to float32 themselves; doing it while pairing saves them a copy of everything.
        dtype = np.float32 if trees.packable(base) else np.float64
        bytes_per_pair = self.encoding.width * data.X.shape[1] * np.dtype(dtype).itemsize
        most = max_pairs(base) if self.n_train_anchors == "auto" else None
        wanted = pairing.count_train_anchors(len(data), self.n_train_anchors, base)
        if self.pairing == "random":
            per_row = pairing.anchors_per_row(len(data), wanted, bytes_per_pair, most)
            partners = pairing.random_pairs(len(data), len(anchors), weights, per_row, rng)
            weights = None  # the draw has taken them into account
        else:
            per_row = pairing.anchors_per_row(len(data), len(anchors), bytes_per_pair, most)
            partners = pairing.shared_pairs(len(data), len(anchors), per_row, rng)
        pairs = pairing.form_pairs(data, anchors, weights, partners, self.encoding, dtype, rng)
        keywords = data.metadata_of(pairs.rows)
        if pairs.weights is not None:
            keywords[weight_keyword(base)] = pairs.weights
        targets = data.y[pairs.rows]
        if n_fits:
            warn_if_slow(base, pairs.tuples, targets, keywords, n_fits)
        base.fit(pairs.tuples, targets, **keywords)


@dataclass(frozen=True)
class DeltaModel:
    """A fitted base, its encoding and its anchors.

    Attributes
    ----------
    estimator : fitted scikit-learn estimator over tuples
    encoding : Encoding
    anchors : float64 array of shape (K, d)
    """

    estimator: BaseEstimator
    encoding: Encoding
    anchors: np.ndarray

    def posterior(
        self, X: np.ndarray, readout: Readout, *, keep_samples: bool = False, n_jobs: int | None = None
    ) -> Posterior:
        """Predict under every anchor and return the moments.

        Parameters
        ----------
        X : float array of shape (n, d)
        readout : Readout
        keep_samples : bool, default=False
        n_jobs : int or None
            Threads, each with its own blocks of rows.

        Returns
        -------
        posterior : Posterior with outputs of shape (n, o)
        """
        n_jobs = effective_n_jobs(n_jobs)
        packed = self._packed(readout)
        most = PACKED_ROWS_PER_BLOCK if packed is not None else self._rows_per_call()
        size = max(1, min(most, -(-len(X) // n_jobs)))

        blocks, times = self._anchor_tuples(distinct=not keep_samples)

        def block_posterior(rows: np.ndarray) -> Posterior:
            stream = StreamingPosterior(keep_samples=keep_samples)
            outputs = (
                self._plain(rows, blocks, readout) if packed is None else self._fast(rows, blocks, packed)
            )
            for output, count in zip(outputs, times, strict=True):
                stream.update(output, count)
            return stream.posterior()

        parts = (X[start : start + size] for start in range(0, len(X), size))
        threads = Parallel(n_jobs=n_jobs, prefer="threads", require="sharedmem")
        return _concatenate(threads(delayed(block_posterior)(rows) for rows in parts))

    def _anchor_tuples(self, distinct: bool) -> tuple[list[np.ndarray], list[int]]:
        """Return the blocks of the anchor tuples, and how often each tuple counts.

        Anchors repeat where there are fewer of them than K; asking the base once is enough.
        """
        blocks = self.encoding.tuples(self.anchors)
        joined = np.hstack(blocks)
        # Missing values are equal to each other here, and anchors are never infinite.
        joined = np.where(np.isnan(joined), np.inf, joined)
        _, first, counts = np.unique(joined, axis=0, return_index=True, return_counts=True)
        if not distinct or len(first) == len(self.anchors):
            return blocks, [1] * len(self.anchors)
        order = np.argsort(first)
        return [block[first[order]] for block in blocks], counts[order].tolist()

    def _packed(self, readout: Readout) -> trees.PackedTrees | None:
        """Return the trees laid out for the fast path, where there is one."""
        form_known = type(self.encoding).encode is Encoding.encode
        if not (form_known and trees.packable(self.estimator) and trees.numba_available()):
            return None
        if not readout.reads_trees(self.estimator):
            return None
        if self.estimator not in _PACKED:
            n_anchor_columns = self.encoding.n_anchors * self.anchors.shape[1]
            _PACKED[self.estimator] = trees.PackedTrees(self.estimator, n_anchor_columns)
        return _PACKED[self.estimator]

    def _fast(
        self, X: np.ndarray, blocks: list[np.ndarray], packed: trees.PackedTrees
    ) -> Iterator[np.ndarray]:
        X = np.ascontiguousarray(X)
        for parts in zip(*blocks, strict=True):
            offset = self.encoding.offset(*(part[None] for part in parts))[0]
            yield packed.outputs(X, np.concatenate(parts), offset)

    def _plain(self, X: np.ndarray, blocks: list[np.ndarray], readout: Readout) -> Iterator[np.ndarray]:
        """Yield the outputs anchor by anchor, several anchors to a call of the base where rows are few."""
        n, k = len(X), len(blocks[0])
        per_call = max(1, self._rows_per_call() // n)
        for start in range(0, k, per_call):
            parts = [block[start : start + per_call] for block in blocks]
            repeated = np.tile(X, (len(parts[0]), 1))
            tuples = self.encoding.encode(repeated, *(np.repeat(part, n, axis=0) for part in parts))
            outputs = readout(self.estimator, tuples)
            yield from outputs.reshape(len(parts[0]), n, *outputs.shape[1:])

    def _rows_per_call(self) -> int:
        most = KERNEL_ROWS_PER_CALL if is_kernel_machine(self.estimator) else ROWS_PER_CALL
        return max(1, min(most, BYTES_PER_CALL // (8 * self.encoding.width * self.anchors.shape[1])))


def _concatenate(parts: list[Posterior]) -> Posterior:
    """Join the posteriors of blocks of rows."""
    if len(parts) == 1:
        return parts[0]
    samples = None
    if parts[0].samples is not None:
        samples = np.concatenate([part.samples for part in parts], axis=1)
    mean = np.concatenate([part.mean for part in parts])
    return Posterior(mean, np.concatenate([part.var for part in parts]), samples=samples)
