"""Estimates how long a fit takes, before it starts."""

from __future__ import annotations

import time
import warnings
from contextlib import suppress
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, clone

MIN_PAIRS = 20_000
"""Fewer are not timed: kernel machines aside, no base takes minutes for them."""
SHARES = (256, 64)
"""Fits on a 256th and a 64th of the pairs cost about two percent of the whole."""
SLOW_SECONDS = 120.0
QUADRATIC = 2.0


def warn_if_slow(base: BaseEstimator, tuples: np.ndarray, y: np.ndarray, keywords: dict[str, Any]) -> None:
    """Warn before a fit that will take more than two minutes, with an estimate.

    Parameters
    ----------
    base : scikit-learn estimator, unfitted
    tuples : array of shape (n_pairs, width)
    y : array of shape (n_pairs,) or (n_pairs, o)
    keywords : dict
        What the base's `fit` gets besides; arrays of length n_pairs go along with their pairs.
    """
    seconds = estimate_seconds(base, tuples, y, keywords)
    if seconds < SLOW_SECONDS:
        return
    time_text = f"{seconds / 60:.0f} minutes" if seconds < 5400 else f"{seconds / 3600:.0f} hours"
    warnings.warn(
        f"Training {type(base).__name__} on {len(tuples):,} pairs of rows and anchors will take about "
        f"{time_text}. A smaller n_train_anchors makes fewer pairs.",
        UserWarning,
        stacklevel=2,
    )


def estimate_seconds(
    base: BaseEstimator, tuples: np.ndarray, y: np.ndarray, keywords: dict[str, Any]
) -> float:
    """Return about how many seconds a fit takes, or zero where it is short or cannot be told.

    Two small parts are timed, and the growth between them is extended to the whole.
    """
    n_pairs = len(tuples)
    if n_pairs < MIN_PAIRS:
        return 0.0
    order = np.random.default_rng(0).permutation(n_pairs)
    seconds = []
    # A part may lack what the base needs, such as a class. Then nothing is said.
    with warnings.catch_warnings(), suppress(ValueError):
        warnings.simplefilter("ignore")
        for share in SHARES:
            part = order[: n_pairs // share]
            taken = {name: _take(value, part, n_pairs) for name, value in keywords.items()}
            start = time.perf_counter()
            clone(base).fit(tuples[part], y[part], **taken)
            seconds.append(time.perf_counter() - start)
    if len(seconds) < len(SHARES):
        return 0.0
    growth = np.log(seconds[1] / seconds[0]) / np.log(SHARES[0] / SHARES[1])
    return float(seconds[1] * SHARES[1] ** np.clip(growth, 1.0, QUADRATIC))


def _take(value: Any, part: np.ndarray, n: int) -> Any:
    return value[part] if isinstance(value, np.ndarray) and len(value) == n else value
