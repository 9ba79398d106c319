"""How the anchored methods are set for a comparison."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from sklearn.base import BaseEstimator

from deltauq.estimators.base_estimators import count_trees, max_pairs, trains_by_epochs
from deltauq.estimators.pairing import count_train_anchors

QUICK_PAIRS = 10_000
MIN_TRAIN_ANCHORS = 20


@dataclass(frozen=True)
class Anchoring:
    """The anchors of the anchored methods.

    Attributes
    ----------
    n_anchors : int or "default"
        K; "default" leaves it to the estimator.
    n_train_anchors : int, "auto" or "quick"
        M. "quick" is a tenth of the pairs that "auto" makes, but at least 20 anchors, since a comparison
        fits every fold anew. For forests it is "auto".
    """

    n_anchors: int | str = "default"
    n_train_anchors: int | str = "quick"

    def for_rows(self, model: BaseEstimator, n: int) -> Anchoring:
        """Return the same with "quick" replaced by what it means for a model and n rows."""
        if self.n_train_anchors != "quick":
            return self
        if count_trees(model) is not None:  # "auto" keeps forests small
            return replace(self, n_train_anchors="auto")
        return replace(self, n_train_anchors=min(n, max(MIN_TRAIN_ANCHORS, QUICK_PAIRS // n)))

    def words(self) -> dict[str, Any]:
        """Return the arguments for `AnchoredRegressor` or `AnchoredClassifier`."""
        words: dict[str, Any] = {"n_train_anchors": self.n_train_anchors}
        return words if self.n_anchors == "default" else {**words, "n_anchors": self.n_anchors}

    def count_for(self, model: BaseEstimator, n: int) -> int:
        """Return how many training anchors each of n rows meets, or may meet where epochs draw them anew."""
        wanted = self.for_rows(model, n).n_train_anchors
        if wanted != "auto":
            return min(n, int(wanted))
        if trains_by_epochs(model):
            return n
        most = max_pairs(model)
        count = count_train_anchors(n, "auto", model)
        return count if most is None else max(1, min(count, most // n))
