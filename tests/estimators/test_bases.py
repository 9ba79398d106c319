"""Traps that pairing sets for bases which look at their own rows."""

import numpy as np
import pytest
from sklearn.ensemble import (
    GradientBoostingRegressor,
    HistGradientBoostingRegressor,
    RandomForestRegressor,
    StackingRegressor,
)
from sklearn.linear_model import LassoCV, Ridge, RidgeCV
from sklearn.model_selection import GridSearchCV
from sklearn.neural_network import MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, SVR
from sklearn.tree import DecisionTreeRegressor

from deltauq import AnchoredClassifier, AnchoredRegressor
from deltauq.estimators._bases import is_kernel_machine


def fit(base, table, **words):
    return AnchoredRegressor(base, n_anchors=5, n_train_anchors=5, random_state=0, **words).fit(*table)


def test_automatic_early_stopping_is_switched_off(table):
    model = fit(HistGradientBoostingRegressor(max_iter=5), table)
    assert model.estimator_.early_stopping is False


def test_automatic_early_stopping_inside_a_pipeline_is_switched_off(table):
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
def test_validation_on_paired_rows_that_was_asked_for_is_switched_off_with_a_warning(
    base, word, value, table
):
    with pytest.warns(UserWarning, match=f"{word}.*switched off"):
        model = fit(base, table)
    assert model.estimator_.get_params()[word] is value


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_early_stopping_of_a_network_is_switched_off_with_a_warning(table):
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
def test_cross_validation_inside_the_base_gets_a_warning(base, table):
    with pytest.warns(UserWarning, match="tune it outside"):
        fit(base, table)


def test_the_center_keeps_the_users_own_settings(table):
    with pytest.warns(UserWarning, match="switched off"):
        model = fit(HistGradientBoostingRegressor(max_iter=5, early_stopping=True), table, center="estimator")
    assert model.center_.early_stopping is True


@pytest.mark.filterwarnings("ignore:.*probability.*:FutureWarning")
def test_probabilities_of_svc_are_fitted_in_folds_of_rows_not_of_pairs(labelled):
    X, y = labelled
    model = AnchoredClassifier(SVC(probability=True), n_anchors=3, random_state=0).fit(X, y)
    assert model.estimator_.probability is False
    assert hasattr(model, "score_map_")


def test_kernel_machines_are_told_apart_even_inside_pipelines():
    assert is_kernel_machine(make_pipeline(StandardScaler(), SVR()))
    assert not is_kernel_machine(make_pipeline(StandardScaler(), Ridge()))


def test_the_users_base_is_never_touched(table):
    base = HistGradientBoostingRegressor(max_iter=5)
    fit(base, table)
    assert base.early_stopping == "auto" and base.random_state is None and not hasattr(base, "n_features_in_")


def test_seeds_of_every_part_are_derived(table):
    base = StackingRegressor(
        [("a", DecisionTreeRegressor()), ("b", DecisionTreeRegressor(random_state=3))], cv=2
    )
    with pytest.warns(UserWarning, match="tune it outside"):
        model = fit(base, table)
    seeds = [tree.random_state for tree in model.estimator_.estimators_]
    assert isinstance(seeds[0], int | np.integer) and seeds[1] == 3
