"""`assess` with invalid or unusual input."""

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_array
from sklearn.datasets import load_diabetes, make_friedman1
from sklearn.dummy import DummyRegressor
from sklearn.ensemble import ExtraTreesRegressor, HistGradientBoostingRegressor
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.model_selection import LeaveOneOut, StratifiedKFold
from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeRegressor

from deltauq import AnchoredRegressor, assess
from deltauq.assessment import Advice


def diabetes(n=150):
    X, y = load_diabetes(return_X_y=True)
    return X[:n], y[:n]


# Invalid input


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"cv": 1}, "n_splits=2 or more"),
        ({"cv": [(np.arange(90), np.arange(90, 100))]}, "at least two folds"),
        ({"cv": StratifiedKFold(3), "n_repeats": 2}, "number of folds"),
        ({"n_repeats": 0}, "n_repeats must be a positive integer"),
        ({"n_anchors": "many"}, 'n_anchors must be a positive integer or "default"'),
        ({"n_train_anchors": 0}, 'n_train_anchors must be a positive integer or "auto"'),
        ({"coverage": 1.0}, "coverage must lie between 0 and 1"),
        ({"coverage": 0.99}, "99% intervals need 124 held-out rows"),
        ({"groups": np.zeros(150)}, "groups need a splitter"),
        ({"cv": diabetes()[0]}, r"cv must be .* got <ndarray of shape \(150, 10\)>"),
        ({"cv": np.arange(150) % 5}, r"cv must be .* got <ndarray of shape \(150,\)>"),
        ({"coverage": diabetes()[0]}, r"coverage must .* got <ndarray of shape \(150, 10\)>"),
        ({"n_anchors": diabetes()[0]}, r"n_anchors must .* got <ndarray of shape \(150, 10\)>"),
    ],
)
def test_invalid_params(params, message):
    with pytest.raises(ValueError, match=message):
        assess(Ridge(), *diabetes(), **params)


def test_invalid_tables():
    X, y = diabetes()
    with pytest.raises(TypeError, match="scikit-learn estimator"):
        assess("forest", X, y)
    with pytest.raises(TypeError, match="regressor or a classifier"):
        assess(make_pipeline(StandardScaler(), SimpleImputer()), X, y)
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        assess(Ridge(), X, y[1:])
    with pytest.raises(ValueError, match="Too few rows"):
        assess(Ridge(), X[:40], y[:40])
    with pytest.raises(ValueError, match="nothing to predict"):
        assess(Ridge(), X, np.ones(150))
    with pytest.raises(ValueError, match="could not convert string"):
        assess(Ridge(), X, np.array(["a", "b"] * 75))
    with pytest.raises(ValueError, match="Input y contains NaN"):
        assess(Ridge(), X, np.where(np.arange(150) == 3, np.nan, y))
    with pytest.raises(ValueError, match=r"make_pipeline\(SimpleImputer"):
        assess(Ridge(), np.where(X > 0.1, np.nan, X), y)
    with pytest.raises(ValueError, match="infinity"):
        assess(HistGradientBoostingRegressor(), np.where(X > 0.1, np.inf, X), y)
    with pytest.raises(ValueError, match=r"make_column_transformer\(\(OneHotEncoder"):
        assess(Ridge(), np.full((150, 2), "a"), y)
    with pytest.raises(ValueError, match="one class only"):
        assess(LogisticRegression(), X, np.zeros(150, dtype=int))
    with pytest.raises(ValueError, match="smallest class has 2"):
        assess(LogisticRegression(), X, np.r_[np.zeros(148, dtype=int), [1, 1]])


def test_same_frames_as_fit():
    X, y = make_friedman1(100, random_state=0)
    frame = pd.DataFrame(X, columns=list("abcdefghij"))
    settings = {"cv": 2, "coverage": 0.8, "n_train_anchors": 3}
    categories = frame.assign(c=pd.Categorical((X[:, 2] * 4).astype(int)))
    nullable = frame.assign(c=pd.array((X[:, 2] * 4).astype(int), dtype="Int64"))
    nullable.loc[3, "c"] = pd.NA
    tree = HistGradientBoostingRegressor(max_iter=3)
    AnchoredRegressor(tree).fit(nullable, y)
    assess(tree, nullable, y, **settings)
    passing = make_pipeline("passthrough", tree).set_output(transform="pandas")
    assess(passing, nullable, y, **settings)
    for call in (AnchoredRegressor(tree).fit, lambda X, y: assess(tree, X, y, **settings)):
        with pytest.raises(ValueError, match=r"columns of categories, \['c'\]"):
            call(categories, y)
        with pytest.raises(TypeError, match="sparse"):
            call(csr_array(X), y)
    with pytest.raises(ValueError, match="columns of categories"):
        assess(passing, categories, y, **settings)


class RegressorWithoutTags:
    """A regressor with scikit-learn's methods but without its base class, as in older libraries."""

    _estimator_type = "regressor"

    def get_params(self, deep=True):
        return {}

    def set_params(self):
        return self

    def fit(self, X, y):
        self.mean_ = np.mean(y)
        return self

    def predict(self, X):
        return np.full(len(X), self.mean_)


def test_models_without_tags():
    assessment = assess(RegressorWithoutTags(), *diabetes(), cv=2, n_train_anchors=2)
    assert assessment.task == "regression"


def test_missing_values():
    X, y = make_friedman1(100, random_state=0)
    gaps = np.where(X > 0.9, np.nan, X)
    assessment = assess(HistGradientBoostingRegressor(max_iter=5), gaps, y, cv=2, coverage=0.8)
    assert all(np.isfinite(row["mae"]) for row in assessment.table)


@pytest.mark.parametrize("kind", ["Regressor", "Classifier"])
def test_catboost(kind):
    catboost = pytest.importorskip("catboost")
    X, y = make_friedman1(100, random_state=0)
    model = getattr(catboost, "CatBoost" + kind)(iterations=5, verbose=0, allow_writing_files=False)
    assessment = assess(model, X, y if kind == "Regressor" else y > 14, cv=2, coverage=0.8)
    assert {"plain", "anchored", "center"} <= set(assessment.methods)


@pytest.mark.parametrize("gap", [None, np.nan, pd.NA])
def test_missing_class_raises(gap):
    X, y = diabetes()
    labels = np.where(y > 140, "high", "low").astype(object)
    labels[3] = gap
    with pytest.raises(ValueError, match=r"y has 1 missing value\(s\)"):
        assess(LogisticRegression(), X, labels)


# Small folds and perfect models


@pytest.mark.parametrize("model", [KNeighborsRegressor(), KNeighborsClassifier()])
def test_folds_of_one_row_are_named(model):
    X = np.random.default_rng(0).normal(size=(60, 1))
    y = X[:, 0]
    target = y if isinstance(model, KNeighborsRegressor) else y > 0
    sentence = assess(model, X, target, cv=LeaveOneOut(), n_train_anchors=3, coverage=0.8).recommendation.text
    assert "Folds of one row" in sentence and "nan" not in sentence


def test_model_without_mistakes():
    X = np.r_[np.zeros((20, 2)), np.ones((20, 2))] + np.random.default_rng(0).normal(0, 0.01, (40, 2))
    assessment = assess(KNeighborsClassifier(), X, np.arange(40) // 20, cv=2)
    assert "no errors to rank" in assessment.recommendation.text


def test_small_forest_with_cheaper_alternatives():
    result = assess(ExtraTreesRegressor(5), *diabetes()).recommendation
    assert result.advice is Advice.NO_ANCHORING and "of the time" in result.text
    assert "not significant over 5 folds" in result.text and "more repeats" in result.text


def test_fold_without_ranking_counts_as_zero():
    X, y = diabetes(60)
    assessment = assess(DecisionTreeRegressor(), np.repeat(X, 5, axis=0), np.repeat(y, 5))
    folds = assessment.metrics.scores["anchored"]["spearman"]
    assert np.isnan(folds).any() and np.isfinite(folds).any()
    printed = assessment.to_frame().spearman["anchored"]
    np.testing.assert_allclose(printed, np.mean(np.nan_to_num(folds)))
    np.testing.assert_allclose(printed, assessment.metrics.mean_rank("anchored"))
    method = next(row for row in assessment.to_dict()["methods"] if row["method"] == "anchored")
    np.testing.assert_allclose(method["against_plain"]["spearman"]["difference"], printed)
    np.testing.assert_allclose(method["spearman_std"], np.std(np.nan_to_num(folds), ddof=1))


def test_equal_errors_need_no_repeats():
    result = assess(DummyRegressor(), *diabetes(), cv=3, n_train_anchors=3).recommendation
    assert result.method == "baseline"
    assert "not significant" not in result.text and "more repeats" not in result.text
