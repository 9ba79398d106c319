"""Refusing what means nothing, in one sentence, and leaving nothing half-fitted behind."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import MethodType
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import validate_data

from deltauq.estimators._bases import takes_weights, weight_keyword


class FitLikeBase:
    """Shows `fit` without `sample_weight` on instances whose base takes none.

    scikit-learn's own meta-estimators look at the signature to find out, so it has to tell the truth.
    """

    def __init__(self, fit: Callable[..., Any]) -> None:
        self._fit = fit
        self.__doc__ = fit.__doc__

    def __get__(self, instance: Any, owner: type) -> Callable[..., Any]:
        if instance is None:
            return self._fit
        bound = MethodType(self._fit, instance)
        base = instance._base()
        if not hasattr(base, "fit") or takes_weights(base):
            return bound

        def fit(X: Any, y: Any, sample_weight: Any = None, **fit_params: Any) -> Any:
            if sample_weight is not None:
                weight_keyword(base)  # raises the TypeError that says so
            return bound(X, y, **fit_params)

        shown = inspect.signature(bound)
        parameters = [p for name, p in shown.parameters.items() if name != "sample_weight"]
        fit.__signature__ = shown.replace(parameters=parameters)  # type: ignore[attr-defined]
        fit.__doc__ = self._fit.__doc__
        return fit


@contextmanager
def all_or_nothing(estimator: BaseEstimator) -> Iterator[None]:
    """Start from an unfitted estimator, and leave it as it was when fitting fails."""
    before = dict(vars(estimator))
    for name in before:
        if name.endswith("_") and not name.startswith("_"):
            delattr(estimator, name)
    try:
        yield
    except BaseException:
        vars(estimator).clear()
        vars(estimator).update(before)
        raise


def validated(estimator: BaseEstimator, X: Any, *y: Any) -> Any:
    """Validate X, and y when fitting, so that every error names its argument."""
    fitting = bool(y)
    try:
        return validate_data(
            estimator,
            X,
            *y,
            reset=fitting,
            dtype=np.float64 if fitting else (np.float64, np.float32),
            ensure_min_samples=2 if fitting else 1,
            **({"multi_output": True} if fitting else {}),
        )
    except (ValueError, np.exceptions.DTypePromotionError) as error:
        if isinstance(error, ValueError) and "could not convert" not in str(error):
            raise
        raise ValueError(f"X must be numeric, but {error}; encode such columns before anchoring.") from error


def require_count(name: str, value: Any, otherwise: str = "") -> None:
    """Refuse anything but a positive integer."""
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < 1:
        allowed = f"a positive integer {otherwise}".strip()
        raise ValueError(f"{name} must be {allowed}, got {value!r}.")


def require_choice(name: str, value: Any, choices: tuple[Any, ...]) -> None:
    """Refuse a value that is not one of the choices."""
    if not (value is None or isinstance(value, str)) or value not in choices:
        raise ValueError(f"{name} must be one of {list(choices)}, got {value!r}.")


def require_positive(name: str, value: Any, otherwise: str = "") -> None:
    """Refuse anything but a finite number above zero."""
    number = isinstance(value, (int, float, np.integer, np.floating)) and not isinstance(value, bool)
    if not number or not 0 < value < np.inf:
        allowed = f"{otherwise} a positive number".strip()
        raise ValueError(f"{name} must be {allowed}, got {value!r}.")


def warn_if_alone(anchors: np.ndarray) -> None:
    """Warn of anchors of shape (K, d) that are all the same: nothing can spread over them."""
    if np.all(anchors == anchors[0]):
        warnings.warn(
            "there is only one distinct anchor, so σ is zero everywhere.", UserWarning, stacklevel=3
        )
