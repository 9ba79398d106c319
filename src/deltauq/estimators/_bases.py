"""What a base model needs before it may be trained on paired rows."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
from sklearn import get_config
from sklearn.base import BaseEstimator, clone
from sklearn.compose import ColumnTransformer
from sklearn.gaussian_process import GaussianProcessClassifier, GaussianProcessRegressor
from sklearn.kernel_ridge import KernelRidge
from sklearn.pipeline import Pipeline
from sklearn.svm import SVC, SVR, NuSVC, NuSVR
from sklearn.utils import get_tags
from sklearn.utils.validation import has_fit_parameter

KERNEL_MACHINES = (
    SVC,
    SVR,
    NuSVC,
    NuSVR,
    GaussianProcessClassifier,
    GaussianProcessRegressor,
    KernelRidge,
)


def prepare_base(estimator: BaseEstimator, random_state: np.random.RandomState) -> BaseEstimator:
    """Return a clone that is safe to train on paired rows.

    Parameters
    ----------
    estimator : scikit-learn estimator
    random_state : numpy.random.RandomState
        Seeds every random state that the user left at None.

    Returns
    -------
    base : scikit-learn estimator, unfitted
    """
    base = clone(estimator)
    _refuse_column_transformer(base)
    seed(base, random_state)
    for part in _parts(base):
        _switch_off_internal_validation(part)
    return base


def is_kernel_machine(base: BaseEstimator) -> bool:
    """Tell whether the base's cost grows with the square of its rows."""
    return any(isinstance(part, KERNEL_MACHINES) for part in _parts(base))


def trains_by_epochs(base: BaseEstimator) -> bool:
    """Tell whether the base can see fresh anchors every epoch: `partial_fit` and `max_iter`."""
    params = base.get_params(deep=False)
    # Balanced class weights and L-BFGS need all rows at once: scikit-learn refuses partial_fit with them.
    needs_all_rows = params.get("class_weight") == "balanced" or params.get("solver") == "lbfgs"
    return hasattr(base, "partial_fit") and "max_iter" in params and not needs_all_rows


def takes_several_outputs(base: BaseEstimator) -> bool:
    """Tell whether the base can be fitted to a target of several columns."""
    tags = get_tags(base)
    multi_label = tags.classifier_tags is not None and tags.classifier_tags.multi_label
    return tags.target_tags.multi_output or multi_label


def weight_keyword(base: BaseEstimator) -> str:
    """Return the keyword under which the base's `fit` takes sample weights, or raise TypeError."""
    if isinstance(base, Pipeline) and not get_config()["enable_metadata_routing"]:
        name, last = base.steps[-1]
        if has_fit_parameter(last, "sample_weight"):
            return f"{name}__sample_weight"
        base = last
    elif has_fit_parameter(base, "sample_weight") or isinstance(base, Pipeline):
        return "sample_weight"
    raise TypeError(f"sample_weight was given, but {type(base).__name__}.fit does not take it.")


def takes_weights(base: BaseEstimator) -> bool:
    """Tell whether the base can be fitted with sample weights."""
    try:
        weight_keyword(base)
    except TypeError:
        return False
    return True


def accepts(method: Any, keyword: str) -> bool:
    """Tell whether a method has a parameter of that name."""
    return keyword in inspect.signature(method).parameters


def _parts(base: BaseEstimator) -> Iterator[BaseEstimator]:
    """Yield the base and every estimator inside it."""
    yield base
    for value in base.get_params(deep=True).values():
        if isinstance(value, BaseEstimator):
            yield value


def _refuse_column_transformer(base: BaseEstimator) -> None:
    if any(isinstance(part, ColumnTransformer) for part in _parts(base)):
        raise ValueError(
            "estimator contains a ColumnTransformer, but it would see anchor and difference columns: put it "
            "outside, as in make_pipeline(ColumnTransformer(...), AnchoredRegressor(...))."
        )


def seed(base: BaseEstimator, random_state: np.random.RandomState) -> None:
    """Give every random state left at None a seed of ours, in a fixed order."""
    unset = sorted(
        name
        for name, value in base.get_params(deep=True).items()
        if value is None and (name == "random_state" or name.endswith("__random_state"))
    )
    base.set_params(**{name: int(random_state.randint(np.iinfo(np.int32).max)) for name in unset})


def _switch_off_internal_validation(part: BaseEstimator) -> None:
    """Stop a model from validating on rows it trains on: paired rows put the same X on both sides."""
    params = part.get_params(deep=False)
    name = type(part).__name__
    if params.get("early_stopping") is True:
        _warn(f"{name}(early_stopping=True) would validate on rows it trains on: it is switched off.")
    if "early_stopping" in params:
        part.set_params(early_stopping=False)
    elif "validation_fraction" in params and params.get("n_iter_no_change") is not None:
        _warn(f"{name}(n_iter_no_change=...) would validate on rows it trains on: it is switched off.")
        part.set_params(n_iter_no_change=None)
    if params.get("oob_score"):
        _warn(f"{name}(oob_score=True) would score rows it trained on: it is switched off.")
        part.set_params(oob_score=False)
    if params.get("probability") is True:
        # Its folds would split pairs, not rows; AnchoredClassifier fits probabilities in folds of rows.
        part.set_params(probability=False)
    if "cv" in params:
        _warn(
            f"{name} cross-validates over paired rows, so the same row stands on both sides of its folds: "
            "tune it outside, as in GridSearchCV(AnchoredRegressor(...))."
        )


def _warn(message: str) -> None:
    warnings.warn(message, UserWarning, stacklevel=2)
