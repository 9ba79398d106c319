import warnings

import numpy as np
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.datasets import load_digits, load_iris, make_classification
from sklearn.ensemble import RandomForestClassifier, StackingClassifier
from sklearn.linear_model import LogisticRegression, RidgeClassifier, SGDClassifier
from sklearn.metrics import log_loss, recall_score
from sklearn.model_selection import FixedThresholdClassifier, train_test_split
from sklearn.multiclass import OneVsRestClassifier
from sklearn.neighbors import KNeighborsClassifier, NearestCentroid
from sklearn.neural_network import MLPClassifier
from sklearn.svm import SVC, LinearSVC
from sklearn.tree import DecisionTreeClassifier

from deltauq import AnchoredClassifier


class Nearest(ClassifierMixin, BaseEstimator):
    """A classifier with labels only: no probabilities, no scores."""

    def fit(self, X, y):
        self.classes_ = np.unique(y)
        self.n_features_in_ = X.shape[1]
        self.knn_ = KNeighborsClassifier(1).fit(X, y)
        return self

    def predict(self, X):
        return self.knn_.predict(X)


def test_probabilities_are_the_mean_over_anchors(labelled):
    X, y = labelled
    model = AnchoredClassifier(KNeighborsClassifier(), n_anchors=9, random_state=0).fit(X, y)
    by_hand = np.array(
        [model.estimator_.predict_proba(np.hstack([np.tile(r, (90, 1)), X - r])) for r in model.anchors_.X]
    )
    proba, std = model.predict_proba(X, return_std=True)
    np.testing.assert_allclose(proba, by_hand.mean(axis=0))
    np.testing.assert_allclose(std, by_hand.std(axis=0), atol=1e-9)
    np.testing.assert_allclose(model.uncertainty(X), by_hand.var(axis=0).sum(axis=1), atol=1e-12)
    np.testing.assert_array_equal(model.predict(X), model.classes_[proba.argmax(axis=1)])
    np.testing.assert_array_equal(model.classes_, ["blue", "green", "red"])


@pytest.mark.parametrize("base", [SVC(C=10), LinearSVC(), RidgeClassifier()], ids=lambda b: type(b).__name__)
def test_probabilities_are_fitted_on_held_out_rows(base):
    X, y = load_iris(return_X_y=True)
    X_train, X_test, y_train, y_test = train_test_split(X, y, random_state=0, stratify=y)
    model = AnchoredClassifier(base, random_state=0).fit(X_train, y_train)
    proba, std = model.predict_proba(X_test, return_std=True)
    np.testing.assert_allclose(proba.sum(axis=1), 1.0)
    assert np.all(proba >= 0) and np.all(std >= 0)
    assert log_loss(y_test, proba) < 0.6
    assert model.uncertainty(X_test).shape == (38,)


def test_probabilities_from_scores_on_noise():
    """An RBF machine separates its own rows perfectly; only rows left out show that it has learnt nothing."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(60, 5)), rng.integers(0, 2, 60)
    model = AnchoredClassifier(SVC(C=1000, gamma=5), n_anchors=5, random_state=0).fit(X, y)
    assert model.predict_proba(rng.normal(size=(50, 5))).max() < 0.8


def test_votes_without_probabilities_or_scores(labelled):
    X, y = labelled
    model = AnchoredClassifier(Nearest(), n_anchors=10, random_state=0).fit(X, y)
    assert not hasattr(model, "predict_proba")
    votes = np.array(
        [model.estimator_.predict(np.hstack([np.tile(r, (90, 1)), X - r])) for r in model.anchors_.X]
    )
    share = (votes[:, :, None] == model.classes_).mean(axis=0)
    np.testing.assert_array_equal(model.predict(X), model.classes_[share.argmax(axis=1)])
    np.testing.assert_allclose(model.uncertainty(X), (share * (1 - share)).sum(axis=1), atol=1e-12)


def test_a_class_with_one_row_raises_for_scores(labelled):
    X, y = labelled
    y = y.astype(object)
    y[0] = "lonely"
    with pytest.raises(ValueError, match="class with a single row"):
        AnchoredClassifier(SVC()).fit(X, y)
    assert AnchoredClassifier(DecisionTreeClassifier(), random_state=0).fit(X, y).predict_proba(X).shape == (
        90,
        4,
    )


def test_the_boundary_is_less_certain_than_the_centres(labelled):
    X, y = labelled
    model = AnchoredClassifier(SVC(C=10), n_anchors=5, random_state=0).fit(X, y)
    between, centres = np.array([[1.0, 0.0], [0.0, 1.0]]), np.array([[-0.5, -0.5], [3.0, -0.5], [-0.5, 3.0]])
    assert model.uncertainty(between).mean() > 2 * model.uncertainty(centres).mean()


def test_center_keeps_the_plain_probabilities(labelled):
    X, y = labelled
    plain = RandomForestClassifier(3, random_state=1).fit(X, y)
    anchored = AnchoredClassifier(RandomForestClassifier(3, random_state=1), random_state=0).fit(X, y)
    centred = clone(anchored).set_params(center="estimator").fit(X, y)
    proba, std = centred.predict_proba(X, return_std=True)
    np.testing.assert_allclose(proba, plain.predict_proba(X))
    np.testing.assert_array_equal(std, anchored.predict_proba(X, return_std=True)[1])
    np.testing.assert_array_equal(centred.predict(X), plain.predict(X))


def test_center_without_probabilities(labelled):
    X, y = labelled
    model = AnchoredClassifier(SVC(C=10), center="estimator", n_anchors=3, random_state=0).fit(X, y)
    np.testing.assert_array_equal(model.predict(X), SVC(C=10).fit(X, y).predict(X))


def test_calibrated_standard_deviations_fit_the_outcomes():
    X, y = load_digits(n_class=4, return_X_y=True)
    X_train, X_test, y_train, y_test = train_test_split(X, y, train_size=120, random_state=0, stratify=y)
    model = AnchoredClassifier(RandomForestClassifier(10), calibrate="cv", random_state=0).fit(
        X_train, y_train
    )
    proba, std = model.predict_proba(X_test, return_std=True)
    z = ((y_test[:, None] == model.classes_) - proba) / std
    np.testing.assert_allclose(np.sqrt(np.mean(z**2)), 1.0, atol=0.35)


@pytest.mark.parametrize(
    "base", [RandomForestClassifier(4), KNeighborsClassifier()], ids=lambda b: type(b).__name__
)
def test_several_outputs(base, labelled):
    X, y = labelled
    Y = np.column_stack([y, np.where(X[:, 0] > 1, "east", "west")])
    model = AnchoredClassifier(base, n_anchors=6, random_state=0).fit(X, Y)
    proba, std = model.predict_proba(X, return_std=True)
    assert [p.shape for p in proba] == [(90, 3), (90, 2)] == [s.shape for s in std]
    labels = model.predict(X)
    assert labels.shape == (90, 2) and (labels == Y).mean() > 0.8
    assert model.uncertainty(X).shape == (90, 2)
    assert [list(c) for c in model.classes_] == [["blue", "green", "red"], ["east", "west"]]


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_multilabel_network(labelled):
    X, _ = labelled
    Y = np.column_stack([X[:, 0] > 1, X[:, 1] > 1, X.sum(axis=1) > 2]).astype(int)
    model = AnchoredClassifier(
        MLPClassifier((32,), learning_rate_init=0.02), n_anchors=6, random_state=0
    ).fit(X, Y)
    proba = model.predict_proba(X)
    assert [p.shape for p in proba] == [(90, 2)] * 3
    assert (model.predict(X) == Y).mean() > 0.85


def test_refitting_with_another_estimator(labelled):
    X, y = labelled
    model = AnchoredClassifier(SVC(), n_anchors=3, random_state=0).fit(X, y)
    assert hasattr(model, "probability_calibrator_")
    model.set_params(estimator=LogisticRegression()).fit(X, y)
    assert not hasattr(model, "probability_calibrator_")


def test_cost_of_probabilities_does_not_depend_on_anchors(labelled, monkeypatch):
    X, y = labelled
    fitted_on, fit = [], LogisticRegression.fit

    def counted(self, scores, *rest):
        fitted_on.append(len(scores))
        return fit(self, scores, *rest)

    monkeypatch.setattr(LogisticRegression, "fit", counted)
    for n_anchors in (5, 20, 500):
        model = AnchoredClassifier(SVC(), n_anchors=n_anchors, random_state=0).fit(X, y)
        assert len(model.anchors_) == n_anchors
    assert fitted_on == [5 * 90, 20 * 90, 20 * 90]


def test_default_base_and_number_of_anchors(labelled):
    model = AnchoredClassifier(random_state=0, n_train_anchors=10).fit(*labelled)
    assert len(model.anchors_) == 20
    assert model.score(*labelled) > 0.9


def test_a_class_of_zero_weight_keeps_its_column(labelled):
    X, y = labelled
    model = AnchoredClassifier(SGDClassifier(), n_anchors=5, random_state=0)
    model.fit(X, y, sample_weight=(y != "blue").astype(float))
    proba = model.predict_proba(X)
    assert proba.shape == (90, 3) and np.all(proba[:, 0] == 0)
    seen = y != "blue"
    assert (model.predict(X)[seen] == y[seen]).mean() > 0.9


def test_multilabel_with_a_label_that_is_always_set(labelled):
    X, _ = labelled
    Y = np.column_stack([X[:, 0] > 1, np.ones(90), X.sum(axis=1) > 2]).astype(int)
    model = AnchoredClassifier(OneVsRestClassifier(LogisticRegression()), n_anchors=4, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # scikit-learn says so of a label that is always set
        model.fit(X, Y)
    assert [p.shape for p in model.predict_proba(X)] == [(90, 2), (90, 1), (90, 2)]
    assert (model.predict(X) == Y).mean() > 0.9


def test_multilabel_with_scores_only_uses_votes(labelled):
    X, _ = labelled
    Y = np.column_stack([X[:, 0] > 1, X[:, 1] > 1]).astype(int)
    model = AnchoredClassifier(RidgeClassifier(), n_anchors=4, random_state=0).fit(X, Y)
    assert (model.predict(X) == Y).mean() > 0.9


def test_predict_proba_of_a_stack(labelled):
    stack = StackingClassifier([("tree", DecisionTreeClassifier(max_depth=3))], cv=2)
    with pytest.warns(UserWarning, match="tune it outside"):
        model = AnchoredClassifier(stack, n_anchors=3, n_train_anchors=5, random_state=0).fit(*labelled)
    assert model.predict_proba(labelled[0]).shape == (90, 3)


@pytest.fixture(scope="module")
def uneven():
    X, y = make_classification(600, 8, n_informative=5, weights=[0.93], random_state=0, class_sep=0.6)
    return (X[:300], y[:300]), (X[300:], y[300:])


@pytest.mark.parametrize(
    "base", [LinearSVC(class_weight="balanced"), RidgeClassifier(class_weight="balanced")]
)
def test_class_weights_are_kept(base, uneven):
    train, (X, y) = uneven
    plain = recall_score(y, clone(base).fit(*train).predict(X))
    anchored = recall_score(y, AnchoredClassifier(base, random_state=0).fit(*train).predict(X))
    assert anchored > 0.75 * plain > 0.5


@pytest.mark.parametrize(
    "base", [NearestCentroid(), FixedThresholdClassifier(LogisticRegression(), threshold=0.1)]
)
def test_predict_of_the_center(base, uneven):
    train, (X, _) = uneven
    model = AnchoredClassifier(base, center="estimator", random_state=0).fit(*train)
    np.testing.assert_array_equal(model.predict(X), clone(base).fit(*train).predict(X))
