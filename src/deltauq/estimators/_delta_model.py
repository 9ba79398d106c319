"""Training of a base estimator on pairs of rows and anchors, and prediction under every anchor."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from joblib import effective_n_jobs
from sklearn.base import BaseEstimator, clone, is_classifier
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import hinge_loss, log_loss, mean_squared_error
from sklearn.utils.parallel import Parallel, delayed
from sklearn.utils.validation import _check_method_params

from deltauq.core import AnchorPrior, Anchors, Encoding, Posterior, StreamingPosterior, Target
from deltauq.core.anchors import draw_rows
from deltauq.estimators import pairing
from deltauq.estimators.base_estimators import (
    accepts,
    adapt_to_pairs,
    max_pairs,
    splits_float32,
    trains_by_epochs,
    weight_keyword,
)
from deltauq.estimators.compiled_trees import compile_trees
from deltauq.estimators.pairing import TrainingRows

ROWS_PER_CALL = 16_384
KERNEL_ROWS_PER_CALL = 2_048
PACKED_ROWS_PER_BLOCK = 1_000_000
BYTES_PER_CALL = 64_000_000
MIN_TIMED_PAIRS = 50_000
"""The time of a fit on fewer pairs is not estimated."""
TIMED_SHARES = (256, 64)
"""The time is estimated from fits on a 256th and a 64th of the pairs."""
SLOW_SECONDS = 120.0

PredictOutputs = Callable[[BaseEstimator, np.ndarray], np.ndarray]
"""Returns the outputs, of shape (m, o), of a fitted base estimator for tuples of shape (m, width * d)."""


@dataclass(frozen=True)
class Trainer:
    """Trains clones of a base estimator on pairs; see the parameters of `AnchoredRegressor`."""

    base: BaseEstimator
    encoding: Encoding
    target: Target
    prior: AnchorPrior
    n_anchors: int
    n_train_anchors: int | str

    def train(self, data: TrainingRows, rng: np.random.Generator, *, n_fits: int = 0) -> DeltaModel:
        """Train a clone of the base estimator.

        With `n_fits`, warn first if that many fits like this one take long.
        """
        train_rng, predict_rng = rng.spawn(2)
        base = clone(self.base)
        if self.n_train_anchors == "auto":
            adapt_to_pairs(base, self.encoding)
        n_anchors = self._count_drawn_anchors(data)
        anchors, weights = pairing.draw_train_anchors(data, self.prior, self.target, n_anchors, train_rng)
        if trains_by_epochs(base):
            self._fit_by_epochs(base, data, anchors, weights, train_rng)
        else:
            self._fit_on_pairs(base, data, anchors, weights, train_rng, n_fits)
        drawn = pairing.draw_prediction_anchors(anchors, weights, self.n_anchors, predict_rng)
        return DeltaModel(base, self.encoding, self.target, drawn)

    def _count_drawn_anchors(self, data: TrainingRows) -> int:
        """Return how many anchors are drawn for training: M, or as many as rows if epochs redraw them."""
        if trains_by_epochs(self.base) and self.n_train_anchors == "auto":
            n_anchors = len(data)
        else:
            n_anchors = pairing.count_train_anchors(len(data), self.n_train_anchors, self.base)
        support = self.prior.support(data.as_anchors(self.target))
        return n_anchors if support is None else min(n_anchors, support)

    def _fit_on_pairs(
        self,
        base: BaseEstimator,
        data: TrainingRows,
        anchors: Anchors,
        weights: np.ndarray | None,
        rng: np.random.Generator,
        n_fits: int,
    ) -> None:
        """Fit on all pairs at once."""
        n = len(data)
        # Trees cast to float32 themselves; with float32 tuples they need no copy.
        dtype = np.float32 if splits_float32(base) else np.float64
        bytes_per_pair = self.encoding.width * data.X.shape[1] * np.dtype(dtype).itemsize
        most = max_pairs(base) if self.n_train_anchors == "auto" else None
        per_row = pairing.count_anchors_per_row(n, len(anchors), bytes_per_pair, most)
        partners = pairing.shared_pairs(n, len(anchors), per_row, rng).reshape(-1)
        rows = np.repeat(np.arange(n), per_row)
        tuples, y = pairing.encode_pairs(
            data, anchors, rows, partners, self.encoding, self.target, rng, dtype
        )
        # All anchors may lack the same value, and boosting does not accept columns without any.
        missing = np.flatnonzero(np.isnan(tuples[0]))
        tuples[:, missing[np.isnan(tuples[:, missing]).all(axis=0)]] = 0.0
        keywords = data.metadata_of(rows)
        if data.weights is not None:
            of_anchors = 1.0 if weights is None else weights[partners]
            keywords[weight_keyword(base)] = data.weights[rows] * of_anchors
        seconds = n_fits * estimate_seconds(base, tuples, y, keywords) if n_fits else 0.0
        if seconds >= SLOW_SECONDS:
            duration = f"{seconds / 60:.0f} minutes" if seconds < 5400 else f"{seconds / 3600:.0f} hours"
            warnings.warn(
                f"Training {type(base).__name__} on {len(tuples):,} pairs of rows and anchors will take "
                f"about {duration}. A smaller n_train_anchors makes fewer pairs.",
                UserWarning,
                stacklevel=2,
            )
        base.fit(tuples, y, **keywords)

    def _fit_by_epochs(
        self,
        base: BaseEstimator,
        data: TrainingRows,
        anchors: Anchors,
        anchor_weights: np.ndarray | None,
        rng: np.random.Generator,
    ) -> None:
        """Fit by `partial_fit`, with another random anchor for every row in every epoch.

        Stops by the `max_iter`, `tol` and `n_iter_no_change` of the base estimator, applied to the training
        loss.
        """
        params = base.get_params(deep=False)
        max_iter, tol, patience = params["max_iter"], params.get("tol"), params.get("n_iter_no_change", 5)
        keywords: dict[str, Any] = {}
        if is_classifier(base) and accepts(base.partial_fit, "classes"):
            # A multilabel estimator identifies its labels by column.
            keywords["classes"] = np.unique(data.y) if data.y.ndim == 1 else np.arange(data.y.shape[1])

        def epoch() -> tuple[TrainingRows, np.ndarray]:
            # Estimators with a fixed seed shuffle every epoch in the same way, so rows are shuffled here.
            order = rng.permutation(len(data))
            partners = draw_rows(len(anchors), len(data), rng, anchor_weights)
            tuples, learned = pairing.encode_pairs(
                data, anchors, order, partners, self.encoding, self.target, rng
            )
            return replace(data.take(order), y=learned), tuples

        scored = epoch()
        best, stale = np.inf, 0
        for _ in range(max_iter):
            rows, tuples = epoch()
            if rows.weights is not None:
                keywords["sample_weight"] = rows.weights
            base.partial_fit(tuples, rows.y, **keywords, **rows.metadata)
            loss = _training_loss(base, *scored)
            stale = stale + 1 if tol is not None and loss > best - tol else 0
            best = min(best, loss)
            if stale > patience:
                return
        if tol is not None:
            warnings.warn(
                f"{type(base).__name__} reached max_iter={max_iter} epochs before its loss settled.",
                ConvergenceWarning,
                stacklevel=2,
            )


def _training_loss(base: BaseEstimator, rows: TrainingRows, tuples: np.ndarray) -> float:
    """Return the loss that the estimator computed in the last epoch, or else its loss on these tuples."""
    if hasattr(base, "loss_"):
        return float(base.loss_)
    if not is_classifier(base):
        return float(mean_squared_error(rows.y, base.predict(tuples), sample_weight=rows.weights))
    options = {"sample_weight": rows.weights, "labels": base.classes_}
    if hasattr(base, "predict_proba"):
        return float(log_loss(rows.y, base.predict_proba(tuples), **options))
    return float(hinge_loss(rows.y, base.decision_function(tuples), **options))


def estimate_seconds(
    base: BaseEstimator, tuples: np.ndarray, y: np.ndarray, keywords: dict[str, Any]
) -> float:
    """Return about how many seconds a fit takes, or zero if it is short or no estimate is possible.

    Two small parts are timed, and the growth between them, at most quadratic, is extrapolated. The second
    part is not timed if the first is so fast that even twice its time per pair makes a short fit; the cost
    of kernel machines grows faster than that.
    """
    if len(tuples) < MIN_TIMED_PAIRS:
        return 0.0
    order = np.random.default_rng(0).permutation(len(tuples))
    seconds = []
    # A part may lack what the estimator needs, such as a class, and estimators raise errors of many types.
    with warnings.catch_warnings(), suppress(Exception):
        warnings.simplefilter("ignore")  # the fit on all pairs raises its warnings again
        for share in TIMED_SHARES:
            part = order[: len(tuples) // share]
            part_keywords = _check_method_params(tuples, keywords, indices=part)
            start = time.perf_counter()
            clone(base).fit(tuples[part], y[part], **part_keywords)
            seconds.append(time.perf_counter() - start)
            if 2 * share * seconds[-1] < SLOW_SECONDS / 5 and max_pairs(base) is None:
                return 0.0
    if len(seconds) < len(TIMED_SHARES):
        return 0.0
    growth = np.log(seconds[1] / seconds[0]) / np.log(TIMED_SHARES[0] / TIMED_SHARES[1])
    return float(seconds[1] * TIMED_SHARES[1] ** np.clip(growth, 0.0, 2.0))


@dataclass(frozen=True)
class DeltaModel:
    """A base estimator fitted on tuples, its encoding and target, and K anchors."""

    estimator: BaseEstimator
    encoding: Encoding
    target: Target
    anchors: Anchors

    def posterior(
        self,
        X: np.ndarray,
        predict_outputs: PredictOutputs,
        *,
        use_fast_path: bool = False,
        keep_samples: bool = False,
        n_jobs: int | None = None,
    ) -> Posterior:
        """Predict under every anchor and return the moments of the predictions, of shape (n, o).

        `use_fast_path` says whether the compiled tree traversal returns the same outputs.
        """
        n_jobs = effective_n_jobs(n_jobs)
        packed = None
        if use_fast_path and type(self.encoding).encode is Encoding.encode:
            packed = compile_trees(self.estimator, self.encoding.anchors_per_tuple * self.anchors.X.shape[1])
        most = self._rows_per_call() if packed is None else PACKED_ROWS_PER_BLOCK
        size = max(1, min(most, -(-len(X) // n_jobs)))
        blocks, labels, times = self._anchor_tuples(distinct=not keep_samples)

        def block_posterior(rows: np.ndarray) -> Posterior:
            stream = StreamingPosterior(keep_samples=keep_samples)
            outputs = (
                self._outputs(rows, blocks, predict_outputs)
                if packed is None
                else self._packed_outputs(rows, blocks, packed)
            )
            for k, (output, count) in enumerate(zip(outputs, times, strict=True)):
                stream.update(self.target.decode(output, *(block[k] for block in labels)), count)
            return stream.posterior()

        parts = (X[start : start + size] for start in range(0, len(X), size))
        threads = Parallel(n_jobs=n_jobs, prefer="threads", require="sharedmem")
        posteriors = threads(delayed(block_posterior)(rows) for rows in parts)
        mean, var = (np.concatenate([getattr(p, name) for p in posteriors]) for name in ("mean", "var"))
        samples = np.concatenate([p.samples for p in posteriors], axis=1) if keep_samples else None
        return Posterior(mean, var, samples=samples)

    def _anchor_tuples(self, distinct: bool) -> tuple[list[np.ndarray], list[np.ndarray], list[int]]:
        """Return the inputs of the anchors of every tuple, their targets, and how often each tuple counts.

        Anchors repeat if there are fewer than K different ones; predicting once under each is enough.
        """
        blocks = self.encoding.tuples(self.anchors.X)
        labels: list[np.ndarray] = []
        if self.anchors.y is not None:
            labels = self.encoding.tuples(self.anchors.y.reshape(len(self.anchors), -1))
        joined = np.hstack([*blocks, *labels])
        # Missing values are equal to each other here, and anchors are never infinite.
        joined = np.where(np.isnan(joined), np.inf, joined)
        _, first, counts = np.unique(joined, axis=0, return_index=True, return_counts=True)
        if not distinct or len(first) == len(self.anchors):
            return blocks, labels, [1] * len(self.anchors)
        order = np.argsort(first)
        kept = first[order]
        return [b[kept] for b in blocks], [b[kept] for b in labels], counts[order].tolist()

    def _packed_outputs(self, X: np.ndarray, blocks: list[np.ndarray], packed: Any) -> Iterator[np.ndarray]:
        X = np.ascontiguousarray(X)
        for parts in zip(*blocks, strict=True):
            offsets = self.encoding.offsets(*(part[None] for part in parts))
            yield packed.outputs(X, np.concatenate(parts), np.hstack(offsets)[0])

    def _outputs(
        self, X: np.ndarray, blocks: list[np.ndarray], predict_outputs: PredictOutputs
    ) -> Iterator[np.ndarray]:
        """Yield the outputs anchor by anchor; if rows are few, several anchors share a call."""
        n, k = len(X), len(blocks[0])
        per_call = max(1, self._rows_per_call() // n)
        for start in range(0, k, per_call):
            parts = [block[start : start + per_call] for block in blocks]
            repeated = np.tile(X, (len(parts[0]), 1))
            tuples = self.encoding.encode(repeated, *(np.repeat(part, n, axis=0) for part in parts))
            outputs = predict_outputs(self.estimator, tuples)
            yield from outputs.reshape(len(parts[0]), n, *outputs.shape[1:])

    def _rows_per_call(self) -> int:
        most = ROWS_PER_CALL if max_pairs(self.estimator) is None else KERNEL_ROWS_PER_CALL
        return max(1, min(most, BYTES_PER_CALL // (8 * self.encoding.width * self.anchors.X.shape[1])))
