"""`fit`: coverage of intervals and sets, members, anchors, reproducibility, errors."""

import zipfile

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy import stats
from sklearn.impute import SimpleImputer
from sklearn.linear_model import BayesianRidge, Perceptron
from sklearn.pipeline import make_pipeline
from sklearn.tree import DecisionTreeRegressor

from deltauq import AnchoredClassifier, AnchoredRegressor
from deltauq.estimators import stacked_regressor
from deltauq.tables import TableError, fit, predict_file
from deltauq.tables.folder import FITTED_FILE

TREE = {"model": "tree", "n_train_anchors": 5}
"""The options of the fixtures `regression` and `classification`."""


def sampling_error(coverage, n_scored, n_new, n_tables):
    """Return the standard deviation of the mean empirical coverage of several tables."""
    return np.sqrt(coverage * (1 - coverage) * (1 / n_scored + 1 / n_new) / n_tables)


def test_regression_columns(regression, mixed):
    actual = regression.predict(mixed)
    assert list(actual.columns) == ["prediction", "std", "lower", "upper", "risk"]
    assert len(actual) == len(mixed) and (actual.lower < actual.upper).all() and (actual["std"] > 0).all()
    assert set(actual.risk) <= {"low", "moderate", "high"}
    assert np.corrcoef(actual.prediction, mixed.price)[0, 1] > 0.9


def test_anchors_are_limited_to_the_number_of_rows(mixed):
    model = fit(mixed[["area", "rooms", "price"]], "price", model="linear", n_anchors=10**8)
    assert len(model.fitted.reference) == 240
    assert "Of 100,000,000 anchors, 240 are used: the number of training rows." in model.report["notes"]


def test_classification_columns(classification, mixed):
    actual = classification.predict(mixed)
    names = ["probability_large", "std_large", "probability_small", "std_small"]
    assert list(actual.columns) == ["prediction", *names, "set", "risk"]
    np.testing.assert_allclose(actual.probability_large + actual.probability_small, 1.0)
    likeliest = np.where(actual.probability_large >= actual.probability_small, "large", "small")
    assert (actual.prediction == likeliest).all()
    assert all(row.prediction in row.set for row in actual.itertuples())
    assert (actual.prediction == mixed["size"]).mean() > 0.9


@pytest.mark.parametrize(
    ("labels", "kind"), [([0, 1], int), ([1.5, 2.5], float), ([True, False], bool), (["0", "x"], str)]
)
def test_classes_keep_their_type(labels, kind, mixed):
    table = mixed[["area", "rooms"]].assign(y=np.where(mixed.area > 100, *labels))
    if kind is str:
        table["y"] = table.y.astype(str)
    model = fit(table, "y", **TREE, task="classification")
    assert all(type(name) is kind for name in model.classes)
    assert set(model.predict(table).prediction) == set(labels)


@pytest.mark.parametrize("options", [TREE, {"model": "linear"}])
def test_empirical_coverage_of_intervals(options):
    rng = np.random.default_rng(1)
    covered = []
    for seed in range(8):
        X = rng.normal(size=(1300, 3))
        y = X[:, 0] + np.exp(X[:, 1] / 2) * rng.normal(size=1300)
        table = pd.DataFrame(X, columns=list("abc")).assign(y=y)
        actual = fit(table[:300], "y", coverage=0.8, random_state=seed, **options).predict(table[300:])
        covered.append(np.mean((actual.lower <= y[300:]) & (y[300:] <= actual.upper)))
    assert abs(np.mean(covered) - 0.8) < 4 * sampling_error(0.8, 300, 1000, 8)


def test_empirical_coverage_of_sets():
    rng = np.random.default_rng(2)
    covered = []
    for seed in range(6):
        X = rng.normal(size=(1300, 2))
        y = np.array(["p", "q", "r"])[
            (X[:, 0] + 0.7 * rng.normal(size=1300) > np.c_[-0.5, 0.5].T).sum(axis=0)
        ]
        table = pd.DataFrame(X, columns=list("ab")).assign(y=y)
        actual = fit(table[:300], "y", model="linear", coverage=0.8, random_state=seed).predict(table[300:])
        covered.append(np.mean([label in row for label, row in zip(y[300:], actual.set, strict=True)]))
    assert abs(np.mean(covered) - 0.8) < 4 * sampling_error(0.8, 300, 1000, 6)


@pytest.mark.slow
@pytest.mark.parametrize("quick", [False, True])
def test_empirical_coverage_of_the_default_model(quick):
    rng = np.random.default_rng(3)
    covered, in_sets = [], []
    for seed in range(4):
        X = rng.normal(size=(1200, 3))
        y = np.sin(2 * X[:, 0]) + X[:, 1] + (0.2 + 0.5 * (X[:, 2] > 0)) * rng.normal(size=1200)
        table = pd.DataFrame(X, columns=list("abc")).assign(y=y)
        options = {"coverage": 0.8, "quick": quick, "random_state": seed}
        actual = fit(table[:200], "y", **options).predict(table[200:])
        covered.append(np.mean((actual.lower <= y[200:]) & (y[200:] <= actual.upper)))
        table["y"] = np.where(y > 0, "p", "n")
        actual = fit(table[:200], "y", **options).predict(table[200:])
        in_sets.append(np.mean([y in row for y, row in zip(table.y[200:], actual.set, strict=True)]))
    assert abs(np.mean(covered) - 0.8) < 4 * sampling_error(0.8, 200, 1000, 4)
    # Sets are never empty, so that two classes may be covered more often.
    assert np.mean(in_sets) > 0.8 - 4 * sampling_error(0.8, 200, 1000, 4)


def test_std_is_consistent_with_errors_of_new_rows():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(3000, 2))
    y = X[:, 0] + rng.normal(size=3000)
    y[::50] *= 10_000
    table = pd.DataFrame(X, columns=list("ab")).assign(y=y)
    model = fit(table[:1000], "y", **TREE)
    actual, narrow = model.predict(table[1000:]), model.predict(table[1000:], coverage=0.5)
    pd.testing.assert_series_equal(actual["std"], narrow["std"])
    inside = np.abs(actual.prediction - y[1000:]) <= stats.norm.isf(0.05) * actual["std"]
    assert abs(inside.mean() - 0.9) < 4 * sampling_error(0.9, 1000, 2000, 1)


def test_report(regression, classification):
    report = regression.report
    assert (report["rows"], report["scored"], report["model"]) == (240, 240, "tree")
    assert set(report["errors"]) == {"anchored", "plain"} >= set(report["members"])
    assert sum(report["members"].values()) == pytest.approx(1.0)
    assert report["error"] <= 1.01 * min(report["errors"].values())
    assert 0 < report["width"] < 1.5 * report["constant_width"]
    assert classification.report["error"] <= 1.01 * min(classification.report["errors"].values())


def test_width_in_the_report_is_that_of_new_rows(mixed):
    rng = np.random.default_rng(5)
    table = pd.DataFrame(rng.normal(size=(1300, 2)), columns=list("ab"))
    table["y"] = table.a + np.exp(table.b) * rng.normal(size=1300)
    model = fit(table[:300], "y", model="linear")
    actual = model.predict(table[300:])
    assert (actual.upper - actual.lower).mean() == pytest.approx(model.report["width"], rel=0.2)
    assert model.report["width"] < model.report["constant_width"]


def test_part_of_many_rows_is_held_out(mixed, monkeypatch):
    monkeypatch.setattr("deltauq.estimators._stacking.MAX_FOLD_ROWS", 200)
    table = mixed.drop(columns="size")
    model = fit(table, "price", **TREE)
    assert (model.report["rows"], model.report["scored"], model.n_scored) == (240, 30, 30)
    assert model.predict(table).upper.notna().all()
    with pytest.raises(TableError, match="at least 39 scored rows: of 240 rows, 30 are scored"):
        fit(table, "price", **TREE, coverage=0.95)


def test_invariance_to_the_unit_of_the_target(mixed, regression):
    table = mixed.drop(columns="size")
    # By powers of two, since trees part equal splits by the last bit.
    plain = regression.predict(table)
    for unit in (2.0**-600, 2.0**600):
        actual = fit(table.assign(price=unit * table.price), "price", **TREE).predict(table)
        for name in ("prediction", "std", "lower", "upper"):
            np.testing.assert_allclose(actual[name], unit * plain[name])
        assert (actual.risk == plain.risk).all()


@pytest.mark.parametrize("quick", [False, True])
def test_members_of_a_named_model(quick, mixed):
    calls = []
    table = mixed[["area", "rooms", "price"]]
    options = {"n_anchors": 7, "quick": quick, "progress": lambda *step: calls.append(step)}
    model = fit(table, "price", **TREE, **options)
    (first, anchored), (second, plain) = model.fitted.model.estimators
    assert (first, second) == ("anchored", "plain") and isinstance(anchored, AnchoredRegressor)
    assert (type(anchored.estimator), type(plain)) == (DecisionTreeRegressor, DecisionTreeRegressor)
    fitted = model.fitted.model.estimators_[model.fitted.model.names_.index("anchored")]
    assert (fitted.n_anchors, fitted.n_train_anchors, len(fitted.anchors_.X)) == (7, 5, 7)
    np.testing.assert_array_equal(model.fitted.reference, fitted.anchors_.X)
    n_fits = 2 * ((3 if quick else 5) + 1)
    assert calls == [(k, n_fits) for k in range(1, n_fits + 1)]


@pytest.mark.parametrize("model", ["svm", Perceptron()])
def test_classifiers_without_probabilities_have_anchors_only(model, mixed):
    options = {"quick": True, "n_train_anchors": 5}
    model = fit(mixed.drop(columns="price")[:120], "size", model=model, **options)
    assert [type(member) for member in model.fitted.model.estimators_] == [AnchoredClassifier]
    assert (model.predict(mixed).prediction == mixed["size"]).mean() > 0.8


def test_members_of_the_default_model(mixed):
    model = fit(mixed[["area", "rooms", "price"]][:60], "price", quick=True, anchors="kmeans")
    names = {"anchored boosting", "boosting", "extra-trees", "smooth"}
    assert set(model.report["errors"]) == names >= set(model.report["members"])


@pytest.mark.parametrize("anchors", ["data", "kmeans"])
def test_kernels_of_the_default_model_are_rows(anchors, mixed, tmp_path):
    model = fit(mixed[["area", "rooms", "size"]][:60], "size", quick=True, anchors=anchors)
    model.save(tmp_path / "model")
    with zipfile.ZipFile(tmp_path / "model" / FITTED_FILE) as archive:
        assert (b"GaussianKernels" in archive.read("schema.json")) == (anchors == "data")
    assert model.report["stores_rows"] == (anchors == "data")


@pytest.mark.parametrize("anchors", ["data", "kmeans"])
def test_kmeans_anchors_are_no_training_rows(anchors, mixed):
    model = fit(mixed.drop(columns="size"), "price", **TREE, anchors=anchors)
    rows = {row.tobytes() for row in model.encode(model.schema.read(mixed))}
    stored = np.vstack([model.fitted.model.estimators_[0].anchors_.X, model.fitted.reference])
    shipped = [row.tobytes() in rows for row in stored]
    assert all(shipped) if anchors == "data" else not any(shipped)
    assert model.report["stores_rows"] == (anchors == "data")


def test_polars_frames(mixed, regression):
    other = pl.from_pandas(mixed)
    pd.testing.assert_frame_equal(regression.predict(other), regression.predict(mixed))


def test_estimator_as_base_model(mixed):
    model = fit(mixed[["area", "rooms", "price"]], "price", model=BayesianRidge())
    assert model.report["model"] == "BayesianRidge"
    assert model.predict(mixed).prediction.notna().all()


@pytest.mark.parametrize(
    ("model", "anchors", "expected"),
    [
        ("auto", "data", True),
        ("auto", "kmeans", False),
        ("tree", "balanced", True),
        ("tree", "normal", False),
        ("linear", "data", False),
        (DecisionTreeRegressor(), "data", True),
        (make_pipeline(SimpleImputer(), BayesianRidge()), "data", True),
        (BayesianRidge(), "data", False),
    ],
)
def test_missing_numbers_are_imputed_where_needed(model, anchors, expected, mixed):
    table = mixed[["area", "rooms", "town", "price"]][:60]
    fitted = fit(table, "price", model=model, anchors=anchors, quick=True, n_train_anchors=5)
    numbers = fitted.encode(fitted.schema.read(table))
    assert np.isnan(numbers[:, 0]).any() == expected
    assert not np.isnan(numbers[:, 1:]).any()
    everywhere = mixed.assign(area=np.nan, rooms=np.nan, town=None)
    assert np.isfinite(fitted.predict(everywhere)[["prediction", "std"]]).all(axis=None)


@pytest.mark.parametrize("model", ["auto", "forest", "boosting", "tree"])
@pytest.mark.parametrize("target", ["price", "size"])
def test_columns_with_few_values(model, target, mixed):
    """Some columns have no value in a fold, or in the anchors."""
    table = mixed[["area", "rooms", target]][:80].copy()
    table["rare"] = np.where(np.arange(80) < 2, [7.0, 8.0] * 40, np.nan)
    table["later"] = np.where(np.arange(80) < 70, np.nan, np.arange(80.0))
    actual = fit(table, target, model=model, quick=True, n_train_anchors=3).predict(table)
    assert actual.select_dtypes(np.number).notna().all(axis=None)


@pytest.mark.parametrize("model", ["auto", "boosting", "forest", "tree"])
def test_missing_values_with_a_meaning(model):
    """Large values are missing: to impute them makes them equal to others."""
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"a": rng.integers(0, 10, 1200).astype(float), "b": rng.normal(size=1200)})
    table["y"] = table.a + table.b + 0.1 * rng.normal(size=1200)
    table.loc[table.a > 7, "a"] = np.nan
    imputed = table.fillna({"a": table.a.median()})
    errors, widths = [], []
    for some in (table, imputed):
        fitted = fit(some[:400], "y", model=model, quick=True, n_train_anchors=5)
        actual = fitted.predict(some[400:])
        errors.append(np.abs(actual.prediction - some.y[400:]).mean())
        widths.append((actual.upper - actual.lower).mean())
    assert errors[0] < 0.9 * errors[1]
    assert widths[0] < 0.9 * widths[1]


def test_same_seed_gives_the_same_model(mixed, regression):
    again = fit(mixed.drop(columns="size"), "price", **TREE)
    pd.testing.assert_frame_equal(again.predict(mixed), regression.predict(mixed))
    assert again.report["sha256"] == regression.report["sha256"]


def test_prediction_does_not_depend_on_other_rows(regression, mixed):
    whole = regression.predict(mixed)
    pd.testing.assert_frame_equal(regression.predict(mixed[7:8]), whole[7:8])
    pd.testing.assert_frame_equal(regression.predict(mixed[::-1]), whole[::-1])


@pytest.mark.parametrize("which", ["regression", "classification"])
def test_prediction_does_not_depend_on_the_number_of_threads(which, mixed, request):
    model = request.getfixturevalue(which)
    many = mixed.sample(4000, replace=True, random_state=0).reset_index(drop=True)
    expected = model.predict(many)
    try:
        model.set_jobs(2)
        pd.testing.assert_frame_equal(model.predict(many), expected)
    finally:
        model.set_jobs(None)


def test_fit_does_not_depend_on_the_number_of_processes(mixed, regression):
    model = fit(mixed.drop(columns="size"), "price", **TREE, n_jobs=2)
    pd.testing.assert_frame_equal(model.predict(mixed), regression.predict(mixed))


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"model": "oracle"}, "model must be one of .*'oracle'"),
        ({"coverage": 1.0}, "coverage must lie between 0 and 1"),
        ({"anchors": "stars"}, "anchors must be one of"),
        ({"task": "guess"}, "task must be one of"),
        ({"coverage": 0.999}, "240 rows are too few: a coverage of 0.999 requires at least 1,999"),
    ],
)
def test_invalid_parameters(params, message, mixed):
    with pytest.raises(ValueError, match=message):
        fit(mixed, "price", **params)


def test_class_with_a_single_row_raises(mixed):
    table = mixed.assign(size=["odd", *mixed["size"][1:]])
    with pytest.raises(TableError, match='the class "odd" has a single row'):
        fit(table, "size", **TREE)


@pytest.mark.parametrize(("coverage", "fewest"), [(0.9, 19), (0.95, 39), (0.5, 10)])
def test_smallest_number_of_rows(coverage, fewest, mixed):
    table = mixed[["area", "rooms", "price"]]
    with pytest.raises(TableError, match=f"requires at least {fewest}"):
        fit(table[: fewest - 1], "price", model="linear", coverage=coverage)
    actual = fit(table[:fewest], "price", model="linear", coverage=coverage).predict(mixed)
    assert np.isfinite(actual.upper).all()


@pytest.mark.parametrize("word", ["forest", "tree", "boosting"])
def test_trees_do_not_depend_on_units(word):
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"amount": rng.uniform(1, 90, 300), "z": rng.normal(size=300)})
    table["y"] = table.amount + rng.normal(size=300)
    small = table.assign(amount=table.amount * 1e-9)
    options = {"model": word, "quick": True, "n_train_anchors": 3}
    actual = [fit(some, "y", **options).predict(some).prediction - some.y for some in (table, small)]
    errors = [np.abs(error).mean() for error in actual]
    assert errors[1] == pytest.approx(errors[0], rel=0.2) and errors[0] < 3


def test_integer_column_names():
    rng = np.random.default_rng(0)
    table = pd.DataFrame(rng.normal(size=(60, 3)))
    assert fit(table, 2, model="linear").target == "2"
    with pytest.raises(TableError, match='there is no column "7"'):
        fit(table, 7, model="linear")


class BrokenModel(BayesianRidge):
    def fit(self, X, y, sample_weight=None):
        raise ValueError("these rows are no good")


def test_only_errors_of_the_base_estimator_are_table_errors(mixed, monkeypatch):
    table = mixed[["area", "rooms", "price"]]
    with pytest.raises(
        TableError, match="BrokenModel cannot be fitted to this table: these rows are no good"
    ):
        fit(table, "price", model=BrokenModel())

    def bug(*arguments):
        raise ValueError("a bug")

    monkeypatch.setattr(stacked_regressor, "fit_weights", bug)
    with pytest.raises(ValueError, match="a bug") as caught:
        fit(table, "price", model="linear")
    assert not isinstance(caught.value, TableError)
    monkeypatch.setattr(stacked_regressor, "fit_weights", lambda *_: np.average([1.0], weights=[0.0]))
    with pytest.raises(ZeroDivisionError):  # raised by NumPy for a wrong argument of this package
        fit(table, "price", model="linear")


def test_repeated_rows_are_noted(mixed):
    table, note = mixed[:60].drop(columns="size"), "of the rows repeat another row"
    for frame, is_noted in ((table, False), (pd.concat([table] * 2), True)):
        model = fit(frame, "price", model="tree", n_train_anchors=5)
        assert any(note in text for text in model.report["notes"]) == is_noted


def regions(n, n_regions, rng):
    """Return a table of regions with an effect each, and noise."""
    effects = np.random.default_rng(0).normal(size=n_regions)
    codes = rng.integers(n_regions, size=n)
    y = effects[codes] + rng.normal(0.0, 0.1, n)
    return pd.DataFrame({"region": [f"r{code}" for code in codes], "x": rng.normal(size=n), "y": y})


@pytest.mark.parametrize("model", ["auto", "linear"])
def test_many_categories_are_told_apart(model):
    """Most of the regions share a column as rare categories."""
    rng = np.random.default_rng(1)
    fitted = fit(regions(600, 60, rng), "y", model=model, quick=True)
    new = regions(300, 60, rng)
    assert np.mean(np.abs(fitted.predict(new)["prediction"] - new["y"])) < 0.15


def test_mean_targets_do_not_tell_the_own_target():
    rng = np.random.default_rng(2)
    table = regions(600, 300, rng).assign(y=rng.normal(size=600))
    new = regions(600, 300, rng).assign(y=rng.normal(size=600))
    predicted = fit(table, "y", quick=True).predict(new)
    assert np.mean((predicted["lower"] <= new["y"]) & (new["y"] <= predicted["upper"])) > 0.86


def test_mean_targets_of_large_numbers():
    table = regions(200, 30, np.random.default_rng(3))
    fitted = fit(table.assign(y=1e300 * table["y"] / table["y"].abs().max()), "y", model="tree", quick=True)
    assert np.all(np.isfinite(fitted.predict(table)["prediction"]))


def test_a_value_or_nothing_is_a_feature():
    rng = np.random.default_rng(4)
    table = pd.DataFrame({"x": rng.normal(size=300), "pool": np.where(rng.random(300) < 0.5, 1.0, np.nan)})
    table["y"] = table["x"] + 5 * table["pool"].fillna(0)
    assert fit(table, "y", quick=True).report["error"] < 1.0


def test_values_missing_for_the_first_time():
    """Trees do not know what they mean; they are imputed instead."""
    rng = np.random.default_rng(5)
    table = pd.DataFrame(rng.normal(size=(400, 5)), columns=[*"abcde"])
    table["y"] = table.sum(axis=1) + rng.normal(size=400)
    fitted = fit(table[:200], "y", quick=True)
    gaps = table[200:].assign(a=np.nan)
    imputed = gaps.assign(a=table["a"][:200].median())
    np.testing.assert_array_equal(fitted.predict(gaps)["prediction"], fitted.predict(imputed)["prediction"])


@pytest.mark.parametrize("anchors", ["data", "kmeans"])
def test_targets_of_single_rows_are_not_stored_with_averages(anchors):
    table = regions(200, 90, np.random.default_rng(6)).assign(y=np.arange(200.0))
    fitted = fit(table, "y", model="linear", anchors=anchors, quick=True)
    encoder = fitted.fitted.preprocessor.transformers_[2][1]
    assert hasattr(encoder[0], "encodings_") == (anchors == "data")


def test_left_out_columns_are_known(tmp_path):
    table = regions(60, 5, np.random.default_rng(7)).assign(constant=1)
    table.to_csv(tmp_path / "table.csv", index=False)
    fitted = fit(table, "y", model="linear", quick=True)
    summary = predict_file(fitted, tmp_path / "table.csv", tmp_path / "out.csv", strict=True)
    assert summary.rows == 60 and not summary.notes
