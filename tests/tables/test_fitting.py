"""`fit`: coverage of intervals and sets, selection of the center, anchors, reproducibility, errors."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy import stats
from sklearn.linear_model import BayesianRidge

from deltauq.tables import TableError, fit, model_selection
from deltauq.tables.model import error_std
from deltauq.tables.model_selection import MAX_ROWS


def test_regression_columns(regression, mixed):
    actual = regression.predict(mixed)
    assert list(actual.columns) == ["prediction", "std", "lower", "upper", "risk"]
    assert len(actual) == len(mixed) and (actual.lower < actual.upper).all() and (actual["std"] > 0).all()
    np.testing.assert_allclose((actual.lower + actual.upper) / 2, actual.prediction)
    assert set(actual.risk) <= {"low", "moderate", "high"}
    assert np.corrcoef(actual.prediction, mixed.price)[0, 1] > 0.9


def test_anchors_are_limited_to_the_number_of_rows(mixed):
    model = fit(mixed[["area", "rooms", "price"]], "price", model="linear", n_anchors=10**8)
    assert len(model.fitted.model.anchors_) == 180
    assert "Of 100,000,000 anchors, 180 are used: the number of training rows." in model.report["notes"]


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
    model = fit(table, "y", model="tree", task="classification")
    assert all(type(name) is kind for name in model.classes)
    assert set(model.predict(table).prediction) == set(labels)


@pytest.mark.parametrize("model", ["tree", "linear"])
def test_empirical_coverage_of_intervals(model):
    rng = np.random.default_rng(1)
    covered = []
    for seed in range(8):
        X = rng.normal(size=(1300, 3))
        y = X[:, 0] + np.exp(X[:, 1] / 2) * rng.normal(size=1300)
        table = pd.DataFrame(X, columns=list("abc")).assign(y=y)
        actual = fit(table[:300], "y", model=model, coverage=0.8, random_state=seed).predict(table[300:])
        covered.append(np.mean((actual.lower <= y[300:]) & (y[300:] <= actual.upper)))
    # 75 rows are held out: ⌈76 · 0.8⌉ / 76 = 0.803, with a standard deviation of about 0.045 a table.
    assert abs(np.mean(covered) - 61 / 76) < 4 * 0.045 / np.sqrt(8)


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
    assert np.mean(covered) > 0.803 - 4 * 0.045 / np.sqrt(6)


def test_std_is_consistent_with_intervals_and_robust():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(3000, 2))
    y = X[:, 0] + rng.normal(size=3000)
    y[::50] *= 10_000
    table = pd.DataFrame(X, columns=list("ab")).assign(y=y)
    model = fit(table[:1000], "y", model="tree", center="estimator")
    actual, narrow = model.predict(table[1000:]), model.predict(table[1000:], coverage=0.5)
    half = (actual.upper - actual.lower) / 2
    np.testing.assert_allclose(actual["std"], half / stats.norm.isf(0.05))
    pd.testing.assert_series_equal(actual["std"], narrow["std"])


@pytest.mark.parametrize("n", [8, 9, 50, 4000])
def test_error_std_of_normal_and_mostly_zero_errors(n):
    rng = np.random.default_rng(n)
    actual = [error_std(np.sort(np.abs(rng.normal(size=n))), np.ones(1))[0] for _ in range(400)]
    assert np.median(actual) == pytest.approx(1.0, rel=0.12 if n < 50 else 0.03)
    scores = np.concatenate([np.zeros(97), [1.0, 2.0, 3.0]])
    assert error_std(scores, np.ones(1)) == pytest.approx(1.0 / stats.norm.isf((1 - 98 / 101) / 2))
    assert error_std(np.zeros(n), np.ones(3)).tolist() == [0.0] * 3


def test_report_of_cross_validated_rows():
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"a": rng.normal(size=1600)}).assign(y=lambda frame: frame.a)
    report = fit(table, "y", model="linear").report
    assert (report["rows"], report["cross_validation"]) == (1200, {"folds": 3, "rows": MAX_ROWS})


def test_invariance_to_the_unit_of_the_target(mixed, regression):
    table = mixed.drop(columns="size")
    # By powers of two, since trees part equal splits by the last bit.
    plain = regression.predict(table)
    for unit in (2.0**-600, 2.0**600):
        actual = fit(table.assign(price=unit * table.price), "price", model="tree").predict(table)
        for name in ("prediction", "std", "lower", "upper"):
            np.testing.assert_allclose(actual[name], unit * plain[name])
        assert (actual.risk == plain.risk).all()


def test_center_with_the_smaller_error_is_selected(regression, mixed):
    errors = regression.report["center_errors"]
    assert regression.report["center"] == min(errors, key=errors.get)
    table = mixed.drop(columns="size")
    for center in ("anchored", "estimator"):
        model = fit(table, "price", model="tree", center=center)
        assert model.report["center"] == center
        assert hasattr(model.fitted.model, "center_") == (center == "estimator")


@pytest.mark.parametrize("anchors", ["data", "kmeans"])
def test_kmeans_anchors_are_no_training_rows(anchors, mixed):
    model = fit(mixed.drop(columns="size"), "price", model="tree", anchors=anchors)
    rows = {row.tobytes() for row in model.encode(model.schema.read(mixed))}
    stored = np.vstack([model.fitted.model.anchors_.X, model.fitted.reference.X])
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


def test_same_seed_gives_the_same_model(mixed, regression):
    again = fit(mixed.drop(columns="size"), "price", model="tree")
    pd.testing.assert_frame_equal(again.predict(mixed), regression.predict(mixed))
    assert again.report["sha256"] == regression.report["sha256"]


def test_prediction_does_not_depend_on_other_rows(regression, mixed):
    whole = regression.predict(mixed)
    pd.testing.assert_frame_equal(regression.predict(mixed[7:8]), whole[7:8])
    pd.testing.assert_frame_equal(regression.predict(mixed[::-1]), whole[::-1])


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"model": "oracle"}, "model must be one of .*'oracle'"),
        ({"coverage": 1.0}, "coverage must lie between 0 and 1"),
        ({"center": "middle"}, "center must be one of"),
        ({"anchors": "stars"}, "anchors must be one of"),
        ({"task": "guess"}, "task must be one of"),
        ({"coverage": 0.999}, "240 rows are too few: a coverage of 0.999 requires at least 3,993"),
    ],
)
def test_invalid_parameters(params, message, mixed):
    with pytest.raises(ValueError, match=message):
        fit(mixed, "price", **params)


def test_progress(mixed):
    calls = []
    fit(mixed[["area", "rooms", "price"]], "price", model="linear", progress=lambda *step: calls.append(step))
    assert calls == [(k, 8) for k in range(1, 9)]


def test_class_with_a_single_row_raises(mixed):
    table = mixed.assign(size=["odd", *mixed["size"][1:]])
    with pytest.raises(TableError, match='the class "odd" has a single row'):
        fit(table, "size", model="tree")


@pytest.mark.parametrize(("coverage", "fewest"), [(0.9, 33), (0.95, 73), (0.5, 14)])
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
    actual = [fit(some, "y", model=word).predict(some).prediction - some.y for some in (table, small)]
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

    monkeypatch.setattr(model_selection, "typical_std", bug)
    with pytest.raises(ValueError, match="a bug") as caught:
        fit(table, "price", model="linear")
    assert not isinstance(caught.value, TableError)
    monkeypatch.setattr(model_selection, "typical_std", lambda *_: np.average([1.0], weights=[0.0]))
    with pytest.raises(ZeroDivisionError):  # raised by NumPy for a wrong argument of this package
        fit(table, "price", model="linear")
