"""Validation of trees, support vectors and neighbours from a file."""

import numpy as np
import pytest
from sklearn.ensemble import HistGradientBoostingRegressor, RandomForestClassifier, RandomForestRegressor
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, SVR
from sklearn.tree import DecisionTreeRegressor

from deltauq.tables.tree_validation import check_estimators, check_trees

MODELS = [DecisionTreeRegressor(max_leaf_nodes=9), RandomForestRegressor(3), HistGradientBoostingRegressor()]


def with_nodes(model, change):
    """Alter the last tree of a fitted model, as an altered file would."""
    if hasattr(model, "_predictors"):
        change(model._predictors[-1][0].nodes, "left", "feature_idx")
        return
    tree = (model.estimators_[-1] if hasattr(model, "estimators_") else model).tree_
    state = tree.__getstate__()
    state["nodes"] = state["nodes"].copy()
    change(state["nodes"], "left_child", "feature")
    tree.__setstate__(state)


@pytest.mark.parametrize("base", [*MODELS, RandomForestClassifier(3)])
@pytest.mark.parametrize("share", [0.0, 0.3], ids=["complete", "gaps"])
def test_fitted_trees_are_valid(base, share, table):
    X, y = table
    X = np.where(np.random.default_rng(0).random(X.shape) < share, np.nan, X)
    check_trees(base.fit(X, y > 0 if "Classifier" in type(base).__name__ else y), 4)


def beyond(nodes, left, feature):
    nodes[left][0] = len(nodes) + 5


def before(nodes, left, feature):
    nodes[left][0] = np.array(-7).astype(nodes[left].dtype)


def circle(nodes, left, feature):
    nodes[left][0] = 0


def strange_feature(nodes, left, feature):
    nodes[feature][0] = 4


def strange_missing(nodes, left, feature):
    nodes["missing_go_to_left"][0] = 2


@pytest.mark.parametrize("base", MODELS)
@pytest.mark.parametrize("change", [beyond, before, circle, strange_feature, strange_missing])
def test_altered_trees_raise(base, change, table):
    X, y = np.tile(table[0], (3, 1)), np.tile(table[1], 3)
    model = base.fit(X, y)
    with_nodes(model, change)
    with pytest.raises(ValueError, match="is not valid"):
        check_trees(model, 4)


def test_trees_inside_other_objects(table):
    model = make_pipeline(StandardScaler(), RandomForestRegressor(3)).fit(*table)
    check_estimators({"model": model})
    with_nodes(model[-1], circle)
    with pytest.raises(ValueError, match="is not valid"):
        check_estimators({"model": model})


@pytest.mark.parametrize("base", [SVC(), SVR()])
@pytest.mark.parametrize("name", ["support_", "_n_support", "_dual_coef_", "_intercept_"])
def test_inconsistent_support_vectors_raise(base, name, table):
    X, y = table
    model = base.fit(X, np.digitize(y, [-1, 1]) if isinstance(base, SVC) else y)
    check_estimators(model)
    values = getattr(model, name)
    setattr(model, name, values[..., :-1] if values.size > 1 else np.empty(0))
    with pytest.raises(ValueError, match="is not valid"):
        check_estimators(model)


def test_search_trees_of_neighbors_are_built_again(table):
    X, y = table
    model = KNeighborsClassifier().fit(X, y > 0)
    expected = model.predict_proba(X)
    data, indices, *rest = model._tree.__getstate__()
    model._tree.__setstate__((data, indices + 10**6, *rest))  # would be read outside of the rows
    check_estimators(model)
    np.testing.assert_array_equal(model.predict_proba(X), expected)
    model._y = model._y + 2
    with pytest.raises(ValueError, match="is not valid"):
        check_estimators(model)
