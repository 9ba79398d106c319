"""`assess`: the user's model, plain and anchored, on the user's table."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.pipeline import Pipeline
from sklearn.utils import column_or_1d
from sklearn.utils._missing import is_pandas_na, is_scalar_nan
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _num_samples

from deltauq.assessment.anchoring import Anchoring
from deltauq.assessment.classification import Classification
from deltauq.assessment.jobs import Problem, Task, measure, run
from deltauq.assessment.regression import Regression
from deltauq.assessment.result import Assessment
from deltauq.assessment.splits import Split, make_splits
from deltauq.estimators import AnchoredRegressor
from deltauq.estimators.base_estimators import tags_of
from deltauq.estimators.validation import validate_input
from deltauq.utils.formatting import shown

Tick = Callable[[int, int], None]


def assess(
    estimator: BaseEstimator,
    X: Any,
    y: Any,
    *,
    cv: Any = 5,
    n_repeats: int = 1,
    groups: Any = None,
    n_anchors: int | str = "default",
    n_train_anchors: int | str = "quick",
    coverage: float = 0.9,
    n_jobs: int | None = None,
    random_state: int = 0,
    progress: bool | Tick = False,
) -> Assessment:
    """Compare a model with its anchored forms, cheap alternatives and a trivial baseline, and advise.

    Every method is fitted to the training part of every fold and asked about its test part:

    - *plain*: the model alone; its intervals have one width, from the residuals of rows left out.
    - *anchored*: `AnchoredRegressor` or `AnchoredClassifier` around it.
    - *center*: the same spread around the plain model's predictions (``center="estimator"``).
    - the spread of its trees, where it is a forest; its own standard deviations, where `predict` returns
      them; an ensemble of three, where it has a random state (and probabilities, for classes).
    - *baseline*: the mean of y, or the class frequencies, for every row. No method that is not better than
      this is advised.

    For regression a fifth of each training part is left out of fitting and sets the scale of
    intervals, in the same way for every method (split conformal prediction); test rows never do. For
    classification nothing is left out. `decide` turns the measures into advice and documents its rule.

    Parameters
    ----------
    estimator : scikit-learn regressor or classifier
        Of a `Pipeline` only the last step is anchored: its preprocessing is fitted once for every training
        part, and all methods see the same features.
    X : array-like of shape (n, d)
        What the estimator accepts. What reaches its last step must be dense numbers; missing values only
        where the model accepts them.
    y : array-like of shape (n,)
    cv : int, scikit-learn splitter or iterable of (train, test), default=5
        A number of folds is shuffled, and stratified for classes.
    n_repeats : int, default=1
        How often the folds are drawn anew; more of them make smaller differences count.
    groups : array-like of shape (n,), optional
        For splitters that keep groups together.
    n_anchors : int or "default", default="default"
        K; "default" is the estimator's own.
    n_train_anchors : int, "auto" or "quick", default="quick"
        M. "auto" is the estimator's own; "quick" is max(20, 10,000 // n), and "auto" for forests.
    coverage : float, default=0.9
        The nominal coverage of intervals.
    n_jobs : int or None, default=None
        Processes; with more than one, seconds are those of busy processors.
    random_state : int, default=0
    progress : bool or callable, default=False
        True shows on stderr how far it is; a callable is told ``(done, total)`` after each fit.

    Returns
    -------
    assessment : Assessment
        With `verdict`, `table`, `to_frame()`, `save_html(path)`; printing it shows the table and the advice.

    Examples
    --------
    >>> from deltauq import assess
    >>> from sklearn.datasets import load_diabetes
    >>> from sklearn.linear_model import LinearRegression
    >>> X, y = load_diabetes(return_X_y=True)
    >>> print(assess(LinearRegression(), X, y).verdict.advice)
    don't
    """
    start = time.perf_counter()
    _check_words(n_repeats, n_anchors, n_train_anchors, coverage)
    preprocessing, model = _take_apart(estimator)
    task, target = _read_task(model, y, coverage)
    if _num_samples(X) != len(target):
        raise ValueError(f"X has {_num_samples(X)} rows, but y has {len(target)}.")
    if preprocessing is None:
        # The class does not matter: both validate X in the same way.
        X, _ = validate_input(AnchoredRegressor(model), X, target)
    rng = np.random.default_rng(random_state)
    splits = make_splits(
        X,
        target,
        cv=cv,
        n_repeats=n_repeats,
        groups=groups,
        stratify=isinstance(task, Classification),
        hold=isinstance(task, Regression),
        rng=rng,
    )
    _check_rows(task, splits)
    anchoring = Anchoring(n_anchors, n_train_anchors)
    problem = Problem(task, preprocessing, model, X, target, anchoring)
    seeds = rng.integers(2**31, size=len(splits))
    outcomes = run(problem, splits, seeds.tolist(), n_jobs, _as_tick(progress))
    measures, answers = measure(task, splits, target, outcomes, coverage)
    n_fit = int(np.median([len(split.fit) for split in splits]))
    return Assessment(
        estimator=type(model).__name__,
        n_rows=len(target),
        measures=measures,
        targets=[target[split.test] for split in splits],
        answers=answers,
        fit_rows=[len(split.fit) for split in splits],
        n_repeats=n_repeats,
        seconds=time.perf_counter() - start,
        train_anchors=anchoring.count_for(model, n_fit),
        default_train_anchors=Anchoring(n_train_anchors="auto").count_for(model, n_fit),
    )


def _check_words(n_repeats: Any, n_anchors: Any, n_train_anchors: Any, coverage: Any) -> None:
    """Refuse arguments that mean nothing, naming them."""
    for name, value, word in (
        ("n_repeats", n_repeats, None),
        ("n_anchors", n_anchors, "default"),
        ("n_train_anchors", n_train_anchors, "quick"),
    ):
        allowed = [word, "auto"] if word == "quick" else [word]
        is_count = isinstance(value, (int, np.integer)) and not isinstance(value, bool) and value >= 1
        if not is_count and not (isinstance(value, str) and value in allowed):
            extra = "".join(f' or "{text}"' for text in allowed if text)
            raise ValueError(f"{name} must be a positive integer{extra}, got {shown(value)}.")
    if not (isinstance(coverage, (int, float)) and 0.0 < coverage < 1.0):
        raise ValueError(f"coverage must lie between 0 and 1, got {shown(coverage)}.")


def _take_apart(estimator: Any) -> tuple[BaseEstimator | None, BaseEstimator]:
    """Return what comes before the model, if anything does, and the model that is to be anchored."""
    if isinstance(estimator, type) or not hasattr(estimator, "get_params"):
        raise TypeError(f"estimator must be a scikit-learn estimator, got {shown(estimator)}.")
    steps: list[tuple[str, Any]] = []
    model: Any = estimator
    while isinstance(model, Pipeline):
        # Names may repeat between nested pipelines.
        steps += [(f"{len(steps)}-{name}", step) for name, step in model.steps[:-1]]
        model = model.steps[-1][1]
    if not hasattr(model, "get_params") or tags_of(model).estimator_type not in ("regressor", "classifier"):
        raise TypeError(f"estimator must end in a regressor or a classifier, got {shown(model)}.")
    return (Pipeline(steps) if steps else None), model


def _read_task(model: BaseEstimator, y: Any, coverage: float) -> tuple[Task, np.ndarray]:
    """Return the task and the targets: floats, or class numbers."""
    y = column_or_1d(y)
    if tags_of(model).estimator_type == "classifier":
        missing = sum(map(_is_missing, y.tolist()))
        if missing > 0:
            raise ValueError(f"y has {missing} missing value(s): leave these rows out.")
        check_classification_targets(y)
        classes, numbers = np.unique(y, return_inverse=True)
        if len(classes) < 2:
            raise ValueError(f"y has one class only: {classes[0]!r}.")
        return Classification(len(classes)), numbers
    try:
        y = np.asarray(y, dtype=np.float64)
    except ValueError as error:
        raise ValueError(f"y must be numeric for a regressor, but {error}.") from error
    if not np.all(np.isfinite(y)):
        raise ValueError(f"y has {int(np.sum(~np.isfinite(y)))} missing or infinite values.")
    if np.ptp(y) == 0:
        raise ValueError(f"y is {y[0]:g} in every row: there is nothing to predict.")
    return Regression(coverage), y


def _is_missing(label: Any) -> bool:
    return label is None or is_pandas_na(label) or is_scalar_nan(label)


def _check_rows(task: Task, splits: list[Split]) -> None:
    """Refuse folds that are too small for intervals of the nominal coverage."""
    if not isinstance(task, Regression):
        return
    needed = task.rows_needed()
    smallest = min(len(split.held) for split in splits)
    if smallest < needed:
        raise ValueError(
            f"Too few rows: {task.level:.0%} intervals need {needed} rows held back from each training part, "
            f"but a fifth of the smallest one is {smallest}. Give more rows."
        )


def _as_tick(progress: bool | Tick) -> Tick:
    if callable(progress):
        return progress
    return _show_progress if progress else lambda done, total: None


def _show_progress(done: int, total: int) -> None:
    print(f"\rassess: {done} of {total} fits", end="\n" if done == total else "", file=sys.stderr, flush=True)
