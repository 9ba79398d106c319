"""The command that is named where a package is missing, by where this one was installed from."""

import json
import shlex
import sys
from pathlib import Path

import pytest

from deltauq.utils.install import install_command

SOURCES = Path(__file__).parents[2]


@pytest.fixture
def install(tmp_path, monkeypatch):
    """Return the command of an installation that pip has noted so."""

    def command(noted):
        place = tmp_path / "site-packages" / "deltauq-9.dist-info"
        place.mkdir(parents=True)
        (place / "METADATA").write_text("Metadata-Version: 2.1\nName: deltauq\nVersion: 9\n")
        if noted is not None:
            (place / "direct_url.json").write_text(json.dumps(noted))
        monkeypatch.syspath_prepend(place.parent)
        return install_command("cli,report")

    return command


def url(path):
    return Path(path).as_uri()


@pytest.mark.parametrize(
    ("noted", "arguments"),
    [
        (None, ["deltauq[cli,report]"]),
        ({"url": url(SOURCES), "dir_info": {}}, [f"{SOURCES}[cli,report]"]),
        ({"url": url(SOURCES), "dir_info": {"editable": True}}, ["-e", f"{SOURCES}[cli,report]"]),
        ({"url": url("/no/such folder"), "dir_info": {}}, ["deltauq[cli,report]"]),
        ({"url": url(__file__), "archive_info": {}}, [f"deltauq[cli,report] @ {url(__file__)}"]),
        ({"url": url("/no/such.whl"), "archive_info": {}}, ["deltauq[cli,report]"]),
        (
            {"url": "https://example.org/d.whl", "archive_info": {}},
            ["deltauq[cli,report] @ https://example.org/d.whl"],
        ),
        (
            {"url": "https://example.org/d", "vcs_info": {"vcs": "git", "commit_id": "abc"}},
            ["deltauq[cli,report] @ git+https://example.org/d@abc"],
        ),
    ],
)
def test_the_package_is_named_by_where_it_came_from(noted, arguments, install):
    tokens = shlex.split(install(noted))
    assert tokens[tokens.index("install") + 1 :] == arguments


def test_pip_is_that_of_the_python_that_runs(tmp_path, monkeypatch):
    other = tmp_path / "pip"
    other.touch(mode=0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert shlex.split(install_command("nn"))[:4] == [sys.executable, "-m", "pip", "install"]
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    assert install_command("nn").startswith("pip install ")
