import numpy as np
import pytest
from sklearn.neighbors import KNeighborsRegressor
from sklearn.tree import DecisionTreeRegressor

from deltauq.core import Posterior
from deltauq.demo import Band, TableResult, render_demo, run, run_demo


@pytest.fixture
def small_demo(monkeypatch):
    """The demonstration with little to compute."""
    monkeypatch.setattr(run, "ESTIMATORS", {"knn": KNeighborsRegressor(3), "tree": DecisionTreeRegressor()})
    monkeypatch.setattr(run, "N_POINTS", 20)
    monkeypatch.setattr(run, "N_TRAIN", 30)


def test_page_holds_both_parts(small_demo):
    html = render_demo(run_demo())
    assert html.count('class="plot"') == 4
    for title in ("A gap in the data", "A real table", "Limitations"):
        assert title in html


def test_progress_and_repeatability(small_demo):
    calls = []
    first = run_demo(lambda done, total: calls.append((done, total))).to_dict()
    assert calls == [(0, 3), (1, 3), (2, 3)]
    second = run_demo().to_dict()
    del first["seconds"], second["seconds"]
    assert first == second


def test_gap_ratio_uses_uncalibrated_std_inside_the_limits(small_demo):
    band = run.fit_band("knn")
    x = np.array([-9.0, -2.0, 0.0, 2.0])
    other = Band("", band.toy, x, x, x, np.array([50.0, 1.0, 6.0, 3.0]), x)
    assert other.gap_ratio == 3.0


def test_scores_of_a_table():
    y, std = np.array([1.0, 2.0, 3.0, 4.0]), np.array([1.0, 2.0, 3.0, 4.0])
    large = Posterior(y + std, std[::-1] ** 2)
    table = TableResult(y, plain=y + 2, mean=y + std, uncalibrated_std=0.1 * std, std=10 * std, large=large)
    plain, raw, calibrated, trees = table.scores()
    assert plain == {"model": "forest of 5, plain", "mae": 2.0}
    assert (raw["spearman"], raw["coverage"], calibrated["coverage"]) == (1.0, 0.0, 1.0)
    assert trees["spearman"] == -1.0
    assert table.score_table().rows[0][1:] == ["2.0", "–", "–", "–"]
    assert "nominal coverage 90%" in table.score_table().caption
