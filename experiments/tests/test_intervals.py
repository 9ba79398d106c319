"""Prediction intervals of many methods."""

import numpy as np
import pytest
import scoringrules
from sklearn.tree import DecisionTreeRegressor

from deltauq.core import Posterior
from experiments import ResultLine, intervals
from experiments.interval_methods import (
    ENDS,
    LEVELS,
    METHODS,
    OURS,
    conformal_quantiles,
    cross,
    extra_trees,
    held_out,
    labelled_boosting,
)
from experiments.regression_tables import TABLES, split_rows, standardized
from experiments.summary import summarise
from experiments.tables import TableSpec, make_grid

CONSTANT = ("catboost-held-out", "catboost-cross")
NO_CRPS = ("catboost-cqr", "lightgbm-cqr", "hist-boosting-cqr")
SLOW = (*OURS, "ngboost")


def yacht():
    train, test = split_rows("yacht", 0, 200)
    return standardized("yacht", train, test)


@pytest.mark.parametrize(
    "method",
    [pytest.param(name, marks=pytest.mark.slow) if name in SLOW else name for name in METHODS],
)
def test_methods_run_on_a_real_table(method, data_dir):
    for library in ("catboost", "lightgbm", "ngboost", "quantile-forest"):
        if method.startswith(library):
            pytest.importorskip(library.replace("-", "_"))
    cell = {"n_train": 200, "dataset": "yacht", "method": method, "seed": 0}
    measured = intervals.run(cell, "quick").metrics
    assert (measured["n_train"], measured["n_test"]) == (200, 108)
    # Three standard deviations of the coverage of 108 test rows with 50 held-out ones.
    assert abs(measured["coverage"] - 0.9) < 3 * np.sqrt(0.09 * (1 / 108 + 1 / 50))
    assert measured["width"] <= measured["interval_score"] < 1.6
    assert measured["mae"] < 0.2
    assert ("crps" in measured) == (method not in NO_CRPS)
    assert measured.get("crps", 0.0) < measured["mae"]
    assert ("coverage_uncertain" in measured) == (method not in CONSTANT)


def test_cells(data_dir):
    cells = intervals.cells("paper")
    large = {cell["dataset"] for cell in cells if cell["n_train"] == 10_000}
    assert large == {name for name in TABLES if len(split_rows(name, 0, 10_000)[0]) >= 5000}
    assert {cell["n_train"] for cell in cells if cell["method"] == "gp"} == {200, 1000}
    seeds = [cell["seed"] for cell in cells]
    assert seeds == sorted(seeds)
    assert {cell["dataset"] for cell in cells if cell["seed"] == 0} == set(TABLES)


def test_metrics_of_intervals():
    rng = np.random.default_rng(0)
    y, lower = rng.normal(size=200), -rng.random(200)
    upper = lower + 2 * rng.random(200)
    metrics = intervals.measured(y, lower, upper)
    assert metrics["interval_score"] == pytest.approx(
        np.mean(scoringrules.interval_score(y, lower, upper, alpha=0.1))
    )
    inside, widths = (lower <= y) & (y <= upper), upper - lower
    assert metrics["coverage"] == np.mean(inside) and metrics["width"] == np.mean(widths)
    assert metrics["coverage_uncertain"] == np.mean(inside[widths >= np.sort(widths)[-20]])


def test_widest_intervals_need_different_widths():
    y = np.linspace(-1.0, 1.0, 50)
    assert "coverage_uncertain" not in intervals.measured(y, y / 3 - 0.2, y / 3 + 0.2)


def test_held_out_rows_do_not_train():
    X, y = np.arange(40.0)[:, None], np.random.default_rng(0).normal(size=40)
    seen = []

    def zero(X, y, seed):
        seen.append(X)
        return lambda X: Posterior(np.zeros(len(X)), np.zeros(len(X)))

    lower, upper = held_out(zero, X, y, 0).predict_interval(X[:3], 0.5)
    np.testing.assert_array_equal(seen, [X[10:]])
    # The sixth of ten errors is the conformal quantile of 50 %.
    np.testing.assert_allclose(upper, np.sort(np.abs(y[:10]))[5])
    np.testing.assert_allclose(lower, -upper)


def test_scores_of_folds_are_those_of_new_rows():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(300, 1)), rng.normal(size=300)

    def tree(X, y, seed):
        model = DecisionTreeRegressor(random_state=seed).fit(X, y)
        return lambda X: Posterior(model.predict(X), np.zeros(len(X)))

    fitted = cross(tree, X, y, 0)
    np.testing.assert_array_equal(fitted.predict(X), y, "all rows train")
    X_new, y_new = rng.normal(size=(2000, 1)), rng.normal(size=2000)
    lower, upper = fitted.predict_interval(X_new, 0.9)
    assert 0.86 < np.mean((lower <= y_new) & (y_new <= upper)) < 0.94


@pytest.mark.parametrize("method", [held_out, cross])
def test_quantiles_agree_with_intervals(method, data_dir):
    X, y, X_test, _ = yacht()
    fitted = method(extra_trees, X, y, 0)
    quantiles = fitted.predict_quantiles(X_test, LEVELS)
    assert np.all(np.diff(quantiles, axis=1) >= 0)
    np.testing.assert_allclose(quantiles[:, 9], fitted.predict(X_test))
    for lower, upper, coverage in ((0, -1, 0.9), (4, -5, 0.5)):
        np.testing.assert_allclose(
            quantiles[:, [lower, upper]].T, fitted.predict_interval(X_test, coverage), atol=1e-12
        )
    np.testing.assert_array_equal(method(extra_trees, X, y, 0).predict_quantiles(X_test, LEVELS), quantiles)


@pytest.mark.slow
def test_boosting_has_the_intervals_of_the_library(data_dir):
    X, y, X_test, _ = yacht()
    fitted = labelled_boosting(X, y, 0)
    model = fitted.posterior.__self__
    for coverage in (0.5, 0.9):
        np.testing.assert_allclose(
            fitted.predict_interval(X_test, coverage), model.predict_interval(X_test, coverage), rtol=1e-9
        )


@pytest.mark.parametrize("width", [0.1, 10.0])
def test_conformal_quantiles_correct_their_width(width):
    rng = np.random.default_rng(0)
    X, y = np.zeros((4000, 1)), rng.normal(size=4000)

    def normal(X, y, seed, levels):
        return lambda X: np.repeat([[-width, 0.5, width]], len(X), axis=0)

    fitted = conformal_quantiles(normal, ENDS, X, y, 0)
    lower, upper = fitted.predict_interval(X[:1], 0.9)
    assert upper[0] == -lower[0] == pytest.approx(1.645, abs=0.15)
    assert fitted.predict(X[:1]) == [0.5] and fitted.predict_quantiles(X, LEVELS) is None
    with pytest.raises(ValueError, match=r"coverage of 0\.9"):
        fitted.predict_interval(X, 0.5)


def invented(method, dataset, seed, score, seconds):
    cell = {"n_train": 1000, "dataset": dataset, "method": method, "seed": seed}
    return ResultLine("intervals", 1, "paper", cell, {"interval_score": score, "seconds_fit": seconds}, 1.0)


def test_comparison_is_that_of_the_table():
    lines = [
        *(invented("catboost-held-out", name, seed, 2.0, 1.0) for name in "ab" for seed in (0, 1)),
        *(invented("extra-trees", "a", seed, score, 0.1) for seed, score in enumerate((0.5, 1.5))),
        *(invented("extra-trees", "b", seed, score, 0.3) for seed, score in enumerate((1.0, 3.0))),
        invented("ngboost", "a", 0, 1.0, 2.0),  # without the other table
    ]
    points = intervals.comparison(lines, 1000)
    assert set(points) == {"catboost-held-out", "extra-trees"}
    assert points["catboost-held-out"] == (1.0, 1.0)
    assert points["extra-trees"] == pytest.approx((0.2, np.sqrt(0.5)))
    spec = TableSpec("", "interval_score", "dataset", "method", best="min", relative_to=intervals.REFERENCE)
    grid = make_grid(spec, summarise(lines))
    mean = dict(grid.rows)["geometric mean"][list(grid.columns).index("extra-trees")].mean
    assert float(mean) == pytest.approx(points["extra-trees"][1], abs=5e-3)
    assert not intervals.comparison(lines, 200)


def test_figure_has_a_point_for_each_method():
    pytest.importorskip("plotly")
    lines = [
        invented(method, "a", 0, 1 + k / 10, 0.1 + k)
        for k, method in enumerate(("catboost-held-out", "extra-trees", "stacked"))
    ]
    (figure,) = intervals.draw(lines)
    assert figure.title == "Interval score, 1,000 rows"
    assert sorted(note.text for note in figure.figure.layout.annotations) == [
        "<b>deltauq stacked</b>",
        "CatBoost",
        "extra-trees' spread",
    ]
    _, others, ours = figure.figure.data
    np.testing.assert_allclose(sorted(others.y), [1.0, 1.1])
    np.testing.assert_allclose(ours.y, [1.2])
