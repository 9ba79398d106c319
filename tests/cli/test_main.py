import subprocess
import sys

import pytest

from deltauq import __version__
from deltauq.utils.install import install_command

# A package that is set to None in sys.modules cannot be imported, as if it were not installed.
WITHOUT = "import sys; sys.modules[{name!r}] = None; from deltauq.cli import main; main()"


def run(*arguments, cwd=None):
    command = [sys.executable, "-m", "deltauq.cli", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=240, cwd=cwd)


def assert_one_line(done, *words):
    assert done.returncode == 2
    assert done.stdout == ""
    lines = done.stderr.splitlines()
    assert len(lines) == 1 and lines[0].startswith("deltauq: ")
    for word in words:
        assert word in lines[0]


def test_version():
    done = run("--version")
    assert (done.returncode, done.stdout, done.stderr) == (0, f"deltauq {__version__}\n", "")


def test_without_a_command_the_help_lists_the_commands():
    done = run()
    assert done.returncode == 0
    assert "demo" in done.stdout and "--version" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "word"),
    [(["nonsense"], "nonsense"), (["demo", "--nonsense"], "--nonsense"), (["demo", "--out"], "--out")],
)
def test_bad_arguments_get_one_line(arguments, word):
    assert_one_line(run(*arguments), word)


def test_an_output_that_cannot_be_written_gets_one_line_before_any_work(tmp_path):
    file = tmp_path / "file"
    file.touch()
    assert_one_line(run("demo", "--out", str(tmp_path / "no" / "x.html")), "x.html", "not a folder")
    assert_one_line(run("demo", "--out", str(file / "x.html")), "not a folder")
    assert_one_line(run("demo", "--out", str(tmp_path)), "it is a folder")
    assert_one_line(run("demo", "--out", str(tmp_path / ("x" * 300))), "File name too long")


@pytest.mark.parametrize("name", ["typer", "rich", "plotly"])
def test_a_missing_extra_gets_one_line_that_says_what_to_install(name, tmp_path):
    command = [sys.executable, "-c", WITHOUT.format(name=name), "demo"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, cwd=tmp_path)
    assert_one_line(done, name, install_command("cli,report"))
    assert list(tmp_path.iterdir()) == []


def test_importing_the_package_needs_neither_plotly_nor_typer_nor_rich():
    code = (
        "import sys\n"
        "for name in ('plotly', 'typer', 'rich'): sys.modules[name] = None\n"
        "import deltauq, deltauq.cli, deltauq.plots, deltauq.metrics, deltauq.data"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
