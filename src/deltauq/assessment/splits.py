"""Which rows a model is fitted to, which set the scale of its intervals, and which test it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.model_selection import (
    GroupShuffleSplit,
    KFold,
    StratifiedKFold,
    TimeSeriesSplit,
    check_cv,
    train_test_split,
)

from deltauq.utils.formatting import shown

HELD_SHARE = 0.2
"""The part of the training rows that is left out to set the scale of intervals."""


@dataclass(frozen=True)
class Split:
    """The rows of one fold, as indices.

    Attributes
    ----------
    fit, held, test : int arrays
        `held` is empty where nothing is to be calibrated.
    """

    fit: np.ndarray
    held: np.ndarray
    test: np.ndarray


def make_splits(
    X: Any,
    y: np.ndarray,
    *,
    cv: Any,
    n_repeats: int,
    groups: Any,
    stratify: bool,
    hold: bool,
    rng: np.random.Generator,
) -> list[Split]:
    """Return the folds.

    Parameters
    ----------
    X : array-like of shape (n, d)
    y : array of shape (n,)
    cv : int, splitter or iterable of (train, test)
        A number of folds is shuffled, and stratified for classes.
    n_repeats : int
        Only with a number of folds.
    groups : array-like of shape (n,), optional
        Handed to the splitter; rows of one group are not parted when rows are held back either.
    stratify : bool
        Whether y is made of classes.
    hold : bool
        Whether a fifth of each training part is held back. It is drawn at random; in a time series it is
        the last fifth.
    rng : numpy.random.Generator

    Returns
    -------
    splits : list of Split
    """
    last = isinstance(cv, TimeSeriesSplit)
    groups = None if groups is None else np.asarray(groups)
    splits = []
    for train, test in _folds(X, y, cv, n_repeats, groups, stratify, rng):
        fit, held = train, np.empty(0, dtype=int)
        if hold:
            fit, held = _hold_back(train, groups, last, int(rng.integers(2**31)))
        splits.append(Split(fit, held, test))
    if len(splits) < 2:
        raise ValueError(f"cv must make at least two folds, got {len(splits)}.")
    return splits


def _folds(
    X: Any,
    y: np.ndarray,
    cv: Any,
    n_repeats: int,
    groups: np.ndarray | None,
    stratify: bool,
    rng: np.random.Generator,
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    if not isinstance(cv, (int, np.integer)):
        if n_repeats != 1:
            raise ValueError(
                f"n_repeats={n_repeats} needs cv to be a number of folds; give a repeated splitter instead."
            )
        if not hasattr(cv, "split") and cv is not None:
            cv = _train_test_pairs(cv)
        yield from check_cv(cv, y, classifier=stratify).split(X, y, groups)
        return
    if not 2 <= cv <= len(y):
        raise ValueError(f"cv, the number of folds, must be from 2 to the {len(y)} rows there are, got {cv}.")
    if groups is not None:
        raise ValueError("groups need a splitter that heeds them, such as cv=GroupKFold(5).")
    if stratify:
        _require_rows_in_every_class(y, int(cv))
    for _ in range(n_repeats):
        kind = StratifiedKFold if stratify else KFold
        yield from kind(int(cv), shuffle=True, random_state=int(rng.integers(2**31))).split(X, y)


def _train_test_pairs(cv: Any) -> list[Any]:
    """Return an iterable of (train, test) as a list, or raise ValueError for anything else."""
    pairs = list(cv) if isinstance(cv, Iterable) else [cv]
    for pair in pairs:
        if not isinstance(pair, (tuple, list, np.ndarray)) or [np.ndim(rows) for rows in pair] != [1, 1]:
            raise ValueError(
                "cv must be a number of folds, a scikit-learn splitter or pairs of (train, test) row "
                f"numbers, got {shown(cv)}."
            )
    return pairs


def _require_rows_in_every_class(y: np.ndarray, n_folds: int) -> None:
    smallest = int(np.min(np.bincount(y)))
    if smallest < n_folds:
        raise ValueError(
            f"The smallest class has {smallest} row(s), but {n_folds} folds need {n_folds}: use fewer folds "
            "or merge classes."
        )


def _hold_back(
    train: np.ndarray, groups: np.ndarray | None, last: bool, seed: int
) -> tuple[np.ndarray, np.ndarray]:
    """Part training rows into those to fit and those to hold back."""
    if len(train) < 2:
        raise ValueError(f"A training part of {len(train)} row(s) is too small to hold rows back.")
    if last:
        start = len(train) - max(1, round(HELD_SHARE * len(train)))
        return train[:start], train[start:]
    if groups is not None:
        splitter = GroupShuffleSplit(1, test_size=HELD_SHARE, random_state=seed)
        fit, held = next(splitter.split(train, groups=groups[train]))
        return train[fit], train[held]
    fit, held = train_test_split(train, test_size=HELD_SHARE, random_state=seed)
    return fit, held
