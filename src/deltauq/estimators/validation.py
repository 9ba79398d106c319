"""Validation of training data and inputs, with errors that say what to do."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import scipy.sparse
from sklearn.base import BaseEstimator
from sklearn.utils.validation import validate_data

from deltauq.core import AnchorPrior, Anchors, KMeansPrior, NormalPrior
from deltauq.estimators.base_estimators import accepts_nan, encoding_advice
from deltauq.utils.formatting import as_text

CATEGORY_KINDS = ("category", "Categorical", "Enum")
DATE_KINDS = ("date", "time", "duration", "period", "Date", "Time", "Duration")


@contextmanager
def all_or_nothing(estimator: BaseEstimator) -> Iterator[None]:
    """Fit an estimator without earlier attributes, and restore these if fitting fails."""
    before = dict(vars(estimator))
    for name in before:
        if name.endswith("_") and not name.startswith("_"):
            delattr(estimator, name)
    try:
        with advise_on_nan(estimator):
            yield
    except BaseException:
        vars(estimator).clear()
        vars(estimator).update(before)
        raise


@contextmanager
def advise_on_nan(estimator: Any) -> Iterator[None]:
    """Add what to do to the error of scikit-learn for missing values."""
    try:
        yield
    except ValueError as error:
        if not str(error).startswith("Input X contains NaN"):
            raise
        raise ValueError(
            f"X contains NaN, which {type(estimator._base()).__name__} does not accept: fill it first, as in "
            "make_pipeline(SimpleImputer(), <anchored estimator>), or anchor a model that accepts it, such "
            "as histogram gradient boosting."
        ) from error


def validate_input(estimator: Any, X: Any, *y: Any) -> Any:
    """Return validated X, and y when fitting, like scikit-learn's `validate_data`."""
    fitting = bool(y)
    base = getattr(estimator, "estimator_", estimator._base())
    if scipy.sparse.issparse(X):
        raise TypeError(
            "X is sparse, but dense data is required: differences from anchors are dense. Use X.toarray(), "
            "or reduce it first, as in make_pipeline(TruncatedSVD(), <anchored estimator>)."
        )
    check_no_dates("X", X)
    categories = _columns_of_kinds(X, CATEGORY_KINDS)
    if categories:
        raise ValueError(
            f"X has columns of categories, {categories[:3]}, which have no differences: encode them first, "
            f"as in {encoding_advice(categories[:3])}."
        )
    try:
        return validate_data(
            estimator,
            X,
            *y,
            reset=fitting,
            dtype=np.float64 if fitting else (np.float64, np.float32),
            ensure_all_finite="allow-nan" if accepts_nan(base) else True,
            ensure_min_samples=2 if fitting else 1,
            **({"multi_output": True} if fitting else {}),
        )
    except (ValueError, np.exceptions.DTypePromotionError) as error:
        if str(error).startswith("Expected 2D array"):  # the message of scikit-learn shows the data
            raise ValueError(
                f"X must be a 2D array of rows and columns, got {as_text(np.asarray(X))}. Reshape your data "
                "with X.reshape(-1, 1) if it has a single feature, or X.reshape(1, -1) if it is a single row."
            ) from None
        check_numeric("X", X, error)
        raise


def check_no_dates(name: str, X: Any) -> None:
    """Raise ValueError for columns of dates or durations, which NumPy would convert to nanoseconds."""
    dates = _columns_of_kinds(X, DATE_KINDS)
    if dates or (isinstance(X, np.ndarray) and X.dtype.kind in "mM"):
        where = f"columns of dates, {dates[:3]}" if dates else "dates"
        raise ValueError(f"{name} must be numeric, but has {where}: turn dates into numbers first.")


def check_numeric(name: str, X: Any, error: Exception) -> None:
    """Raise ValueError for columns that are not numeric, instead of an error that shows their values."""
    if not (isinstance(error, TypeError) or "could not convert" in str(error)):
        return
    if hasattr(X, "columns"):
        columns = {column: X[column] for column in X.columns}
    else:
        columns = dict(enumerate(np.atleast_2d(np.asarray(X, dtype=object)).T))
    text = [column for column, values in columns.items() if not _is_numeric(values)]
    if text:
        raise ValueError(
            f"{name} must be numeric, but the columns {text[:3]} are not: encode such columns first, as in "
            f"{encoding_advice(text[:3])}."
        ) from None


def _is_numeric(values: Any) -> bool:
    try:
        np.asarray(values, dtype=np.float64)
    except (ValueError, TypeError):
        return False
    return True


def _columns_of_kinds(X: Any, kinds: tuple[str, ...]) -> list[Any]:
    """Return the columns of a data frame whose data type has one of these prefixes."""
    if not (hasattr(X, "columns") and hasattr(X, "dtypes")):
        return []
    return [name for name, dtype in zip(X.columns, X.dtypes, strict=True) if str(dtype).startswith(kinds)]


def check_finite_means(prior: AnchorPrior, X: np.ndarray) -> None:
    """Raise ValueError if a prior takes means of rows with missing values."""
    takes_means = isinstance(prior, KMeansPrior) or (isinstance(prior, NormalPrior) and not prior.standard)
    if takes_means and np.isnan(X).any():
        raise ValueError(
            f'{prior!r} requires means of X, but X contains NaN: use anchors="data", or fill it first, as in '
            "make_pipeline(SimpleImputer(), <anchored estimator>)."
        )


def warn_if_single_anchor(anchors: Anchors) -> None:
    """Warn if all anchors are the same."""
    values = anchors.X if anchors.y is None else np.column_stack([anchors.X, anchors.y])
    if np.all((values == values[0]) | (np.isnan(values) & np.isnan(values[0]))):
        warnings.warn(
            "there is only one distinct anchor, so σ is zero everywhere.", UserWarning, stacklevel=3
        )
