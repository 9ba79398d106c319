"""The training rows, and folds of them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from sklearn.model_selection import KFold, StratifiedKFold

N_FOLDS = 5


@dataclass(frozen=True)
class TrainingRows:
    """Rows of a training set with their weights.

    Attributes
    ----------
    X : float64 array of shape (n, d)
    y : array of shape (n,) or (n, o)
    weights : float64 array of shape (n,) or None
    strata : int array of shape (n,)
        Class of each row, or a stratum of its target; for balanced anchors and stratified folds.
    metadata : dict
        Further keywords of the base's `fit`; a value with one entry per row goes along with its rows.
    """

    X: np.ndarray
    y: np.ndarray
    weights: np.ndarray | None
    strata: np.ndarray
    metadata: dict[str, Any] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.X)

    def take(self, rows: np.ndarray) -> TrainingRows:
        """Return the given rows."""
        weights = None if self.weights is None else self.weights[rows]
        return TrainingRows(self.X[rows], self.y[rows], weights, self.strata[rows], self.metadata_of(rows))

    def metadata_of(self, rows: np.ndarray) -> dict[str, Any]:
        """Return the metadata of the given rows."""
        return {name: np.asarray(v)[rows] if self._is_per_row(v) else v for name, v in self.metadata.items()}

    def _is_per_row(self, value: Any) -> bool:
        countable = hasattr(value, "__len__") and not isinstance(value, (str, bytes, dict))
        return countable and len(value) == len(self)


def folds(strata: np.ndarray, rng: np.random.Generator) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield train and test rows of up to five stratified folds.

    A stratum with fewer rows than five lowers their number, so that no training part misses it; with a
    stratum of a single row that cannot be, and the folds are plain ones.
    """
    fold_seed = int(rng.integers(2**31))
    smallest = int(np.unique(strata, return_counts=True)[1].min())
    splitter: Any
    if smallest >= 2:
        splitter = StratifiedKFold(min(N_FOLDS, smallest), shuffle=True, random_state=fold_seed)
    else:
        splitter = KFold(min(N_FOLDS, len(strata)), shuffle=True, random_state=fold_seed)
    yield from splitter.split(strata[:, None], strata)
