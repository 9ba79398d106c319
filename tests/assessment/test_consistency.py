"""Recommendation, text and table agree for all metrics."""

import json
import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LinearRegression
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

from deltauq import assess
from deltauq.assessment import Advice, FoldMetrics, decide
from deltauq.data import load_openml

FOLDS = 5
EXAMPLES = 100
ERRORS = {
    "regression": {"MAE": "mae", "trimmed MAE": "trimmed_mae", "RMSE": "rmse"},
    "classification": {"accuracy": "accuracy", "log loss": "log_loss", "Brier score": "brier"},
}
RANKS = {
    "regression": {"Spearman of σ and |error|": ["spearman"]},
    "classification": {"AUROC": ["auroc_spread", "auroc_confidence"]},
}
COMPARED = re.compile(r"([A-Z]?[a-zA-Z |σ]+?) (-?[\d.,]+%?) against (-?[\d.,]*\d%?)")


def around(rng, level, spread, extreme):
    """Return positive values of folds about a level; now and then one fold is ruled by a few rows."""
    values = level * np.exp(spread * rng.normal(size=FOLDS))
    if rng.random() < extreme:
        values[rng.integers(FOLDS)] *= 10.0
    return values


def drawn(seed):
    """Return metrics with levels and noise of all sizes; methods share the noise of the folds in part."""
    rng = np.random.default_rng(seed)
    task = ["regression", "classification"][seed % 2]
    shared, spread = 0.3 * rng.normal(size=FOLDS), rng.choice([0.0, 0.01, 0.1, 0.5])
    extreme = rng.choice([0.0, 0.3])
    scores = {}
    for method in ("plain", "anchored", "ensemble", "baseline"):
        level = np.exp(rng.choice([0.1, 0.5]) * rng.normal())
        score = {
            "fit_seconds": around(rng, 1.0, 1.0, 0.0),
            "row_seconds": around(rng, 1e-5, 1.0, 0.0),
        }
        if task == "regression":
            for name in ("mae", "trimmed_mae", "rmse"):
                score[name] = np.exp(shared) * around(rng, level, spread, extreme)
            score["spearman"] = np.clip(rng.uniform(-0.2, 0.7) + spread * rng.normal(size=FOLDS), -1, 1)
            score["coverage_raw"], score["coverage"] = rng.random(FOLDS), rng.random(FOLDS)
            score["width"] = around(rng, level, spread, extreme)
        else:
            score["accuracy"] = np.clip(1 - 0.3 * around(rng, level, spread, 0.0), 0, 1)
            score["log_loss"] = around(rng, 0.7 * level, spread, extreme)
            score["brier"] = np.clip(around(rng, 0.4 * level, spread, 0.0), 0, 2)
            score["ece"] = rng.random(FOLDS)
            for name in ("auroc_spread", "auroc_confidence"):
                score[name] = np.clip(rng.uniform(0.4, 0.9) + spread * rng.normal(size=FOLDS), 0, 1)
        scores[method] = score
    ranks = ("spearman",) if task == "regression" else ("auroc_spread",)
    scores["center"] = {**scores["plain"], **{name: scores["anchored"][name] for name in ranks}}
    none = ("spearman", "coverage_raw") if task == "regression" else ("auroc_spread",)
    for method in ("plain", "baseline"):
        scores[method].update({name: np.full(FOLDS, np.nan) for name in none})
    return FoldMetrics(task, scores, overlap=0.25)


def arrows(metrics, method):
    """Return the arrows of the errors, turned so that ↑ is worse."""
    assessment = {name: metrics.cell(method, name)[0] for name in metrics.errors}
    worse = {"↑": "↓", "↓": "↑"}
    return {n: worse.get(c, "") if n == "accuracy" else c * (c in worse) for n, c in assessment.items()}


def ranking_is_better(metrics, method):
    return metrics.cell(method, metrics.rank_name(method)).startswith("↑")


def value(text):
    return float(text.rstrip("%").replace(",", ""))


def is_better(name, ours, other):
    return value(ours) > value(other) if name == "accuracy" else value(ours) < value(other)


def assert_baseline_is_beaten(metrics, method):
    """The baseline's own numbers must be worse in the table: some error, or the Brier score of classes."""
    ours, baseline = (
        {name: metrics.mean_loss(m, name) for name in metrics.errors} for m in (method, "baseline")
    )
    names = metrics.errors if metrics.task == "regression" else ("brier",)
    assert any(ours[name] < 0.99 * baseline[name] for name in names)
    if metrics.task == "regression":
        assert all(ours[name] <= 1.05 * baseline[name] for name in ("mae", "trimmed_mae"))


@settings(max_examples=EXAMPLES, deadline=None)
@given(st.integers(0, 10**9))
def test_advice_agrees_with_table(seed):
    metrics = drawn(seed)
    result = decide(metrics)
    ours = arrows(metrics, "anchored").values()
    plain_is_beaten = metrics.beats_baseline("anchored") and not metrics.beats_baseline("plain")
    if result.method != "baseline":
        assert_baseline_is_beaten(metrics, "plain" if result.method == "center" else result.method)
    if result.advice is Advice.ANCHORING:
        assert "↑" not in ours or plain_is_beaten
        assert "↓" in ours or ranking_is_better(metrics, "anchored") or plain_is_beaten
    if result.advice is Advice.SIGMA_ONLY:
        assert ranking_is_better(metrics, "center")
        assert "Anchoring is more accurate than the plain model" not in result.text
    if result.method == "ensemble":
        assert "↑" not in arrows(metrics, "ensemble").values()
        if "Anchoring is more accurate than the plain model" in result.text:
            assert "↓" in arrows(metrics, "ensemble").values()
    if result.method == "plain" and not plain_is_beaten:
        assert "Anchoring is more accurate than the plain model" not in result.text


@settings(max_examples=EXAMPLES, deadline=None)
@given(st.integers(0, 10**9))
def test_text_agrees_with_table(seed):
    metrics = drawn(seed)
    text = decide(metrics).text
    shown = {
        name: {metrics.cell(method, name).split()[-1] for method in metrics.scores}
        for name in metrics.scores["plain"]
    }
    compared = COMPARED.findall(text.replace("(", " ").replace("  ", " "))
    assert compared or "of the time" not in text
    for label, left, right in compared:
        kinds = ERRORS[metrics.task] | RANKS[metrics.task]
        names = next(kinds[kind] for kind in sorted(kinds, key=len, reverse=True) if label.endswith(kind))
        cells = set().union(*(shown[n] for n in ([names] if isinstance(names, str) else names)))
        assert {left, right} <= cells, (label, left, right)
    for verb, kind, left, right in re.findall(
        r"Anchoring (is more|is less|may be less) accurate than the plain model "
        r"\(([a-zA-Z ]+) ([\d.,]+%?) against ([\d.,]*\d%?)",
        text,
    ):
        name = ERRORS[metrics.task][kind]
        assert is_better(name, left, right) == (verb == "is more")
        arrow = arrows(metrics, "anchored")[name]
        assert arrow == {"is more": "↓", "is less": "↑", "may be less": ""}[verb]


@given(st.integers(0, 10**9))
def test_arrows_agree_with_means(seed):
    metrics = drawn(seed)
    for method in metrics.scores:
        for name in metrics.errors:
            text = metrics.cell(method, name)
            difference = metrics.mean(method, name) - metrics.mean("plain", name)
            assert (text[0] == "↑") <= (difference > 0) and (text[0] == "↓") <= (difference < 0)


# Data with outliers or noise


def heavy_tailed(n=400):
    """A table whose target has a few extreme values that no column explains."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 4))
    y = 10.0 * X[:, 0] + 3.0 * X[:, 1] * X[:, 2] + rng.normal(size=n)
    y[rng.choice(n, 4, replace=False)] += 5000.0
    return X, y


def noisy_classes(n=500, flipped=0.4):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 5))
    return X, (X[:, 0] > 0) ^ (rng.random(n) < flipped)


def test_outliers_do_not_hide_a_loss():
    assessment = assess(DecisionTreeRegressor(), *heavy_tailed(), n_train_anchors=10)
    frame = assessment.to_frame()
    assert frame.mae["plain"] > 10 * frame.trimmed_mae["plain"]
    # Anchors bring the extreme targets to all rows: clear in the trimmed MAE alone.
    assert assessment.metrics.cell("anchored", "mae")[0] not in "↑↓"
    assert frame.mae["anchored"] < 1.5 * frame.mae["plain"]
    assert frame.trimmed_mae["anchored"] > 5 * frame.trimmed_mae["plain"]
    assert assessment.recommendation.advice is not Advice.ANCHORING
    assert "less accurate than the plain model (trimmed MAE" in assessment.recommendation.text


def test_outliers_do_not_hide_a_gain():
    def scores(mae, trimmed):
        mae, trimmed = np.array(mae), np.array(trimmed)
        none, ones = np.full(FOLDS, np.nan), np.ones(FOLDS)
        return {
            **{"mae": mae, "trimmed_mae": trimmed, "rmse": 3 * mae, "spearman": none, "width": ones},
            **{"coverage_raw": none, "coverage": ones, "fit_seconds": ones, "row_seconds": 1e-6 * ones},
        }

    plain = scores([1100.0, 130, 140, 120, 320], [101.0, 98, 104, 95, 103])
    anchored = scores([300.0, 65, 340, 60, 325], [51.0, 49, 53, 48, 52])
    baseline = scores([4000.0, 3000, 3100, 3050, 3300], [2900.0, 2800, 2850, 2750, 2900])
    methods = {"plain": plain, "anchored": anchored, "center": plain, "baseline": baseline}
    metrics = FoldMetrics("regression", methods, overlap=0.25)
    assert not metrics.cell("anchored", "mae").startswith("↓")
    result = decide(metrics)
    assert result.advice is Advice.ANCHORING
    assert "more accurate than the plain model (trimmed MAE 50.6 against 100)" in result.text


def test_trimmed_mae_ignores_largest_errors():
    X, y = heavy_tailed()
    assessment = assess(LinearRegression(), X, y, cv=2)
    for target, part, score in zip(
        assessment.targets,
        assessment.predictions["plain"],
        assessment.metrics.scores["plain"]["trimmed_mae"],
        strict=True,
    ):
        errors = np.sort(np.abs(target - part.value))
        np.testing.assert_allclose(score, np.mean(errors[: len(errors) - len(errors) // 20]))


def test_baseline_is_mean_or_class_priors():
    X, y = heavy_tailed(200)
    assessment = assess(LinearRegression(), X, y, cv=2)
    assert assessment.methods[-1] == "baseline" and "mean of y" in str(assessment)
    for part in assessment.predictions["baseline"]:
        assert np.ptp(part.value) == 0
    X, y = noisy_classes(200)
    assessment = assess(DecisionTreeClassifier(max_depth=2), X, y, cv=2)
    for k, part in enumerate(assessment.predictions["baseline"]):
        # Two folds: fitted to the other one.
        np.testing.assert_allclose(part.proba[:, 1], np.mean(assessment.targets[1 - k]))
    assert assessment.to_frame().loc["baseline"].log_loss < 0.7


def test_model_worse_than_class_priors():
    assessment = assess(DecisionTreeClassifier(), *noisy_classes(), n_train_anchors=5)
    frame = assessment.to_frame()
    assert frame.log_loss["anchored"] < 0.8 * frame.log_loss["plain"]
    assert frame.log_loss["anchored"] > frame.log_loss["baseline"]
    assert (assessment.recommendation.advice, assessment.recommendation.method) == (
        Advice.NO_ANCHORING,
        "baseline",
    )
    for phrase in ("trivial baseline", "class priors", "neither"):
        assert phrase in assessment.recommendation.text


def test_model_worse_than_mean():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(300, 3)), rng.lognormal(0, 1, size=300)
    result = assess(DecisionTreeRegressor(), X, y, n_train_anchors=5).recommendation
    assert result.method == "baseline" and "mean of y" in result.text


def test_page_text_and_json_agree():
    for model, table in (
        (DecisionTreeRegressor(max_depth=4), heavy_tailed(200)),
        (HistGradientBoostingClassifier(max_iter=5), noisy_classes(200)),
    ):
        assessment = assess(model, *table, cv=3, n_train_anchors=3)
        page, text = assessment.to_html(), str(assessment)
        numbers = json.loads(json.dumps(assessment.to_dict(), allow_nan=False))
        assert numbers["recommendation"]["text"] in text
        assert re.sub(r"[\"'|&<>]|&[a-z#0-9]+;", "", assessment.recommendation.text) in re.sub(
            r"[\"'|<>]|&[a-z#0-9]+;|&", "", page
        )
        (rendered,) = assessment.tables().values()
        for row, cells, method in zip(numbers["methods"], rendered.rows, assessment.methods, strict=True):
            assert row["method"] == method
            for name, shown in zip(assessment.metrics.scores["plain"], cells[1:], strict=True):
                assert shown in page and shown in text
                result = row["against_plain"].get(name, {}).get("result", "tie")
                assert shown[0] == {"higher": "↑", "lower": "↓", "tie": shown[0]}[result]
        assert numbers["test_rows"] == [67, 67, 66]
        assert assessment.heading() in text


@pytest.mark.usefixtures("data_dir")
@pytest.mark.slow
def test_outliers_do_not_hide_a_gain_on_house_prices():
    table = load_openml(42688)
    rows = np.random.default_rng(0).permutation(len(table.y))[:1000]
    assessment = assess(DecisionTreeRegressor(), table.X[rows], table.y[rows])
    assert assessment.metrics.cell("anchored", "trimmed_mae").startswith("↓")
    assert assessment.recommendation.advice is Advice.ANCHORING


@pytest.mark.usefixtures("data_dir")
@pytest.mark.slow
def test_tree_on_compas_is_worse_than_class_priors():
    table = load_openml(42193)
    rows = np.random.default_rng(0).permutation(len(table.y))[:1000]
    assessment = assess(DecisionTreeClassifier(), table.X[rows], table.y[rows].astype(int))
    assert assessment.recommendation.method == "baseline"
