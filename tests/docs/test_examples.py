"""The examples of the documentation run: every block of every page in order, and those of docstrings."""

import doctest
import importlib
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

ROOT = Path(__file__).parents[2]
SRC = ROOT / "src"
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
SLOW = {
    "README.md",
    "distributed.md",
    "getting-started.md",
    "inverse.md",
    "limits.md",
    "ood.md",
    "optimisation.md",
    "tables.md",
}
BLOCK = re.compile(r"^```(\S*)\n(.*?)^```", flags=re.DOTALL | re.MULTILINE)
NOT_RUN = {"bibtex", "text"}
"""Languages of blocks that are not programs: diagrams, outputs, and the syntax of commands."""


def blocks(page):
    return BLOCK.findall(page.read_text(encoding="utf-8"))


def pages_with_examples():
    pages = [page for page in PAGES if any(language not in NOT_RUN for language, _ in blocks(page))]
    return [
        pytest.param(page, marks=pytest.mark.slow if page.name in SLOW else (), id=page.name)
        for page in pages
    ]


def check_inverse(names, folder):
    result = names["result"]
    assert result.x.shape == (3, 20, 3) and not result.diverged.any()
    true = names["stiffness"](result.x).mean(1)
    np.testing.assert_allclose(result.mean.mean(1), [0.5, 1.0, 1.5], atol=0.1)
    np.testing.assert_allclose(true[:2], [0.5, 1.0], atol=0.15)
    assert true[2] > 1.15, "stiffer than any beam of the training data"


def check_optimisation(names, folder):
    assert names["X"].shape == (11, 2)
    assert names["result"].value > -0.1 and names["value"] > -0.25
    assert len(names["optimizer"].history) == 13 and (folder / "laboratory.jsonl").exists()


def check_readme(names, folder):
    assert names["std"].shape == (142,) and (names["std"] > 0).all()
    assert abs(names["inside"].mean() - 0.9) < 0.05


def check_tables(names, folder):
    assert abs(names["metrics"]["coverage"] - 0.9) < 0.07
    np.testing.assert_allclose(names["prediction"], names["predictions"].prediction, rtol=1e-5)
    np.testing.assert_allclose(names["upper"], names["predictions"].upper, rtol=1e-5)
    assert "<h1>" in (folder / "report.html").read_text(encoding="utf-8")


CHECKS = {
    "README.md": check_readme,
    "inverse.md": check_inverse,
    "optimisation.md": check_optimisation,
    "tables.md": check_tables,
}
"""What the examples of a page must have computed, given their names and the folder they ran in."""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A working directory with the files that the pages use: tables of houses, and the result lines."""
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


@pytest.mark.parametrize("page", pages_with_examples())
def test_page(page, folder):
    names: dict[str, object] = {}
    for language, text in blocks(page):
        if language == "python":
            exec(compile(text, page.name, "exec"), names)
        elif language == "sh":
            for line in text.splitlines():
                run_line(shlex.split(line, comments=True))
        else:
            assert language in NOT_RUN, f"{page.name} has a block of unknown language: {language!r}"
    if page.name in CHECKS:
        CHECKS[page.name](names, folder)


def run_line(tokens):
    """Run one line of a shell block, or check the names it uses if it would install or serve something."""
    if tokens[0] == "make":
        makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
        assert re.search(rf"^{tokens[1]}:", makefile, re.MULTILINE), tokens
    elif tokens[:2] == ["pip", "install"]:
        project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
        extras = re.search(r"\[(.*)\]", tokens[2])
        assert extras is None or set(extras[1].split(",")) <= set(project["optional-dependencies"]), tokens
    elif tokens[:3] == ["mlflow", "models", "serve"]:
        assert (Path(tokens[4]) / "MLmodel").exists(), tokens
    else:
        module = {"deltauq": ["deltauq.cli"], "python": tokens[2:3]}[tokens[0]]
        arguments = tokens[1:] if tokens[0] == "deltauq" else tokens[3:]
        path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
        done = subprocess.run(
            [sys.executable, "-m", *module, *arguments],
            capture_output=True,
            text=True,
            env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": path},
        )
        assert done.returncode == 0, done.stdout + done.stderr


def modules_with_examples():
    files = (path for path in sorted(SRC.rglob("*.py")) if ">>> " in path.read_text(encoding="utf-8"))
    return [".".join(path.relative_to(SRC).with_suffix("").parts) for path in files]


@pytest.mark.parametrize("name", modules_with_examples())
def test_docstrings(name, tmp_path, monkeypatch):
    pytest.importorskip("pandas")
    monkeypatch.chdir(tmp_path)
    result = doctest.testmod(importlib.import_module(name))
    assert result.attempted > 0 and result.failed == 0
