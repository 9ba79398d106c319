"""Pairs of training rows and anchors."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, is_classifier
from sklearn.utils import check_array
from sklearn.utils.validation import _check_method_params

from deltauq.core import AnchorPrior, Anchors, DataPrior, Encoding, Target
from deltauq.core.anchors import draw_rows
from deltauq.estimators.base_estimators import contains_boosting, count_trees

MAX_PAIR_BYTES = 500_000_000
"""Largest size of the matrix of pairs, unless one pair per row needs more."""
AUTO_PAIRS = 100_000
MIN_AUTO_ANCHORS, MAX_AUTO_ANCHORS = 20, 50
BOOSTING_PAIRS, MIN_BOOSTING_ANCHORS = 20_000, 5
"""`targets-study` and `classes`: boosting gains more by iterations than by anchors."""
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

    def as_anchors(self, target: Target) -> Anchors:
        """Return all rows as anchors, with their targets if `target` needs them."""
        return Anchors(self.X, self.y if target.needs_labels else None)

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
    if contains_boosting(base):
        return min(n_rows, MAX_AUTO_ANCHORS, max(MIN_BOOSTING_ANCHORS, BOOSTING_PAIRS // n_rows))
    if n_trees is None:
        return min(n_rows, MAX_AUTO_ANCHORS, max(MIN_AUTO_ANCHORS, AUTO_PAIRS // n_rows))
    fewest = MIN_AUTO_ANCHORS if is_classifier(base) else MIN_FOREST_ANCHORS
    return min(n_rows, max(fewest, min(AUTO_PAIRS, FOREST_PAIRS // n_trees) // n_rows))


def count_anchors_per_row(
    n_rows: int, n_train_anchors: int, bytes_per_pair: int, max_pairs: int | None
) -> int:
    """Return how many of the M training anchors each row is paired with: all, unless these are too many."""
    most = MAX_PAIR_BYTES // bytes_per_pair
    if max_pairs is not None:
        most = min(most, max_pairs)
    return max(1, min(n_train_anchors, most // n_rows))


def draw_train_anchors(
    data: TrainingRows, prior: AnchorPrior, target: Target, n: int, rng: np.random.Generator
) -> tuple[Anchors, np.ndarray | None]:
    """Draw n training anchors, with their targets if `target` needs them, and return them with their weights.

    If every row becomes an anchor, anchors have the weights of the rows. Otherwise the prior draws by weight,
    and the draws have no weights.
    """
    if type(prior) is DataPrior and n == len(data):
        return data.as_anchors(target), data.weights
    ordered = data.take(_canonical_order(data.X, rng))
    rows = ordered.as_anchors(target)
    drawn = prior.draw(rows, n, rng, labels=ordered.strata, weights=ordered.weights)
    finite: bool | str = "allow-nan" if np.isnan(data.X).any() else True
    X = check_array(drawn.X, dtype=np.float64, ensure_all_finite=finite, input_name="anchors")
    if X.shape != (n, data.X.shape[1]):
        raise ValueError(f"anchors drawn by {prior!r} have shape {X.shape}, not {(n, data.X.shape[1])}.")
    if rows.y is None:
        return Anchors(X), None
    if drawn.y is None or drawn.y.shape != (n, *data.y.shape[1:]):
        raise ValueError(f"anchors drawn by {prior!r} need one target each for target='difference'.")
    return Anchors(X, np.asarray(drawn.y, dtype=np.float64)), None


def draw_prediction_anchors(
    train_anchors: Anchors, weights: np.ndarray | None, n: int, rng: np.random.Generator
) -> Anchors:
    """Draw K anchors from those used in training; more than M repeat them evenly."""
    order = _canonical_order(train_anchors.X, rng)
    rows = draw_rows(len(order), n, rng, None if weights is None else weights[order])
    return train_anchors.take(order[rows])


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


def encode_pairs(
    data: TrainingRows,
    anchors: Anchors,
    rows: np.ndarray,
    partners: np.ndarray,
    encoding: Encoding,
    target: Target,
    rng: np.random.Generator,
    dtype: type = np.float64,
) -> tuple[np.ndarray, np.ndarray]:
    """Return the tuples of pairs, of shape (m, width * d), and what a model learns of them.

    Differences are taken in float64 and then cast to `dtype`. The other anchors of a tuple with several are
    drawn at random: a model could learn to ignore anchors that always occur together with the first one.

    Parameters
    ----------
    rows, partners : int arrays of shape (m,)
        The row and the anchor of each pair.
    """
    tuples = np.empty((len(rows), encoding.width * data.X.shape[1]), dtype=dtype)
    learned = data.y[rows]
    for start in range(0, len(rows), PAIRS_PER_BLOCK):
        part = slice(start, start + PAIRS_PER_BLOCK)
        first = partners[part]
        others = [rng.integers(len(anchors), size=len(first)) for _ in range(encoding.anchors_per_tuple - 1)]
        indices = (first, *others)
        tuples[part] = encoding.encode(data.X[rows[part]], *(anchors.X[index] for index in indices))
        if anchors.y is not None:
            learned[part] = target.encode(learned[part], *(anchors.y[index] for index in indices))
    return tuples, learned


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
