"""The documentation: complete, built without warnings, and independent of other servers."""

import re
import subprocess
import sys
from functools import partial
from html.parser import HTMLParser
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"


@pytest.fixture
def reference(monkeypatch):
    """The module that writes the reference."""
    pytest.importorskip("typer")
    pytest.importorskip("mkdocs")
    monkeypatch.syspath_prepend(str(DOCS))
    import reference

    return reference


def test_reference_has_a_page_for_every_package(reference):
    modules = reference.public_modules()
    assert {name for name in modules if "." not in name} - {"cli"} == set(reference.PACKAGES)


def test_reference_lists_every_public_name(reference):
    import deltauq

    pages = reference.api_pages()
    assert all(f"`{name}`" in pages["api/index.md"] for name in deltauq.__all__)
    for name, module in reference.public_modules().items():
        package = name.split(".")[0]
        if package in reference.PACKAGES:
            listed = re.findall(r"^::: .*\.(\w+)$", pages[f"api/{package}.md"], flags=re.MULTILINE)
            assert set(module.__all__) <= set(listed), name


def test_commands_page_lists_every_command(reference):
    page = reference.commands_page()
    for command in ("demo", "assess", "fit", "predict", "evaluate", "export", "data check"):
        assert f"# `deltauq {command}`" in page


def test_every_page_is_in_the_navigation(reference):
    yaml = pytest.importorskip("yaml")
    text = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")

    def leaves(entry):
        inner = entry if isinstance(entry, list) else entry.values() if isinstance(entry, dict) else None
        return [entry] if inner is None else [leaf for part in inner for leaf in leaves(part)]

    pages = {page.name for page in DOCS.glob("*.md")}
    assert set(leaves(yaml.safe_load(text)["nav"])) == pages | set(reference.api_pages()) | {"commands.md"}


class _Resources(HTMLParser):
    """Collects the addresses that a browser fetches for a page."""

    def __init__(self):
        super().__init__()
        self.addresses = []

    def handle_starttag(self, tag, attrs):
        values = dict(attrs)
        if tag in ("script", "img", "iframe", "source"):
            self.addresses.append(values.get("src") or values.get("srcset") or "")
        if tag == "link" and values.get("rel") in ("stylesheet", "preconnect", "icon", "preload"):
            self.addresses.append(values.get("href") or "")


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """The folder of the built documentation."""
    pytest.importorskip("mkdocs")
    folder = tmp_path_factory.mktemp("docs")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(folder)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


@pytest.mark.slow
def test_pages_fetch_nothing_from_other_servers(built):
    pages = list(built.rglob("*.html"))
    assert len(pages) > 25
    for page in pages:
        resources = _Resources()
        resources.feed(page.read_text(encoding="utf-8"))
        assert not [a for a in resources.addresses if re.match(r"(https?:)?//", a)], page


@pytest.fixture(scope="module")
def address(built):
    """A local server of the built documentation, which the search needs."""
    handler = partial(SimpleHTTPRequestHandler, directory=built)
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


@pytest.mark.slow
@pytest.mark.parametrize("width", [390, 1280])
def test_pages_fit_the_screen_and_can_be_searched(address, width, browser):
    page = browser.new_page(viewport={"width": width, "height": 900})
    errors = []
    requests = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.on("request", lambda request: requests.append(request.url))
    for name in ("index", "how-it-works", "tables", "results", "api/estimators", "commands"):
        page.goto(f"{address}/{name}.html")
        assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth"), name
        broken = "[...document.images].filter(i => i.offsetParent && !i.naturalWidth).map(i => i.src)"
        assert page.evaluate(broken) == [], name
    page.keyboard.press("/")
    page.keyboard.type("conformalize")
    page.wait_for_selector(".md-search-result__item")
    page.close()
    assert not errors
    assert all(url.startswith(address) for url in requests)
