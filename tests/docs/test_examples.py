"""What the documentation shows runs as it stands: every block of every page, in its order."""

import doctest
import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import numpy as np
import pytest

import deltauq.estimators.classifier
import deltauq.estimators.regressor

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
SLOW = {"README.md", "inverse.md", "ood.md", "optimisation.md", "own-data.md", "scale.md", "start.md"}
BLOCK = re.compile(r"^```(\S*)\n(.*?)^```", flags=re.DOTALL | re.MULTILINE)
NOT_RUN = {"text"}
"""What is no program: drawings, and the forms of commands."""


def blocks(page):
    return BLOCK.findall(page.read_text(encoding="utf-8"))


def pages():
    shown = [page for page in PAGES if any(language not in NOT_RUN for language, _ in blocks(page))]
    return [
        pytest.param(page, marks=pytest.mark.slow if page.name in SLOW else (), id=page.name)
        for page in shown
    ]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder with the files that pages speak of: tables of houses, and the result lines."""
    pd = pytest.importorskip("pandas")
    rng = np.random.default_rng(0)
    houses = pd.DataFrame({"area": rng.uniform(20, 200, 100), "town": rng.choice(["Ulm", "Bern"], 100)})
    houses["price"] = 3 * houses.area + 50 * (houses.town == "Bern") + rng.normal(0, 10, 100)
    houses[:80].to_csv(tmp_path / "houses.csv", index=False)
    houses[80:].to_csv(tmp_path / "test.csv", index=False)
    houses[80:].drop(columns="price").to_parquet(tmp_path / "new.parquet")
    shutil.copytree(ROOT / "results", tmp_path / "results")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("page", pages())
def test_examples_of_a_page(page, folder):
    names: dict[str, object] = {}
    for language, text in blocks(page):
        if language == "python":
            exec(compile(text, page.name, "exec"), names)
        elif language == "sh":
            for line in text.splitlines():
                run_line(shlex.split(line, comments=True))
        else:
            assert language in NOT_RUN, f"{page.name} has a block of {language or 'nothing'}"


def run_line(words):
    """Run a line of a terminal, or look up what it names where running it would take a machine of its own."""
    if words[0] == "deltauq":
        done = subprocess.run(
            [sys.executable, "-m", "deltauq.cli", *words[1:]],
            capture_output=True,
            text=True,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
        )
        assert done.returncode == 0, done.stdout + done.stderr
    elif words[0] == "make":
        assert re.search(rf"^{words[1]}:", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE), (
            words
        )
    elif words[:2] == ["pip", "install"]:
        known = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
        extras = re.search(r"\[(.*)\]", words[2])
        assert extras is None or set(extras[1].split(",")) <= set(known["optional-dependencies"]), words
    else:
        # A server: what it is to serve must be there.
        assert words[:3] == ["mlflow", "models", "serve"] and (Path(words[4]) / "MLmodel").exists(), words


def test_the_first_example_of_the_readme_says_what_it_should():
    names: dict[str, object] = {}
    exec(blocks(PAGES[0])[0][1], names)
    assert names["std"].shape == (242,) and (names["std"] > 0).all()


@pytest.mark.parametrize("module", [deltauq.estimators.regressor, deltauq.estimators.classifier])
def test_examples_of_docstrings(module):
    result = doctest.testmod(module)
    assert result.attempted > 0 and result.failed == 0
