import subprocess
import sys
from importlib import import_module

import pytest
import typer

from deltauq import __version__
from deltauq.cli.main import COMMANDS, main
from deltauq.utils.install import install_command

# A package that is set to None in sys.modules cannot be imported, as if it were not installed.
WITHOUT = "import sys; sys.modules[{name!r}] = None; from deltauq.cli import main; main()"


def run(*arguments, cwd=None):
    command = [sys.executable, "-m", "deltauq.cli", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=240, cwd=cwd)


def assert_one_line(done, *texts):
    assert done.returncode == 2
    assert done.stdout == ""
    lines = done.stderr.splitlines()
    assert len(lines) == 1 and lines[0].startswith("deltauq: ")
    for text in texts:
        assert text in lines[0]


def test_version():
    done = run("--version")
    assert (done.returncode, done.stdout, done.stderr) == (0, f"deltauq {__version__}\n", "")


def test_help_without_a_command():
    done = run()
    assert done.returncode == 0
    assert "demo" in done.stdout and "--version" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "word"),
    [(["nonsense"], "nonsense"), (["demo", "--nonsense"], "--nonsense"), (["demo", "--out"], "--out")],
)
def test_invalid_arguments(arguments, word):
    assert_one_line(run(*arguments), word)


def test_output_that_cannot_be_written(tmp_path):
    file = tmp_path / "file"
    file.touch()
    assert_one_line(run("demo", "--out", str(tmp_path / "no" / "x.html")), "x.html", "not a folder")
    assert_one_line(run("demo", "--out", str(file / "x.html")), "not a folder")
    assert_one_line(run("demo", "--out", str(tmp_path)), "it is a folder")
    assert_one_line(run("demo", "--out", str(tmp_path / ("x" * 300))), "File name too long")


@pytest.mark.parametrize("name", ["typer", "rich", "plotly", "jinja2"])
def test_missing_package(name, tmp_path):
    command = [sys.executable, "-c", WITHOUT.format(name=name), "demo"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, cwd=tmp_path)
    assert_one_line(done, name, install_command("cli,report"))
    assert list(tmp_path.iterdir()) == []


def test_import_without_the_cli_and_report_extras():
    code = (
        "import sys\n"
        "for name in ('jinja2', 'plotly', 'typer', 'rich'): sys.modules[name] = None\n"
        "import deltauq, deltauq.cli, deltauq.plots, deltauq.metrics, deltauq.data"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("name", COMMANDS)
def test_descriptions_are_those_of_the_commands(name):
    command = typer.main.get_command(import_module(f"deltauq.cli.{name}").app)
    assert command.help.splitlines()[0] == COMMANDS[name]


def test_only_the_module_of_the_command_is_imported():
    program = (
        "import sys; sys.argv = ['deltauq', 'data', '--help']\n"
        "from deltauq.cli import main\n"
        "try: main()\n"
        "except SystemExit: print(*sys.modules)"
    )
    loaded = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    ).stdout
    loaded = set(loaded.split())
    assert "deltauq.cli.data" in loaded
    assert not {f"deltauq.cli.{name}" for name in COMMANDS if name != "data"} & loaded


def test_bug_is_not_reported_as_input_error(monkeypatch, tmp_path):
    def fail(*args):
        raise ValueError("operands could not be broadcast together")

    monkeypatch.setattr("deltauq.demo.run_demo", fail)
    monkeypatch.setattr(sys, "argv", ["deltauq", "demo", "--out", str(tmp_path / "page.html")])
    with pytest.raises(ValueError, match="broadcast") as caught:
        main()
    assert "Please report it" in caught.value.__notes__[0]
