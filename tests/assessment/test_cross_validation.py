"""`assess` on real and synthetic tables: splits, metrics, methods and results."""

import json
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import spearmanr
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.compose import make_column_transformer
from sklearn.datasets import load_diabetes, load_iris
from sklearn.ensemble import (
    GradientBoostingRegressor,
    HistGradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.impute import SimpleImputer
from sklearn.linear_model import BayesianRidge, LinearRegression, LogisticRegression, Ridge
from sklearn.metrics import log_loss, mean_absolute_error, roc_auc_score
from sklearn.model_selection import GroupKFold, TimeSeriesSplit
from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.svm import LinearSVC
from sklearn.tree import DecisionTreeRegressor

import deltauq
from deltauq import AnchoredRegressor, assess
from deltauq.assessment import Advice
from deltauq.assessment.cross_validation import make_splits
from deltauq.assessment.methods import calibrate
from deltauq.assessment.scoring import Predictions
from deltauq.data import load_openml
from deltauq.utils.install import install_command


def diabetes(n=150):
    X, y = load_diabetes(return_X_y=True)
    return X[:n], y[:n]


def openml_part(id, n):
    table = load_openml(id)
    rows = np.random.default_rng(0).permutation(len(table.y))[:n]
    return table.X[rows], table.y[rows]


@pytest.fixture(scope="module")
def regression():
    return assess(DecisionTreeRegressor(max_depth=4), *diabetes(), cv=3)


@pytest.fixture(scope="module")
def classification():
    X, y = load_iris(return_X_y=True)
    return assess(RandomForestClassifier(5), X, np.array(["a", "b", "c"])[y], cv=3)


# Recommendations for real models


@pytest.mark.usefixtures("data_dir")
@pytest.mark.slow
def test_small_forest_gains():
    result = assess(RandomForestRegressor(5), *openml_part(216, 250)).recommendation
    assert (result.advice, result.method) == (Advice.ANCHORING, "anchored")
    assert "more accurate" in result.text


@pytest.mark.usefixtures("data_dir")
@pytest.mark.slow
def test_boosting_gains():
    assessment = assess(HistGradientBoostingRegressor(), *openml_part(42712, 1000))
    result = assessment.recommendation
    assert (result.advice, result.method) == (Advice.ANCHORING, "anchored")
    frame = assessment.to_frame()
    assert frame.mae["anchored"] < 0.95 * frame.mae["plain"]
    assert frame.spearman["anchored"] > 0.3


@pytest.mark.usefixtures("data_dir")
@pytest.mark.slow
def test_boosting_that_is_not_enlarged_gets_sigma_only():
    """`GradientBoostingRegressor` is not enlarged for pairs, and predicts worse with them."""
    assessment = assess(GradientBoostingRegressor(n_estimators=50), *openml_part(42712, 1000))
    assert (assessment.recommendation.advice, assessment.recommendation.method) == (
        Advice.SIGMA_ONLY,
        "center",
    )
    frame = assessment.to_frame()
    assert frame.mae["anchored"] > 1.1 * frame.mae["plain"]
    assert frame.spearman["center"] > 0.2


@pytest.mark.usefixtures("data_dir")
@pytest.mark.slow
def test_large_forest_keeps_its_own_spread():
    forest = RandomForestRegressor(50)
    result = assess(forest, *openml_part(42712, 250), n_train_anchors=20).recommendation
    assert (result.advice, result.method) == (Advice.NO_ANCHORING, "tree-spread")


def test_linear_model_has_constant_sigma():
    assessment = assess(LinearRegression(), *diabetes())
    assert (assessment.recommendation.advice, assessment.recommendation.method) == (
        Advice.NO_ANCHORING,
        "plain",
    )
    assert "the same for every row" in assessment.recommendation.text
    assert all(np.isnan(row["spearman"]) for row in assessment.table)


def test_own_std_is_compared():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 3))
    y = X[:, 0] + rng.normal(size=200)
    assert "own-std" in assess(BayesianRidge(), X, y).methods


# Metrics, splits and methods


def test_regression_metrics_match_other_libraries(regression):
    for method in regression.methods:
        for fold, (y, part) in enumerate(
            zip(regression.targets, regression.predictions[method], strict=True)
        ):
            scores = {name: values[fold] for name, values in regression.metrics.scores[method].items()}
            assert_allclose(scores["mae"], mean_absolute_error(y, part.value))
            if np.ptp(part.spread) > 0:
                assert_allclose(scores["spearman"], spearmanr(part.spread, np.abs(y - part.value))[0])
            inside = (part.lower <= y) & (y <= part.upper)
            assert_allclose(scores["coverage"], np.mean(inside))
            assert_allclose(scores["width"], np.mean(part.upper - part.lower))


def test_classification_metrics_match_scikit_learn(classification):
    for y, part, loss, auroc in zip(
        classification.targets,
        classification.predictions["anchored"],
        classification.metrics.scores["anchored"]["log_loss"],
        classification.metrics.scores["anchored"]["auroc_confidence"],
        strict=True,
    ):
        assert_allclose(loss, log_loss(y, part.proba), rtol=1e-6)
        wrong = np.argmax(part.proba, axis=1) != y
        if wrong.any():
            assert_allclose(auroc, roc_auc_score(wrong, 1 - part.proba.max(axis=1)))


def test_splits_partition_the_rows():
    X, y = diabetes()
    rng = np.random.default_rng(0)
    splits = make_splits("regression", X, y, 5, 2, None, rng)
    assert len(splits) == 10
    for half in (splits[:5], splits[5:]):
        assert_array_equal(np.sort(np.concatenate([split.test for split in half])), np.arange(len(y)))
    for split in splits:
        parts = [*split.fit, *split.held_out, *split.test]
        assert sorted(parts) == list(range(len(y)))
        assert len(split.held_out) == 24


def test_splits_keep_groups_and_time_order():
    X, y = diabetes()
    groups = np.arange(len(y)) // 5
    rng = np.random.default_rng(0)
    for split in make_splits("regression", X, y, GroupKFold(3), 1, groups, rng):
        parts = [set(groups[rows]) for rows in (split.fit, split.held_out, split.test)]
        assert not (parts[0] & parts[1] or parts[0] & parts[2] or parts[1] & parts[2])
    for split in make_splits("regression", X, y, TimeSeriesSplit(3), 1, None, rng):
        assert split.fit.max() < split.held_out.min() and split.held_out.max() < split.test.min()


def test_splitters_are_used():
    X, y = diabetes(300)
    by_group = assess(Ridge(), X, y, cv=GroupKFold(4), groups=np.arange(300) // 3)
    assert len(by_group.targets) == 4
    in_time = assess(Ridge(), X, y, cv=TimeSeriesSplit(3))
    assert_array_equal(np.concatenate(in_time.targets), y[-225:])


def test_center_equals_the_estimator_with_center():
    """Put together of two fits, it must be what `center="estimator"` gives for the same rows."""
    X, y = diabetes()
    model = KNeighborsRegressor()
    assessment = assess(model, X, y, cv=3)
    parts = {name: assessment.predictions[name][0] for name in ("plain", "anchored", "center")}
    assert_array_equal(parts["center"].value, parts["plain"].value)
    assert_array_equal(parts["center"].spread, parts["anchored"].spread)
    whole = AnchoredRegressor(model, center="estimator", random_state=0).fit(X, y)
    assert_array_equal(whole.posterior(X).mean, model.fit(X, y).predict(X))


def test_calibrated_intervals_have_nominal_coverage():
    rng = np.random.default_rng(0)
    shares = []
    for _ in range(300):
        y, std = rng.standard_t(3, size=200), rng.uniform(0.1, 1.0, size=200)
        held_out, test = (Predictions(np.zeros(100), part) for part in (std[:100], std[100:]))
        shares.append(np.mean(calibrate(test, held_out, y[:100], 0.9).covers(y[100:])))
    # 80 of 100 rows are scored: ⌈81 · 0.9⌉ / 81.
    assert abs(np.mean(shares) - 73 / 81) < 3 * np.std(shares) / np.sqrt(len(shares))


def test_plain_model_has_constant_width(regression):
    for part in regression.predictions["plain"]:
        assert np.ptp(part.upper - part.value) < 1e-9 * part.sizes()[0]
    assert np.isnan(regression.metrics.scores["plain"]["coverage_raw"]).all()


def test_preprocessing_is_fitted_to_training_rows():
    X, y = diabetes()
    frame = pd.DataFrame(X, columns=[f"x{k}" for k in range(X.shape[1])])
    frame["kind"] = np.where(X[:, 0] > 0, "high", "low")
    frame.loc[::7, "x3"] = np.nan
    columns = make_column_transformer(
        (make_pipeline(SimpleImputer(), StandardScaler()), list(frame.columns[:-1])),
        (OneHotEncoder(), ["kind"]),
    )
    assessment = assess(make_pipeline(columns, KNeighborsRegressor()), frame, y, cv=3)
    assert assessment.estimator == "KNeighborsRegressor"
    # The plain method is the pipeline itself, fitted to the same rows.
    rng = np.random.default_rng(0)
    split = make_splits("regression", frame, y, 3, 1, None, rng)[0]
    pipeline = make_pipeline(columns, KNeighborsRegressor()).fit(frame.iloc[split.fit], y[split.fit])
    assert_allclose(assessment.predictions["plain"][0].value, pipeline.predict(frame.iloc[split.test]))


class Recorder(RegressorMixin, BaseEstimator):
    """Stores the shapes of its training data."""

    shapes: list = []  # noqa: RUF012

    def fit(self, X, y):
        self.shapes.append(np.shape(X))
        self.mean_ = float(np.mean(y))
        return self

    def predict(self, X):
        return np.full(len(X), self.mean_)


def test_train_anchors_reach_the_model_and_the_text():
    Recorder.shapes.clear()
    assessment = assess(Recorder(), *diabetes(), cv=2, n_train_anchors=7)
    assert set(Recorder.shapes) == {(60, 10), (60 * 7, 30)}  # pairs are [R, X, X - R]
    assert "7 anchors per row (default: 50)." in str(assessment)


def test_reported_train_anchors_are_used():
    Recorder.shapes.clear()
    assessment = assess(Recorder(), *diabetes(300), cv=2)
    assert set(Recorder.shapes) == {(120, 10), (120 * assessment.train_anchors, 30)}
    assert assessment.train_anchors == assessment.default_train_anchors


@pytest.mark.slow
def test_seed_determines_result_for_any_n_jobs():
    X, y = diabetes()
    model = RandomForestRegressor(2)
    one, two, other = (
        assess(model, X, y, cv=2, n_jobs=jobs, random_state=seed)
        for jobs, seed in ((None, 0), (2, 0), (None, 1))
    )
    for method in one.methods:
        for a, b in zip(one.predictions[method], two.predictions[method], strict=True):
            assert_array_equal(a.value, b.value)
            assert_array_equal(a.spread, b.spread)
    assert one.to_frame().mae["anchored"] != other.to_frame().mae["anchored"]


def test_progress_after_each_fit():
    calls = []
    assess(LinearRegression(), *diabetes(), cv=2, progress=lambda done, total: calls.append((done, total)))
    assert calls == [(done, 6) for done in range(7)]


# Classification


def test_classifier_without_probabilities_uses_margin():
    X, y = load_iris(return_X_y=True)
    assessment = assess(make_pipeline(StandardScaler(), LinearSVC()), X, y, cv=3)
    plain = assessment.metrics.scores["plain"]
    assert np.isnan(plain["log_loss"]).all() and np.isnan(plain["auroc_spread"]).all()
    assert assessment.metrics.mean("plain", "auroc_confidence") > 0.6
    assert "ensemble" not in assessment.methods


def test_equal_members_have_no_spread():
    X, y = load_iris(return_X_y=True)
    assessment = assess(LogisticRegression(max_iter=1000), X, y, cv=2, n_train_anchors=2)
    assert np.isnan(assessment.metrics.scores["ensemble"]["auroc_spread"]).all()


def test_class_missing_from_training_fold():
    X, y = load_iris(return_X_y=True)
    folds = [(np.arange(100), np.arange(100, 150)), (np.arange(50, 150), np.arange(50))]
    assessment = assess(KNeighborsClassifier(), X, y, cv=folds, n_train_anchors=3)
    assert_allclose(assessment.metrics.scores["anchored"]["accuracy"], 0.0)
    assert np.isfinite(assessment.metrics.scores["anchored"]["log_loss"]).all()


# Results


def test_text_has_all_methods_and_recommendation(regression, classification):
    for assessment in (regression, classification):
        text = str(assessment)
        for method in assessment.methods:
            assert assessment.metrics.label(method) in text
        assert text.endswith(assessment.recommendation.text)


def test_frame_equals_table(regression):
    frame = regression.to_frame()
    assert list(frame.index) == [row["method"] for row in regression.table] == regression.methods
    for row in regression.table:
        for name, value in row.items():
            if name != "method":
                assert_allclose(frame.loc[row["method"], name], value)


def test_to_dict_is_json(regression, classification):
    for assessment in (regression, classification):
        numbers = json.loads(json.dumps(assessment.to_dict(), allow_nan=False))
        assert numbers["recommendation"]["text"] == assessment.recommendation.text
        assert numbers["methods"][0]["method"] == "plain"


def test_rescaled_changes_units():
    X, y = diabetes()
    small, large = (
        assess(DecisionTreeRegressor(max_depth=3), X, unit * y, cv=3, random_state=0) for unit in (1.0, 8.0)
    )
    rescaled = small.rescaled(8.0)
    for name in ("mae", "rmse", "width", "spearman", "coverage"):
        for method in small.methods:
            assert_allclose(rescaled.metrics.mean(method, name), large.metrics.mean(method, name))
    assert_allclose(rescaled.predictions["anchored"][0].upper, large.predictions["anchored"][0].upper)


def test_page_is_self_contained(regression, classification, tmp_path):
    for assessment in (regression, classification):
        html = assessment.save_html(tmp_path / "page.html", "a <title>").read_text(encoding="utf-8")
        assert "a &lt;title&gt;" in html and "Protocol" in html
        assert "default-src 'none'" in html and 'src="http' not in html
    constant = assess(LinearRegression(), *diabetes(), cv=2).to_html()
    assert "Error against σ" not in constant and "Coverage of intervals" in constant


def test_assess_is_a_function_however_imported():
    program = """
import sys
import deltauq
assert "deltauq.assessment" not in sys.modules
import deltauq.assessment
from deltauq import assess
assert callable(assess) and assess is deltauq.assess is deltauq.assessment.assess
assert "plotly" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", program], check=True)
    assert "assess" in deltauq.__all__


def test_works_without_pandas_except_to_frame():
    program = """
import sys
class Hidden:
    def find_spec(self, name, *arguments):
        if name.partition(".")[0] == "pandas":
            raise ModuleNotFoundError(name, name=name)
sys.meta_path.insert(0, Hidden())
from deltauq import assess
from sklearn.datasets import load_diabetes
from sklearn.linear_model import LinearRegression
assessment = assess(LinearRegression(), *load_diabetes(return_X_y=True), cv=2)
print(assessment.table[0]["method"], assessment.recommendation.advice)
try:
    assessment.to_frame()
except ImportError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    first, error = done.stdout.splitlines()
    assert first == "plain do not use anchoring"
    assert error == f"to_frame needs pandas: {install_command('tables')}."
