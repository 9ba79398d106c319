"""Fitting every method in every fold, and measuring what it says."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, clone
from sklearn.utils import _safe_indexing
from sklearn.utils.parallel import Parallel, delayed

from deltauq.assessment.anchoring import Anchoring
from deltauq.assessment.classification import Classification
from deltauq.assessment.measures import LABELS, Measures
from deltauq.assessment.regression import Regression
from deltauq.assessment.splits import Split
from deltauq.estimators import AnchoredRegressor
from deltauq.estimators.validation import validate_input

Task = Regression | Classification


@dataclass(frozen=True)
class Problem:
    """What is assessed.

    Attributes
    ----------
    task : Regression or Classification
    preprocessing : transformer or None
        Fitted to the training part before any method sees it.
    model : scikit-learn estimator
    X : array-like of shape (n, d)
    y : array of shape (n,)
    anchoring : Anchoring
    """

    task: Task
    preprocessing: BaseEstimator | None
    model: BaseEstimator
    X: Any
    y: np.ndarray
    anchoring: Anchoring

    def methods(self) -> list[str]:
        """Return the names of the methods that are fitted."""
        return list(self.task.methods(self.model, self.anchoring))


@dataclass(frozen=True)
class Outcome:
    """What one method said in one fold, and how long it took.

    Attributes
    ----------
    test : Interval or Opinion
    held : the same for the rows held back, or None
    fit_seconds, row_seconds : float
        To fit, and to predict one row.
    """

    test: Any
    held: Any
    fit_seconds: float
    row_seconds: float


def run(
    problem: Problem,
    splits: list[Split],
    seeds: Iterable[int],
    n_jobs: int | None,
    tick: Callable[[int, int], None],
) -> list[dict[str, Outcome]]:
    """Fit every method in every fold.

    Parameters
    ----------
    problem : Problem
    splits : list of f Split
    seeds : f integers
    n_jobs : int or None
        Processes.
    tick : callable
        Told ``(done, total)`` after each fit.

    Returns
    -------
    outcomes : list of f dicts of method to Outcome
        "center" among them.
    """
    methods = problem.methods()
    calls = (
        delayed(fit_and_ask)(problem, split, method, int(seed))
        for split, seed in zip(splits, seeds, strict=True)
        for method in methods
    )
    total = len(splits) * len(methods)
    tick(0, total)
    outcomes = []
    for outcome in Parallel(n_jobs=n_jobs, return_as="generator")(calls):
        outcomes.append(outcome)
        tick(len(outcomes), total)
    folds = [outcomes[i : i + len(methods)] for i in range(0, total, len(methods))]
    return [_with_center(problem.task, dict(zip(methods, fold, strict=True))) for fold in folds]


def fit_and_ask(problem: Problem, split: Split, method: str, seed: int) -> Outcome:
    """Fit one method to the training rows of one fold, and ask it about the others."""
    features = _prepare(problem, split)
    anchoring = problem.anchoring.for_rows(problem.model, len(split.fit))
    model = problem.task.methods(problem.model, anchoring)[method](seed)
    start = time.perf_counter()
    model.fit(features["fit"], problem.y[split.fit])
    fitted = time.perf_counter()
    test = problem.task.ask(model, features["test"])
    asked = time.perf_counter()
    held = problem.task.ask(model, features["held"]) if len(split.held) > 0 else None
    return Outcome(test, held, fitted - start, (asked - fitted) / len(split.test))


def measure(
    task: Task, splits: list[Split], y: np.ndarray, outcomes: list[dict[str, Outcome]], level: float
) -> tuple[Measures, dict[str, list[Any]]]:
    """Return the measures, and what each method said about the test rows of each fold."""
    answers: dict[str, list[Any]] = {}
    scores: dict[str, dict[str, list[float]]] = {}
    for method in [name for name in LABELS if name in outcomes[0]]:
        answers[method], scores[method] = [], {}
        for split, fold in zip(splits, outcomes, strict=True):
            outcome = fold[method]
            answer = outcome.test
            if isinstance(task, Regression):
                answer = task.calibrate(answer, outcome.held, y[split.held])
            values = task.measure(y[split.test], answer)
            values |= {"fit_seconds": outcome.fit_seconds, "row_seconds": outcome.row_seconds}
            answers[method].append(answer)
            for name, value in values.items():
                scores[method].setdefault(name, []).append(value)
    arrays = {
        method: {name: np.array(values) for name, values in by_name.items()}
        for method, by_name in scores.items()
    }
    n_train = sum(len(split.fit) + len(split.held) for split in splits)
    n_test = sum(len(split.test) for split in splits)
    return Measures(task.name, arrays, n_test / n_train, level, n_test / len(splits)), answers


def _prepare(problem: Problem, split: Split) -> dict[str, np.ndarray]:
    """Return the features of the three parts of a fold."""
    parts = {name: _safe_indexing(problem.X, rows) for name, rows in vars(split).items() if len(rows) > 0}
    if problem.preprocessing is None:
        return parts
    preprocessing, anchored = clone(problem.preprocessing), AnchoredRegressor(problem.model)
    y = problem.y[split.fit]
    fit, _ = validate_input(anchored, preprocessing.fit_transform(parts.pop("fit"), y), y)
    rest = {name: validate_input(anchored, preprocessing.transform(rows)) for name, rows in parts.items()}
    return {"fit": fit, **{name: rows.astype(np.float64) for name, rows in rest.items()}}


def _with_center(task: Task, fold: dict[str, Outcome]) -> dict[str, Outcome]:
    """Add what `center="estimator"` says: it takes no fit of its own."""
    plain, anchored = fold["plain"], fold["anchored"]
    fold["center"] = Outcome(
        task.center(plain.test, anchored.test),
        None if plain.held is None else task.center(plain.held, anchored.held),
        plain.fit_seconds + anchored.fit_seconds,
        plain.row_seconds + anchored.row_seconds,
    )
    return fold
