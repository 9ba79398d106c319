"""`TableModel`: quantiles, intervals, and representations."""

import numpy as np
import pandas as pd
import pytest

import deltauq
from deltauq.tables import TableError, evaluate, fit

LEVELS = [0.95, 0.05, 0.3, 0.5, 0.31]


def test_quantiles_are_monotone_and_agree_with_intervals(regression, mixed):
    actual = regression.predict_quantiles(mixed, LEVELS)
    assert list(actual.columns) == [f"quantile_{level}" for level in LEVELS]
    assert len(actual) == len(mixed)
    ascending = actual[[f"quantile_{level}" for level in sorted(LEVELS)]].to_numpy()
    assert np.all(np.diff(ascending, axis=1) >= 0)
    for coverage in (0.9, 0.4):
        expected = regression.predict(mixed, coverage=coverage)
        ends = ((1 - coverage) / 2, (1 + coverage) / 2)
        lower, upper = regression.predict_quantiles(mixed, ends).to_numpy().T
        np.testing.assert_allclose(lower, expected.lower)
        np.testing.assert_allclose(upper, expected.upper)


def test_share_of_new_targets_below_quantiles():
    rng = np.random.default_rng(0)
    table = pd.DataFrame(rng.normal(size=(3500, 2)), columns=list("ab"))
    # Errors are not symmetric.
    table["y"] = table.a + rng.exponential(size=3500)
    levels = np.array([0.1, 0.25, 0.5, 0.75, 0.9])
    actual = fit(table[:500], "y", model="linear").predict_quantiles(table[500:], levels)
    shares = np.mean(table.y[500:].to_numpy()[:, None] <= actual.to_numpy(), axis=0)
    assert np.all(np.abs(shares - levels) < 4 * np.sqrt(levels * (1 - levels) * (1 / 500 + 1 / 3000)))


def test_quantiles_do_not_depend_on_other_rows_and_levels(regression, mixed):
    whole = regression.predict_quantiles(mixed, LEVELS)
    pd.testing.assert_frame_equal(regression.predict_quantiles(mixed[7:8], LEVELS), whole[7:8])
    pd.testing.assert_frame_equal(regression.predict_quantiles(mixed, [0.5]), whole[["quantile_0.5"]])


def test_quantiles_of_dates(mixed):
    model = fit(mixed[["area", "rooms", "sold"]], "sold", model="linear")
    actual, expected = model.predict_quantiles(mixed, [0.05, 0.95]), model.predict(mixed)
    assert (actual["quantile_0.05"] == expected.lower).all()
    assert (actual["quantile_0.95"] == expected.upper).all()


@pytest.mark.parametrize(
    ("levels", "message"),
    [
        ([0.5, 0.0], "must lie between 0 and 1, got 0"),
        ([1.5], "must lie between 0 and 1, got 1.5"),
        ([float("nan")], "must lie between 0 and 1, got nan"),
        # 240 / 241 = 0.99585
        ([0.996], r"at 0.996 requires more than 240 scored rows: levels from 0.0042 to 0.9958 are possible"),
        ([0.001], "at 0.001 requires more than 240 scored rows"),
        ([0.5, 0.2, 0.5], r"two of the levels 0.5, 0.2, 0.5 are equal"),
        ([0.25, 0.25 + 1e-9], "are equal"),
    ],
)
def test_invalid_levels_raise(levels, message, regression, mixed):
    with pytest.raises(TableError, match=message):
        regression.predict_quantiles(mixed, levels)


@pytest.mark.parametrize("n", [19, 60, 240, 999, 12_345])
def test_levels_and_coverage_in_messages_are_possible(n, regression, classification, monkeypatch):
    for model in (regression, classification):
        monkeypatch.setattr(model.fitted.model, "n_scored_", n)
        with pytest.raises(TableError, match="requires more than") as caught:
            model.check_coverage(1 - 1e-9)
        model.check_coverage(float(str(caught.value).removesuffix(".").split()[-1]))
    with pytest.raises(TableError, match="are possible") as caught:
        regression.check_levels([1e-9])
    regression.check_levels([float(word) for word in str(caught.value).split()[-5:-2:2]])


def test_quantiles_of_classes_raise(classification, mixed):
    with pytest.raises(TableError, match="size is a class: quantiles are for numbers"):
        classification.predict_quantiles(mixed, [0.5])


def test_too_large_coverage_raises(regression, mixed):
    with pytest.raises(TableError, match=r"more than 240 scored rows: the largest coverage is 0.9917"):
        regression.predict(mixed, coverage=0.999)
    with pytest.raises(TableError, match="between 0 and 1"):
        regression.predict(mixed, coverage=1.5)


def test_errors_are_larger_at_high_risk():
    rng = np.random.default_rng(3)
    X = rng.normal(size=(5000, 2))
    noise = rng.normal(size=5000) * np.where(X[:, 1] > 0, 0.2, 2.0)
    table = pd.DataFrame(X, columns=list("ab")).assign(y=X[:, 0] + noise)
    for frame in (table, table.assign(y=np.where(table.y > 0, "p", "n"))):
        model = fit(frame[:1500], "y", model="tree", n_train_anchors=5)
        actual = model.predict(frame[1500:])
        share = actual.risk.value_counts(normalize=True)
        for part, bound in ((share["high"], 0.05), (share["high"] + share["moderate"], 0.2)):
            assert 0.5 * bound < part < bound + 3 * np.sqrt(bound * (1 - bound) * (1 / 1500 + 1 / 3500))
        y = frame.y[1500:]
        wrong = actual.prediction != y if y.dtype == object else (actual.prediction - y).abs()
        errors = wrong.groupby(actual.risk).mean()
        assert errors["high"] > 1.2 * errors["low"]


def test_risk_far_from_the_data(regression, classification, mixed):
    far = mixed.assign(area=mixed.area + 1000.0)
    for model in (regression, classification):
        assert (model.predict(far).risk == "high")[mixed.area.notna()].all()
        assert (model.predict(mixed).risk != "high").mean() > 0.95


def test_repr_shows_no_values_of_the_table(tmp_path):
    rng = np.random.default_rng(0)
    table = pd.DataFrame(rng.normal(size=(100, 2)), columns=["a", "b"])
    table["street"] = rng.choice(["Secret Lane", "Secret Road"], 100)
    table["y"] = table.a + 0.8765
    fit(table, "y", quick=True).save(tmp_path / "model")
    model = deltauq.load(tmp_path / "model")
    evaluation = evaluate(model, table)
    for value in (model, model.fitted, model.fitted.model, model.schema, evaluation, evaluation.rows):
        text = repr(value)
        assert len(text) < 600
        assert not any(number in text for number in (f"{table.a[0]:.4f}", f"{table.y[0]:.4f}"))
        assert "Secret" not in text
    assert "target='y'" in repr(model) and "model=auto" in repr(model)
