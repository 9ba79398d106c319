"""Traps that pairing sets for bases which look at their own rows."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import TransformedTargetRegressor
from sklearn.ensemble import (
    BaggingRegressor,
    ExtraTreesRegressor,
    GradientBoostingRegressor,
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    RandomForestRegressor,
    StackingRegressor,
)
from sklearn.experimental import enable_halving_search_cv  # noqa: F401
from sklearn.feature_selection import RFE
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LassoCV, Ridge, RidgeCV
from sklearn.model_selection import FixedThresholdClassifier, GridSearchCV, HalvingGridSearchCV
from sklearn.multiclass import OneVsOneClassifier, OneVsRestClassifier
from sklearn.multioutput import MultiOutputRegressor
from sklearn.neighbors import KNeighborsRegressor
from sklearn.neural_network import MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler
from sklearn.svm import SVC, SVR
from sklearn.tree import DecisionTreeRegressor
from sklearn.utils import get_tags

from deltauq import AnchoredClassifier, AnchoredRegressor
from deltauq.core import Anchors
from deltauq.estimators.base_estimators import accepts_nan, max_pairs, tags_of
from deltauq.testing import check_contract


def fit(base, table, **params):
    return AnchoredRegressor(base, n_anchors=5, n_train_anchors=5, random_state=0, **params).fit(*table)


def test_automatic_early_stopping_is_switched_off(table):
    model = fit(HistGradientBoostingRegressor(max_iter=5), table)
    assert model.estimator_.early_stopping is False


def test_early_stopping_in_a_pipeline_is_disabled(table):
    model = fit(make_pipeline(StandardScaler(), HistGradientBoostingRegressor(max_iter=5)), table)
    assert model.estimator_[-1].early_stopping is False


@pytest.mark.parametrize(
    ("base", "word", "value"),
    [
        (HistGradientBoostingRegressor(max_iter=5, early_stopping=True), "early_stopping", False),
        (GradientBoostingRegressor(n_estimators=5, n_iter_no_change=2), "n_iter_no_change", None),
        (RandomForestRegressor(30, oob_score=True), "oob_score", False),
    ],
    ids=lambda v: type(v).__name__,
)
def test_internal_validation_is_switched_off_with_a_warning(base, word, value, table):
    with pytest.warns(UserWarning, match=f"{word}.*switched off"):
        model = fit(base, table)
    assert model.estimator_.get_params()[word] is value


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_early_stopping_of_a_network_is_disabled(table):
    with pytest.warns(UserWarning, match="early_stopping=True.*switched off"):
        model = fit(MLPRegressor(max_iter=3, early_stopping=True), table)
    assert model.estimator_.early_stopping is False


@pytest.mark.parametrize(
    "base",
    [
        RidgeCV(),
        LassoCV(),
        GridSearchCV(DecisionTreeRegressor(), {"max_depth": [2, 3]}),
        StackingRegressor([("r", Ridge())]),
    ],
    ids=lambda b: type(b).__name__,
)
def test_internal_cross_validation_warns(base, table):
    with pytest.warns(UserWarning, match="tune it outside"):
        fit(base, table)


def test_center_keeps_the_settings_of_the_estimator(table):
    with pytest.warns(UserWarning, match="switched off"):
        model = fit(HistGradientBoostingRegressor(max_iter=5, early_stopping=True), table, center="estimator")
    assert model.center_.early_stopping is True


@pytest.mark.filterwarnings("ignore:.*probability.*:FutureWarning")
def test_svc_probabilities_use_folds_of_rows(labelled):
    X, y = labelled
    model = AnchoredClassifier(SVC(probability=True), n_anchors=3, random_state=0).fit(X, y)
    assert model.estimator_.probability is False
    assert hasattr(model, "probability_calibrator_")


def test_kernel_machines_in_pipelines():
    assert max_pairs(make_pipeline(StandardScaler(), SVR())) == 10_000
    assert max_pairs(make_pipeline(StandardScaler(), Ridge())) is None


def test_the_given_estimator_is_not_changed(table):
    base = HistGradientBoostingRegressor(max_iter=5)
    fit(base, table)
    assert base.early_stopping == "auto" and base.random_state is None and not hasattr(base, "n_features_in_")


def test_seeds_of_nested_estimators(table):
    base = StackingRegressor(
        [("a", DecisionTreeRegressor()), ("b", DecisionTreeRegressor(random_state=3))], cv=2
    )
    with pytest.warns(UserWarning, match="tune it outside"):
        model = fit(base, table)
    seeds = [tree.random_state for tree in model.estimator_.estimators_]
    assert isinstance(seeds[0], int | np.integer) and seeds[1] == 3


# -- missing values --------------------------------------------------------------------------------


@pytest.fixture
def gaps(table):
    X, y = table
    X = X.copy()
    X[np.random.default_rng(0).random(X.shape) < 0.2] = np.nan
    return X, y


ACCEPT_NAN = [
    DecisionTreeRegressor(),
    RandomForestRegressor(4),
    ExtraTreesRegressor(4),
    HistGradientBoostingRegressor(max_iter=5),
    BaggingRegressor(DecisionTreeRegressor(), 2),
    MultiOutputRegressor(HistGradientBoostingRegressor(max_iter=5)),
    make_pipeline(StandardScaler(), HistGradientBoostingRegressor(max_iter=5)),
    make_pipeline(StandardScaler(), SimpleImputer(), SVR()),
]


def test_boosting_whose_anchors_all_lack_a_value():
    rng = np.random.default_rng(0)
    X, anchors = rng.normal(size=(80, 3)), rng.normal(size=(4, 3))
    X[::4, 1] = anchors[:, 1] = np.nan
    y = np.nansum(X, axis=1)
    prior = Anchors(anchors, np.nansum(anchors, axis=1))
    model = AnchoredRegressor(HistGradientBoostingRegressor(max_iter=20), anchors=prior, random_state=0)
    mean, std = model.fit(X, y).predict(X, return_std=True)
    assert np.corrcoef(mean, y)[0, 1] > 0.9 and np.isfinite(std).all()


@pytest.mark.parametrize("base", ACCEPT_NAN, ids=lambda b: type(b).__name__)
@pytest.mark.parametrize("encoding", ["difference", "full", "identity", "two-anchor"])
@pytest.mark.parametrize("target", ["difference", "value"])
def test_missing_values_reach_bases_that_accept_them(base, encoding, target, gaps):
    X, y = gaps
    if isinstance(base, MultiOutputRegressor):
        y = np.column_stack([y, -y])
    model = fit(base, (X, y), encoding=encoding, target=target)
    assert get_tags(model).input_tags.allow_nan
    assert np.isnan(model.anchors_.X).any()
    # The definition, anchor by anchor: a difference is missing where either of its parts is.
    R = model.anchors_.X
    second = np.roll(R, -1, axis=0)
    forms = {
        "difference": lambda k: [R[k], X - R[k]],
        "full": lambda k: [R[k], X, X - R[k]],
        "identity": lambda k: [R[k], X],
        "two-anchor": lambda k: [R[k], second[k], X - R[k] - second[k]],
    }
    tuples = (np.hstack([np.broadcast_to(p, X.shape) for p in forms[encoding](k)]) for k in range(len(R)))
    expected = np.array([model.estimator_.predict(Z) for Z in tuples])
    if target == "difference":
        labels = model.anchors_.y
        if encoding == "two-anchor":
            labels = (labels + np.roll(labels, -1, axis=0)) / 2
        expected = expected + labels[:, None]
    np.testing.assert_allclose(model.predict(X), expected.mean(axis=0), rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(model.posterior(X).var, expected.var(axis=0), rtol=1e-6, atol=1e-12)


BOOSTING = HistGradientBoostingRegressor(max_iter=3)


@pytest.mark.filterwarnings("ignore:.*cross-validates over pairs")
@pytest.mark.parametrize(
    "base",
    [
        TransformedTargetRegressor(BOOSTING),
        TransformedTargetRegressor(make_pipeline(SimpleImputer(), Ridge())),
        HalvingGridSearchCV(BOOSTING, {"max_iter": [2, 3]}, cv=2),
        make_pipeline(FunctionTransformer(), BOOSTING),
        make_pipeline(FunctionTransformer(np.nan_to_num), Ridge()),
        make_pipeline(make_pipeline(StandardScaler(), SimpleImputer()), Ridge()),
        make_pipeline(StandardScaler(), make_pipeline(SimpleImputer(), Ridge())),
        RFE(BOOSTING, importance_getter=lambda model: np.arange(model.n_features_in_), step=3),
    ],
    ids=lambda b: type(b).__name__,
)
def test_missing_values_pass_through_wrappers(base, gaps):
    assert np.isfinite(fit(base, gaps).predict(gaps[0])).all()


@pytest.mark.filterwarnings("ignore:.*cross-validates over pairs")
@pytest.mark.parametrize(
    "wrap", [CalibratedClassifierCV, OneVsRestClassifier, OneVsOneClassifier, FixedThresholdClassifier]
)
def test_missing_values_pass_through_wrappers_of_classifiers(wrap, gaps):
    X, y = gaps
    base = wrap(HistGradientBoostingClassifier(max_iter=3))
    assert accepts_nan(base)
    assert np.isfinite(base.fit(X, y > 0).predict(X)).all(), "the model alone takes them"
    model = AnchoredClassifier(base, n_anchors=5, n_train_anchors=5, random_state=0)
    if hasattr(base, "predict_proba"):
        assert np.isfinite(model.fit(X, y > 0).predict_proba(X)).all()


def test_error_of_a_pipeline_without_missing_value_support(gaps):
    base = make_pipeline(FunctionTransformer(), Ridge())
    with pytest.raises(ValueError, match=r"^X contains NaN, which Pipeline does not accept[^\n]*$"):
        fit(base, gaps)
    with pytest.raises(ValueError, match=r"^X contains NaN, which Pipeline does not accept[^\n]*$"):
        fit(base, (np.nan_to_num(gaps[0]), gaps[1])).predict(gaps[0])


@pytest.mark.parametrize(
    "base",
    [SVR(), make_pipeline(StandardScaler(), SVR()), MultiOutputRegressor(SVR()), MLPRegressor()],
    ids=lambda b: type(b).__name__,
)
def test_missing_values_raise_where_not_accepted(base, gaps):
    assert not get_tags(AnchoredRegressor(base)).input_tags.allow_nan
    with pytest.raises(ValueError, match=r"X contains NaN, which .* does not accept"):
        AnchoredRegressor(base).fit(*gaps)


@pytest.mark.parametrize("base", [DecisionTreeRegressor(), ExtraTreesRegressor(3)])
def test_the_contract_of_trees_holds_with_missing_values(base, gaps):
    check_contract(AnchoredRegressor(base, random_state=0), *gaps, rtol=0)


@pytest.mark.parametrize("params", [{"calibrate": "cv"}, {"center": "estimator"}, {"anchors": "balanced"}])
def test_missing_values_under_other_parameters(params, gaps):
    X, y = gaps
    mean, std = fit(HistGradientBoostingRegressor(max_iter=5), gaps, **params).predict(X, return_std=True)
    assert np.isfinite(mean).all() and np.isfinite(std).all()
    classifier = AnchoredClassifier(
        HistGradientBoostingClassifier(max_iter=5), n_train_anchors=5, random_state=0, **params
    )
    proba, std = classifier.fit(X, y > np.median(y)).predict_proba(X, return_std=True)
    np.testing.assert_allclose(proba.sum(axis=1), 1.0)
    assert np.isfinite(std).all()


def test_missing_values_in_prediction_only(table, gaps):
    forest, X = fit(RandomForestRegressor(4), table), gaps[0]
    expected = [
        label + forest.estimator_.predict(np.hstack([np.broadcast_to(r, X.shape), X - r]))
        for r, label in zip(forest.anchors_.X, forest.anchors_.y, strict=True)
    ]
    np.testing.assert_allclose(forest.predict(X), np.mean(expected, axis=0), rtol=1e-9)
    forest.set_anchors(X[:7], gaps[1][:7])
    assert np.isfinite(forest.predict(table[0])).all()


def test_weights_equal_repeated_rows_with_missing_values(gaps):
    X, y = gaps[0][:30], gaps[1][:30]
    weights = np.tile([1, 2, 1], 10)
    twice = np.repeat(np.arange(30), weights)
    models = [
        AnchoredRegressor(DecisionTreeRegressor(), n_anchors=9, n_train_anchors=12, random_state=0)
        for _ in range(2)
    ]
    weighted, repeated = models[0].fit(X, y, weights), models[1].fit(X[twice], y[twice])
    drawn = [sorted(map(str, np.column_stack([m.anchors_.X, m.anchors_.y]))) for m in (weighted, repeated)]
    assert drawn[0] == drawn[1]


def test_equal_anchors_with_missing_values_count_as_one(gaps):
    model = fit(DecisionTreeRegressor(), gaps)
    row = np.array([[np.nan, *np.zeros(gaps[0].shape[1] - 1)]])
    with pytest.warns(UserWarning, match="only one distinct anchor"):
        model.set_anchors(np.repeat(row, 3, axis=0), np.ones(3))


# -- models of other libraries ---------------------------------------------------------------------


def boosted(library, kind, **params):
    """Return a small model of LightGBM, XGBoost or CatBoost, or skip the test."""
    small = {
        "lightgbm": ("LGBM", {"n_estimators": 8, "min_child_samples": 3, "verbose": -1, "n_jobs": 1}),
        "xgboost": ("XGB", {"n_estimators": 8, "n_jobs": 1}),
        "catboost": (
            "CatBoost",
            {"iterations": 8, "verbose": 0, "thread_count": 1, "allow_writing_files": False},
        ),
    }
    prefix, settings = small[library]
    return getattr(pytest.importorskip(library), prefix + kind)(**settings, **params)


LIBRARIES = ["lightgbm", "xgboost", "catboost"]


@pytest.mark.parametrize("library", LIBRARIES)
def test_regressors_of_other_libraries(library, gaps):
    X, y = gaps
    base = boosted(library, "Regressor")
    before = str(base.get_params())
    check_contract(AnchoredRegressor(base, n_anchors=10, n_train_anchors=10, random_state=0), X, y)
    assert str(base.get_params()) == before, "the user's model is not touched"
    weights = np.linspace(0, 2, len(y))
    model = fit(base, (X, y, weights), calibrate="cv", center="estimator")
    mean, std = model.predict(X, return_std=True)
    plain = clone(base).fit(X[weights > 0], y[weights > 0], sample_weight=weights[weights > 0])
    np.testing.assert_allclose(mean, plain.predict(X), rtol=1e-5, atol=1e-6)
    assert np.isfinite(std).all()
    assert type(base).__name__ in repr(clone(model)) and model._repr_html_()


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("names", [["no", "yes"], ["a", "b", "c"], [False, True], [0, 1, 2]], ids=str)
def test_classifiers_of_other_libraries(library, names, gaps):
    X, y = gaps
    if library == "xgboost" and not isinstance(names[0], int):
        pytest.skip("XGBoost takes class numbers only")
    labels = np.array(names)[np.digitize(y, np.quantile(y, np.arange(1, len(names)) / len(names)))]
    base = boosted(library, "Classifier")
    for params in ({}, {"center": "estimator"}, {"calibrate": "cv"}):
        model = AnchoredClassifier(base, n_anchors=5, n_train_anchors=5, random_state=0, **params)
        proba, std = model.fit(X, labels).predict_proba(X, return_std=True)
        assert proba.shape == std.shape == (len(y), len(names))
        predicted = model.predict(X)
        assert predicted.shape == labels.shape
        assert np.mean(predicted == labels) > 0.6


def test_several_outputs_of_catboost(table):
    X, y = table
    Y = np.column_stack([y, -y])
    mean = fit(boosted("catboost", "Regressor", loss_function="MultiRMSE"), (X, Y)).predict(X)
    assert mean.shape == Y.shape and np.corrcoef(mean[:, 0], y)[0, 1] > 0.7


def test_categorical_columns_of_catboost_raise(table):
    with pytest.raises(ValueError, match=r"cat_features.*leave it out"):
        fit(boosted("catboost", "Regressor", cat_features=[0]), table)


class Nearest:
    """A regressor with the methods of scikit-learn's estimators and none of its classes."""

    def __init__(self, n=1):
        self.n = n

    def get_params(self, deep=True):
        return {"n": self.n}

    def set_params(self, **params):
        vars(self).update(params)
        return self

    def fit(self, X, y):
        self.model_ = KNeighborsRegressor(self.n).fit(X, y)
        return self

    def predict(self, X):
        return self.model_.predict(X)


def test_objects_with_the_methods_of_an_estimator(table):
    X, _ = table
    expected = fit(KNeighborsRegressor(2), table).predict(X)
    np.testing.assert_array_equal(fit(Nearest(2), table, center="anchored").predict(X), expected)
    with pytest.raises(TypeError, match="sample_weight"):
        AnchoredRegressor(Nearest()).fit(*table, sample_weight=np.ones(len(X)))
    with pytest.raises(ValueError, match=r"X contains NaN, which Nearest does not accept[^\n]*$"):
        fit(Nearest(), (np.where(X > 1, np.nan, X), table[1]))


@pytest.mark.parametrize("wrap", [make_pipeline, TransformedTargetRegressor, BaggingRegressor])
def test_wrapped_estimators_without_tags(wrap):
    tags = tags_of(wrap(Nearest()))
    assert tags.target_tags.required and tags.estimator_type is None
    assert get_tags(AnchoredRegressor(wrap(Nearest()))).input_tags.allow_nan


def test_pipelines_of_estimators_without_tags(table, gaps):
    base = make_pipeline(FunctionTransformer(), Nearest(2))
    assert hasattr(fit(base, table).estimator_[-1], "model_")
    with pytest.raises(ValueError, match=r"X contains NaN, which Pipeline does not accept[^\n]*$"):
        fit(base, gaps)
    fit(make_pipeline(SimpleImputer(), Nearest(2)), gaps)


@pytest.mark.parametrize(
    "wrapper",
    [BaggingRegressor, MultiOutputRegressor, TransformedTargetRegressor, AnchoredRegressor],
)
def test_wrapped_unfitted_forests(wrapper):
    X, y = np.random.default_rng(0).normal(size=(30, 2)), np.arange(30.0)
    y = np.column_stack([y, y]) if wrapper is MultiOutputRegressor else y
    base = wrapper(RandomForestRegressor(2))
    model = AnchoredRegressor(base, n_anchors=3, n_train_anchors=2, random_state=0).fit(X, y)
    assert np.all(model.predict(X, return_std=True)[1] >= 0)
