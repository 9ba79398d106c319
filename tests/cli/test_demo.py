import json
from pathlib import Path

import pytest
from sklearn.neighbors import KNeighborsRegressor

from deltauq.demo import run as demo


@pytest.fixture(autouse=True)
def small_demo(request, monkeypatch):
    """The demonstration with little to compute, except in slow tests."""
    if not request.node.get_closest_marker("slow"):
        monkeypatch.setattr(demo, "ESTIMATORS", {"knn": KNeighborsRegressor(3)})
        monkeypatch.setattr(demo, "N_POINTS", 20)
        monkeypatch.setattr(demo, "N_TRAIN", 30)


def test_tables_and_page(run, tmp_path):
    page = tmp_path / "page.html"
    done = run("demo", "--out", page)
    assert done.code == 0 and done.out.rstrip().endswith("page.html")
    assert (
        "knn" in done.out and "anchored" in done.out and "nominal coverage 90%" in " ".join(done.out.split())
    )
    assert page.read_text(encoding="utf-8").count('class="plot"') == 3


def test_json(run, tmp_path):
    page = tmp_path / "page.html"
    numbers = json.loads(run("demo", "--json", "--out", page).out)
    assert numbers["page"] == str(page) and page.exists()
    assert set(numbers) == {"version", "bands", "models", "nominal_coverage", "seconds", "page"}


def test_full_disk(run, monkeypatch, tmp_path):
    def fail(*args, **kwargs):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_text", fail)
    done = run("demo", "--out", tmp_path / "page.html")
    done.assert_input_error("No space left on device")


@pytest.mark.slow
def test_full_demo(run, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    numbers = json.loads(run("demo", "--json").out)
    assert (tmp_path / "deltauq-demo.html").read_text(encoding="utf-8").count('class="plot"') == 4
    svr, forest = (band["gap_ratio"] for band in numbers["bands"])
    assert svr > 3 > 2 > forest
    _, raw, calibrated, _ = numbers["models"]
    assert raw["coverage"] < 0.75 < 0.83 < calibrated["coverage"] < 0.97
