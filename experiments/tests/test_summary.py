"""Summaries of result lines, and the results of what a results file holds."""

import json
import math
from dataclasses import asdict

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from experiments import ResultLine, ResultStore, get_experiment, table1
from experiments.figures import relative_to
from experiments.summary import load_results, summarise


def line(cell, metrics, **changes):
    fields = {"experiment": "e", "version": 1, "profile": "quick", "seconds": 1.0}
    return ResultLine(**{**fields, "cell": cell, "metrics": metrics, **changes})


finite = st.floats(-1e6, 1e6)


@given(
    st.dictionaries(
        st.tuples(st.integers(0, 2), st.sampled_from("ab"), st.integers(0, 4)),
        st.fixed_dictionaries({"mae": finite}, optional={"spearman": finite}),
        min_size=1,
    )
)
def test_mean_std_and_count_are_those_of_pandas(values):
    lines = [
        line({"dataset": dataset, "method": method, "seed": seed}, metrics)
        for (dataset, method, seed), metrics in values.items()
    ]
    frame = pd.DataFrame(
        [{**each.cell, "mae": math.nan, "spearman": math.nan, **each.metrics} for each in lines]
    )
    expected = frame.groupby(["dataset", "method"])[["mae", "spearman"]].agg(["mean", "std", "count"])
    summaries = summarise(lines)
    assert len(summaries) == len(expected)
    for summary in summaries:
        row = expected.loc[(summary.cell["dataset"], summary.cell["method"])]
        assert set(summary.metrics) == {name for name in ("mae", "spearman") if row[name, "count"]}
        for name, spread in summary.metrics.items():
            assert spread.count == row[name, "count"]
            assert spread.mean == pytest.approx(row[name, "mean"], rel=1e-9, abs=1e-6)
            assert spread.std == pytest.approx(row[name, "std"], rel=1e-6, abs=1e-6, nan_ok=True)


def test_groups_are_in_order_of_appearance():
    lines = [
        line({"b": [1, 2], "a": "x", "seed": 0}, {"m": 1.0}),
        line({"a": "y", "b": [1, 2], "seed": 0}, {"m": 5.0}),
        line({"seed": 1, "a": "x", "b": [1, 2]}, {"m": 3.0}),
    ]
    first, second = summarise(lines)
    assert first.cell == {"b": [1, 2], "a": "x"} and second.cell == {"a": "y", "b": [1, 2]}
    assert (first.metrics["m"].mean, first.metrics["m"].std) == (2.0, pytest.approx(math.sqrt(2)))
    assert math.isnan(second.metrics["m"].std)


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_non_finite_mean_is_null_in_json(bad, tmp_path):
    store = ResultStore(tmp_path / "table1.jsonl")
    experiment = get_experiment("table1")
    cells = experiment.cells("paper")[:1] + experiment.cells("paper")[18:19]
    assert {cell["seed"] for cell in cells} == {0, 1}
    for cell, value in zip(cells, (bad, 1.0), strict=True):
        store.append(
            line(cell, {"r2": value}, experiment="table1", version=experiment.version, profile="paper")
        )
    results = load_results(experiment, store, "paper")
    (summary,) = results.summaries()
    assert not math.isfinite(summary.metrics["r2"].mean)
    text = json.dumps(results.as_json(), allow_nan=False)
    assert json.loads(text)["summary"][0]["metrics"]["r2"] == {"mean": None, "std": None, "count": 2}


def test_valid_outdated_unknown_and_unreadable_lines(tmp_path):
    experiment = get_experiment("table1")
    quick, paper = experiment.cells("quick"), experiment.cells("paper")
    fields = {"experiment": "table1", "version": experiment.version, "hardware": "box", "commit": "abc"}
    metrics = {"r2": 0.5, "spearman": 0.1}
    store = ResultStore(tmp_path / "table1.jsonl")
    store.append(line(quick[1], metrics, **fields))
    store.append(line(quick[0], {"r2": -9.0}, **fields))
    store.append(line(quick[0], metrics, **fields, profile="quick"))  # computed again: the last one counts
    store.append(line(paper[0], metrics, **fields, profile="paper"))
    store.append(line(quick[2], metrics, **{**fields, "version": experiment.version - 1}))
    store.append(line({"function": "rosenbrock", "seed": 0}, metrics, **fields))
    store.append(line(quick[0], metrics, **{**fields, "experiment": "other"}))
    with store.path.open("a") as file:
        file.write('\n[1, 2]\n{"experiment": "table1", "metr')
    results = load_results(experiment, store, "quick")
    assert [each.cell for each in results.lines] == quick[:2]
    assert results.lines[0].metrics == metrics
    assert (results.missing, results.outdated, results.unknown, results.unreadable) == (
        len(quick) - 2,
        1,
        2,
        2,
    )
    assert results.provenance() == {"commit": ["abc"], "hardware": ["box"], "versions": [""]}
    assert results.seconds() == 2.0
    status = results.status()
    assert (
        "2 lines," in status and "1 outdated line ignored" in status and "2 unknown lines ignored" in status
    )


def test_results_without_a_file(tmp_path):
    results = load_results(get_experiment("table1"), ResultStore(tmp_path / "no.jsonl"), "quick")
    assert results.lines == [] and results.missing == len(table1.cells("quick"))
    assert (results.outdated, results.unknown, results.unreadable) == (0, 0, 0)


def test_ratios_are_taken_seed_by_seed():
    lines = [
        line({"dataset": 1, "method": method, "seed": seed}, {"mae": value, "rmse": 1.0})
        for method, values in {"plain": (2.0, 4.0), "new": (1.0, 6.0), "same": (2.0, 4.0)}.items()
        for seed, value in enumerate(values)
    ]
    lines.append(line({"dataset": 2, "method": "new", "seed": 0}, {"mae": 1.0}))  # no plain one beside it
    ratios = relative_to(lines, "mae", key="method", reference="plain", without=("same",))
    assert [each.metrics for each in ratios] == [{}, {}, {"mae": 0.5}, {"mae": 1.5}, {}, {}, {}]
    assert [asdict(each)["cell"] for each in ratios] == [each.cell for each in lines]
