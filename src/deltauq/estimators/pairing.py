"""Which rows meet which anchors in training, for models that see all their rows at once."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from sklearn.base import BaseEstimator, is_classifier
from sklearn.utils import check_array

from deltauq.core import AnchorPrior, DataPrior, Encoding
from deltauq.core.anchors import draw_rows
from deltauq.estimators._rows import TrainingRows
from deltauq.estimators.base_estimators import count_trees

MAX_PAIR_BYTES = 500_000_000
"""The matrix of pairs never takes more than this, unless the rows alone do."""
AUTO_PAIRS = 100_000
MIN_AUTO_ANCHORS = 20
FOREST_PAIRS = 1_000_000
"""Pairs times trees, since each tree of a forest is trained on all pairs."""
MIN_FOREST_ANCHORS = 10
"""Of a regression. Forests that classify lose more by few anchors."""
PAIRS_PER_BLOCK = 16_384


@dataclass(frozen=True)
class Pairs:
    """Tuples ready for a base model's `fit`.

    Attributes
    ----------
    tuples : array of shape (n_pairs, width * d)
    rows : int array of shape (n_pairs,)
        The training row behind each pair.
    weights : array of shape (n_pairs,) or None
    """

    tuples: np.ndarray
    rows: np.ndarray
    weights: np.ndarray | None


def count_train_anchors(n_rows: int, n_train_anchors: int | str, base: BaseEstimator) -> int:
    """Return M, the number of training anchors.

    "auto" takes every row as an anchor while that makes at most 100,000 pairs, then 100,000 // n of them,
    but at least 20. A forest of T trees gets at most 1,000,000 / T pairs, and in a regression at least 10
    anchors: `forest-study` found the errors of more anchors no smaller, and their cost in proportion.
    """
    if n_train_anchors != "auto":
        return int(n_train_anchors)
    n_trees = count_trees(base)
    n_pairs = AUTO_PAIRS if n_trees is None else min(AUTO_PAIRS, FOREST_PAIRS // n_trees)
    fewest = MIN_AUTO_ANCHORS if n_trees is None or is_classifier(base) else MIN_FOREST_ANCHORS
    return min(n_rows, max(fewest, n_pairs // n_rows))


def anchors_per_row(n_rows: int, n_train_anchors: int, bytes_per_pair: int, max_pairs: int | None) -> int:
    """Return how many of the M training anchors each row meets: all, unless that makes too many pairs."""
    most = MAX_PAIR_BYTES // bytes_per_pair
    if max_pairs is not None:
        most = min(most, max_pairs)
    return max(1, min(n_train_anchors, most // n_rows))


def draw_train_anchors(
    data: TrainingRows, prior: AnchorPrior, n: int, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray | None]:
    """Draw the training anchors and their weights.

    When every row is to be an anchor, rows are taken as they are and carry their weights; otherwise
    the prior draws by weight, and the draws count alike.

    Parameters
    ----------
    data : TrainingRows
    prior : AnchorPrior
    n : int
    rng : numpy.random.Generator

    Returns
    -------
    anchors : float64 array of shape (n, d)
    weights : float64 array of shape (n,) or None
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


def choose_anchors(
    train_anchors: np.ndarray, weights: np.ndarray | None, n: int, rng: np.random.Generator
) -> np.ndarray:
    """Choose the anchors to predict with among those the model was trained with.

    Parameters
    ----------
    train_anchors : float64 array of shape (M, d)
    weights : float64 array of shape (M,) or None
    n : int
        K; more than M repeats them evenly.
    rng : numpy.random.Generator

    Returns
    -------
    anchors : float64 array of shape (n, d)
    """
    order = _canonical_order(train_anchors, rng)
    rows = draw_rows(len(order), n, rng, None if weights is None else weights[order])
    return train_anchors[order[rows]]


def shared_pairs(n_rows: int, n_train_anchors: int, per_row: int, rng: np.random.Generator) -> np.ndarray:
    """Pair every row with the same M anchors, or with `per_row` of them where all would be too many.

    Returns
    -------
    partners : int array of shape (n_rows, per_row)
        Indices of anchors.
    """
    if per_row == n_train_anchors:
        return np.broadcast_to(np.arange(n_train_anchors), (n_rows, n_train_anchors))
    partners = np.empty((n_rows, per_row), dtype=np.intp)
    block = max(1, PAIRS_PER_BLOCK // n_train_anchors)
    for start in range(0, n_rows, block):
        part = partners[start : start + block]
        part[:] = np.argsort(rng.random((len(part), n_train_anchors)), axis=1)[:, :per_row]
    return partners


def random_pairs(
    n_rows: int, n_anchors: int, anchor_weights: np.ndarray | None, per_row: int, rng: np.random.Generator
) -> np.ndarray:
    """Pair every row with anchors of its own, drawn by weight.

    Returns
    -------
    partners : int array of shape (n_rows, per_row)
        Indices of anchors.
    """
    columns = [draw_rows(n_anchors, n_rows, rng, anchor_weights) for _ in range(per_row)]
    return np.stack(columns, axis=1)


def form_pairs(
    data: TrainingRows,
    anchors: np.ndarray,
    anchor_weights: np.ndarray | None,
    partners: np.ndarray,
    encoding: Encoding,
    dtype: type,
    rng: np.random.Generator,
) -> Pairs:
    """Form the tuples of rows and their partners.

    Parameters
    ----------
    data : TrainingRows of n rows
    anchors : float64 array of shape (M, d)
    anchor_weights : float64 array of shape (M,) or None
    partners : int array of shape (n, m)
        The anchors each row meets.
    encoding : Encoding
    dtype : float32 or float64
        Of the tuples. Differences are always taken in float64 first.
    rng : numpy.random.Generator
        Draws the further anchors of encodings that take more than one.

    Returns
    -------
    pairs : Pairs of n * m tuples
    """
    n, m = partners.shape
    rows, indices = np.repeat(np.arange(n), m), partners.reshape(-1)
    tuples = np.empty((n * m, encoding.width * data.X.shape[1]), dtype=dtype)
    for start in range(0, n * m, PAIRS_PER_BLOCK):
        part = slice(start, start + PAIRS_PER_BLOCK)
        tuples[part] = encoding.encode(
            data.X[rows[part]], *anchor_tuple(anchors, indices[part], encoding, rng)
        )
    if data.weights is None:
        return Pairs(tuples, rows, None)
    weights = data.weights[rows]
    return Pairs(tuples, rows, weights if anchor_weights is None else weights * anchor_weights[indices])


def anchor_tuple(
    anchors: np.ndarray, indices: np.ndarray, encoding: Encoding, rng: np.random.Generator
) -> list[np.ndarray]:
    """Return the anchors of training tuples: the given ones first, any others drawn at random.

    Were the others tied to the first, a model could learn to ignore them.

    Parameters
    ----------
    anchors : array of shape (M, d)
    indices : int array of shape (m,)

    Returns
    -------
    blocks : list of `encoding.n_anchors` arrays of shape (m, d)
    """
    further = [rng.integers(len(anchors), size=len(indices)) for _ in range(encoding.n_anchors - 1)]
    return [anchors[chosen] for chosen in (indices, *further)]


def _canonical_order(X: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Return an order of rows that does not depend on how they came, equal rows side by side.

    Drawn from in this order, a row of weight two gives the same anchors as the same row given twice.
    A random direction rather than the first column spreads systematic draws over all features. A missing
    value counts as one drawn for its column.
    """
    direction = rng.standard_normal(X.shape[1])
    missing = np.isnan(X)
    if missing.any():
        X = np.where(missing, rng.standard_normal(X.shape[1]), X)
    return np.argsort(np.sum(X * direction, axis=1), kind="stable")
