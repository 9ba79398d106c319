"""Classifiers combined by out-of-fold predictions."""

import pickle
from functools import cache

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize
from scipy.special import log_softmax, softmax
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_wine
from sklearn.dummy import DummyClassifier
from sklearn.ensemble import ExtraTreesClassifier, HistGradientBoostingClassifier
from sklearn.exceptions import NotFittedError
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.metrics import log_loss
from sklearn.model_selection import KFold, StratifiedKFold, cross_val_predict
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.svm import LinearSVC
from sklearn.tree import DecisionTreeClassifier

from deltauq import AnchoredClassifier, StackedClassifier
from deltauq.data import load_keel
from deltauq.estimators import _stacking, stacked_classifier
from deltauq.estimators.stacked_classifier import LARGEST_EXPONENT, fit_exponents

MEMBERS = [("tree", ExtraTreesClassifier(10)), ("logistic", LogisticRegression())]
COVERAGES = np.array([0.5, 0.8, 0.9])
NAMES = np.array(["blue", "green", "red"])


def stacked(members=MEMBERS, **params):
    return StackedClassifier(members, **{"random_state": 0, **params})


def problem(seed, n=150):
    """Return three overlapping classes."""
    rng = np.random.default_rng(seed)
    y = rng.integers(3, size=n)
    return np.array([[0.0, 0.0], [1.5, 0.0], [0.0, 1.5]])[y] + rng.normal(size=(n, 2)), NAMES[y]


@cache
def fitted():
    return stacked().fit(*problem(0))


def coverages(model, X, y):
    """Return the share of classes in sets, for each coverage."""
    columns = np.searchsorted(model.classes_, y)
    return [model.predict_set(X, float(c))[np.arange(len(X)), columns].mean() for c in COVERAGES]


def allow_folds_up_to(monkeypatch, n_rows):
    monkeypatch.setattr(_stacking, "MAX_FOLD_ROWS", n_rows)


def fix_splits(monkeypatch, splits):
    monkeypatch.setattr(StackedClassifier, "_splits", lambda self, y, rng, groups: list(splits))


# -- sets and probabilities ------------------------------------------------------------------------


def test_coverage_with_folds():
    rates = [
        coverages(stacked(random_state=seed).fit(*problem(seed)), *problem(100 + seed, 2000))
        for seed in range(4)
    ]
    excess = np.mean(rates, axis=0) - COVERAGES
    assert np.all(excess > -0.04) and np.all(excess < 0.08), excess


def test_coverage_with_held_out_rows(monkeypatch):
    allow_folds_up_to(monkeypatch, 200)
    rates = []
    for seed in range(10):
        model = stacked(random_state=seed).fit(*problem(seed, 400))
        assert len(model.conformal_.scores_) == model.n_scored_ == 50
        rates.append(coverages(model, *problem(100 + seed, 1000)))
    error = 3 * np.sqrt(COVERAGES * (1 - COVERAGES) / 50 / len(rates))
    excess = np.mean(rates, axis=0) - COVERAGES
    assert np.all(excess > -error) and np.all(excess < 1 / 51 + error), excess


def test_sets_hold_the_probable_classes():
    model, (X, _) = fitted(), problem(1)
    proba, sets = model.predict_proba(X), model.predict_set(X, 0.5)
    assert sets.dtype == bool and sets.shape == proba.shape == (150, 3)
    assert proba[sets].min() >= proba[~sets].max()
    filled = model.predict_set(X, 0.5, allow_empty=False)
    np.testing.assert_array_equal(filled, sets | np.eye(3, dtype=bool)[proba.argmax(axis=1)])
    assert np.all(sets <= model.predict_set(X, 0.9))


def test_probabilities_and_classes():
    model, (X, y) = fitted(), problem(1)
    proba, std = model.predict_proba(X, return_std=True)
    np.testing.assert_allclose(proba.sum(axis=1), 1.0)
    assert np.all(proba > 0) and np.all(std >= 0) and std.shape == proba.shape
    assert model.classes_.tolist() == NAMES.tolist()
    predicted = model.predict(X)
    np.testing.assert_array_equal(predicted, NAMES[proba.argmax(axis=1)])
    assert np.mean(predicted == y) == pytest.approx(model.score(X, y)) and model.score(X, y) > 0.6


@pytest.mark.parametrize(
    "labels",
    [np.array([0, 1, 2]), np.array([-7.0, 2.0, 30.0]), np.array(["a", "b", "c"], dtype=object)],
    ids=["int", "float", "object"],
)
def test_types_of_classes(labels):
    X, y = problem(0)
    model = stacked().fit(X, labels[np.searchsorted(NAMES, y)])
    assert model.classes_.tolist() == labels.tolist()
    np.testing.assert_array_equal(model.predict_proba(X), fitted().predict_proba(X))
    np.testing.assert_array_equal(model.predict(X), labels[np.searchsorted(NAMES, fitted().predict(X))])


def test_two_classes():
    X, y = problem(0)
    model = stacked().fit(X, y == "red")
    assert model.classes_.tolist() == [False, True] and model.predict(X).dtype == bool
    assert model.score(X, y == "red") > 0.75


# -- exponents -------------------------------------------------------------------------------------


def draw(seed, n, powers, c=3, noise=0.0):
    """Return classes drawn from probabilities, and log-probabilities of these raised to powers."""
    rng = np.random.default_rng(seed)
    logits = 2.0 * rng.normal(size=(n, c))
    y = np.array([rng.choice(c, p=p) for p in softmax(logits, axis=1)])
    noisy = logits + noise * rng.normal(size=(len(powers), n, c))
    return y, log_softmax(np.array(powers)[:, None, None] * noisy, axis=2)


def likelihood(weights, y, logs):
    return -log_softmax(np.tensordot(weights, logs, axes=1), axis=1)[np.arange(len(y)), y].mean()


@pytest.mark.parametrize(("power", "exponent"), [(1.0, 1.0), (2.0, 0.5), (4.0, 0.25), (0.5, 2.0), (0.1, 3.0)])
def test_a_miscalibrated_member_gets_its_temperature(power, exponent):
    y, logs = draw(0, 4000, [power])
    assert fit_exponents(y, logs)[0] == pytest.approx(exponent, rel=0.1)


@given(seed=st.integers(0, 1000), m=st.integers(1, 4), n=st.integers(30, 100))
@settings(max_examples=20)
def test_exponents_have_the_largest_likelihood(seed, m, n):
    y, logs = draw(seed, n, np.linspace(0.5, 2.0, m), noise=1.0)
    weights = fit_exponents(y, logs)
    assert np.all(weights >= 0) and np.all(weights <= LARGEST_EXPONENT)
    bounds = [(0.0, LARGEST_EXPONENT)] * m
    best = min(
        minimize(likelihood, start, (y, logs), method="SLSQP", bounds=bounds, tol=1e-10).fun
        for start in (np.full(m, 1.0), np.full(m, 0.1))
    )
    assert likelihood(weights, y, logs) <= best + 1e-5


def test_exponents_of_two_classes_are_those_of_logistic_regression():
    y, logs = draw(0, 500, [1.5, 0.7], c=2, noise=1.0)
    logits = (logs[..., 1] - logs[..., 0]).T
    theirs = LogisticRegression(C=np.inf, fit_intercept=False, tol=1e-10).fit(logits, y).coef_[0]
    assert np.all(theirs > 0.1)
    np.testing.assert_allclose(fit_exponents(y, logs), theirs, rtol=1e-2)


def test_a_member_that_is_always_wrong_has_no_exponent():
    y, logs = draw(0, 500, [1.0, -1.0], noise=0.5)
    assert fit_exponents(y, logs)[1] == 0.0
    alone = fit_exponents(y, logs[1:])
    assert 0 < alone[0] <= 0.01, "classes keep an order, but are nearly equally probable"


def test_useless_members_are_dropped():
    members = [*MEMBERS, ("random", DummyClassifier(strategy="stratified"))]
    model = stacked(members).fit(*problem(0))
    assert "random" not in model.names_ and len(model.estimators_) == len(model.weights_) == len(model.names_)
    assert list(model.member_errors_) == ["tree", "logistic", "random"]
    assert model.error_ <= min(model.member_errors_.values()) + 1e-6


def test_overconfident_members_are_calibrated():
    """Naive Bayes of repeated columns counts the same evidence three times."""
    X, y = problem(0, 500)
    model = stacked([("bayes", GaussianNB())]).fit(np.tile(X, 3), y)
    assert model.weights_[0] == pytest.approx(1 / 3, abs=0.06)
    X, y = problem(1, 2000)
    alone = log_loss(y, GaussianNB().fit(*problem(0, 500)).predict_proba(X))
    assert log_loss(y, model.predict_proba(np.tile(X, 3))) == pytest.approx(alone, rel=0.03)


# -- out-of-fold predictions -----------------------------------------------------------------------


def test_errors_and_scores_are_those_of_out_of_fold_predictions(monkeypatch):
    X, y = problem(0)
    folds = list(KFold(4, shuffle=True, random_state=3).split(X))
    fix_splits(monkeypatch, folds)
    members = [("logistic", LogisticRegression()), ("bayes", GaussianNB()), ("knn", KNeighborsClassifier(15))]
    model = stacked(members).fit(X, y)

    def floored(proba):
        return np.maximum(proba, 0.1 / len(X))

    predicted = {
        name: floored(cross_val_predict(member, X, y, cv=folds, method="predict_proba"))
        for name, member in members
    }
    for name, proba in predicted.items():
        proba = proba / proba.sum(axis=1, keepdims=True)
        assert model.member_errors_[name] == pytest.approx(log_loss(y, proba))

    def combined(parts):
        product = np.prod([part**w for part, w in zip(parts, model.weights_, strict=True)], axis=0)
        return product / product.sum(axis=1, keepdims=True)

    proba = combined([predicted[name] for name in model.names_])
    assert model.error_ == pytest.approx(log_loss(y, proba))
    rows = np.concatenate([test for _, test in folds])
    np.testing.assert_allclose(model.scored_proba_, proba[rows])
    of_classes = proba[np.arange(len(X)), np.searchsorted(NAMES, y)]
    np.testing.assert_allclose(model.conformal_.scores_, np.sort(1.0 - of_classes))
    new = problem(1)[0]
    parts = [floored(clone(dict(members)[name]).fit(X, y).predict_proba(new)) for name in model.names_]
    np.testing.assert_allclose(model.predict_proba(new), combined(parts))


def test_standard_deviations(monkeypatch):
    monkeypatch.setattr(stacked_classifier, "numbers_of_kept", lambda weights: list(range(len(weights))))
    X, y = problem(0, 60)
    anchored = AnchoredClassifier(DecisionTreeClassifier(max_depth=3), n_anchors=5, n_train_anchors=5)
    model = stacked([("anchored", anchored), MEMBERS[1]], quick=True).fit(X, y)
    proba, std = model.predict_proba(X, return_std=True)
    posterior, logistic = model.estimators_[0].posterior(X), model.estimators_[1].predict_proba(X)
    parts = [posterior.var + (posterior.mean - proba) ** 2, (logistic - proba) ** 2]
    shares = model.weights_ / model.weights_.sum()
    np.testing.assert_allclose(std**2, shares[0] * parts[0] + shares[1] * parts[1])


@pytest.mark.parametrize(("quick", "n_folds"), [(False, 5), (True, 3)])
def test_folds_have_the_shares_of_the_classes(quick, n_folds):
    y = np.repeat([0, 1], [90, 30])
    splits = stacked(quick=quick)._splits(y, np.random.RandomState(0))
    assert len(splits) == n_folds
    assert sorted(np.concatenate([test for _, test in splits])) == list(range(120))
    for train, test in splits:
        assert not set(train) & set(test) and np.mean(y[test]) == pytest.approx(0.25)


def test_held_out_rows_have_the_shares_of_the_classes(monkeypatch):
    allow_folds_up_to(monkeypatch, 100)
    y = np.repeat([0, 1, 2], [89, 30, 1])
    ((train, test),) = stacked()._splits(y, np.random.RandomState(0))
    assert sorted([*train, *test]) == list(range(120)) and len(test) == 30
    assert np.bincount(y[test]).tolist() == [22, 8], "the only row of a class trains"


# -- rare classes ----------------------------------------------------------------------------------


@pytest.mark.parametrize("limit", [100, 1000], ids=["held out", "folds"])
@pytest.mark.parametrize("n_rare", [1, 2, 4])
@pytest.mark.parametrize("others", [["green"], ["green", "red"]], ids=["two", "three"])
def test_rare_classes(others, n_rare, limit, monkeypatch):
    """Fewer rows than folds: a fold may lack the class, or have no other row of it to train on."""
    allow_folds_up_to(monkeypatch, limit)
    X, y = problem(0)
    y = np.where(np.isin(y, others), y, "green")
    y[:n_rare], X[:n_rare] = "blue", X[:n_rare] + 20.0
    model = stacked().fit(X, y)
    assert model.classes_.tolist() == ["blue", *others]
    proba = model.predict_proba(X)
    np.testing.assert_allclose(proba.sum(axis=1), 1.0)
    assert np.all(proba > 0) and np.isfinite(model.error_)
    assert np.all(np.isfinite(list(model.member_errors_.values())))
    assert model.score(X[n_rare:], y[n_rare:]) > 0.7
    if limit == 1000 and n_rare > 2:
        assert np.all(model.predict(X[:n_rare]) == "blue")


@pytest.mark.parametrize("n", [4, 5, 7])
def test_few_rows(n):
    X, _ = problem(0, n)
    model = stacked().fit(X, np.arange(n) % 2)
    proba = model.predict_proba(problem(1)[0])
    assert np.all(np.isfinite(proba)) and len(model.conformal_.scores_) == n


def test_separable_classes():
    X, y = problem(0)
    X = X + 50.0 * np.searchsorted(NAMES, y)[:, None]
    model = stacked([("bayes", GaussianNB()), MEMBERS[0]]).fit(X, y)
    assert model.score(X, y) == 1.0 and model.error_ < 0.01
    assert np.all(model.weights_ <= LARGEST_EXPONENT)
    np.testing.assert_array_equal(model.predict_set(X, allow_empty=False).sum(axis=1), 1)


def test_classes_that_cannot_be_told_apart():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(200, 2)), rng.integers(2, size=200)
    model = stacked().fit(X, y)
    assert model.error_ <= np.log(2) + 1e-3
    assert np.all(np.abs(model.predict_proba(rng.normal(size=(500, 2))) - 0.5) < 0.3)


# -- reproducibility -------------------------------------------------------------------------------


def everything(model, X):
    return np.hstack([*model.predict_proba(X, return_std=True), model.predict_set(X)])


def test_predictions_do_not_depend_on_batch_order_and_threads(monkeypatch):
    model, (X, _) = pickle.loads(pickle.dumps(fitted())), problem(1, 60)
    whole = everything(model, X)
    order = np.random.default_rng(0).permutation(60)
    np.testing.assert_allclose(everything(model, X[order]), whole[order], rtol=1e-9, atol=1e-12)
    for rows in ([5], [59], range(10, 37)):
        np.testing.assert_allclose(everything(model, X[rows]), whole[rows], rtol=1e-9, atol=1e-12)
    monkeypatch.setattr(_stacking, "MIN_BLOCK_ROWS", 7)
    for n_jobs in (1, 2, 3):
        model.set_jobs(n_jobs)
        np.testing.assert_allclose(everything(model, X), whole, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("limit", [100, 1000], ids=["held out", "folds"])
def test_same_seed_same_result_and_another_seed_another(limit, monkeypatch):
    allow_folds_up_to(monkeypatch, limit)
    (X, y), (rows, _) = problem(0), problem(1)
    # Trees that depend on the seed, as the logistic regression alone does not.
    model = stacked(MEMBERS[:1])
    expected = everything(clone(model).fit(X, y), rows)
    generator = clone(model).set_params(random_state=np.random.RandomState(0))
    for same in (model.fit(X, y), model.fit(X, y), generator.fit(X, y), pickle.loads(pickle.dumps(model))):
        np.testing.assert_array_equal(everything(same, rows), expected)
    assert not np.allclose(everything(clone(model).set_params(random_state=1).fit(X, y), rows), expected)


@pytest.mark.slow
def test_processes_do_not_change_the_result():
    (X, y), (rows, _) = problem(0), problem(1)
    model = stacked(n_jobs=2).fit(X, y)
    np.testing.assert_allclose(everything(model, rows), everything(fitted(), rows), rtol=1e-9, atol=1e-12)


def test_parameters_and_text():
    model = stacked(quick=True)
    assert model.get_params(deep=False) == {
        "estimators": MEMBERS,
        "quick": True,
        "random_state": 0,
        "n_jobs": None,
    }
    assert repr(clone(model)) == "StackedClassifier(estimators=<list of 2>, quick=True, random_state=0)"
    assert repr(StackedClassifier()) == "StackedClassifier()"


@pytest.mark.parametrize(("limit", "total"), [(100, 2), (1000, 12)], ids=["held out", "folds"])
def test_progress_rises_to_the_total(limit, total, monkeypatch):
    allow_folds_up_to(monkeypatch, limit)
    calls = []
    stacked().fit(*problem(0), progress=lambda done, of: calls.append((done, of)))
    assert calls == [(k, total) for k in range(1, total + 1)]


# -- inputs ----------------------------------------------------------------------------------------


def test_data_frames_and_feature_names():
    X, y = problem(0)
    frame = pd.DataFrame(X, columns=["a", "b"])
    model = stacked().fit(frame, pd.Series(y))
    assert model.feature_names_in_.tolist() == ["a", "b"] and model.n_features_in_ == 2
    np.testing.assert_array_equal(everything(model, frame), everything(fitted(), X))
    with pytest.raises(ValueError, match="feature names"):
        model.predict(frame[["b", "a"]])
    with pytest.raises(ValueError, match="X has 1 features, but StackedClassifier is expecting 2"):
        fitted().predict(X[:, :1])


def test_missing_values():
    X, y = problem(0)
    X[::5, 1] = np.nan
    members = [
        ("boosting", HistGradientBoostingClassifier(max_iter=10)),
        ("logistic", make_pipeline(SimpleImputer(), LogisticRegression())),
    ]
    assert np.all(np.isfinite(everything(stacked(members).fit(X, y), X)))
    with pytest.raises(ValueError, match="X contains NaN, which LogisticRegression does not accept"):
        stacked().fit(X, y)


@pytest.mark.parametrize(
    ("members", "error", "message"),
    [
        ([], ValueError, "estimators must have different names, and at least one"),
        ([MEMBERS[0], MEMBERS[0]], ValueError, r"different names.*\['tree', 'tree'\]"),
        ([("svc", LinearSVC())], TypeError, "'svc' has no fit, get_params or predict_proba"),
        ([("ridge", Ridge())], TypeError, "'ridge' has no fit, get_params or predict_proba"),
        ("all", ValueError, "'estimators' parameter of StackedClassifier must be"),
    ],
)
def test_invalid_members(members, error, message):
    with pytest.raises(error, match=message):
        stacked(members).fit(*problem(0, 20))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda X, y: (X, np.full(len(X), "blue")), "y has one class, 'blue': at least two are needed"),
        (lambda X, y: (X[:9], list("abcdefghi")), "every row has a class of its own"),
        (lambda X, y: (X, X[:, 0]), "Unknown label type: continuous"),
        (lambda X, y: (X, np.where(y == "red", np.nan, 1.0)), "y contains NaN"),
        (lambda X, y: (X, np.column_stack([y, y])), "y should be a 1d array"),
        (lambda X, y: (np.where(X > 1, np.inf, X), y), "X contains infinity"),
        (lambda X, y: (X[:3], y[:3]), "3 sample.*minimum of 4 is required"),
        (lambda X, y: (pd.DataFrame({"when": pd.date_range("2024", periods=len(X))}), y), "columns of dates"),
    ],
)
@pytest.mark.filterwarnings("ignore:The number of unique classes is greater than 50%")
def test_invalid_data(change, message):
    with pytest.raises(ValueError, match=message):
        stacked().fit(*change(*problem(0)))


@pytest.mark.parametrize("coverage", [0.0, 1.0, 90, "high"])
def test_invalid_coverage(coverage):
    with pytest.raises(ValueError, match="coverage must lie between 0 and 1"):
        fitted().predict_set(problem(1)[0], coverage)


def test_a_failed_fit_leaves_the_model_as_it_was():
    X, _ = problem(0)
    model = pickle.loads(pickle.dumps(fitted()))
    expected = everything(model, X)
    with pytest.raises(ValueError, match="one class"):
        model.fit(X[:10], np.zeros(10))
    np.testing.assert_array_equal(everything(model, X), expected)
    with pytest.raises(NotFittedError):
        stacked().predict(X)


# -- the default members ---------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("load", [load_breast_cancer, load_wine])
def test_default_members_on_real_data(load):
    X, y = load(return_X_y=True)
    X[::9, 2] = np.nan
    order = np.random.default_rng(0).permutation(len(X))
    train, test = order[: len(X) // 2], order[len(X) // 2 :]
    model = StackedClassifier(quick=True, random_state=0).fit(X[train], y[train])
    assert model.error_ <= 1.02 * min(model.member_errors_.values())
    assert model.score(X[test], y[test]) > 0.93
    sets = model.predict_set(X[test])
    assert sets[np.arange(len(test)), y[test]].mean() == pytest.approx(0.9, abs=0.07)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["heart", "pima", "vehicle"])
@pytest.mark.usefixtures("data_dir")
def test_calibration_on_development_tables(name):
    table, rates, losses, n = load_keel(name), [], [], 0
    folds = StratifiedKFold(3, shuffle=True, random_state=0).split(table.X, table.y)
    for seed, (train, test) in enumerate(folds):
        model = StackedClassifier(quick=True, random_state=seed).fit(table.X[train], table.y[train])
        rates.append(coverages(model, table.X[test], table.y[test]))
        losses.append([log_loss(table.y[test], model.predict_proba(table.X[test])), model.error_])
        n += len(test)
    excess = np.mean(rates, axis=0) - COVERAGES
    assert np.all(np.abs(excess) < 0.03 + 3 * np.sqrt(COVERAGES * (1 - COVERAGES) / n)), excess
    found, expected = np.mean(losses, axis=0)
    assert found == pytest.approx(expected, rel=0.15)


@pytest.mark.slow
@pytest.mark.parametrize("n", [4, 5, 12])
def test_default_members_with_few_rows(n):
    X, _ = problem(0, n)
    model = StackedClassifier(quick=True, random_state=0).fit(X, np.arange(n) % 2)
    assert np.all(np.isfinite(model.predict_proba(X)))
