"""`assess` on real and made-up tables: protocol, metrics, bad input, what it returns."""

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
from sklearn.ensemble import HistGradientBoostingRegressor, RandomForestClassifier, RandomForestRegressor
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


# -- the advice on real fits of each kind ----------------------------------------------------------------


@pytest.mark.usefixtures("data_dir")
@pytest.mark.slow
def test_a_small_forest_on_few_rows_gains():
    result = assess(RandomForestRegressor(5), *openml_part(216, 250)).recommendation
    assert (result.advice, result.method) == (Advice.ANCHORING, "anchored")
    assert "more accurate" in result.text


@pytest.mark.usefixtures("data_dir")
@pytest.mark.slow
def test_boosting_loses_accuracy_but_its_spread_ranks():
    assessment = assess(HistGradientBoostingRegressor(), *openml_part(42712, 1000))
    assert (assessment.recommendation.advice, assessment.recommendation.method) == (
        Advice.SIGMA_ONLY,
        "center",
    )
    frame = assessment.to_frame()
    assert frame.mae["anchored"] > 1.1 * frame.mae["plain"]
    assert frame.spearman["center"] > 0.2


@pytest.mark.usefixtures("data_dir")
@pytest.mark.slow
def test_a_large_forest_has_a_better_spread_of_its_own():
    forest = RandomForestRegressor(50)
    result = assess(forest, *openml_part(42712, 250), n_train_anchors=20).recommendation
    assert (result.advice, result.method) == (Advice.DONT, "tree-spread")


def test_a_linear_model_has_the_same_sigma_everywhere():
    assessment = assess(LinearRegression(), *diabetes())
    assert (assessment.recommendation.advice, assessment.recommendation.method) == (Advice.DONT, "plain")
    assert "the same for every row" in assessment.recommendation.text
    assert all(np.isnan(row["spearman"]) for row in assessment.table)


def test_a_model_with_standard_deviations_of_its_own_is_its_rival():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 3))
    y = X[:, 0] + rng.normal(size=200)
    assert "own-std" in assess(BayesianRidge(), X, y).methods


# -- what is compared, and on which rows -----------------------------------------------------------------


def test_metrics_are_those_of_independent_libraries(regression):
    for method in regression.methods:
        for fold, (y, answer) in enumerate(
            zip(regression.targets, regression.predictions[method], strict=True)
        ):
            scores = {name: values[fold] for name, values in regression.metrics.scores[method].items()}
            assert_allclose(scores["mae"], mean_absolute_error(y, answer.value))
            if np.ptp(answer.spread) > 0:
                assert_allclose(scores["spearman"], spearmanr(answer.spread, np.abs(y - answer.value))[0])
            inside = (answer.lower <= y) & (y <= answer.upper)
            assert_allclose(scores["coverage"], np.mean(inside))
            assert_allclose(scores["width"], np.mean(answer.upper - answer.lower))


def test_metrics_of_classes_are_those_of_scikit_learn(classification):
    for y, answer, loss, auroc in zip(
        classification.targets,
        classification.predictions["anchored"],
        classification.metrics.scores["anchored"]["log_loss"],
        classification.metrics.scores["anchored"]["auroc_confidence"],
        strict=True,
    ):
        assert_allclose(loss, log_loss(y, answer.proba), rtol=1e-6)
        wrong = np.argmax(answer.proba, axis=1) != y
        if wrong.any():
            assert_allclose(auroc, roc_auc_score(wrong, 1 - answer.proba.max(axis=1)))


def test_every_row_is_tested_once_and_rows_held_back_are_neither_fitted_nor_tested():
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


def test_groups_stay_together_and_time_goes_on():
    X, y = diabetes()
    groups = np.arange(len(y)) // 5
    rng = np.random.default_rng(0)
    for split in make_splits("regression", X, y, GroupKFold(3), 1, groups, rng):
        parts = [set(groups[rows]) for rows in (split.fit, split.held_out, split.test)]
        assert not (parts[0] & parts[1] or parts[0] & parts[2] or parts[1] & parts[2])
    for split in make_splits("regression", X, y, TimeSeriesSplit(3), 1, None, rng):
        assert split.fit.max() < split.held_out.min() and split.held_out.max() < split.test.min()


def test_splitters_are_heeded():
    X, y = diabetes(300)
    by_group = assess(Ridge(), X, y, cv=GroupKFold(4), groups=np.arange(300) // 3)
    assert len(by_group.targets) == 4
    in_time = assess(Ridge(), X, y, cv=TimeSeriesSplit(3))
    assert_array_equal(np.concatenate(in_time.targets), y[-225:])


def test_center_is_what_the_estimator_itself_returns():
    """Put together of two fits, it must be what `center="estimator"` gives for the same rows."""
    X, y = diabetes()
    model = KNeighborsRegressor()
    assessment = assess(model, X, y, cv=3)
    parts = {name: assessment.predictions[name][0] for name in ("plain", "anchored", "center")}
    assert_array_equal(parts["center"].value, parts["plain"].value)
    assert_array_equal(parts["center"].spread, parts["anchored"].spread)
    whole = AnchoredRegressor(model, center="estimator", random_state=0).fit(X, y)
    assert_array_equal(whole.posterior(X).mean, model.fit(X, y).predict(X))


def test_calibrated_intervals_have_their_coverage():
    rng = np.random.default_rng(0)
    shares = []
    for _ in range(300):
        y, std = rng.standard_t(3, size=200), rng.uniform(0.1, 1.0, size=200)
        held_out, test = (Predictions(np.zeros(100), part) for part in (std[:100], std[100:]))
        shares.append(np.mean(calibrate(test, held_out, y[:100], 0.9).covers(y[100:])))
    # 80 of 100 rows are scored: ⌈81 · 0.9⌉ / 81.
    assert abs(np.mean(shares) - 73 / 81) < 3 * np.std(shares) / np.sqrt(len(shares))


def test_the_plain_model_gets_intervals_of_one_width(regression):
    for answer in regression.predictions["plain"]:
        assert np.ptp(answer.upper - answer.value) < 1e-9 * answer.sizes()[0]
    assert np.isnan(regression.metrics.scores["plain"]["coverage_raw"]).all()


def test_preprocessing_comes_before_anchoring_and_sees_training_rows_only():
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


class Seen(RegressorMixin, BaseEstimator):
    """Remembers in a list how many rows and columns it was fitted to."""

    shapes: list = []  # noqa: RUF012

    def fit(self, X, y):
        self.shapes.append(np.shape(X))
        self.mean_ = float(np.mean(y))
        return self

    def predict(self, X):
        return np.full(len(X), self.mean_)


def test_words_reach_the_anchored_model_and_the_text():
    Seen.shapes.clear()
    assessment = assess(Seen(), *diabetes(), cv=2, n_train_anchors=7)
    assert set(Seen.shapes) == {(60, 10), (60 * 7, 20)}
    assert "7 anchors per row (default: 60)." in str(assessment)


@pytest.mark.parametrize("word", ["quick", "auto"])
def test_the_training_anchors_told_are_those_met(word):
    Seen.shapes.clear()
    assessment = assess(Seen(), *diabetes(300), cv=2, n_train_anchors=word)
    assert set(Seen.shapes) == {(120, 10), (120 * assessment.train_anchors, 20)}
    assert (assessment.train_anchors == assessment.default_train_anchors) == (word == "auto")


@pytest.mark.slow
def test_the_same_seed_gives_the_same_answer_on_any_number_of_processes():
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


# -- classes ---------------------------------------------------------------------------------------------


def test_a_classifier_without_probabilities_is_judged_by_its_margin():
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


def test_a_class_that_a_fold_has_not_met():
    X, y = load_iris(return_X_y=True)
    folds = [(np.arange(100), np.arange(100, 150)), (np.arange(50, 150), np.arange(50))]
    assessment = assess(KNeighborsClassifier(), X, y, cv=folds, n_train_anchors=3)
    assert_allclose(assessment.metrics.scores["anchored"]["accuracy"], 0.0)
    assert np.isfinite(assessment.metrics.scores["anchored"]["log_loss"]).all()


# -- what is returned ------------------------------------------------------------------------------------


def test_the_text_has_a_row_for_every_method_and_the_advice(regression, classification):
    for assessment in (regression, classification):
        text = str(assessment)
        for method in assessment.methods:
            assert assessment.metrics.label(method) in text
        assert text.endswith(assessment.recommendation.text)


def test_the_table_is_plain_and_the_frame_is_the_table(regression):
    frame = regression.to_frame()
    assert list(frame.index) == [row["method"] for row in regression.table] == regression.methods
    for row in regression.table:
        for name, value in row.items():
            if name != "method":
                assert_allclose(frame.loc[row["method"], name], value)


def test_numbers_are_json(regression, classification):
    for assessment in (regression, classification):
        numbers = json.loads(json.dumps(assessment.to_dict(), allow_nan=False))
        assert numbers["recommendation"]["text"] == assessment.recommendation.text
        assert numbers["methods"][0]["method"] == "plain"


def test_rescaled_is_the_assessment_in_other_units():
    X, y = diabetes()
    small, large = (
        assess(DecisionTreeRegressor(max_depth=3), X, unit * y, cv=3, random_state=0) for unit in (1.0, 8.0)
    )
    rescaled = small.rescaled(8.0)
    for name in ("mae", "rmse", "width", "spearman", "coverage"):
        for method in small.methods:
            assert_allclose(rescaled.metrics.mean(method, name), large.metrics.mean(method, name))
    assert_allclose(rescaled.predictions["anchored"][0].upper, large.predictions["anchored"][0].upper)


def test_the_page_stands_alone(regression, classification, tmp_path):
    for assessment in (regression, classification):
        html = assessment.save_html(tmp_path / "page.html", "a <title>").read_text(encoding="utf-8")
        assert "a &lt;title&gt;" in html and "Protocol" in html
        assert "default-src 'none'" in html and 'src="http' not in html
    constant = assess(LinearRegression(), *diabetes(), cv=2).to_html()
    assert "Error against σ" not in constant and "Coverage of intervals" in constant


def test_the_name_is_a_function_however_it_is_imported():
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


def test_without_pandas_everything_but_the_frame_is_there():
    program = """
import sys
class Hidden:
    def find_spec(self, name, *arguments):
        if name.partition(".")[0] == "pandas":
            raise ModuleNotFoundError(name)
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
    assert done.stdout.splitlines() == ["plain don't", "to_frame needs pandas: pip install pandas"]
