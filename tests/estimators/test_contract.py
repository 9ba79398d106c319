"""scikit-learn's own checks, and ours, over one base of each kind."""

import inspect
import warnings

import numpy as np
import pytest
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
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor
from sklearn.neural_network import MLPClassifier, MLPRegressor
from sklearn.svm import SVC, SVR
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor
from sklearn.utils import estimator_checks
from sklearn.utils.estimator_checks import parametrize_with_checks
from sklearn.utils.validation import has_fit_parameter

from deltauq import AnchoredClassifier, AnchoredRegressor, StackedClassifier, StackedRegressor
from deltauq.core.encoding import ENCODINGS
from deltauq.core.target import TARGETS
from deltauq.testing import EXPECTED_FAILED_CHECKS, check_contract, expected_failed_checks

pytestmark = [
    # The checks fit on tiny and on random data, where bases say that they have not converged.
    pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning"),
    pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning"),
]

REGRESSORS = [
    DecisionTreeRegressor(),
    RandomForestRegressor(n_estimators=5),
    KNeighborsRegressor(),
    SVR(),
    HistGradientBoostingRegressor(max_iter=20),
    MLPRegressor(),
]
CLASSIFIERS = [
    DecisionTreeClassifier(),
    RandomForestClassifier(n_estimators=5),
    KNeighborsClassifier(),
    SVC(),
    HistGradientBoostingClassifier(max_iter=20),
    MLPClassifier(),
]


@parametrize_with_checks(
    [AnchoredRegressor(base, n_anchors=10, random_state=0) for base in REGRESSORS]
    + [AnchoredClassifier(base, n_anchors=5, random_state=0) for base in CLASSIFIERS],
    expected_failed_checks=expected_failed_checks,
)
def test_scikit_learn_checks(estimator, check):
    check(estimator)


@parametrize_with_checks(
    [
        StackedRegressor([("tree", ExtraTreesRegressor(5)), ("ridge", Ridge())], quick=True, random_state=0),
        StackedClassifier(
            [("tree", ExtraTreesClassifier(5)), ("logistic", LogisticRegression())],
            quick=True,
            random_state=0,
        ),
    ]
)
def test_scikit_learn_checks_of_stacked_estimators(estimator, check):
    check(estimator)


def test_trees_have_no_expected_failures():
    assert EXPECTED_FAILED_CHECKS["DecisionTreeRegressor"] == {}
    assert EXPECTED_FAILED_CHECKS["DecisionTreeClassifier"] == {}


@pytest.mark.parametrize("base", REGRESSORS + CLASSIFIERS, ids=lambda b: type(b).__name__)
def test_expected_failures_occur_without_anchoring(base):
    if not has_fit_parameter(base, "sample_weight"):
        return  # the excused checks are those of weights, which the base does not take
    bagging = (BaggingRegressor if base in REGRESSORS else BaggingClassifier)(base, random_state=0)
    for name in EXPECTED_FAILED_CHECKS[type(base).__name__]:
        check = getattr(estimator_checks, name)
        assert _fails(check, base) or _fails(check, bagging), name


def _fails(check, estimator):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            check(type(estimator).__name__, estimator)
        except AssertionError:
            return True
    return False


EXACT = [DecisionTreeRegressor(), RandomForestRegressor(5, n_jobs=2), ExtraTreesRegressor(3)]


@pytest.mark.parametrize("base", EXACT, ids=lambda b: type(b).__name__)
@pytest.mark.parametrize("encoding", ENCODINGS)
@pytest.mark.parametrize("target", TARGETS)
def test_contract_of_trees_without_tolerance(base, encoding, target, table):
    model = AnchoredRegressor(base, encoding=encoding, target=target, random_state=0)
    check_contract(model, *table, rtol=0)


@pytest.mark.parametrize("base", [SVR(C=10), HistGradientBoostingRegressor(max_iter=20), MLPRegressor()])
@pytest.mark.parametrize("encoding", ENCODINGS)
@pytest.mark.parametrize("target", TARGETS)
def test_contract_of_other_regressors(base, encoding, target, table):
    model = AnchoredRegressor(
        base, encoding=encoding, target=target, n_anchors=15, n_train_anchors=20, random_state=0
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        check_contract(model, *table)


@pytest.mark.parametrize("base", [RandomForestClassifier(5), SVC(), KNeighborsClassifier()])
def test_contract_of_classifiers(base, labelled):
    check_contract(AnchoredClassifier(base, n_anchors=7, random_state=0), *labelled)


def test_contract_detects_batch_dependence(table):
    class Leaky(AnchoredRegressor):
        def posterior(self, X, return_samples=False):
            return super().posterior(X - X.mean(axis=0), return_samples)

    with pytest.raises(AssertionError, match="mean"):
        check_contract(Leaky(DecisionTreeRegressor(), random_state=0), *table)


def test_constructors_differ_in_target_and_n_anchors_only():
    ours = dict(inspect.signature(AnchoredRegressor).parameters)
    theirs = inspect.signature(AnchoredClassifier).parameters
    assert ours.pop("target").default == "difference"
    different = {name for name in ours if ours[name].default != theirs[name].default}
    assert list(ours) == list(theirs) and different == {"n_anchors"}
    assert (ours["n_anchors"].default, theirs["n_anchors"].default) == (100, 20)
    assert np.all([p.kind is p.KEYWORD_ONLY for name, p in ours.items() if name != "estimator"])
