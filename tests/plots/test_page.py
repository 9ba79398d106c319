import re
import sys
from html.parser import HTMLParser

import numpy as np
import pytest

from deltauq import plots
from deltauq.plots.colors import BLUE, DARK_PARTNERS
from deltauq.plots.page import Code, Details, Figure, Section, Table, render_page
from deltauq.utils.install import install_command

SOURCES = {"src", "href", "srcset", "data", "poster", "action"}


class Tags(HTMLParser):
    """Collects the tags of a page, and the attributes that would load something."""

    def __init__(self, html):
        super().__init__()
        self.open, self.seen, self.sources = [], [], []
        self.feed(html)

    def handle_starttag(self, tag, attrs):
        self.seen.append(tag)
        self.sources += [value for name, value in attrs if name in SOURCES]
        if tag not in ("meta", "br", "link", "img"):
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def figures():
    x = np.linspace(0.1, 0.9, 5)
    return [
        Figure(plots.mean_and_band(x, x, {"wide": x, "narrow": x / 2}, train=(x, x), anchors=x), "band"),
        Figure(plots.error_by_spread(x, {"raw": x}), "error"),
        Figure(plots.coverage_curves(x, {"raw": x / 2, "calibrated": x}), "coverage"),
        Figure(plots.dot_plot(["row"], {"a": ([1.0], [0.1])}, x_title="x"), "dots", tall=True),
        Figure(plots.line_plot(x, {"a": (x, x)}, x_title="x", y_title="y"), "lines"),
    ]


@pytest.fixture(scope="module")
def html():
    sections = [Section("First", ["Text", figures()]), Section("Second", [Table(["a", "b"], [["x", "1"]])])]
    return render_page("Title", "Lead", sections, footer="End")


def test_page_is_well_formed_and_self_contained(html):
    tags = Tags(html)
    assert tags.open == []
    assert tags.sources == []
    assert "link" not in tags.seen and "img" not in tags.seen and "iframe" not in tags.seen
    style = html[html.index("<style>") : html.index("</style>")]
    assert "url(" not in style and "@import" not in style


def test_content_security_policy(html):
    (policy,) = re.findall(r'http-equiv="Content-Security-Policy" content="([^"]*)"', html)
    assert policy.startswith("default-src 'none'") and "http" not in policy


def test_text_is_escaped_and_backticks_mark_code():
    page = render_page("<b>", "a < b & `f(x)`", [Section("<i>", ["<script>alert(1)</script>", Code("a<b")])])
    assert "<title>&lt;b&gt;</title>" in page
    assert "a &lt; b &amp; <code>f(x)</code>" in page
    assert "<script>" not in page
    assert "a&lt;b" in page


def test_a_figure_cannot_end_its_script_element():
    figure = plots.coverage_curves(np.array([0.5]), {"</script><img src=http://x>": np.array([0.5])})
    page = render_page("t", "l", [Section("s", [Figure(figure, "f")])])
    assert Tags(page).sources == []


def test_numeric_columns_are_aligned():
    table = Table(
        ["name", "n", "share", "mixed"], [["x", "1.5", "50%", "3"], ["y", "–", "< 0.001", "no"]], "cap"
    )
    page = render_page("t", "l", [Section("s", [table])])
    assert re.findall(r'<th scope="col"( class="number")?>(\w+)', page) == [
        ("", "name"),
        (' class="number"', "n"),
        (' class="number"', "share"),
        ("", "mixed"),
    ]
    assert '<p class="caption">cap</p>' in page


def test_page_without_figures_has_no_plotly():
    page = render_page("t", "l", [Section("s", [Table(["a"], [])]), Section("empty")])
    assert Tags(page).open == []
    assert len(page) < 10_000  # no plotly inside


def test_contents_link_to_every_section():
    page = render_page("t", "l", [Section("One & two"), Section("Three")], contents=True)
    assert Tags(page).open == []
    assert re.findall(r'<a href="#([^"]*)">([^<]*)</a>', page) == [
        ("section-1", "One &amp; two"),
        ("section-2", "Three"),
    ]
    assert re.findall(r'<section id="([^"]*)">', page) == ["section-1", "section-2"]


def test_details_with_figures():
    figure = Figure(
        plots.coverage_curves(np.array([0.5]), {"a": np.array([0.5])}), "f", height=700, tall=True
    )
    page = render_page(
        "t", "l", [Section("s", [Details("open `me`", [figure]), Details("x", ["y"], open=True)])]
    )
    assert Tags(page).open == []
    assert "<details><summary>open <code>me</code></summary>" in page
    assert "<details open><summary>x</summary>\n<p>y</p>" in page
    assert "Plotly.react" in page and 'style="height:700px"' in page


def test_bold_cell():
    table = Table(["a", "b"], [["x", "1 ± 2\n<small>"], ["y", "3"]], bold=frozenset({(0, 1)}))
    page = render_page("t", "l", [Section("s", [table])])
    assert "<b>1 ± 2</b><br><small>&lt;small&gt;</small>" in page
    assert page.count("<b>") == 1 and '<td class="number">3</td>' in page


def test_dark_colours():
    assert all(light != dark for light, dark in DARK_PARTNERS.items())
    assert len(set(DARK_PARTNERS.values())) == len(DARK_PARTNERS)


def test_without_jinja2_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "jinja2", None)
    with pytest.raises(ImportError, match=re.escape(install_command("report"))):
        render_page("t", "l", [])


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1280])
def test_browser_draws_every_figure_without_errors(html, browser, tmp_path, width, scheme):
    file = tmp_path / "page.html"
    file.write_text(html, encoding="utf-8")
    page = browser.new_page(viewport={"width": width, "height": 800}, color_scheme=scheme)
    errors = []
    page.on("console", lambda message: errors.append(message.text))
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.goto(file.as_uri())
    page.wait_for_function(f"document.querySelectorAll('.js-plotly-plot').length == {len(figures())}")
    assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
    colour = DARK_PARTNERS[BLUE] if scheme == "dark" else BLUE
    rgb = ", ".join(str(int(colour[start : start + 2], 16)) for start in (1, 3, 5))
    page.wait_for_function(f"document.body.innerHTML.includes('stroke: rgb({rgb})')")
    assert errors == []
    page.close()
