"""Properties of base estimators, and their preparation for training on pairs."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Iterator, Sequence
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn import get_config
from sklearn.base import BaseEstimator, clone, is_classifier
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import (
    BaggingClassifier,
    BaggingRegressor,
    ExtraTreesClassifier,
    ExtraTreesRegressor,
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.gaussian_process import GaussianProcessClassifier, GaussianProcessRegressor
from sklearn.kernel_ridge import KernelRidge
from sklearn.pipeline import Pipeline
from sklearn.svm import SVC, SVR, NuSVC, NuSVR
from sklearn.tree import (
    DecisionTreeClassifier,
    DecisionTreeRegressor,
    ExtraTreeClassifier,
    ExtraTreeRegressor,
)
from sklearn.utils import ClassifierTags, RegressorTags, Tags, TargetTags, get_tags

from deltauq.core import Encoding, Full, Target

MAX_PAIRS = {
    **dict.fromkeys((SVC, SVR, NuSVC, NuSVR), 10_000),
    **dict.fromkeys((GaussianProcessClassifier, GaussianProcessRegressor, KernelRidge), 2_000),
}
"""Kernel machines. With 10,000 pairs, a Gaussian process takes about an hour."""
TREES = (DecisionTreeRegressor, DecisionTreeClassifier, ExtraTreeRegressor, ExtraTreeClassifier)
REGRESSION_FORESTS = (RandomForestRegressor, ExtraTreesRegressor)
TREE_FORESTS = (*REGRESSION_FORESTS, RandomForestClassifier, ExtraTreesClassifier)
FORESTS = (*TREE_FORESTS, BaggingRegressor, BaggingClassifier)
BOOSTING = {
    *(
        (kind.__module__, kind.__name__)
        for kind in (HistGradientBoostingRegressor, HistGradientBoostingClassifier)
    ),
    *(("lightgbm.sklearn", name) for name in ("LGBMRegressor", "LGBMClassifier")),
    *(("xgboost.sklearn", name) for name in ("XGBRegressor", "XGBClassifier")),
}
"""Module and name of classes of gradient boosting whose trees can be read; they need not be installed."""
FULL_MAX_FEATURES = 0.5
"""`targets-study`: the columns of [R, X, X - R] repeat each other, so that trees hardly differ without it."""
MIN_PAIRS_PER_LEAF = 3
"""`forest-study`: a third of the size with about the same errors. For classifiers the NLL would be worse."""
CATEGORY_PARAMETERS = ("categorical_features", "cat_features", "categorical_feature")
"""Parameters that name categorical columns."""
COLUMN_PARAMETERS = (
    "interaction_cst",
    "interaction_constraints",
    "monotonic_cst",
    "monotone_constraints",
    "feature_types",
)
"""Parameters with other properties of columns."""
WRAPPED = ("estimator", "regressor", "classifier")
"""Parameters of meta-estimators that are estimators."""


def prepare_base(estimator: BaseEstimator, random_state: np.random.RandomState) -> BaseEstimator:
    """Return a seeded clone without internal validation, since the same row is in many pairs."""
    base = seed(estimator, random_state)
    for part in _parts(base):
        _switch_off_internal_validation(part)
    last = _last_step(base)
    if last.get_params(deep=False).get("probability") is True:
        # Its folds would split pairs, not rows; AnchoredClassifier fits probabilities in folds of rows.
        last.set_params(probability=False)
    return base


def class_weight_of(base: BaseEstimator) -> Any:
    """Return the class weights of a base estimator, or None."""
    return _last_step(base).get_params(deep=False).get("class_weight")


def max_pairs(base: BaseEstimator) -> int | None:
    """Return the largest number of pairs for a kernel machine, or None for other estimators."""
    limits = [n for kind, n in MAX_PAIRS.items() for part in _parts(base) if isinstance(part, kind)]
    return min(limits, default=None)


def count_trees(base: BaseEstimator) -> int | None:
    """Return the number of trees of the forests in an estimator, 1 for a single tree, or None without trees.

    The trees of gradient boosting do not count.
    """
    counts = [part.n_estimators for part in _parts(base) if isinstance(part, FORESTS)]
    if not counts:
        return 1 if isinstance(_last_step(base), TREES) else None
    # The estimator itself raises for invalid values.
    return sum(int(count) for count in counts if isinstance(count, Integral) and int(count) > 0) or None


def default_encoding(base: BaseEstimator, target: Target) -> str:
    """Return the encoding of ``encoding="auto"``: the one with the smaller errors in `targets-study`."""
    return "full" if target.needs_labels and count_trees(base) is None else "difference"


def adapt_to_pairs(base: BaseEstimator, encoding: Encoding) -> None:
    """Set the parameters of trees that pairs need; see `n_train_anchors` of `AnchoredRegressor`."""
    for part in _parts(base):
        if isinstance(part, REGRESSION_FORESTS):
            if part.min_samples_leaf in (1, 2):
                part.set_params(min_samples_leaf=MIN_PAIRS_PER_LEAF)
            if isinstance(encoding, Full) and part.max_features == 1.0:
                part.set_params(max_features=FULL_MAX_FEATURES)
        elif is_boosting(part):
            part.set_params(**_larger_boosting(part))


def _larger_boosting(boosting: Any) -> dict[str, int]:
    """Return the parameters of boosting with twice the iterations and, for regression, twice the leaves."""
    params = {name: value for name, value in boosting.get_params(deep=False).items() if value is not None}
    is_xgboost = type(boosting).__module__.startswith("xgboost")
    if is_xgboost:
        params = {"n_estimators": 100, "max_depth": 6, **params}  # what None means
    doubled = ["max_iter", "n_estimators"]
    if not is_classifier(boosting):
        doubled += ["max_leaf_nodes", "num_leaves"]
    # The estimator itself raises for invalid values.
    larger = {name: 2 * params[name] for name in doubled if isinstance(params.get(name), Integral)}
    has_depth = is_xgboost and params.get("booster") != "gblinear"
    if has_depth and not is_classifier(boosting) and params["max_depth"] > 0:  # zero means no limit
        larger["max_depth"] = params["max_depth"] + 1
    return larger


def splits_float32(base: BaseEstimator) -> bool:
    """Return whether an estimator is a tree or forest of scikit-learn, which casts its input to float32."""
    return isinstance(base, TREES + TREE_FORESTS)


def trains_by_epochs(base: BaseEstimator) -> bool:
    """Return whether an estimator can have new anchors in every epoch, by `partial_fit` and `max_iter`."""
    params = base.get_params(deep=False)
    # Balanced class weights and L-BFGS need all rows at once.
    needs_all_rows = params.get("class_weight") == "balanced" or params.get("solver") == "lbfgs"
    # An adaptive learning rate starts over with every partial_fit.
    adapts = params.get("learning_rate") == "adaptive"
    return hasattr(base, "partial_fit") and "max_iter" in params and not (needs_all_rows or adapts)


def weight_keyword(base: BaseEstimator) -> str:
    """Return the argument of `fit` for sample weights, or raise TypeError if there is none."""
    if isinstance(base, Pipeline) and not get_config()["enable_metadata_routing"]:
        name, last = base.steps[-1]
        return f"{name}__{weight_keyword(last)}"
    if accepts(base.fit, "sample_weight"):
        return "sample_weight"
    raise TypeError(f"sample_weight was given, but {type(base).__name__}.fit does not take it.")


def accepts(method: Any, keyword: str) -> bool:
    """Return whether a method takes this keyword; meta-estimators pass any on."""
    parameters = inspect.signature(method).parameters
    return keyword in parameters or any(p.kind is p.VAR_KEYWORD for p in parameters.values())


def is_estimator(value: Any) -> bool:
    """Return whether a value has the methods of an estimator. Those of CatBoost do not inherit from one."""
    methods = ("get_params", "set_params", "fit")
    return not isinstance(value, type) and all(hasattr(value, name) for name in methods)


def tags_of(base: Any) -> Tags:
    """Return the tags of an estimator, or defaults if it has none."""
    model = _last_step(base)
    while (inner := _wrapped(model)) is not None:
        model = _last_step(inner)
    # The tags of pipelines and meta-estimators depend on the inner estimator.
    if hasattr(base, "__sklearn_tags__") and hasattr(model, "__sklearn_tags__"):
        return get_tags(base)
    kind = getattr(model, "_estimator_type", None)
    return Tags(
        estimator_type=kind,
        target_tags=TargetTags(required=True),
        regressor_tags=RegressorTags() if kind == "regressor" else None,
        classifier_tags=ClassifierTags() if kind == "classifier" else None,
    )


def accepts_nan(base: Any) -> bool:
    """Return whether an estimator accepts missing values, or may accept them."""
    if isinstance(base, Pipeline):
        for _, step in base.steps:
            if not accepts_nan(step):
                return False
            if _may_fill_nan(step):
                return True
        return True
    if not hasattr(base, "__sklearn_tags__"):
        return True
    if tags_of(base).input_tags.allow_nan or _may_fill_nan(base):
        return True
    inner = _wrapped(base)
    return inner is not None and accepts_nan(inner)


def _may_fill_nan(step: Any) -> bool:
    """Return whether a step of a pipeline may remove missing values."""
    if isinstance(step, Pipeline):
        return any(_may_fill_nan(part) for _, part in step.steps)
    if not hasattr(step, "transform"):
        return False
    module = type(step).__module__
    unknown = not module.startswith("sklearn.") or tags_of(step).no_validation
    return unknown or module.startswith("sklearn.impute")


def _wrapped(base: Any) -> Any:
    """Return the inner estimator of a meta-estimator, or None."""
    params = base.get_params(deep=False) if is_estimator(base) else {}
    return next((params[name] for name in WRAPPED if is_estimator(params.get(name))), None)


def _last_step(base: BaseEstimator) -> BaseEstimator:
    """Return the last step of a pipeline, or the estimator itself."""
    return _last_step(base.steps[-1][1]) if isinstance(base, Pipeline) else base


def _parts(base: BaseEstimator) -> Iterator[BaseEstimator]:
    """Yield an estimator and every estimator inside it."""
    yield base
    for value in base.get_params(deep=True).values():
        if is_estimator(value):
            yield value


def check_no_column_parameters(base: BaseEstimator) -> None:
    """Raise ValueError for parameters that refer to columns, since pairs have other columns than X."""
    for part in _parts(base):
        for name, value in part.get_params(deep=False).items():
            if name not in (*COLUMN_PARAMETERS, *CATEGORY_PARAMETERS):
                continue  # the length of an unfitted forest is an error
            if value is None or (hasattr(value, "__len__") and len(value) == 0):
                continue
            if name in COLUMN_PARAMETERS:
                raise ValueError(
                    f"{type(part).__name__} has {name} set, but it would refer to columns of anchors and "
                    "differences, not of X: leave it out."
                )
            if name in CATEGORY_PARAMETERS and not isinstance(value, str):
                raise ValueError(
                    f"{type(part).__name__} has {name} set, but categories have no differences: leave it out "
                    f"and encode categories first, as in {encoding_advice()}."
                )
    if any(isinstance(part, ColumnTransformer) for part in _parts(base)):
        raise ValueError(
            "estimator contains a ColumnTransformer, but it would see anchor and difference columns: put it "
            "outside, as in make_pipeline(ColumnTransformer(...), <anchored estimator>)."
        )


def encoding_advice(columns: Sequence[Any] = ()) -> str:
    """Return the code of a pipeline that encodes categorical columns."""
    names = ", ".join(map(repr, columns)) or "<columns>"
    encoder = (
        f"make_column_transformer((OneHotEncoder(sparse_output=False), [{names}]), remainder='passthrough')"
    )
    return f"make_pipeline({encoder}, <anchored estimator>)"


def seed(estimator: BaseEstimator, random_state: np.random.RandomState) -> BaseEstimator:
    """Return a clone with a seed for every random state left at None, drawn in a fixed order."""
    seeded = clone(estimator)
    unset = sorted(
        name
        for name, value in seeded.get_params(deep=True).items()
        if value is None and (name == "random_state" or name.endswith("__random_state"))
    )
    return seeded.set_params(**{name: int(random_state.randint(np.iinfo(np.int32).max)) for name in unset})


def _switch_off_internal_validation(part: BaseEstimator) -> None:
    """Switch off validation on a part of the pairs, which contains the rows of the other part."""
    params = part.get_params(deep=False)
    off: dict[str, Any] = {}
    if "early_stopping" in params:
        off["early_stopping"] = False
    elif "validation_fraction" in params:
        off["n_iter_no_change"] = None
    if "oob_score" in params:
        off["oob_score"] = False
    name = type(part).__name__
    for key in off:
        if params[key] not in (None, False, "auto"):
            warnings.warn(
                f"{name}({key}={params[key]}) would validate on rows it trains on: it is switched off.",
                UserWarning,
                stacklevel=2,
            )
    part.set_params(**off)
    if "cv" in params:
        warnings.warn(
            f"{name} cross-validates over pairs, so that training and test folds contain the same rows: "
            "tune it outside, as in GridSearchCV(<anchored estimator>).",
            UserWarning,
            stacklevel=2,
        )


# -- trees -----------------------------------------------------------------------------------------


def has_fast_path(estimator: object) -> bool:
    """Return whether `tree_outputs` and compiled trees can replace the estimator's own prediction.

    Only the exact types qualify, because a subclass may override how it predicts.
    """
    return type(estimator) in TREES + TREE_FORESTS or is_boosting(estimator)


def contains_boosting(base: BaseEstimator) -> bool:
    """Return whether an estimator is or wraps gradient boosting."""
    return any(is_boosting(part) or type(part).__module__.startswith("catboost") for part in _parts(base))


def is_boosting(estimator: object) -> bool:
    """Return whether an estimator is gradient boosting whose trees `read_ensemble` knows."""
    return (type(estimator).__module__, type(estimator).__name__) in BOOSTING


def tree_outputs(estimator: Any, Z: ArrayLike) -> np.ndarray:
    """Return the outputs of an estimator with a fast path for m tuples, of shape (m, o).

    They are predicted values, or class probabilities with the classes of several targets side by side.
    """
    if is_boosting(estimator):
        if is_classifier(estimator):  # it returns two columns for a single class
            return np.asarray(estimator.predict_proba(Z)[:, : len(estimator.classes_)], dtype=np.float64)
        return np.asarray(estimator.predict(Z), dtype=np.float64).reshape(len(np.asarray(Z)), -1)
    # A forest's own predict adds the trees in the order in which its threads finish, so that the last bits
    # may differ from call to call.
    trees, Z32 = trees_of(estimator), to_float32(Z)
    total = np.zeros((Z32.shape[0], sum(count_tree_outputs(trees[0]))))
    for tree in trees:
        if is_classifier(tree):
            proba = tree.predict_proba(Z32, check_input=False)
            total += np.hstack(proba) if isinstance(proba, list) else proba
        else:
            total += tree.predict(Z32, check_input=False).reshape(len(Z32), -1)
    return total / len(trees)


def trees_of(estimator: Any) -> list[Any]:
    """Return the trees of an estimator with a fast path."""
    return [estimator] if isinstance(estimator, TREES) else list(estimator.estimators_)


def count_tree_outputs(tree: Any) -> list[int]:
    """Return how many columns of the output belong to each target of a tree."""
    if is_classifier(tree):
        return [int(count) for count in np.atleast_1d(tree.n_classes_)]
    return [1] * int(tree.n_outputs_)


def to_float32(values: ArrayLike) -> np.ndarray:
    """Return a C-contiguous float32 copy; values beyond float32 become infinite, as in a plain cast."""
    with np.errstate(over="ignore", under="ignore"):
        return np.array(values, dtype=np.float32, order="C")
