"""Estimates how long a fit takes, before it starts."""

from __future__ import annotations

import time
import warnings
from contextlib import suppress
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, clone
from sklearn.utils.validation import _check_method_params

from deltauq.estimators.base_estimators import is_kernel_machine

MIN_PAIRS = 20_000
"""Fewer are not timed: no base takes minutes for them."""
SHARES = (256, 64)
"""The parts that are timed: a 256th and a 64th of the pairs."""
SLOW_SECONDS = 120.0
QUADRATIC = 2.0


def warn_if_slow(
    base: BaseEstimator, tuples: np.ndarray, y: np.ndarray, keywords: dict[str, Any], n_fits: int
) -> None:
    """Warn before fits that will take more than two minutes, with an estimate.

    Parameters
    ----------
    base : scikit-learn estimator, unfitted
    tuples : array of shape (n_pairs, width)
    y : array of shape (n_pairs,) or (n_pairs, o)
    keywords : dict
        What the base's `fit` gets besides; arrays of length n_pairs go along with their pairs.
    n_fits : int
        How many fits of this size there will be.
    """
    seconds = n_fits * estimate_seconds(base, tuples, y, keywords)
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

    Two small parts are timed, and the growth between them is extended to the whole. Where the first is over
    so soon that even twice the time per pair makes a short fit, it is not followed by the second; the cost
    of kernel machines grows faster.
    """
    n_pairs = len(tuples)
    if n_pairs < MIN_PAIRS:
        return 0.0
    order = np.random.default_rng(0).permutation(n_pairs)
    seconds = []
    # A part may lack what the base needs, such as a class, and bases have errors of their own.
    with warnings.catch_warnings(), suppress(Exception):
        warnings.simplefilter("ignore")
        for share in SHARES:
            part = order[: n_pairs // share]
            part_keywords = _check_method_params(tuples, keywords, indices=part)
            start = time.perf_counter()
            clone(base).fit(tuples[part], y[part], **part_keywords)
            seconds.append(time.perf_counter() - start)
            if 2 * share * seconds[-1] < SLOW_SECONDS / 5 and not is_kernel_machine(base):
                return 0.0
    if len(seconds) < len(SHARES):
        return 0.0
    growth = np.log(seconds[1] / seconds[0]) / np.log(SHARES[0] / SHARES[1])
    return float(seconds[1] * SHARES[1] ** np.clip(growth, 0.0, QUADRATIC))
