import json
import sys
from pathlib import Path

import numpy as np
import pytest
from sklearn.linear_model import LinearRegression
from sklearn.neighbors import KNeighborsRegressor
from sklearn.tree import DecisionTreeRegressor

from deltauq import cli
from deltauq.demo import classes, gap, table, words
from deltauq.demo.run import run_demo

NAN = float("nan")


@pytest.fixture
def small_demo(monkeypatch):
    """The demonstration with little to compute."""
    few = {
        gap.CHOSEN: KNeighborsRegressor(3),
        gap.CONTRAST: DecisionTreeRegressor(),
        "LinearRegression": LinearRegression(),
    }
    monkeypatch.setattr(gap, "bases", lambda: few)
    monkeypatch.setattr(gap, "SEEDS", (0,))
    monkeypatch.setattr(gap, "N_ROWS", 20)
    monkeypatch.setattr(table, "N_TRAIN", 30)
    monkeypatch.setattr(classes, "GRID", np.linspace(-3, 3, 9))
    monkeypatch.setattr(classes, "N_TRAIN_ANCHORS", 2)
    monkeypatch.setattr(classes, "NESTED_SEEDS", (0, 1))


def main(monkeypatch, *arguments):
    monkeypatch.setattr(sys, "argv", ["deltauq", *arguments])
    with pytest.raises(SystemExit) as stop:
        cli.main()
    return stop.value.code


def test_demo_writes_a_page_and_prints_tables(small_demo, monkeypatch, tmp_path, capsys):
    out = tmp_path / "page.html"
    assert main(monkeypatch, "demo", "--out", str(out)) == 0
    printed = capsys.readouterr().out
    assert printed.rstrip().endswith("page.html")
    assert "LinearRegression" in printed and "anchored" in printed and "Three classes" in printed
    html = out.read_text(encoding="utf-8")
    assert html.count('class="plot"') == 8
    for title in ("A gap in the data", "A real table", "Three classes", "What to keep in mind"):
        assert title in html


def test_demo_prints_json_for_machines_and_nothing_else(small_demo, monkeypatch, tmp_path, capsys):
    out = tmp_path / "page.html"
    assert main(monkeypatch, "demo", "--json", "--out", str(out)) == 0
    numbers = json.loads(capsys.readouterr().out)
    assert numbers["page"] == str(out.resolve()) and out.exists()
    assert set(numbers) >= {"version", "gap", "table", "classes", "seconds"}
    linear = numbers["gap"]["sigma_gap_over_data"][-1]
    assert linear["opens"] == "no spread" and linear["sides_differ"] == [None]


def test_demo_counts_its_steps_and_repeats_itself(small_demo):
    names = []
    first = run_demo(names.append).numbers()
    # Shortened by the fixture: three bases and two pictures, three models, three fits of classes.
    assert len(names) == len(set(names)) == 3 + 2 + table.STEPS + 3
    again = run_demo().numbers()
    del first["seconds"], again["seconds"]
    assert first == again


def test_a_page_that_cannot_be_written_after_all_gets_one_line(small_demo, monkeypatch, tmp_path, capsys):
    def refuse(*args, **kwargs):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_text", refuse)
    assert main(monkeypatch, "demo", "--out", str(tmp_path / "page.html")) == 2
    assert capsys.readouterr().err.strip().endswith("No space left on device")


@pytest.mark.parametrize(
    ("step", "hill", "verdict"),
    [
        ((5.0, 4.0), (3.0, 9.0), gap.OPENS),
        ((5.0, 4.0), (2.9, 9.0), gap.OPENS_AT_STEP),
        ((2.9, 4.0), (9.0, 9.0), gap.STAYS_SHUT),
        ((NAN, 4.0), (9.0, 9.0), gap.SILENT),
    ],
)
def test_the_verdict_takes_every_seed_into_account(step, hill, verdict):
    assert gap.Opening("x", step, hill).verdict == verdict


def test_words_say_what_the_numbers_say():
    y = np.array([1.0, 2.0, 3.0, 4.0])
    good, bad = y + 0.1, y + np.array([1.0, 2.0, 3.0, 4.0])
    sigma = np.array([1.0, 2.0, 3.0, 4.0])

    def study(plain, anchored, rival_std):
        return table.TableStudy(
            y,
            table.Prediction("plain", plain, None),
            table.Prediction("raw", anchored, sigma),
            table.Prediction("calibrated", anchored, 10 * sigma),
            table.Prediction("rival", bad, rival_std),
        )

    assert "raised" in words.accuracy(study(good, bad, sigma))
    assert "lowered" in words.accuracy(study(bad, good, sigma))
    assert "strong" in words.ranking(study(good, bad, sigma[::-1]))
    assert "worse (-1.00)" in words.ranking(study(good, bad, sigma[::-1]))
    assert "hold 100% of the targets" in words.scale(study(good, good, sigma))


def test_small_numbers_are_not_shown_as_zero():
    assert words.small(4e-8) == "< 0.001"
    assert words.small(0.0) == "0.000"
    assert words.small(0.0123) == "0.012"
    assert words.ratio((3.0, 2.0)) == "2.0×" and words.ratio((NAN,)) == "–"
    assert words._listed(["a"]) == "a" and words._listed(["a", "b", "c"]) == "a, b and c"
