import subprocess
import sys
from importlib import import_module

import pytest
import typer

from deltauq import __version__
from deltauq.cli.main import COMMANDS, main
from deltauq.utils.install import install_command


def test_version():
    command = [sys.executable, "-m", "deltauq.cli", "--version"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stdout, done.stderr) == (0, f"deltauq {__version__}\n", "")


def test_help_without_a_command(run):
    done = run()
    assert done.code == 0 and "demo" in done.out and "--version" in done.out


@pytest.mark.parametrize(
    ("arguments", "word"),
    [(["nonsense"], "nonsense"), (["demo", "--nonsense"], "--nonsense"), (["demo", "--out"], "--out")],
)
def test_invalid_arguments(arguments, word, run):
    run(*arguments).assert_input_error(word)


def test_output_that_cannot_be_written(run, tmp_path):
    file = tmp_path / "file"
    file.touch()
    run("demo", "--out", tmp_path / "no" / "x.html").assert_input_error("x.html", "not a folder")
    run("demo", "--out", file / "x.html").assert_input_error("not a folder")
    run("demo", "--out", tmp_path).assert_input_error("it is a folder")
    run("demo", "--out", tmp_path / ("x" * 300)).assert_input_error("File name too long")


@pytest.mark.parametrize("name", ["typer", "rich", "plotly", "jinja2"])
def test_missing_package(name, run, monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, name, None)
    monkeypatch.chdir(tmp_path)
    run("demo").assert_input_error(name, install_command("cli,report"))
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
