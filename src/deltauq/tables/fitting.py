"""`fit`: from a table to a calibrated model of one of its columns."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning

from deltauq.calibration import quantiles_of_scores
from deltauq.calibration.conformal import rows_needed
from deltauq.core import Anchors, get_prior
from deltauq.core.anchors import PRIORS
from deltauq.estimators import (
    AnchoredClassifier,
    AnchoredRegressor,
    StackedClassifier,
    StackedRegressor,
    classification_members,
    regression_members,
)
from deltauq.estimators.base_estimators import accepts_nan
from deltauq.tables.base_models import (
    AUTO,
    SCALE_INVARIANT,
    STORES_TRAINING_ROWS,
    BaseModel,
    build_base_model,
)
from deltauq.tables.errors import TableError, model_errors
from deltauq.tables.model import Fitted, TableModel, error_probability
from deltauq.tables.preprocessing import (
    MAX_FINGERPRINTS,
    TrainingTable,
    build_preprocessor,
    duplicate_fraction,
    load_table,
    row_fingerprints,
    table_sha256,
)
from deltauq.tables.risk import ColumnRanges, RiskScale
from deltauq.tables.schema import REGRESSION

MIN_ROWS = 10
"""The smallest number of rows."""
N_ANCHORS = 20
NOTED_REPETITIONS = 0.01
"""A larger share of repeated rows is noted."""
ROWS_AS_ANCHORS = ("data", "balanced")
"""Priors whose anchors are rows of the training table."""


def fit(
    table: Any,
    target: str,
    *,
    task: str = "auto",
    model: str | BaseEstimator = AUTO,
    coverage: float = 0.9,
    anchors: str = "data",
    n_anchors: int = N_ANCHORS,
    n_train_anchors: int | str = "auto",
    quick: bool = False,
    max_rows: int | None = None,
    date_format: str | None = None,
    decimal: str | None = None,
    encoding: str = "utf-8",
    random_state: int = 0,
    n_jobs: int | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> TableModel:
    """Fit a model with prediction intervals, or sets of classes, to a table.

    Dates become days, and categories become columns; a missing category is a category. In regression,
    columns of more than 20 categories are also encoded by the mean target of each. Missing numbers are
    passed to models that accept them, and imputed by the median for all others. By default several models
    are fitted, among them gradient boosting with labelled anchors, and combined by their out-of-fold
    predictions: see `StackedRegressor` and `StackedClassifier`. From the same predictions follow intervals or
    sets of the nominal coverage, and levels of risk.

    Parameters
    ----------
    table : path, pandas DataFrame, or any data frame with the Arrow interface
        A path names a CSV (possibly compressed), Parquet or Arrow file.
    target : str
        The column to predict.
    task : {"auto", "regression", "classification"}, default="auto"
        "auto" is classification for categories, flags and at most ten different whole numbers.
    model : {"auto", "forest", "boosting", "svm", "knn", "mlp", "tree", "linear"} or estimator, \
            default="auto"
        "auto" combines the models of `StackedRegressor` or `StackedClassifier`. A base estimator, by name or
        as a scikit-learn estimator, is fitted with anchors and without, and both are combined; a classifier
        without probabilities, such as "svm", is fitted with anchors only.
    coverage : float, default=0.9
        Default nominal coverage of intervals or sets.
    anchors : {"data", "normal", "balanced", "kmeans"}, default="data"
        The prior of the anchors, which are stored with the model. Anchors of "data" and "balanced" are rows
        of the table; with the other two, "auto" contains no rows, and missing numbers are always imputed,
        since these anchors are made from means. Those of "normal" have no targets, so that the model learns
        values with them.
    n_anchors : int, default=20
        Number of anchors to predict with, K; at most the number of training rows. They repeat if there are
        fewer training anchors: boosting of "auto" has 10,000 divided by the number of rows, but at least 5.
    n_train_anchors : int or "auto", default="auto"
        Number of training anchors, M, as in `AnchoredRegressor`.
    quick : bool, default=False
        Whether to fit in about a quarter of the time, with somewhat wider intervals: three folds, smaller
        models.
    max_rows : int, optional
        The largest number of rows to use. Larger tables are sampled at random.
    date_format : str, optional
        The format of dates in text, as for `datetime.strptime`, such as "%d/%m/%Y". ISO 8601, days before
        months with points (31.12.2024), and unambiguous formats are recognised without it.
    decimal : {".", ","}, optional
        The decimal mark of ambiguous numbers in text, such as 1,250. Others, such as 2.450,00, are
        recognised without it.
    encoding : str, default="utf-8"
        The encoding of a CSV file.
    random_state : int, default=0
        Random seed.
    n_jobs : int, optional
        Number of threads.
    progress : callable, optional
        Called with the number of finished steps and of all steps.

    Returns
    -------
    model : TableModel

    Examples
    --------
    >>> from deltauq.tables import fit
    >>> from sklearn.datasets import load_diabetes
    >>> table = load_diabetes(as_frame=True).frame
    >>> model = fit(table[:300], "target", model="tree")
    >>> list(model.predict(table[300:]).columns)
    ['prediction', 'std', 'lower', 'upper', 'risk']
    """
    _check_parameters(model, coverage, anchors)
    target = str(target)
    formats: dict[str, Any] = {"date_format": date_format, "decimal": decimal, "encoding": encoding}
    data = load_table(table, target, task, max_rows, random_state, **formats)
    _check_rows(data, coverage)
    is_regression = data.task == REGRESSION
    is_scale_invariant = model in [AUTO, *SCALE_INVARIANT]
    takes_nan = is_scale_invariant if isinstance(model, str) else accepts_nan(model)
    preprocessor = build_preprocessor(
        data.schema,
        data.task,
        scaled=not is_scale_invariant,
        # The other priors take means of rows, and store no rows.
        imputed=not takes_nan or anchors not in ROWS_AS_ANCHORS,
        means=anchors in ROWS_AS_ANCHORS,
    )
    # Squares of large targets would overflow.
    y = data.y / (np.abs(data.y).max() or 1.0) if is_regression else data.y
    X = np.asarray(preprocessor.fit_transform(data.X, y), dtype=np.float64)
    if n_anchors > len(X):
        data.notes.append(f"Of {n_anchors:,} anchors, {len(X):,} are used: the number of training rows.")
        n_anchors = len(X)
    anchoring = {"anchors": anchors, "n_anchors": n_anchors}
    if n_train_anchors != "auto":
        anchoring["n_train_anchors"] = n_train_anchors
    if is_regression and anchors == "normal":
        anchoring["target"] = "value"  # normally distributed anchors have no targets
    stacked = (StackedRegressor if is_regression else StackedClassifier)(
        _members(model, data.task, X, quick, anchoring), quick=quick, random_state=random_state, n_jobs=n_jobs
    )
    name = model if isinstance(model, str) else type(model).__name__
    with (
        warnings.catch_warnings(),
        model_errors(f"{name} cannot be fitted to this table", stacked if isinstance(model, str) else model),
    ):
        # Members that did not converge are scored like the others.
        warnings.simplefilter("ignore", ConvergenceWarning)
        stacked.fit(X, data.y, progress=progress)
    _check_scored(stacked.n_scored_, len(X), coverage, data.task)
    ranges = ColumnRanges.of(X)
    fingerprints = row_fingerprints(data.X, data.y)
    if (repeated := duplicate_fraction(fingerprints)) > NOTED_REPETITIONS:
        data.notes.append(
            f"{repeated:.0%} of the rows repeat another row. If they are copies, remove them: errors are "
            "underestimated otherwise, and intervals are too narrow."
        )
    stores_rows = anchors in ROWS_AS_ANCHORS or model in STORES_TRAINING_ROWS or not isinstance(model, str)
    reference = _reference(stacked, data, X, anchors, n_anchors, random_state)
    report = {
        "rows": len(X),
        "scored": stacked.n_scored_,
        "model": name,
        "members": dict(zip(stacked.names_, stacked.weights_.tolist(), strict=True)),
        "errors": stacked.member_errors_,
        "error": stacked.error_,
        "anchors": anchors,
        "n_anchors": len(np.unique(np.nan_to_num(reference, nan=np.inf), axis=0)),
        "stores_rows": stores_rows,
        "sha256": table_sha256(fingerprints),
        "left_out": data.left_out,
        "notes": data.notes,
        **(_widths(stacked, coverage) if is_regression else {}),
    }
    size = stacked.sizes_ if is_regression else error_probability(stacked.scored_proba_)
    return TableModel(
        target=target,
        task=data.task,
        schema=data.schema,
        coverage=coverage,
        fitted=Fitted(
            preprocessor,
            stacked,
            ranges,
            reference,
            np.sort(fingerprints)
            if stores_rows and len(X) <= MAX_FINGERPRINTS
            else np.empty(0, dtype=np.uint64),
        ),
        risk=RiskScale.from_measures({"size": size, "beyond": ranges.beyond_others(X)}),
        labels=data.labels,
        origin=data.origin,
        target_format=data.target_format,
        report=report,
    )


def _members(
    model: str | BaseEstimator, task: str, X: np.ndarray, quick: bool, anchoring: dict[str, Any]
) -> list[tuple[str, BaseEstimator]]:
    """Return the models to combine: a named one with anchors and without, or those of "auto"."""
    is_regression = task == REGRESSION
    if isinstance(model, str) and model == AUTO:
        members = regression_members if is_regression else classification_members
        store_rows = anchoring["anchors"] in ROWS_AS_ANCHORS
        return members(len(X), quick=quick, store_rows=store_rows, **anchoring)
    base = build_base_model(BaseModel(model), task) if isinstance(model, str) else model
    anchored = (AnchoredRegressor if is_regression else AnchoredClassifier)(base, **anchoring)
    has_plain = is_regression or hasattr(base, "predict_proba")
    return [("anchored", anchored), *([("plain", base)] if has_plain else [])]


def _reference(
    stacked: StackedRegressor | StackedClassifier,
    data: TrainingTable,
    X: np.ndarray,
    anchors: str,
    n_anchors: int,
    random_state: int,
) -> np.ndarray:
    """Return the rows that `evaluate` compares others with: the anchors, or ones like them without these."""
    for member in stacked.estimators_:
        if isinstance(member, (AnchoredRegressor, AnchoredClassifier)):
            return np.asarray(member.anchors_.X)
    rng = np.random.default_rng(random_state)
    return np.asarray(get_prior(anchors).draw(Anchors(X), n_anchors, rng, labels=_strata(data)).X)


def _widths(stacked: StackedRegressor, coverage: float) -> dict[str, float]:
    """Return the mean width of intervals, and the width of intervals of constant width."""
    tails = [(1.0 - coverage) / 2.0, (1.0 + coverage) / 2.0]
    lower, upper = quantiles_of_scores(stacked.scores_, tails)
    constant_lower, constant_upper = quantiles_of_scores(stacked.scores_ * stacked.sizes_, tails)
    return {
        "width": float((upper - lower) * stacked.sizes_.mean()),
        "constant_width": float(constant_upper - constant_lower),
    }


def _strata(data: TrainingTable) -> np.ndarray:
    """Return the classes, or the deciles of the targets, for balanced anchors."""
    if data.task != REGRESSION:
        return np.unique(data.y, return_inverse=True)[1]
    ranks = np.argsort(np.argsort(data.y, kind="stable"), kind="stable")
    return np.asarray(ranks * 10 // len(ranks))


def _check_parameters(model: Any, coverage: float, anchors: str) -> None:
    if isinstance(model, str) and model not in [AUTO, *BaseModel]:
        names = [AUTO, *(str(name) for name in BaseModel)]
        raise ValueError(f"model must be one of {names}, got {model!r}.")
    if not 0.0 < coverage < 1.0:
        raise ValueError(f"coverage must lie between 0 and 1, got {coverage!r}.")
    if anchors not in PRIORS:
        raise ValueError(f"anchors must be one of {[*PRIORS]}, got {anchors!r}.")


def _check_rows(data: TrainingTable, coverage: float) -> None:
    """Raise an error for too few rows, or rows of a class."""
    n, fewest = len(data.y), max(MIN_ROWS, _scores_needed(coverage, data.task))
    if n < fewest:
        raise TableError(f"{n:,} rows are too few: a coverage of {coverage:g} requires at least {fewest:,}.")
    if data.task != REGRESSION:
        classes, counts = np.unique(data.y, return_counts=True)
        if counts.min() < 2:
            raise TableError(f'the class "{classes[counts.argmin()]}" has a single row: two are needed.')


def _check_scored(n_scored: int, n: int, coverage: float, task: str) -> None:
    """Raise an error for too few scored rows: of many rows, a part is scored."""
    if n_scored < (fewest := _scores_needed(coverage, task)):
        raise TableError(
            f"a coverage of {coverage:g} requires at least {fewest:,} scored rows: of {n:,} rows, "
            f"{n_scored:,} are scored."
        )


def _scores_needed(coverage: float, task: str) -> int:
    # Half of the rows that an interval misses are beyond each end.
    return rows_needed((1.0 + coverage) / 2.0 if task == REGRESSION else coverage)
