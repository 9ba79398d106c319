"""The documentation site: complete, built without a complaint, and in need of no server."""

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


def listed(page):
    return re.findall(r"^::: (\S+)", page.read_text(encoding="utf-8"), flags=re.MULTILINE)


def test_what_is_rendered_is_what_the_code_and_the_result_lines_say():
    done = subprocess.run(
        [sys.executable, str(DOCS / "render.py"), "--check"], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_reference_lists_every_public_name(monkeypatch):
    monkeypatch.syspath_prepend(str(DOCS))
    pytest.importorskip("typer")
    from reference import public_modules

    import deltauq

    shown = {name for page in (*DOCS.glob("api/*.md"), DOCS / "commands.md") for name in listed(page)}
    front = (DOCS / "api" / "index.md").read_text(encoding="utf-8")
    assert all(f"`{name}`" in front for name in deltauq.__all__)
    modules = dict(public_modules())
    assert {"core", "estimators", "nn", "metrics", "tables", "bo", "cli"} <= set(modules)
    missing = {
        f"deltauq.{inner}.{name}"
        for inner, module in modules.items()
        for name in module.__all__
        # A name that a package shares with the room it is in stands there once.
        if not {f"deltauq.{inner}.{name}", f"deltauq.{inner.split('.')[0]}.{name}"} & shown
    }
    assert not missing


def test_every_page_is_in_the_navigation():
    yaml = pytest.importorskip("yaml")
    text = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")

    def leaves(entry):
        inner = entry if isinstance(entry, list) else entry.values() if isinstance(entry, dict) else None
        return [entry] if inner is None else [leaf for part in inner for leaf in leaves(part)]

    pages = {str(page.relative_to(DOCS)) for page in DOCS.rglob("*.md")}
    assert set(leaves(yaml.safe_load(text)["nav"])) == pages


class _Needs(HTMLParser):
    """Collects what a browser fetches to show a page."""

    def __init__(self):
        super().__init__()
        self.addresses = []

    def handle_starttag(self, tag, attrs):
        words = dict(attrs)
        if tag in ("script", "img", "iframe", "source"):
            self.addresses.append(words.get("src") or words.get("srcset") or "")
        if tag == "link" and words.get("rel") in ("stylesheet", "preconnect", "icon", "preload"):
            self.addresses.append(words.get("href") or "")


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The built site."""
    pytest.importorskip("mkdocs")
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(folder)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


@pytest.mark.slow
def test_the_site_is_built_strictly_and_fetches_nothing(site):
    pages = list(site.rglob("*.html"))
    assert len(pages) > 25
    for page in pages:
        needs = _Needs()
        needs.feed(page.read_text(encoding="utf-8"))
        assert not [a for a in needs.addresses if re.match(r"(https?:)?//", a)], page


@pytest.fixture(scope="module")
def address(site):
    """The built site as a server shows it: a browser does not search in files."""
    handler = partial(SimpleHTTPRequestHandler, directory=site)
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


@pytest.mark.slow
@pytest.mark.parametrize("width", [390, 1280])
def test_pages_fit_the_screen_and_can_be_searched(address, width, browser):
    page = browser.new_page(viewport={"width": width, "height": 900})
    complaints = []
    asked = []
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("request", lambda request: asked.append(request.url))
    for name in ("index", "how-it-works", "tables", "results", "api/estimators", "commands"):
        page.goto(f"{address}/{name}.html")
        assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth"), name
        broken = "[...document.images].filter(i => i.offsetParent && !i.naturalWidth).map(i => i.src)"
        assert page.evaluate(broken) == [], name
    page.keyboard.press("/")
    page.keyboard.type("conformalize")
    page.wait_for_selector(".md-search-result__item")
    page.close()
    assert not complaints
    assert all(url.startswith(address) for url in asked)
