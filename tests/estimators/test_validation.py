import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse
from sklearn.compose import make_column_transformer
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.exceptions import NotFittedError
from sklearn.neighbors import KNeighborsRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.svm import SVR
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

from deltauq import AnchoredClassifier, AnchoredRegressor

X = np.random.default_rng(0).normal(size=(20, 3))
y = X[:, 0]


def broken(value):
    bad = X.copy()
    bad[3, 1] = value
    return bad


@pytest.mark.parametrize(
    ("X", "y", "error", "message"),
    [
        (broken(np.nan), y, ValueError, "X contains NaN, which SVR does not accept.*SimpleImputer"),
        (broken(np.inf), y, ValueError, "X contains infinity"),
        (X, broken(np.nan)[:, 1], ValueError, "y contains NaN"),
        (X[:0], y[:0], ValueError, "0 sample"),
        (X[:, :0], y, ValueError, "0 feature"),
        (X[:1], y[:1], ValueError, "1 sample.*minimum of 2"),
        (X, y[:-1], ValueError, "inconsistent numbers of samples"),
        (X[0], y, ValueError, "2D array"),
        (scipy.sparse.csr_array(X), y, TypeError, "X.*dense data is required"),
        (
            pd.DataFrame({"a": ["u", "v"] * 10, "b": y}),
            y,
            ValueError,
            r"numeric.*\['a'\] are not.*\['a'\]",
        ),
        (X, None, ValueError, "requires y"),
        (X, ["u", "v"] * 10, ValueError, "y must be numeric.*'u'"),
        (pd.DataFrame({"a": pd.date_range("2020", periods=20), "b": y}), y, ValueError, "columns of dates"),
    ],
)
def test_invalid_training_data(X, y, error, message):
    model = AnchoredRegressor(SVR())
    with pytest.raises(error, match=message) as raised:
        model.fit(X, y)
    assert "\n" not in str(raised.value)
    assert vars(model).keys() == vars(AnchoredRegressor()).keys(), "nothing half-fitted stays behind"


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"n_anchors": 0}, "'n_anchors'.* must be an int in the range .* Got 0"),
        ({"n_anchors": 2.5}, "'n_anchors'.* must be an int"),
        ({"n_train_anchors": "all"}, "'n_train_anchors'.* must be"),
        ({"target": "ratio"}, "'target'.* must be a str among"),
        ({"target": None}, "'target'.* must be a str among"),
        ({"encoding": "sum"}, "'encoding'.* must be a str among"),
        ({"anchors": "nearest"}, "'anchors'.* must be a str among"),
        ({"anchors": np.ones((4, 7))}, "anchors have 7 features, but X has 3"),
        ({"anchors": np.full((4, 3), np.nan)}, "anchors contains NaN"),
        ({"anchors": None}, "'anchors'.* Got None"),
        ({"anchors": {"a": X}}, "anchors must be rows like those of X.*got <dict of 1>"),
        ({"anchors": [[1.0, 2.0, 3.0], [1.0]]}, "anchors must be rows like those of X"),
        ({"anchors": [[1.0, 2.0, "secretname"]]}, r"anchors must be numeric, but the columns \[2\] are not"),
        ({"center": "mean"}, "'center'.* must be a str among"),
        ({"calibrate": "platt"}, "'calibrate'.* must be None"),
        ({"calibrate": -1.0}, "'calibrate'.* must be None"),
        ({"calibrate": [1.0]}, "'calibrate'.* must be None"),
        ({"random_state": "seed"}, "'random_state'.* must be"),
        ({"n_jobs": 1.5}, "'n_jobs'.* must be"),
    ],
)
def test_invalid_parameters(params, message):
    with pytest.raises(ValueError, match=message) as raised:
        AnchoredRegressor(SVR(), **params).fit(X, y)
    assert "\n" not in str(raised.value) and "secretname" not in str(raised.value)


def test_invalid_estimator():
    for base in ("tree", object(), DecisionTreeRegressor):
        with pytest.raises(TypeError, match="estimator must be a scikit-learn estimator"):
            AnchoredRegressor(base).fit(X, y)


def test_estimator_of_the_wrong_type():
    for base in (DecisionTreeClassifier(), StandardScaler()):
        with pytest.raises(TypeError, match="estimator must be a regressor"):
            AnchoredRegressor(base).fit(X, y)
    with pytest.raises(TypeError, match="estimator must be a classifier"):
        AnchoredClassifier(DecisionTreeRegressor()).fit(X, y > 0)


@pytest.mark.parametrize("call", ["predict", "posterior", "set_anchors"])
def test_not_fitted(call):
    with pytest.raises(NotFittedError, match="not fitted yet"):
        getattr(AnchoredRegressor(DecisionTreeRegressor()), call)(X)


@pytest.mark.parametrize("call", ["predict", "predict_proba", "uncertainty"])
def test_classifier_not_fitted(call):
    with pytest.raises(NotFittedError):
        getattr(AnchoredClassifier(DecisionTreeClassifier()), call)(X)


def test_invalid_rows_to_predict():
    model = AnchoredRegressor(DecisionTreeRegressor(), random_state=0).fit(X, y)
    with pytest.raises(ValueError, match="X has 2 features, but AnchoredRegressor is expecting 3"):
        model.predict(X[:, :2])
    with pytest.raises(ValueError, match="X contains infinity"):
        model.predict(broken(np.inf))
    with pytest.raises(ValueError, match="X must be numeric"):
        model.predict(pd.DataFrame({"a": ["u"], "b": [0.0], "c": [0.0]}).to_numpy())
    with pytest.raises(ValueError, match="0 sample"):
        model.predict(X[:0])
    neighbours = AnchoredRegressor(KNeighborsRegressor(), random_state=0).fit(X, y)
    with pytest.raises(ValueError, match="X contains NaN, which KNeighborsRegressor does not accept"):
        neighbours.predict(broken(np.nan))
    with pytest.raises(ValueError, match="anchors contains NaN"):
        neighbours.set_anchors(broken(np.nan))


BOOSTING = HistGradientBoostingRegressor(max_iter=5)
TEXT = ["u", "v"] * 10
FRAMES = {
    "text": pd.DataFrame({"a": y, "kind": pd.Categorical(TEXT)}),
    "numbers": pd.DataFrame({"a": y, "kind": pd.Categorical([1, 2] * 10)}),
    "polars": pl.DataFrame({"a": y, "kind": TEXT}, schema_overrides={"kind": pl.Categorical}),
    "polars-enum": pl.DataFrame({"a": y, "kind": TEXT}, schema_overrides={"kind": pl.Enum(["u", "v"])}),
}


@pytest.mark.parametrize("frame", FRAMES.values(), ids=FRAMES)
def test_categorical_columns_raise(frame):
    with pytest.raises(ValueError, match=r"categories, \['kind'\].*OneHotEncoder") as raised:
        AnchoredRegressor(BOOSTING).fit(frame, y)
    assert "\n" not in str(raised.value)
    assert "HistGradientBoosting" not in str(raised.value), "the very model that is wrapped"


def test_encoded_categories():
    encoder = make_column_transformer((OneHotEncoder(sparse_output=False), ["kind"]), remainder="passthrough")
    model = make_pipeline(encoder, AnchoredRegressor(BOOSTING, n_train_anchors=5, random_state=0))
    assert np.isfinite(model.fit(FRAMES["text"], y).predict(FRAMES["text"])).all()


@pytest.mark.parametrize(
    "base",
    [
        HistGradientBoostingRegressor(categorical_features=[1]),
        make_pipeline(StandardScaler(), HistGradientBoostingRegressor(categorical_features=[1])),
    ],
    ids=["alone", "in a pipeline"],
)
def test_categorical_parameters_of_the_estimator_raise(base):
    with pytest.raises(ValueError, match=r"categorical_features.*leave it out.*OneHotEncoder"):
        AnchoredRegressor(base).fit(X, y)


@pytest.mark.parametrize("params", [{"interaction_cst": [{0, 1}]}, {"monotonic_cst": [1, 0, 0]}], ids=str)
def test_column_constraints_of_the_estimator_raise(params):
    with pytest.raises(ValueError, match=f"{next(iter(params))}.*leave it out") as raised:
        AnchoredRegressor(make_pipeline(HistGradientBoostingRegressor(**params))).fit(X, y)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize("params", [{"categorical_features": []}, {"interaction_cst": []}], ids=str)
def test_empty_column_parameters(params):
    empty, unset = (
        AnchoredRegressor(HistGradientBoostingRegressor(**chosen), random_state=0).fit(X, y)
        for chosen in (params, {})
    )
    np.testing.assert_array_equal(empty.predict(X), unset.predict(X))


DAYS = pd.date_range("2020", periods=20)
DATES = {
    "only": pd.DataFrame({"day": DAYS}),
    "missing": pd.DataFrame({"day": DAYS.where(DAYS[2] < DAYS)}),
    "mixed": pd.DataFrame({"a": y, "day": DAYS}),
    "zone": pd.DataFrame({"day": DAYS.tz_localize("UTC")}),
    "durations": pd.DataFrame({"day": DAYS - DAYS[0]}),
    "arrow": pd.DataFrame({"day": pd.Series(DAYS, dtype="timestamp[ns][pyarrow]")}),
    "polars": pl.DataFrame({"day": list(DAYS)}),
    "polars dates": pl.DataFrame({"day": list(DAYS.date)}),
    "array": DAYS.to_numpy()[:, None],
    "durations in an array": (DAYS - DAYS[0]).to_numpy()[:, None],
}


@pytest.mark.parametrize("dates", DATES.values(), ids=DATES)
def test_dates_raise(dates):
    with pytest.raises(ValueError, match=r"X must be numeric, but has .*turn dates into numbers") as raised:
        AnchoredRegressor(BOOSTING).fit(dates, y)
    assert "\n" not in str(raised.value)
    assert isinstance(dates, np.ndarray) or "['day']" in str(raised.value)


def test_dates_as_anchors_raise():
    model = AnchoredRegressor(DecisionTreeRegressor()).fit(pd.DataFrame({"day": y}), y)
    with pytest.raises(ValueError, match=r"anchors must be numeric, but has columns of dates, \['day'\]"):
        model.set_anchors(DATES["only"])


@pytest.mark.parametrize("anchors", ["normal", "kmeans"])
def test_priors_that_average_raise_for_missing_values(anchors):
    with pytest.raises(ValueError, match=r"requires means.*NaN.*anchors=.data"):
        AnchoredRegressor(BOOSTING, anchors=anchors).fit(broken(np.nan), y)


def test_infinity_raises():
    with pytest.raises(ValueError, match="X contains infinity"):
        AnchoredRegressor(BOOSTING).fit(broken(np.inf), y)


@pytest.mark.parametrize("value", [X, X.tolist(), pd.DataFrame(X)], ids=["array", "list", "frame"])
def test_errors_do_not_show_the_data(value):
    secret = f"{X[0, 0]:.3f}"[:5]
    for params in ({"center": value}, {"calibrate": value}, {"n_anchors": value}, {"estimator": value}):
        with pytest.raises((ValueError, TypeError)) as raised:
            AnchoredRegressor(**params).fit(X, y)
        assert secret not in str(raised.value) and len(str(raised.value)) < 250
    for X_bad, anchors in ((X[0], X), (X, X[0])):
        with pytest.raises(ValueError, match="2D array") as raised:
            AnchoredRegressor(SVR(), anchors=anchors).fit(X_bad, y[: len(X_bad)])
        assert secret not in str(raised.value)


@pytest.mark.parametrize(
    ("frame", "columns"),
    [
        (pd.DataFrame({"a": y, "who": ["secretname"] * 20}), r"\['who'\]"),
        (pl.DataFrame({"a": y, "who": ["secretname"] * 20}), r"\['who'\]"),
        (np.column_stack([y.astype(object), ["secretname"] * 20]), r"\[1\]"),
        ([[1.0, "secretname"]] * 20, r"\[1\]"),
    ],
)
def test_errors_name_the_columns_that_are_not_numeric(frame, columns):
    with pytest.raises(ValueError, match=rf"X must be .*{columns} are not.*{columns}") as raised:
        AnchoredRegressor(SVR()).fit(frame, y)
    assert "secretname" not in str(raised.value) and "\n" not in str(raised.value)


def test_errors_do_not_show_an_array_as_encoding():
    with pytest.raises(ValueError, match=r"'encoding'.* Got <ndarray of shape \(20, 3\)>"):
        AnchoredRegressor(SVR(), encoding=X).fit(X, y)


def test_a_failed_fit_keeps_the_earlier_one():
    model = AnchoredRegressor(SVR(), n_anchors=5, random_state=0).fit(X, y)
    before = model.predict(X)
    with pytest.raises(ValueError, match="NaN"):
        model.fit(broken(np.nan), y)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.set_params(estimator=SVR(C=-1.0))
        with pytest.raises(ValueError, match="C"):
            model.fit(X[:, :2], y)
    np.testing.assert_array_equal(model.predict(X), before)
    assert model.n_features_in_ == 3


def test_regression_targets_for_a_classifier_raise():
    with pytest.raises(ValueError, match="Unknown label type"):
        AnchoredClassifier(DecisionTreeClassifier()).fit(X, y)


def test_column_order_of_anchors():
    frame = pd.DataFrame(X, columns=list("abc"))
    model = AnchoredRegressor(DecisionTreeRegressor(), random_state=0).fit(frame, y)
    model.set_anchors(frame[:5], y[:5])
    with pytest.raises(ValueError, match="feature names"):
        model.set_anchors(frame[list("cba")][:5], y[:5])
    with pytest.raises(ValueError, match="feature names"):
        AnchoredRegressor(DecisionTreeRegressor(), anchors=frame[list("cba")]).fit(frame, y)


def test_a_single_anchor_warns():
    model = AnchoredRegressor(DecisionTreeRegressor(), random_state=0).fit(X, y)
    with pytest.warns(UserWarning, match="only one distinct anchor"):
        model.set_anchors(X[:1], y[:1])
    with pytest.warns(UserWarning, match="only one distinct anchor"):
        AnchoredRegressor(DecisionTreeRegressor(), n_anchors=1, random_state=0).fit(X, y)


def test_losses_that_need_positive_targets_name_the_other_target():
    X = np.random.default_rng(0).normal(size=(50, 2))
    base = HistGradientBoostingRegressor(loss="poisson")
    with pytest.raises(ValueError, match="non-negative") as caught:
        AnchoredRegressor(base).fit(X, np.exp(X[:, 0]))
    assert any("target='value'" in note for note in caught.value.__notes__)
    AnchoredRegressor(base, target="value").fit(X, np.exp(X[:, 0]))
