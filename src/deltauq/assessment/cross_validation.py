"""`assess`: a model and its anchored forms, compared by cross-validation."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, clone
from sklearn.model_selection import (
    GroupShuffleSplit,
    KFold,
    ShuffleSplit,
    StratifiedKFold,
    TimeSeriesSplit,
    check_cv,
)
from sklearn.pipeline import Pipeline
from sklearn.utils import _safe_indexing, check_array, check_consistent_length, column_or_1d
from sklearn.utils._missing import is_pandas_na, is_scalar_nan
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.parallel import Parallel, delayed

from deltauq.assessment.fold_metrics import LABELS, FoldMetrics
from deltauq.assessment.methods import (
    anchors_per_row,
    calibrate,
    make_methods,
    predict,
    rows_to_calibrate,
)
from deltauq.assessment.result import Assessment
from deltauq.assessment.scoring import Predictions, compute
from deltauq.estimators import AnchoredRegressor
from deltauq.estimators.base_estimators import tags_of
from deltauq.estimators.validation import advise_on_nan, validate_input
from deltauq.utils.errors import InputError
from deltauq.utils.formatting import as_text
from deltauq.utils.progress import counting_bar

Tick = Callable[[int, int], None]

COMPUTED = {
    "regression": ("mae", "trimmed_mae", "rmse", "spearman", "coverage_raw", "coverage", "width"),
    "classification": ("accuracy", "brier", "log_loss", "ece", "auroc_spread", "auroc_confidence"),
}
HELD_OUT_SHARE = 0.2
"""The part of the training rows that is held out to calibrate intervals."""


@dataclass(frozen=True)
class Split:
    """Row indices of one fold; `held_out` is empty where nothing is to be calibrated."""

    fit: np.ndarray
    held_out: np.ndarray
    test: np.ndarray


@dataclass(frozen=True)
class FoldResult:
    """One method's predictions of the parts of one fold, and its seconds to fit and to predict one row."""

    predictions: dict[str, Predictions]
    fit_seconds: float
    row_seconds: float


def assess(
    estimator: BaseEstimator,
    X: Any,
    y: Any,
    *,
    cv: Any = 5,
    n_repeats: int = 1,
    groups: Any = None,
    n_anchors: int | str = "default",
    n_train_anchors: int | str = "auto",
    coverage: float = 0.9,
    n_jobs: int | None = None,
    random_state: int = 0,
    progress: bool | Tick = False,
) -> Assessment:
    """Compare a model with its anchored forms, inexpensive alternatives and a trivial baseline.

    Every method is fitted to the training part of every fold and predicts its test part:

    - *plain*: the model alone; its intervals have a constant width, from the residuals of held-out rows.
    - *anchored*: `AnchoredRegressor` or `AnchoredClassifier` around it.
    - *center*: the same spread around the plain model's predictions (``center="estimator"``).
    - *tree-spread*, *own-std*, *ensemble*: the spread of its trees, where it is a forest; its own standard
      deviations, where `predict` returns them; an ensemble of three, where it has a random state (and
      probabilities, for classes).
    - *baseline*: the mean of y, or the class priors, for every row. A method is recommended only if it
      is better than this.

    For regression a fifth of each training part is held out and calibrates the intervals of every method
    (split conformal prediction); test rows are never used for this. `decide` derives the recommendation from
    the metrics and documents its rule.

    Parameters
    ----------
    estimator : scikit-learn regressor or classifier
        Of a `Pipeline` only the last step is anchored: its preprocessing is fitted once for every training
        part, and all methods use the same features.
    X : array-like of shape (n, d)
        What the estimator accepts. The input of its last step must be dense numbers; missing values only
        where the model accepts them.
    y : array-like of shape (n,)
        Targets: numbers, or classes.
    cv : int, scikit-learn splitter or iterable of (train, test), default=5
        The folds. If a number, they are shuffled, and stratified for classes.
    n_repeats : int, default=1
        How often the folds are drawn; with more of them, smaller differences become significant.
    groups : array-like of shape (n,), optional
        Group of each row, for splitters that keep groups together.
    n_anchors : int or "default", default="default"
        K, the number of anchors of a prediction; "default" is the estimator's own.
    n_train_anchors : int or "auto", default="auto"
        M, the number of training anchors, as in `AnchoredRegressor`.
    coverage : float, default=0.9
        Nominal coverage of the intervals.
    n_jobs : int or None, default=None
        Number of processes. With more than one, run times are those of busy processors.
    random_state : int, default=0
        Random seed.
    progress : bool or callable, default=False
        True shows a progress bar in a terminal; a callable gets ``(done, total)`` after each fit.

    Returns
    -------
    assessment : Assessment
        With `recommendation`, `table`, `to_frame()`, `save_html(path)`; printing it shows the table and the
        recommendation.

    Examples
    --------
    >>> from deltauq import assess
    >>> from sklearn.datasets import load_diabetes
    >>> from sklearn.linear_model import LinearRegression
    >>> X, y = load_diabetes(return_X_y=True)
    >>> print(assess(LinearRegression(), X, y).recommendation.advice)
    do not use anchoring
    """
    start = time.perf_counter()
    _check_count("n_repeats", n_repeats)
    _check_count("n_anchors", n_anchors, "default")
    _check_count("n_train_anchors", n_train_anchors, "auto")
    if not (isinstance(coverage, (int, float)) and 0.0 < coverage < 1.0):
        raise InputError(f"coverage must lie between 0 and 1, got {as_text(coverage)}.")
    preprocessing, model = _split_pipeline(estimator)
    task = "classification" if tags_of(model).estimator_type == "classifier" else "regression"
    target, n_classes = _checked_classes(y) if task == "classification" else (_checked_numbers(y), 0)
    check_consistent_length(X, target)
    if preprocessing is None:
        # The class does not matter: both validate X in the same way.
        anchored = AnchoredRegressor(model)
        with advise_on_nan(anchored):
            X, _ = validate_input(anchored, X, target)
    rng = np.random.default_rng(random_state)
    splits = make_splits(task, X, target, cv, n_repeats, groups, rng)
    needed, smallest = rows_to_calibrate(coverage), min(len(split.held_out) for split in splits)
    if task == "regression" and smallest < needed:
        raise InputError(
            f"Too few rows: {coverage:.0%} intervals need {needed} held-out rows in each training part, but "
            f"a fifth of the smallest one is {smallest}. Use more rows."
        )
    params = {"n_train_anchors": n_train_anchors}
    if n_anchors != "default":
        params["n_anchors"] = n_anchors
    seeds = rng.integers(2**31, size=len(splits)).tolist()
    methods = [make_methods(task, model, params, seed) for seed in seeds]
    calls = [
        delayed(fit_and_predict)(preprocessing, model, method, X, target, split, n_classes)
        for split, fold in zip(splits, methods, strict=True)
        for method in fold.values()
    ]
    bar = counting_bar("fits") if progress is True else nullcontext(progress or (lambda done, total: None))
    results: list[FoldResult] = []
    with bar as tick:
        tick(0, len(calls))
        for result in Parallel(n_jobs=n_jobs, return_as="generator")(calls):
            results.append(result)
            tick(len(results), len(calls))
    remaining = iter(results)
    folds = [{name: next(remaining) for name in fold} for fold in methods]
    for fold in folds:
        fold["center"] = _center(fold["plain"], fold["anchored"])
    predictions: dict[str, list[Predictions]] = {}
    scores: dict[str, dict[str, np.ndarray]] = {}
    for method in (name for name in LABELS if name in folds[0]):
        parts, values = [], []
        for split, fold in zip(splits, folds, strict=True):
            result = fold[method]
            part = result.predictions["test"]
            if task == "regression":
                held_out = result.predictions["held_out"]
                part = calibrate(part, held_out, target[split.held_out], coverage)
            seconds = {"fit_seconds": result.fit_seconds, "row_seconds": result.row_seconds}
            values.append({**compute(COMPUTED[task], target[split.test], part, coverage), **seconds})
            parts.append(part)
        predictions[method] = parts
        scores[method] = {name: np.array([fold[name] for fold in values]) for name in values[0]}
    n_train = sum(len(split.fit) + len(split.held_out) for split in splits)
    n_test = sum(len(split.test) for split in splits)
    n_fit = int(np.median([len(split.fit) for split in splits]))
    return Assessment(
        estimator=type(model).__name__,
        n_rows=len(target),
        metrics=FoldMetrics(task, scores, n_test / n_train, coverage, n_test / len(splits)),
        targets=[target[split.test] for split in splits],
        predictions=predictions,
        fit_rows=[len(split.fit) for split in splits],
        n_repeats=n_repeats,
        seconds=time.perf_counter() - start,
        train_anchors=anchors_per_row(model, n_fit, n_train_anchors),
        default_train_anchors=anchors_per_row(model, n_fit, "auto"),
    )


def fit_and_predict(
    preprocessing: BaseEstimator | None,
    model: BaseEstimator,
    method: Any,
    X: Any,
    y: np.ndarray,
    split: Split,
    n_classes: int,
) -> FoldResult:
    """Fit one method for a model to the training rows of one fold, and predict the other rows."""
    parts = {name: _safe_indexing(X, rows) for name, rows in vars(split).items() if len(rows) > 0}
    y_fit = y[split.fit]
    if preprocessing is not None:
        preprocessing, anchored = clone(preprocessing), AnchoredRegressor(model)
        with advise_on_nan(anchored):
            X_fit, _ = validate_input(anchored, preprocessing.fit_transform(parts.pop("fit"), y_fit), y_fit)
            parts = {n: validate_input(anchored, preprocessing.transform(rows)) for n, rows in parts.items()}
        parts = {"fit": X_fit, **{name: rows.astype(np.float64) for name, rows in parts.items()}}
    start = time.perf_counter()
    method.fit(parts.pop("fit"), y_fit)
    fitted = time.perf_counter()
    predictions = {"test": predict(method, parts.pop("test"), n_classes)}
    predicted = time.perf_counter()
    predictions |= {name: predict(method, rows, n_classes) for name, rows in parts.items()}
    return FoldResult(predictions, fitted - start, (predicted - fitted) / len(split.test))


def _center(plain: FoldResult, anchored: FoldResult) -> FoldResult:
    """Return the plain model's predictions with the spread over anchors, which need no fit of their own."""
    return FoldResult(
        {name: replace(p, spread=anchored.predictions[name].spread) for name, p in plain.predictions.items()},
        plain.fit_seconds + anchored.fit_seconds,
        plain.row_seconds + anchored.row_seconds,
    )


# Input


def _check_count(name: str, value: Any, *allowed: str) -> None:
    """Raise ValueError unless a value is a positive integer or one of the allowed strings."""
    if isinstance(value, (int, np.integer)) and not isinstance(value, bool) and value >= 1:
        return
    if not (isinstance(value, str) and value in allowed):
        others = "".join(f' or "{text}"' for text in allowed)
        raise InputError(f"{name} must be a positive integer{others}, got {as_text(value)}.")


def _split_pipeline(estimator: Any) -> tuple[BaseEstimator | None, BaseEstimator]:
    """Return the preprocessing, if there is any, and the model that is to be anchored."""
    if isinstance(estimator, type) or not hasattr(estimator, "get_params"):
        raise TypeError(f"estimator must be a scikit-learn estimator, got {as_text(estimator)}.")
    steps: list[tuple[str, Any]] = []
    model: Any = estimator
    while isinstance(model, Pipeline):
        # Names may repeat between nested pipelines.
        steps += [(f"{len(steps)}-{name}", step) for name, step in model.steps[:-1]]
        model = model.steps[-1][1]
    if not hasattr(model, "get_params") or tags_of(model).estimator_type not in ("regressor", "classifier"):
        raise TypeError(f"estimator must end in a regressor or a classifier, got {as_text(model)}.")
    return (Pipeline(steps) if steps else None), model


def _checked_classes(y: Any) -> tuple[np.ndarray, int]:
    """Return the index of the class of each row, and the number of classes."""
    y = column_or_1d(y)
    missing = sum(label is None or is_pandas_na(label) or is_scalar_nan(label) for label in y.tolist())
    if missing > 0:
        raise InputError(f"y has {missing} missing value(s): remove these rows.")
    check_classification_targets(y)
    classes, indices = np.unique(y, return_inverse=True)
    if len(classes) < 2:
        raise InputError(f"y has one class only: {classes[0]!r}.")
    return indices, len(classes)


def _checked_numbers(y: Any) -> np.ndarray:
    """Return the targets of a regression as floats."""
    y = check_array(column_or_1d(y), ensure_2d=False, dtype=np.float64, input_name="y")
    if np.ptp(y) == 0:
        raise InputError(f"y is {y[0]:g} in every row: there is nothing to predict.")
    return np.asarray(y)


# Folds


def make_splits(
    task: str, X: Any, y: np.ndarray, cv: Any, n_repeats: int, groups: Any, rng: np.random.Generator
) -> list[Split]:
    """Return the folds.

    For regression a fifth of each training part is held out: at random, by groups where these are given, or
    the last fifth of a time series.
    """
    groups = None if groups is None else np.asarray(groups)
    splits = []
    for splitter in _splitters(task, y, cv, n_repeats, groups, rng):
        for fit, test in splitter.split(X, y, groups):
            held_out = np.empty(0, dtype=int)
            if task == "regression":
                seed = int(rng.integers(2**31))
                fit, held_out = _hold_out(fit, groups, isinstance(cv, TimeSeriesSplit), seed)
            splits.append(Split(fit, held_out, test))
    if len(splits) < 2:
        raise InputError(f"cv must make at least two folds, got {len(splits)}.")
    return splits


def _splitters(
    task: str, y: np.ndarray, cv: Any, n_repeats: int, groups: Any, rng: np.random.Generator
) -> Iterator[Any]:
    """Yield one splitter for each repeat."""
    stratify = task == "classification"
    if isinstance(cv, (int, np.integer)):
        if groups is not None:
            raise InputError("groups need a splitter that uses them, such as cv=GroupKFold(5).")
        if stratify and (smallest := int(np.min(np.bincount(y)))) < cv:
            raise InputError(
                f"The smallest class has {smallest} row(s), but {cv} folds need {cv}: use fewer folds or "
                "merge classes."
            )
        for _ in range(n_repeats):
            kind = StratifiedKFold if stratify else KFold
            yield kind(int(cv), shuffle=True, random_state=int(rng.integers(2**31)))
        return
    if n_repeats != 1:
        raise InputError(
            f"n_repeats={n_repeats} needs cv to be a number of folds; give a repeated splitter instead."
        )
    if not hasattr(cv, "split") and cv is not None:
        pairs = list(cv) if np.iterable(cv) else [cv]
        if not all(np.iterable(pair) and [*map(np.ndim, pair)] == [1, 1] for pair in pairs):
            raise InputError(
                "cv must be a number of folds, a scikit-learn splitter or pairs of (train, test) row "
                f"numbers, got {as_text(cv)}."
            )
        cv = pairs
    yield check_cv(cv, y, classifier=stratify)


def _hold_out(
    train: np.ndarray, groups: np.ndarray | None, is_time_series: bool, seed: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return the training rows to fit and those to hold out."""
    if is_time_series:
        start = len(train) - max(1, round(HELD_OUT_SHARE * len(train)))
        return train[:start], train[start:]
    splitter = (ShuffleSplit if groups is None else GroupShuffleSplit)(
        1, test_size=HELD_OUT_SHARE, random_state=seed
    )
    fit, held_out = next(splitter.split(train, groups=None if groups is None else groups[train]))
    return train[fit], train[held_out]
