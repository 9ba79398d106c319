"""The contact sheet of the report, from real images to the page."""

import pytest

from experiments import ResultStore, get_experiment, run_experiment
from experiments.corruptions import SHEETS
from experiments.report import render_results
from experiments.summary import load_results


def test_a_sheet_of_what_is_there(data_dir, tmp_path, monkeypatch):
    pytest.importorskip("PIL.Image")
    pytest.importorskip("plotly")
    monkeypatch.setenv("DELTAUQ_CACHE", str(tmp_path / "cache"))
    experiment, store = get_experiment("corruptions"), ResultStore(tmp_path / "corruptions.jsonl")
    for severity in ("1", "5"):
        only = {"corruption": "contrast", "severity": severity}
        list(run_experiment(experiment, store, "quick", only=only))
    results = load_results(experiment, store, "quick")
    weak, strong = (line.metrics["rmse"] for line in results.lines)
    # About the mean: the contrast that is missing, 0.25 and 0.85 of it.
    assert strong / weak == pytest.approx(0.85 / 0.25, rel=0.02)
    figures = experiment.figures(results.lines)
    assert [figure.title for figure in figures] == list(SHEETS)
    assert "generated images" in figures[0].caption or "published images" in figures[0].caption
    assert "data:image/png;base64" in render_results([results])


def test_every_corruption_is_on_one_sheet():
    cells = get_experiment("corruptions").cells("paper")
    content = [name for names in SHEETS.values() for name in names]
    assert sorted(content) == sorted({cell["corruption"] for cell in cells}) and len(cells) == 95
