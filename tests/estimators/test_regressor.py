import numpy as np
import pandas as pd
import polars as pl
import pytest
import sklearn
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.datasets import load_diabetes
from sklearn.ensemble import HistGradientBoostingRegressor, RandomForestRegressor
from sklearn.linear_model import Ridge
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.multioutput import MultiOutputRegressor
from sklearn.neighbors import KNeighborsRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.svm import SVR
from sklearn.tree import DecisionTreeRegressor

from deltauq import AnchoredRegressor
from deltauq.core import DataPrior, Difference, SetPrior, TwoAnchor


def test_prediction_is_the_mean_over_anchors(table):
    X, y = table
    model = AnchoredRegressor(KNeighborsRegressor(), n_anchors=9, random_state=0).fit(X, y)
    by_hand = np.array(
        [model.estimator_.predict(np.hstack([np.tile(r, (60, 1)), X - r])) for r in model.anchors_]
    )
    mean, std = model.predict(X, return_std=True)
    np.testing.assert_allclose(mean, by_hand.mean(axis=0))
    np.testing.assert_allclose(std, by_hand.std(axis=0), atol=1e-12)
    np.testing.assert_array_equal(model.predict(X), mean)
    assert len(model.anchors_) == 9 and model.estimator_.n_features_in_ == 8


@pytest.mark.parametrize(("encoding", "width"), [("identity", 2), ("two-anchor", 3), (TwoAnchor(), 3)])
def test_width_of_encodings(encoding, width, table):
    X, y = table
    model = AnchoredRegressor(DecisionTreeRegressor(), encoding=encoding, random_state=0).fit(X, y)
    assert model.estimator_.n_features_in_ == 4 * width
    assert np.corrcoef(model.predict(X), y)[0, 1] > (0.9 if width == 2 else 0.7)


def test_custom_encoding(table):
    class Ratio(Difference):
        def encode(self, x, *anchors, axis=1):
            return np.concatenate(
                [np.broadcast_to(anchors[0], x.shape), x / (1 + anchors[0] ** 2)], axis=axis
            )

    X, y = table
    model = AnchoredRegressor(DecisionTreeRegressor(), encoding=Ratio(), n_anchors=4, random_state=0).fit(
        X, y
    )
    by_hand = [
        model.estimator_.predict(np.hstack([np.tile(r, (60, 1)), X / (1 + r**2)])) for r in model.anchors_
    ]
    np.testing.assert_allclose(model.predict(X), np.mean(by_hand, axis=0))


@pytest.mark.parametrize("anchors", ["data", "normal", "balanced", "kmeans", DataPrior()], ids=str)
def test_priors(anchors, table):
    X, y = table
    model = AnchoredRegressor(
        DecisionTreeRegressor(), anchors=anchors, n_anchors=10, n_train_anchors=20, random_state=0
    ).fit(X, y)
    assert model.anchors_.shape == (10, 4)
    is_row = (model.anchors_[:, None] == X[None]).all(axis=-1).any(axis=1)
    assert is_row.all() if anchors not in ("normal", "kmeans") else not is_row.any()


def test_given_anchors(table):
    X, y = table
    own = X[:5] + 10
    for anchors in (own, own.tolist(), pd.DataFrame(own), SetPrior(own)):
        model = AnchoredRegressor(DecisionTreeRegressor(), anchors=anchors, n_anchors=5, random_state=0).fit(
            X, y
        )
        np.testing.assert_array_equal(np.sort(model.anchors_, axis=0), np.sort(own, axis=0))


def test_prediction_anchors_are_training_anchors(table):
    X, y = table
    model = AnchoredRegressor(DecisionTreeRegressor(), n_anchors=6, n_train_anchors=7, random_state=0).fit(
        X, y
    )
    assert model.estimator_.tree_.n_node_samples[0] == 60 * 7
    assert len(np.unique(model.anchors_, axis=0)) == 6


def test_random_pairing(table):
    X, y = table
    model = AnchoredRegressor(KNeighborsRegressor(), pairing="random", n_train_anchors=3, random_state=0).fit(
        X, y
    )
    tuples = model.estimator_._fit_X
    assert tuples.shape == (180, 8)
    assert len(np.unique(tuples[:, :4], axis=0)) == 60, "anchors are drawn from all rows, not three of them"
    np.testing.assert_allclose(tuples[:, :4] + tuples[:, 4:], np.repeat(X, 3, axis=0))


def test_set_anchors(table):
    X, y = table
    model = AnchoredRegressor(DecisionTreeRegressor(), random_state=0).fit(X, y)
    own = X[:3].copy()
    assert model.set_anchors(own) is model
    by_hand = [model.estimator_.predict(np.hstack([np.tile(r, (60, 1)), X - r])) for r in own]
    np.testing.assert_allclose(model.predict(X), np.mean(by_hand, axis=0))
    own[:] = 0
    np.testing.assert_allclose(model.predict(X), np.mean(by_hand, axis=0), err_msg="a copy is kept")
    with pytest.raises(ValueError, match="anchors have 2 features"):
        model.set_anchors(np.ones((3, 2)))


def test_center_keeps_the_plain_prediction(table):
    X, y = table
    plain = RandomForestRegressor(3, random_state=5).fit(X, y)
    anchored = AnchoredRegressor(RandomForestRegressor(3, random_state=5), random_state=0).fit(X, y)
    centred = clone(anchored).set_params(center="estimator").fit(X, y)
    mean, std = centred.predict(X, return_std=True)
    np.testing.assert_array_equal(mean, plain.predict(X))
    np.testing.assert_array_equal(std, anchored.predict(X, return_std=True)[1])
    np.testing.assert_array_equal(centred.posterior(X).mean, mean)
    assert not hasattr(anchored, "center_")


@pytest.mark.parametrize(
    "base",
    [RandomForestRegressor(4), KNeighborsRegressor(), MultiOutputRegressor(HistGradientBoostingRegressor())],
)
def test_several_outputs(base, table):
    X, y = table
    Y = np.column_stack([y, -y, X[:, 0]])
    model = AnchoredRegressor(base, n_anchors=8, n_train_anchors=8, calibrate="cv", random_state=0).fit(X, Y)
    mean, std = model.predict(X, return_std=True)
    assert mean.shape == std.shape == (60, 3)
    assert model.scale_.shape == (3,)
    assert model.posterior(X, return_samples=True).samples.shape == (8, 60, 3)
    assert model.score(X, Y) > 0.5


def test_several_outputs_of_an_estimator_for_one_raise(table):
    X, y = table
    with pytest.raises(ValueError, match="MultiOutputRegressor"):
        AnchoredRegressor(SVR()).fit(X, np.column_stack([y, y]))


def test_the_estimator_is_seeded(table):
    X, y = table
    model = AnchoredRegressor(RandomForestRegressor(2), random_state=3).fit(X, y)
    assert isinstance(model.estimator_.random_state, int)
    assert model.estimator.random_state is None, "the user's model is left alone"
    kept = AnchoredRegressor(RandomForestRegressor(2, random_state=11), random_state=3).fit(X, y)
    assert kept.estimator_.random_state == 11


def test_frames_of_pandas_and_polars(table):
    X, y = table
    expected = AnchoredRegressor(DecisionTreeRegressor(), random_state=0).fit(X, y).predict(X)
    for frame in (pd.DataFrame(X, columns=list("abcd")), pl.DataFrame(X, schema=list("abcd"))):
        model = AnchoredRegressor(DecisionTreeRegressor(), random_state=0).fit(frame, y)
        np.testing.assert_array_equal(model.predict(frame), expected)
        np.testing.assert_array_equal(model.feature_names_in_, list("abcd"))
    with pytest.raises(ValueError, match="feature names"):
        model.predict(pd.DataFrame(X, columns=list("dcba")))


def test_pipelines_inside_and_outside(table):
    X, y = table
    inside = AnchoredRegressor(make_pipeline(StandardScaler(), SVR(C=10)), n_anchors=5, random_state=0).fit(
        X, y
    )
    outside = make_pipeline(StandardScaler(), AnchoredRegressor(SVR(C=10), n_anchors=5, random_state=0)).fit(
        X, y
    )
    assert inside.score(X, y) > 0.5 and outside.score(X, y) > 0.5
    assert len(outside.predict(X, return_std=True)) == 2


def test_a_column_transformer_inside_raises():
    frame = pd.DataFrame({"x": np.arange(20.0), "kind": ["a", "b"] * 10})
    columns = ColumnTransformer([("kind", OneHotEncoder(), ["kind"])], remainder="passthrough")
    y = np.arange(20.0)
    inside = AnchoredRegressor(make_pipeline(columns, Ridge()))
    with pytest.raises(ValueError, match=r"ColumnTransformer.*put it outside"):
        inside.fit(frame, y)
    outside = make_pipeline(columns, AnchoredRegressor(Ridge(), random_state=0)).fit(frame, y)
    assert outside.score(frame, y) > 0.9


def test_grid_search(table):
    X, y = table
    model = AnchoredRegressor(DecisionTreeRegressor(), n_anchors=10, random_state=0)
    search = GridSearchCV(
        model, {"estimator__max_depth": [1, 6], "encoding": ["difference", "identity"]}, cv=2
    )
    search.fit(X, y)
    assert search.best_params_["estimator__max_depth"] == 6
    assert search.best_estimator_.estimator_.max_depth == 6


def test_the_default_base_works():
    X, y = load_diabetes(return_X_y=True)
    model = AnchoredRegressor(n_anchors=5, n_train_anchors=5, random_state=0)
    assert cross_val_score(model, X, y, cv=2).mean() > 0.3


def test_a_column_vector_as_target_warns(table):
    X, y = table
    with pytest.warns(sklearn.exceptions.DataConversionWarning):
        model = AnchoredRegressor(DecisionTreeRegressor(), random_state=0).fit(X, y[:, None])
    assert model.predict(X).shape == (60,)


def test_constant_target_has_no_spread(table):
    X, _ = table
    model = AnchoredRegressor(DecisionTreeRegressor(), calibrate="cv", random_state=0).fit(
        X, np.full(60, 3.0)
    )
    mean, std = model.predict(X, return_std=True)
    np.testing.assert_array_equal(mean, 3.0)
    np.testing.assert_array_equal(std, 0.0)
