import numpy as np
import pytest
import sklearn
from sklearn.ensemble import VotingRegressor
from sklearn.linear_model import LogisticRegression, Ridge, SGDRegressor
from sklearn.model_selection import cross_validate
from sklearn.neighbors import KNeighborsRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC
from sklearn.tree import DecisionTreeRegressor

from deltauq import AnchoredClassifier, AnchoredRegressor

WEIGHTS = np.arange(60) % 4


def repeated(X, y, weights=WEIGHTS):
    return np.repeat(X, weights, axis=0), np.repeat(y, weights, axis=0)


@pytest.mark.parametrize(
    ("target", "anchors", "n_train_anchors"),
    [
        ("difference", "data", 1000),
        ("difference", "data", 10),
        ("value", "data", 1000),
        ("value", "data", 10),
        ("value", "normal", 10),
    ],
)
@pytest.mark.parametrize("n_outputs", [1, 2])
def test_a_weight_equals_a_repeated_row(table, target, anchors, n_train_anchors, n_outputs):
    model = AnchoredRegressor(
        Ridge(), target=target, anchors=anchors, n_train_anchors=n_train_anchors, random_state=0
    )
    X, y = table
    Y = y if n_outputs == 1 else np.column_stack([y, y**2])
    weighted = sklearn.clone(model).fit(X, Y, sample_weight=WEIGHTS).posterior(X)
    plain = sklearn.clone(model).fit(*repeated(X, Y)).posterior(X)
    np.testing.assert_allclose(weighted.mean, plain.mean, rtol=1e-6)
    np.testing.assert_allclose(weighted.std, plain.std, rtol=1e-6)


def test_a_weight_equals_a_repeated_row_with_few_rows(table):
    """As many anchors as rows, the default for few rows."""
    X, y = table[0][:24], table[1][:24]
    weighted = AnchoredRegressor(Ridge(), random_state=0).fit(X, y, WEIGHTS[:24]).posterior(X)
    plain = AnchoredRegressor(Ridge(), random_state=0).fit(*repeated(X, y, WEIGHTS[:24])).posterior(X)
    np.testing.assert_allclose(weighted.mean, plain.mean, rtol=1e-6)
    np.testing.assert_allclose(weighted.std, plain.std, rtol=1e-6)


def test_weights_reach_a_base_inside_a_pipeline(table):
    X, y = table
    east = X[:, 0] > 0
    base = make_pipeline(StandardScaler(), DecisionTreeRegressor(max_depth=4))
    errors = []
    for weights in (np.where(east, 1.0, 1e-6), np.where(east, 1e-6, 1.0)):
        model = AnchoredRegressor(base, random_state=0).fit(X, y, sample_weight=weights)
        errors.append(np.abs(model.predict(X) - y)[east].mean())
    assert errors[0] < errors[1]


@pytest.mark.parametrize(
    "base", [KNeighborsRegressor(), make_pipeline(StandardScaler(), KNeighborsRegressor())]
)
def test_weights_raise_for_an_estimator_without_weights(base, table):
    X, y = table
    model = AnchoredRegressor(base)
    with pytest.raises(TypeError, match=r"sample_weight.*KNeighborsRegressor\.fit does not take it"):
        model.fit(X, y, sample_weight=np.ones(60))
    assert model.fit(X, y, sample_weight=None).predict(X).shape == (60,)


def test_weights_of_calibration_and_center(labelled):
    X, y = labelled
    weights = np.where(y == "blue", 5.0, 1.0)
    for base in (SVC(), LogisticRegression()):
        params = {"n_anchors": 5, "random_state": 0, "center": "estimator", "calibrate": "cv"}
        plain = AnchoredClassifier(base, **params).fit(X, y)
        heavy = AnchoredClassifier(base, **params).fit(X, y, sample_weight=weights)
        assert heavy.posterior(X).mean[:, 0].mean() > plain.posterior(X).mean[:, 0].mean()
        assert not np.allclose(heavy.scale_, plain.scale_)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_weights_of_a_base_that_learns_by_epochs(table):
    X, y = table
    weights = np.where(X[:, 0] > 0, 1.0, 0.0)
    model = AnchoredRegressor(SGDRegressor(), random_state=0).fit(X, y, sample_weight=weights)
    assert np.all(model.anchors_.X[:, 0] > 0), "anchors are drawn by weight"


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        (np.zeros(60), "zero"),
        (np.eye(60)[0], "at least two"),
        (-np.ones(60), "[Nn]egative"),
        (np.ones(3), "sample_weight"),
    ],
)
def test_bad_weights(weights, message, table):
    with pytest.raises(ValueError, match=message):
        AnchoredRegressor(Ridge()).fit(*table, sample_weight=weights)


def test_metadata_is_routed_to_the_base(table):
    X, y = table

    class Tagged(Ridge):
        def fit(self, X, y, sample_weight=None, tag=None, word=None):
            self.tag_, self.word_ = tag, word
            return super().fit(X, y, sample_weight)

    model = AnchoredRegressor(Tagged(), n_train_anchors=3, random_state=0)
    with pytest.raises(ValueError, match="enable_metadata_routing"):
        model.fit(X, y, tag=np.arange(60))
    with sklearn.config_context(enable_metadata_routing=True):
        model.set_params(estimator=Tagged().set_fit_request(tag=True, word=True, sample_weight=True))
        model.fit(X, y, tag=np.arange(60), word="once", sample_weight=np.ones(60))
        np.testing.assert_array_equal(model.estimator_.tag_, np.repeat(np.arange(60), 3))
        assert model.estimator_.word_ == "once"
        model.set_fit_request(sample_weight=True).set_score_request(sample_weight=False)
        scores = cross_validate(model, X, y, params={"sample_weight": np.ones(60)}, error_score="raise")
        assert len(scores["test_score"]) == 5


def test_weights_of_wrapped_estimators(table):
    X, y = table
    weights = np.where(X[:, 0] > 0, 1.0, 1e-6)
    for base in (
        VotingRegressor([("ridge", Ridge())]),
        make_pipeline(make_pipeline(StandardScaler(), Ridge())),
    ):
        weighted = AnchoredRegressor(base, random_state=0).fit(X, y, sample_weight=weights).predict(X)
        assert not np.allclose(weighted, AnchoredRegressor(base, random_state=0).fit(X, y).predict(X))


def test_routing_reaches_the_folds_in_threads(table):
    X, y = table
    with sklearn.config_context(enable_metadata_routing=True):
        base = make_pipeline(StandardScaler(), Ridge().set_fit_request(sample_weight=True))
        base[0].set_fit_request(sample_weight=True)
        model = AnchoredRegressor(base, calibrate="cv", n_jobs=2, random_state=0)
        assert model.fit(X, y, sample_weight=np.ones(60)).scale_ > 0
