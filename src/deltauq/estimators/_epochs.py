"""Training with fresh anchors every epoch, for bases that learn by `partial_fit`."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, is_classifier
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import hinge_loss, log_loss, mean_squared_error

from deltauq.core import Encoding
from deltauq.core.anchors import draw_rows
from deltauq.estimators._rows import TrainingRows
from deltauq.estimators.base_estimators import accepts
from deltauq.estimators.pairing import anchor_tuple


class _StoppingRule:
    """scikit-learn's rule: stop once the loss has not fallen by `tol` for `patience` epochs."""

    def __init__(self, tol: float | None, patience: int) -> None:
        self.tol = -np.inf if tol is None else tol
        self.patience = patience
        self.best = np.inf
        self.stale = 0

    def says_stop(self, loss: float) -> bool:
        self.stale = self.stale + 1 if loss > self.best - self.tol else 0
        self.best = min(self.best, loss)
        return self.stale > self.patience


def fit_by_epochs(
    base: BaseEstimator,
    data: TrainingRows,
    anchors: np.ndarray,
    anchor_weights: np.ndarray | None,
    encoding: Encoding,
    rng: np.random.Generator,
) -> None:
    """Train a base in place, every row meeting another random anchor in every epoch.

    Stops by the base's own `max_iter`, `tol` and `n_iter_no_change`, judged on the training loss.

    Parameters
    ----------
    base : scikit-learn estimator with `partial_fit` and `max_iter`
    data : TrainingRows of n rows
    anchors : float64 array of shape (M, d)
    anchor_weights : float64 array of shape (M,) or None
    encoding : Encoding
    rng : numpy.random.Generator
    """
    params = base.get_params(deep=False)
    rule = _StoppingRule(params.get("tol"), params.get("n_iter_no_change", 5))
    keywords: dict[str, Any] = {}
    if is_classifier(base) and accepts(base.partial_fit, "classes"):
        # A multilabel base names its labels by column.
        keywords["classes"] = np.unique(data.y) if data.y.ndim == 1 else np.arange(data.y.shape[1])
    judged = _epoch(data, anchors, anchor_weights, encoding, rng)
    for _ in range(params["max_iter"]):
        # Bases with a fixed seed shuffle every epoch alike, so rows are shuffled here.
        shuffled, tuples = _epoch(data, anchors, anchor_weights, encoding, rng)
        if shuffled.weights is not None:
            keywords["sample_weight"] = shuffled.weights
        base.partial_fit(tuples, shuffled.y, **keywords, **shuffled.metadata)
        if rule.says_stop(_training_loss(base, *judged)):
            return
    if params.get("tol") is not None:
        warnings.warn(
            f"{type(base).__name__} reached max_iter={params['max_iter']} epochs before its loss settled.",
            ConvergenceWarning,
            stacklevel=2,
        )


def _epoch(
    data: TrainingRows,
    anchors: np.ndarray,
    anchor_weights: np.ndarray | None,
    encoding: Encoding,
    rng: np.random.Generator,
) -> tuple[TrainingRows, np.ndarray]:
    """Return all rows in a new order, and their tuples with new anchors."""
    shuffled = data.take(rng.permutation(len(data)))
    partners = draw_rows(len(anchors), len(data), rng, anchor_weights)
    return shuffled, encoding.encode(shuffled.X, *anchor_tuple(anchors, partners, encoding, rng))


def _training_loss(base: BaseEstimator, rows: TrainingRows, tuples: np.ndarray) -> float:
    """Return the base's own loss of the epoch where it keeps one, else a loss on always the same tuples."""
    if hasattr(base, "loss_"):
        return float(base.loss_)
    weights = rows.weights
    if not is_classifier(base):
        return float(mean_squared_error(rows.y, base.predict(tuples), sample_weight=weights))
    if hasattr(base, "predict_proba"):
        return float(
            log_loss(rows.y, base.predict_proba(tuples), sample_weight=weights, labels=base.classes_)
        )
    scores = base.decision_function(tuples)
    return float(hinge_loss(rows.y, scores, sample_weight=weights, labels=base.classes_))
