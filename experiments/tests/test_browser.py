"""The results page in a real browser: everything that can be clicked is, and nothing may go wrong."""

import numpy as np
import pytest

from experiments import ResultLine, ResultStore, get_experiment
from experiments.report import render_results
from experiments.summary import load_results

METRICS = {
    "table1": ("r2", "spearman"),
    "table2": ("mae", "rmse", "spearman", "coverage", "width"),
}


@pytest.fixture(scope="module")
def page_file(tmp_path_factory):
    """A results page made from invented lines of two experiments."""
    folder = tmp_path_factory.mktemp("results")
    rng = np.random.default_rng(0)
    loaded = []
    for name, metrics in METRICS.items():
        experiment, store = get_experiment(name), ResultStore(folder / f"{name}.jsonl")
        for cell in experiment.cells("paper"):
            values = {metric: float(value) for metric, value in zip(metrics, rng.random(5), strict=False)}
            if cell.get("method") == "plain":
                values = {key: values[key] for key in ("mae", "rmse")}
            store.append(ResultLine(name, experiment.version, "paper", cell, values, 0.1, hardware="box"))
        loaded.append(load_results(experiment, store, "paper"))
    file = folder / "results.html"
    file.write_text(render_results(loaded), encoding="utf-8")
    return file


def assert_no_overflow(page):
    assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1200])
def test_page_in_a_browser(page_file, browser, width, scheme):
    page = browser.new_page(viewport={"width": width, "height": 800}, color_scheme=scheme)
    troubles, requests = [], []
    page.on("console", lambda message: troubles.append(message.text))
    page.on("pageerror", lambda error: troubles.append(str(error)))
    page.on("request", lambda request: requests.append(request.url))
    page.goto(page_file.as_uri())
    page.wait_for_function("document.querySelectorAll('.js-plotly-plot .legendtoggle').length > 0")
    assert_no_overflow(page)

    links = page.locator("nav a")
    assert links.count() == len(METRICS)
    for number in range(links.count()):
        page.evaluate("window.scrollTo(0, 0)")
        links.nth(number).click()
        top = page.evaluate("document.querySelector(location.hash).getBoundingClientRect().top")
        assert abs(top) < 2 or page.evaluate(
            "window.innerHeight + window.scrollY >= document.body.scrollHeight - 2"
        )

    parts = page.locator("details")
    assert parts.count() == 2 + 1 + 3 + 1  # the tables of both, and where they come from
    for number in range(parts.count()):
        part = parts.nth(number)
        before = part.evaluate("part => part.open")
        for expected in (not before, before, True):
            if part.evaluate("part => part.open") != expected:
                part.locator("summary").click()
            assert part.evaluate("part => part.open") == expected
    assert_no_overflow(page)

    plots = page.locator(".plot")
    assert plots.count() == 4
    for number in range(plots.count()):
        entries = plots.nth(number).locator(".legendtoggle")
        n_series = plots.nth(number).evaluate("plot => plot.data.length")
        assert entries.count() == n_series >= 3
        for entry in range(n_series):
            entries.nth(entry).click()
            page.wait_for_function(
                "([plot, entry]) => plot.data[entry].visible === 'legendonly'",
                arg=[plots.nth(number).element_handle(), entry],
            )
    page.emulate_media(color_scheme="dark" if scheme == "light" else "light")
    page.wait_for_timeout(300)
    assert_no_overflow(page)
    assert troubles == []
    assert [url for url in requests if not url.startswith(("file:", "data:", "blob:"))] == []
    page.close()
