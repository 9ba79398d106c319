import numpy as np
import pandas as pd
import polars as pl
import pytest
import sklearn
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.datasets import load_diabetes
from sklearn.ensemble import HistGradientBoostingRegressor, RandomForestRegressor
from sklearn.linear_model import LinearRegression, Ridge
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.multioutput import MultiOutputRegressor
from sklearn.neighbors import KNeighborsRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.svm import SVR
from sklearn.tree import DecisionTreeRegressor

from deltauq import AnchoredRegressor
from deltauq.core import Anchors, DataPrior, Difference, Full, SetPrior, TwoAnchor


@pytest.mark.parametrize("target", ["difference", "value"])
def test_prediction_is_the_mean_over_anchors(target, table):
    X, y = table
    model = AnchoredRegressor(
        KNeighborsRegressor(), target=target, encoding="difference", n_anchors=9, random_state=0
    ).fit(X, y)
    by_hand = np.array(
        [model.estimator_.predict(np.hstack([np.tile(r, (60, 1)), X - r])) for r in model.anchors_.X]
    )
    if target == "difference":
        by_hand += model.anchors_.y[:, None]
    mean, std = model.predict(X, return_std=True)
    np.testing.assert_allclose(mean, by_hand.mean(axis=0))
    np.testing.assert_allclose(std, by_hand.std(axis=0), atol=1e-12)
    np.testing.assert_array_equal(model.predict(X), mean)
    assert len(model.anchors_) == 9 and model.estimator_.n_features_in_ == 8
    assert (model.anchors_.y is None) == (target == "value")


@pytest.mark.parametrize(
    ("encoding", "width"), [("identity", 2), ("full", 3), ("two-anchor", 3), (TwoAnchor(), 3)]
)
def test_width_of_encodings(encoding, width, table):
    X, y = table
    model = AnchoredRegressor(DecisionTreeRegressor(), encoding=encoding, random_state=0).fit(X, y)
    assert model.estimator_.n_features_in_ == 4 * width
    assert np.corrcoef(model.predict(X), y)[0, 1] > (0.7 if encoding in ("two-anchor", TwoAnchor()) else 0.9)


@pytest.mark.parametrize(
    ("base", "params", "encoding"),
    [
        (Ridge(), {}, Full()),
        (RandomForestRegressor(2), {}, Difference()),
        (HistGradientBoostingRegressor(), {}, Full()),
        (DecisionTreeRegressor(), {}, Difference()),
        (make_pipeline(StandardScaler(), DecisionTreeRegressor()), {}, Difference()),
        (Ridge(), {"target": "value"}, Difference()),
        (RandomForestRegressor(2), {"target": "value"}, Difference()),
        (DecisionTreeRegressor(), {"encoding": "full"}, Full()),
    ],
)
def test_default_encoding(base, params, encoding, table):
    model = AnchoredRegressor(base, n_train_anchors=5, random_state=0, **params).fit(*table)
    assert model.encoding_ == encoding


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
        label + model.estimator_.predict(np.hstack([np.tile(r, (60, 1)), X / (1 + r**2)]))
        for r, label in zip(model.anchors_.X, model.anchors_.y, strict=True)
    ]
    np.testing.assert_allclose(model.predict(X), np.mean(by_hand, axis=0))


@pytest.mark.parametrize("anchors", ["data", "normal", "balanced", "kmeans", DataPrior()], ids=str)
def test_priors(anchors, table):
    X, y = table
    target = "value" if anchors == "normal" else "difference"
    model = AnchoredRegressor(
        DecisionTreeRegressor(),
        target=target,
        anchors=anchors,
        n_anchors=10,
        n_train_anchors=20,
        random_state=0,
    ).fit(X, y)
    assert model.anchors_.X.shape == (10, 4)
    rows = X if anchors == "normal" else np.column_stack([X, y])
    drawn = model.anchors_.X if anchors == "normal" else np.column_stack([model.anchors_.X, model.anchors_.y])
    is_row = (drawn[:, None] == rows[None]).all(axis=-1).any(axis=1)
    assert is_row.all() if anchors not in ("normal", "kmeans") else not is_row.any()


def test_normal_anchors_have_no_targets(table):
    with pytest.raises(ValueError, match=r"no targets.*target='value'"):
        AnchoredRegressor(Ridge(), anchors="normal").fit(*table)


@pytest.mark.parametrize("weights", [None, np.arange(60) % 3 + 1.0], ids=["equal", "weighted"])
def test_cluster_centres_have_the_mean_target_of_their_cluster(weights, table):
    """Means of a linear target lie on the line."""
    X, _ = table
    Y = np.column_stack([X @ [1.0, -2.0, 0.5, 3.0] + 1, X[:, 0]])
    model = AnchoredRegressor(Ridge(), anchors="kmeans", n_anchors=10, n_train_anchors=20, random_state=0)
    anchors = model.fit(X, Y, sample_weight=weights).anchors_
    expected = np.column_stack([anchors.X @ [1.0, -2.0, 0.5, 3.0] + 1, anchors.X[:, 0]])
    np.testing.assert_allclose(anchors.y, expected, atol=1e-12)
    assert len(np.unique(anchors.X, axis=0)) == 10


def test_given_anchors(table):
    X, y = table
    own = X[:5] + 10
    for anchors in (own, own.tolist(), pd.DataFrame(own), SetPrior(own)):
        model = AnchoredRegressor(
            DecisionTreeRegressor(), target="value", anchors=anchors, n_anchors=5, random_state=0
        ).fit(X, y)
        np.testing.assert_array_equal(np.sort(model.anchors_.X, axis=0), np.sort(own, axis=0))
        with pytest.raises(ValueError, match=r"no targets: give Anchors\(X, y\)"):
            clone(model).set_params(target="difference").fit(X, y)


def test_given_anchors_with_targets(table):
    X, y = table
    own, labels = X[:5] + 10, y[:5] - 7
    joined = np.sort(np.column_stack([own, labels]), axis=0)
    for anchors in (
        Anchors(own, labels),
        Anchors(own.tolist(), labels.tolist()),
        Anchors(pd.DataFrame(own), pd.Series(labels)),
        Anchors(own, labels[:, None]),
        SetPrior(Anchors(own, labels)),
    ):
        params = {"anchors": anchors, "n_anchors": 5, "random_state": 0}
        model = AnchoredRegressor(DecisionTreeRegressor(), **params).fit(X, y)
        kept = np.column_stack([model.anchors_.X, model.anchors_.y])
        np.testing.assert_array_equal(np.sort(kept, axis=0), joined)
        assert clone(model).set_params(target="value").fit(X, y).anchors_.y is None
    with pytest.raises(ValueError, match=r"targets of anchors have shape \(2,\) each"):
        AnchoredRegressor(Ridge(), anchors=Anchors(own, np.ones((5, 2)))).fit(X, y)


def test_prediction_anchors_are_training_anchors(table):
    X, y = table
    model = AnchoredRegressor(DecisionTreeRegressor(), n_anchors=6, n_train_anchors=7, random_state=0).fit(
        X, y
    )
    assert model.estimator_.tree_.n_node_samples[0] == 60 * 7
    assert len(np.unique(model.anchors_.X, axis=0)) == 6


@pytest.mark.parametrize("target", ["difference", "value"])
def test_set_anchors(target, table):
    X, y = table
    model = AnchoredRegressor(DecisionTreeRegressor(), target=target, random_state=0).fit(X, y)
    own, labels = X[:3] + 1, y[:3] + 5
    assert model.set_anchors(own, labels) is model
    by_hand = [model.estimator_.predict(np.hstack([np.tile(r, (60, 1)), X - r])) for r in own]
    expected = np.mean(by_hand, axis=0) + (labels.mean() if target == "difference" else 0.0)
    np.testing.assert_allclose(model.predict(X), expected)
    own[:], labels[:] = 0, 0
    np.testing.assert_allclose(model.predict(X), expected, err_msg="a copy is kept")
    with pytest.raises(ValueError, match="anchors have 2 features"):
        model.set_anchors(np.ones((3, 2)), np.ones(3))
    model.set_params(target="value" if target == "difference" else "difference")
    model.set_anchors(X[:3] + 1, y[:3] + 5)
    np.testing.assert_allclose(model.predict(X), expected, err_msg="what was fitted counts")


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (None, r"needs the targets of the anchors: call set_anchors\(X, y\)"),
        (np.ones(4), "one target each"),
        (np.ones((5, 2)), r"targets of anchors have shape \(2,\) each"),
        (np.full(5, np.nan), "the targets of anchors contains NaN"),
    ],
)
def test_invalid_targets_of_anchors(labels, message, table):
    X, y = table
    model = AnchoredRegressor(Ridge(), random_state=0).fit(X, y)
    before = model.predict(X)
    with pytest.raises(ValueError, match=message):
        model.set_anchors(X[:5], labels)
    np.testing.assert_array_equal(model.predict(X), before)


def test_anchors_of_several_outputs_need_all_targets(table):
    X, y = table
    Y = np.column_stack([y, -y])
    model = AnchoredRegressor(Ridge(), random_state=0).fit(X, Y)
    for labels in (y[:5], Y[:5, :1], np.ones((5, 3))):
        with pytest.raises(ValueError, match="targets of anchors have shape"):
            model.set_anchors(X[:5], labels)
    assert model.set_anchors(X[:5], Y[:5]).predict(X).shape == (60, 2)


@pytest.mark.parametrize("encoding", ["difference", "full", "identity"])
def test_labelled_anchors_of_linear_regression(encoding, table):
    """With all rows as anchors, the mean is the prediction without anchors, and σ is the RMS residual."""
    X, y = table
    Y = np.column_stack([y, X[:, 0] + y**2])
    plain = LinearRegression().fit(X, Y)
    model = AnchoredRegressor(
        LinearRegression(), encoding=encoding, n_anchors=60, n_train_anchors=60, random_state=0
    ).fit(X, Y)
    X_new = 3 * X + 1
    mean, std = model.predict(X_new, return_std=True)
    np.testing.assert_allclose(mean, plain.predict(X_new), atol=1e-9)
    residuals = Y - plain.predict(X)
    np.testing.assert_allclose(std, np.broadcast_to(np.sqrt(np.mean(residuals**2, axis=0)), std.shape))


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
@pytest.mark.parametrize("target", ["difference", "value"])
def test_several_outputs(base, target, table):
    X, y = table
    Y = np.column_stack([y, -y, X[:, 0]])
    model = AnchoredRegressor(
        base, target=target, n_anchors=8, n_train_anchors=8, calibrate="cv", random_state=0
    ).fit(X, Y)
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
