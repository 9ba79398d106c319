"""Evaluations agree with scikit-learn, SciPy and the predictions, and find constructed problems."""

import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from sklearn import metrics as oracle

from deltauq.tables import TableError, evaluate, fit, load, predict_file
from deltauq.tables.slices import Group, find_failing_decile

TREE = {"model": "tree", "n_train_anchors": 5}


@pytest.fixture(scope="module")
def evaluation(regression, fresh):
    return evaluate(regression, fresh)


@pytest.fixture(scope="module")
def class_evaluation(classification, fresh):
    return evaluate(classification, fresh)


def test_regression_metrics(evaluation, regression, fresh):
    predicted, y = regression.predict(fresh), fresh.price
    error = (y - predicted.prediction).abs()
    inside = (predicted.lower <= y) & (y <= predicted.upper)
    expected = {
        "mae": oracle.mean_absolute_error(y, predicted.prediction),
        "rmse": oracle.root_mean_squared_error(y, predicted.prediction),
        "r2": oracle.r2_score(y, predicted.prediction),
        "spearman": stats.spearmanr(predicted["std"], error).statistic,
        "coverage": inside.mean(),
        "width": (predicted.upper - predicted.lower).mean(),
        "nll": -stats.norm(predicted.prediction, predicted["std"]).logpdf(y).mean(),
    }
    expected["median_absolute_error"] = error.median()
    expected["median_width"] = (predicted.upper - predicted.lower).median()
    metrics = dict(evaluation.metrics)
    assert metrics.pop("crps") > 0
    assert evaluation.trimmed["mae"] == pytest.approx(error.nsmallest(396).mean())
    assert metrics == pytest.approx(expected)
    assert evaluation.n_rows == 400 and evaluation.coverage == 0.9


def test_curve_is_coverage_of_each_level(evaluation, regression, fresh):
    levels, observed = evaluation.curve
    assert levels.tolist() == [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99]
    for level, share in zip(levels, observed, strict=True):
        predicted = regression.predict(fresh, coverage=level)
        assert share == ((predicted.lower <= fresh.price) & (fresh.price <= predicted.upper)).mean()


def test_curve_has_the_possible_levels_only(mixed):
    # Of 60 rows no interval of 99 % is possible.
    model = fit(mixed[["area", "rooms", "price"]][:60], "price", model="linear")
    assert evaluate(model, mixed).curve[0].tolist()[-2:] == [0.9, 0.95]


def test_classification_metrics(class_evaluation, classification, fresh):
    predicted = classification.predict(fresh)
    proba = predicted[["probability_large", "probability_small"]].to_numpy()
    y = (fresh["size"] == "small").to_numpy().astype(int)
    metrics = class_evaluation.metrics
    covered = [name in members for name, members in zip(fresh["size"], predicted["set"], strict=True)]
    assert metrics["accuracy"] == (predicted.prediction == fresh["size"]).mean()
    assert metrics["log_loss"] == pytest.approx(oracle.log_loss(y, proba))
    assert metrics["brier"] == pytest.approx(2 * oracle.brier_score_loss(y, proba[:, 1]))
    assert metrics["coverage"] == pytest.approx(np.mean(covered))
    assert metrics["set_size"] == predicted["set"].map(len).mean()
    spread = np.sqrt(predicted.std_large**2 + predicted.std_small**2)
    wrong = predicted.prediction != fresh["size"]
    assert metrics["auroc_spread"] == pytest.approx(oracle.roc_auc_score(wrong, spread))


@pytest.mark.parametrize("which", ["evaluation", "class_evaluation"])
def test_deciles_partition_rows_by_spread(which, request):
    evaluation = request.getfixturevalue(which)
    rows = np.array([part.rows for part in evaluation.deciles])
    assert len(rows) == 10 and rows.sum() == 400 and np.ptp(rows) <= 1
    assert all(a.high <= b.low for a, b in zip(evaluation.deciles[:-1], evaluation.deciles[1:], strict=True))
    for name, whole in (("loss", evaluation.rows.loss), ("size", evaluation.rows.size)):
        assert np.average(
            [getattr(part, name) for part in evaluation.deciles], weights=rows
        ) == pytest.approx(whole.mean())
    covered = np.average([part.coverage for part in evaluation.deciles], weights=rows)
    assert covered == pytest.approx(evaluation.metrics["coverage"])


@pytest.mark.parametrize("which", ["evaluation", "class_evaluation"])
def test_to_dict_is_json(which, request):
    evaluation = request.getfixturevalue(which)
    numbers = json.loads(json.dumps(evaluation.to_dict(), allow_nan=False))
    assert numbers["rows"] == 400 and len(numbers["deciles"]) == 10 and len(numbers["uncertain"]) == 20
    assert set(numbers["uncertain"][0]["differences"][0]) == {"feature", "value", "anchor", "share"}


# Outliers, coverage and risk


def test_robust_metrics_ignore_outliers(regression, fresh, evaluation):
    outliers = fresh.copy()
    outliers.loc[[3, 77], "price"] += 1e6
    other = evaluate(regression, outliers)
    assert other.metrics["mae"] > 50 * evaluation.metrics["mae"]
    for name in ("median_absolute_error", "median_width"):
        assert other.metrics[name] == pytest.approx(evaluation.metrics[name], rel=0.02)
    assert other.trimmed["mae"] == pytest.approx(evaluation.trimmed["mae"], rel=0.05)
    for kind in ("large_loss", "often_missed"):
        assert [part.name for part in getattr(other, kind)] == [
            part.name for part in getattr(evaluation, kind)
        ]
    for part, same in zip(other.deciles, evaluation.deciles, strict=True):
        assert part.median_loss == pytest.approx(same.median_loss, rel=0.2)


def test_summary_names_failing_decile(evaluation):
    groups = [Group(40, k, k + 1, 1.0, 0.95, 2.0, 1.0) for k in range(9)]
    groups.append(Group(40, 9, 10, 1.0, 0.625, 2.0, 1.0))
    assert find_failing_decile(groups, 0.9) == 9 and find_failing_decile(groups[:9], 0.9) is None
    failing = replace(evaluation, deciles=groups, failing_decile=9)
    assert "62.5% in the most uncertain tenth" in failing.summary()
    assert "tenth" not in replace(evaluation, failing_decile=None).summary()


@pytest.mark.parametrize("which", ["evaluation", "class_evaluation"])
def test_risk_levels_partition_rows(which, request):
    evaluation = request.getfixturevalue(which)
    for level, part in evaluation.risk.items():
        rows = evaluation.rows.risk == level
        assert part.rows == rows.sum()
        assert part.loss == pytest.approx(evaluation.rows.loss[rows].mean())
        assert part.coverage == pytest.approx(1 - evaluation.rows.missed[rows].mean())
    assert sum(part.rows for part in evaluation.risk.values()) == evaluation.n_rows


# Training rows


def test_training_rows_are_counted(regression, classification, mixed, fresh, tmp_path):
    half = pd.concat([mixed[:100], fresh[:100]], ignore_index=True)
    half.to_csv(tmp_path / "half.csv", index=False)
    for model in (regression, classification):
        model.save(tmp_path / model.task)
        loaded = load(tmp_path / model.task)
        for table in (half, tmp_path / "half.csv"):
            evaluation = evaluate(loaded, table)
            # The targets of `fresh` differ for the regression; for the classes, many are rows again.
            assert evaluation.training_rows >= 100
            assert evaluation.notes[0].startswith(f"Warning: {evaluation.training_rows} of 200 rows (")
            assert evaluation.to_dict()["training_rows"] == evaluation.training_rows
    assert evaluate(regression, fresh).training_rows == 0


def test_repeated_rows_do_not_warn():
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"a": rng.integers(0, 9, 600), "b": rng.integers(0, 2, 600)})
    table["y"] = np.where(table.a + rng.integers(0, 3, 600) > 5, "p", "q")
    evaluation = evaluate(fit(table[:300], "y", **TREE), table[300:])
    assert evaluation.training_rows > 280 and not evaluation.notes[0].startswith("Warning")


def test_no_fingerprints_no_count(mixed):
    model = fit(mixed.drop(columns="size"), "price", model="linear", anchors="kmeans")
    evaluation = evaluate(model, mixed)
    assert len(model.fitted.fingerprints) == 0 and evaluation.training_rows is None and evaluation.notes == []


# Uncertain rows


def test_largest_difference_comes_first(mixed):
    model = fit(mixed.drop(columns="size"), "price", model="linear")
    fresh = mixed.dropna()[:20].reset_index(drop=True)
    fresh.loc[7, "area"] = 40_000.0
    row = next(row for row in evaluate(model, fresh).uncertain if row.row == 8)
    assert (row.differences[0].feature, row.differences[0].value) == ("area", "40,000")
    assert row.differences[0].share > 0.99


def test_uncertain_rows_are_sorted(evaluation):
    spread = evaluation.rows.spread
    assert [row.spread for row in evaluation.uncertain] == sorted(spread, reverse=True)[:20]
    assert all(spread[row.row - 1] == row.spread for row in evaluation.uncertain)


def test_anchors_have_values_of_the_table(mixed):
    # Scaled and encoded for a linear model; anchors are rows of the table.
    model = fit(mixed.drop(columns="size"), "price", model="linear")
    towns = {"Ulm", "Bern", "Graz", "missing"}
    days = set(mixed.sold.dt.strftime("%Y-%m-%d"))
    areas = {f"{value:.4g}" for value in mixed.area.fillna(mixed.area.median())}
    fresh = mixed.assign(town=mixed.town.where(mixed.index % 2 == 0, "Linz"))
    seen = set()
    for row in evaluate(model, fresh).uncertain:
        for part in row.differences:
            seen.add(part.feature)
            known = {"town": towns, "sold": days}.get(part.feature)
            assert known is None or part.anchor in known
            if part.feature == "area":
                assert part.anchor in areas or abs(float(part.anchor) - mixed.area.median()) < 10
        assert sum(part.share for part in row.differences) <= 1 + 1e-9
    assert "town" in seen


def test_row_numbers_with_missing_targets(regression, fresh):
    gaps = fresh.assign(price=fresh.price.where(fresh.index >= 100))
    evaluation, rest = evaluate(regression, gaps), evaluate(regression, fresh[100:])
    assert "100 of 400 rows were left out because price is missing." in evaluation.notes
    assert evaluation.metrics == rest.metrics
    assert [row.row for row in evaluation.uncertain] == [row.row + 100 for row in rest.uncertain]


# Classes


@pytest.mark.parametrize("values", [[1, 2], [0.5, 1.5], [True, False], ["yes", "no"]])
def test_classes_are_recognised_in_a_file(values, mixed, tmp_path):
    frame = mixed.drop(columns=["price", "size"]).assign(kind=np.where(mixed.rooms > 3, *values))
    model = fit(frame, "kind", **TREE, task="classification")
    direct = evaluate(model, frame)
    assert direct.metrics["accuracy"] > 0.9
    gaps = frame.astype({"kind": object})
    gaps.loc[len(gaps)] = gaps.iloc[0]
    gaps.loc[len(gaps) - 1, "kind"] = None
    gaps.to_csv(tmp_path / "gaps.csv", index=False)
    evaluation = evaluate(model, tmp_path / "gaps.csv")
    assert evaluation.metrics == pytest.approx(direct.metrics, nan_ok=True)
    assert type(evaluation.uncertain[0].target) is type(values[0])


def test_unknown_classes_are_left_out(classification, fresh):
    other = fresh.assign(size=fresh["size"].where(fresh.index != 3, "huge"))
    evaluation = evaluate(classification, other)
    assert evaluation.n_rows == 399 and 'the model has no class "huge".' in evaluation.notes[-1]
    with pytest.raises(TableError, match='is "huge" in the first row, which is not a class'):
        evaluate(classification, fresh.assign(size="huge"))


# Special tables


def test_one_row_and_no_mistake(regression, classification, fresh):
    evaluation = evaluate(regression, fresh[:1])
    assert evaluation.to_dict()["metrics"]["r2"] is None and len(evaluation.deciles) == 1 == len(
        evaluation.uncertain
    )
    assert "not defined" in evaluation.summary()
    right = fresh[classification.predict(fresh).prediction == fresh["size"]]
    assert evaluate(classification, right).to_dict()["metrics"]["auroc_spread"] is None


def test_targets_near_the_end_of_the_range(mixed):
    far = 2.0**963  # nothing is rounded, so that the trees are the same
    frame = mixed.drop(columns="size").assign(price=mixed.price * far)
    metrics = evaluate(fit(frame, "price", **TREE), frame).metrics
    plain = evaluate(fit(mixed.drop(columns="size"), "price", **TREE), mixed).metrics
    assert metrics["rmse"] == pytest.approx(far * plain["rmse"])
    assert metrics["nll"] == pytest.approx(plain["nll"] + np.log(far))


@pytest.mark.parametrize("kept", [["area", "rooms"], ["town"]])
def test_columns_of_one_kind(kept, mixed):
    frame = mixed[[*kept, "price"]]
    for name in ("tree", "linear"):
        evaluation = evaluate(fit(frame, "price", model=name, n_train_anchors=5), frame)
        assert {part.feature for row in evaluation.uncertain for part in row.differences} <= set(kept)


def test_batches_do_not_matter(regression, classification, fresh, monkeypatch):
    whole = [evaluate(model, fresh).to_dict() for model in (regression, classification)]
    monkeypatch.setattr("deltauq.tables.evaluation.BATCH_ROWS", 70)
    calls = []
    parts = [
        evaluate(model, fresh, progress=lambda *counts: calls.append(counts)).to_dict()
        for model in (regression, classification)
    ]
    assert parts == whole and calls[5] == (400, 400)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda frame: frame.rename(columns={"price": "prize"}), 'no column "price".*did you mean "prize"'),
        (lambda frame: frame.drop(columns="area"), 'the column "area".*is missing'),
        (lambda frame: frame.assign(price="much"), 'contains "much", where numbers are expected'),
        (lambda frame: frame.assign(price=frame.sold), "where numbers are expected"),
        (lambda frame: frame.assign(price=np.inf), "infinite values"),
        (lambda frame: frame.assign(price=None), "missing in every row"),
        (lambda frame: frame.assign(price=[[1]] * len(frame)), "lists or records"),
        (lambda frame: frame[:0], "has no rows"),
    ],
)
def test_unusable_tables_raise(change, message, regression, fresh):
    with pytest.raises(TableError, match=message):
        evaluate(regression, change(fresh))


@pytest.mark.parametrize(("start", "kind"), [(2**53, int), (2**63, str)])
def test_large_integers_stay_different(start, kind, mixed, tmp_path):
    # As floats, both classes would be one.
    numbers = np.where(mixed.area > 110, start, start + 1).astype(np.uint64)
    mixed[["area", "rooms"]].assign(y=numbers).to_csv(tmp_path / "x.csv", index=False)
    model = fit(tmp_path / "x.csv", "y", task="classification", model="linear")
    assert model.classes == [kind(start), kind(start + 1)]
    predict_file(model, tmp_path / "x.csv", tmp_path / "out.parquet")
    right = model.predict(tmp_path / "x.csv").prediction.map(int).to_numpy(dtype=np.uint64) == numbers
    assert evaluate(model, tmp_path / "x.csv").metrics["accuracy"] == pytest.approx(right.mean())
    assert right.mean() > 0.8


def test_unseen_categories_are_noted(regression, fresh):
    evaluation = evaluate(regression, fresh.assign(town="Linz"))
    assert evaluation.notes == ['400 rows have unseen categories in "town", such as "Linz".']
    differences = [(part.feature, part.value) for row in evaluation.uncertain for part in row.differences]
    assert ("town", "Linz") in differences


def test_missing_numbers_differ_from_others(regression, fresh):
    evaluation = evaluate(regression, fresh.assign(area=np.nan))
    assert regression.fitted.reference[:, 0].max() > 20
    for row in evaluation.uncertain:
        for part in row.differences:
            assert 0.0 < part.share <= 1.0
            assert (part.value, part.anchor) != ("missing", "missing")
    parts = [part for row in evaluation.uncertain for part in row.differences if part.feature == "area"]
    assert {part.value for part in parts} == {"missing"}


def test_page_has_all_sections(evaluation, class_evaluation, tmp_path):
    page = evaluation.save_html(tmp_path / "page.html", "price & co").read_text(encoding="utf-8")
    for text in ("Evaluation: price &amp; co", "Coverage", "Most uncertain rows"):
        assert text in page
    assert page.count('class="plot"') == 3 and "http" not in page.split("<script>")[0].replace(
        "http-equiv", ""
    )
    assert "Mistakes against σ" in class_evaluation.to_html()
