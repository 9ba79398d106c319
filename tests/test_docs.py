"""What the documentation shows runs as it stands."""

import doctest
import re
import subprocess
import sys
from pathlib import Path

import pytest

import deltauq.estimators.classifier
import deltauq.estimators.regressor

README = Path(__file__).parents[1] / "README.md"


@pytest.mark.parametrize("module", [deltauq.estimators.regressor, deltauq.estimators.classifier])
def test_examples_of_docstrings(module):
    result = doctest.testmod(module)
    assert result.attempted > 0 and result.failed == 0


def test_examples_of_the_readme():
    blocks = re.findall(r"```python\n(.*?)```", README.read_text(encoding="utf-8"), flags=re.DOTALL)
    assert len(blocks) >= 2
    names: dict[str, object] = {}
    for block in blocks:
        exec(block, names)
    assert names["std"].shape == (142,) and names["proba_std"].shape == (150, 3)


def test_tables_are_what_the_result_lines_say():
    check = [sys.executable, str(README.parent / "docs" / "render.py"), "--check"]
    done = subprocess.run(check, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_readme_names_the_commands_that_exist():
    text = README.read_text(encoding="utf-8")
    makefile = (README.parent / "Makefile").read_text(encoding="utf-8")
    for target in re.findall(r"make ([a-z-]+) ", text):
        assert re.search(rf"^{target}:", makefile, flags=re.MULTILINE), target


def test_examples_of_the_page_on_networks(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    text = (README.parent / "docs" / "networks.md").read_text(encoding="utf-8")
    names: dict[str, object] = {}
    for block in re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL):
        exec(block, names)
    assert (names["posterior"].var > 0).all() and (tmp_path / "net.safetensors").exists()
