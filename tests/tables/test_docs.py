"""The page on one's own data runs as it stands, and so do the examples of docstrings."""

import doctest
import re
import sys
from pathlib import Path

import numpy as np
import pytest

import deltauq.tables.evaluation
import deltauq.tables.fitting
from deltauq.cli import main

PAGE = Path(__file__).parents[2] / "docs" / "own-data.md"


def test_examples_of_the_page(tmp_path, monkeypatch):
    pytest.importorskip("onnx", reason="onnx is not installed")
    pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    for block in re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), flags=re.DOTALL):
        exec(block, names)
    assert abs(names["found"].judged.metrics["coverage"] - 0.9) < 0.07
    np.testing.assert_allclose(names["prediction"], names["predictions"].prediction, rtol=1e-5)
    np.testing.assert_allclose(names["upper"], names["predictions"].upper, rtol=1e-5)
    assert "<h1>" in (tmp_path / "report.html").read_text(encoding="utf-8")


def test_commands_of_the_page_exist(run_help):
    text = PAGE.read_text(encoding="utf-8")
    for command, line in re.findall(r"^deltauq (\w+)(.*)$", text, flags=re.MULTILINE):
        shown = run_help(command)
        for option in re.findall(r"--[a-z-]+", line):
            assert option in shown, (command, option)


@pytest.mark.parametrize("module", [deltauq.tables.evaluation, deltauq.tables.fitting])
def test_examples_of_docstrings(module):
    result = doctest.testmod(module)
    assert result.attempted > 0 and result.failed == 0


@pytest.fixture
def run_help(monkeypatch, capsys):
    """Return what a command says of itself."""

    def helped(command):
        monkeypatch.setattr(sys, "argv", ["deltauq", command, "--help"])
        monkeypatch.setenv("COLUMNS", "200")
        with pytest.raises(SystemExit) as stopped:
            main()
        assert stopped.value.code == 0
        return capsys.readouterr().out

    return helped
