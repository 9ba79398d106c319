"""Pairs of training rows and anchors."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, is_classifier
from sklearn.utils import check_array
from sklearn.utils.validation import _check_method_params

from deltauq.core import AnchorPrior, DataPrior, Encoding
from deltauq.core.anchors import draw_rows
from deltauq.estimators.base_estimators import count_trees

MAX_PAIR_BYTES = 500_000_000
"""Largest size of the matrix of pairs, unless one pair per row needs more."""
AUTO_PAIRS = 100_000
MIN_AUTO_ANCHORS = 20
FOREST_PAIRS = 1_000_000
"""Pairs times trees, since each tree of a forest is trained on all pairs."""
MIN_FOREST_ANCHORS = 10
"""For regression. Forests that classify lose more by few anchors."""
PAIRS_PER_BLOCK = 16_384


@dataclass(frozen=True)
class TrainingRows:
    """Rows of a training set with their weights."""

    X: np.ndarray
    y: np.ndarray
    weights: np.ndarray | None
    strata: np.ndarray
    """Class of each row, or a stratum of its target; for balanced anchors and stratified folds."""
    metadata: dict[str, Any] = field(default_factory=dict)
    """Other arguments of the base estimator's `fit`; values with one entry per row are split with them."""

    def __len__(self) -> int:
        return len(self.X)

    def take(self, rows: np.ndarray) -> TrainingRows:
        """Return the given rows."""
        weights = None if self.weights is None else self.weights[rows]
        return TrainingRows(self.X[rows], self.y[rows], weights, self.strata[rows], self.metadata_of(rows))

    def metadata_of(self, rows: np.ndarray) -> dict[str, Any]:
        """Return the metadata of the given rows."""
        return _check_method_params(self.X, self.metadata, indices=rows)


def count_train_anchors(n_rows: int, n_train_anchors: int | str, base: BaseEstimator) -> int:
    """Return M, the number of training anchors; see `n_train_anchors` of `AnchoredRegressor`."""
    if n_train_anchors != "auto":
        return int(n_train_anchors)
    n_trees = count_trees(base)
    n_pairs = AUTO_PAIRS if n_trees is None else min(AUTO_PAIRS, FOREST_PAIRS // n_trees)
    fewest = MIN_AUTO_ANCHORS if n_trees is None or is_classifier(base) else MIN_FOREST_ANCHORS
    return min(n_rows, max(fewest, n_pairs // n_rows))


def count_anchors_per_row(
    n_rows: int, n_train_anchors: int, bytes_per_pair: int, max_pairs: int | None
) -> int:
    """Return how many of the M training anchors each row is paired with: all, unless these are too many."""
    most = MAX_PAIR_BYTES // bytes_per_pair
    if max_pairs is not None:
        most = min(most, max_pairs)
    return max(1, min(n_train_anchors, most // n_rows))


def draw_train_anchors(
    data: TrainingRows, prior: AnchorPrior, n: int, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray | None]:
    """Draw n training anchors of shape (n, d), and return them with their weights.

    If every row becomes an anchor, anchors have the weights of the rows. Otherwise the prior draws by weight,
    and the draws have no weights.
    """
    if type(prior) is DataPrior and n == len(data):
        return data.X, data.weights
    ordered = data.take(_canonical_order(data.X, rng))
    anchors = prior.draw(ordered.X, n, rng, labels=ordered.strata, weights=ordered.weights)
    finite: bool | str = "allow-nan" if np.isnan(data.X).any() else True
    anchors = check_array(anchors, dtype=np.float64, ensure_all_finite=finite, input_name="anchors")
    if anchors.shape != (n, data.X.shape[1]):
        raise ValueError(
            f"anchors drawn by {prior!r} have shape {anchors.shape}, not {(n, data.X.shape[1])}."
        )
    return anchors, None


def draw_prediction_anchors(
    train_anchors: np.ndarray, weights: np.ndarray | None, n: int, rng: np.random.Generator
) -> np.ndarray:
    """Draw K anchors of shape (n, d) from those used in training; more than M repeat them evenly."""
    order = _canonical_order(train_anchors, rng)
    rows = draw_rows(len(order), n, rng, None if weights is None else weights[order])
    return train_anchors[order[rows]]


def shared_pairs(n_rows: int, n_train_anchors: int, per_row: int, rng: np.random.Generator) -> np.ndarray:
    """Pair every row with `per_row` of M anchors, all or random ones; returns indices (n_rows, per_row)."""
    if per_row == n_train_anchors:
        return np.broadcast_to(np.arange(n_train_anchors), (n_rows, n_train_anchors))
    partners = np.empty((n_rows, per_row), dtype=np.intp)
    block = max(1, PAIRS_PER_BLOCK // n_train_anchors)
    for start in range(0, n_rows, block):
        part = partners[start : start + block]
        part[:] = np.argsort(rng.random((len(part), n_train_anchors)), axis=1)[:, :per_row]
    return partners


def draw_partners(
    n_rows: int, n_anchors: int, anchor_weights: np.ndarray | None, per_row: int, rng: np.random.Generator
) -> np.ndarray:
    """Pair every row with its own anchors, drawn by weight; returned as by `shared_pairs`."""
    columns = [draw_rows(n_anchors, n_rows, rng, anchor_weights) for _ in range(per_row)]
    return np.stack(columns, axis=1)


def encode_pairs(
    X: np.ndarray,
    anchors: np.ndarray,
    partners: np.ndarray,
    encoding: Encoding,
    dtype: type,
    rng: np.random.Generator,
) -> np.ndarray:
    """Return the encoded pairs, of shape (n * m, width * d), of n rows and their partners, of shape (n, m).

    Differences are taken in float64 and then cast to `dtype`.
    """
    n, m = partners.shape
    rows, indices = np.repeat(np.arange(n), m), partners.reshape(-1)
    tuples = np.empty((n * m, encoding.width * X.shape[1]), dtype=dtype)
    for start in range(0, n * m, PAIRS_PER_BLOCK):
        part = slice(start, start + PAIRS_PER_BLOCK)
        tuples[part] = encoding.encode(X[rows[part]], *anchor_tuple(anchors, indices[part], encoding, rng))
    return tuples


def anchor_tuple(
    anchors: np.ndarray, indices: np.ndarray, encoding: Encoding, rng: np.random.Generator
) -> list[np.ndarray]:
    """Return the anchors of training tuples: those of the given indices first, the others drawn at random.

    A model could learn to ignore anchors that always occur together with the first one.
    """
    others = [rng.integers(len(anchors), size=len(indices)) for _ in range(encoding.anchors_per_tuple - 1)]
    return [anchors[rows] for rows in (indices, *others)]


def _canonical_order(X: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Return an order of the rows that does not depend on their original order; equal rows are adjacent.

    Drawn from in this order, a row of weight two gives the same anchors as the same row given twice.
    """
    # A random direction rather than the first column spreads systematic draws over all features.
    direction = rng.standard_normal(X.shape[1])
    missing = np.isnan(X)
    if missing.any():
        X = np.where(missing, rng.standard_normal(X.shape[1]), X)
    return np.argsort(np.sum(X * direction, axis=1), kind="stable")
