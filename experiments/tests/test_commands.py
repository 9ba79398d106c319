"""`python -m experiments` as a process of its own."""

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from deltauq.utils import install_command
from experiments import ResultLine, ResultStore, get_experiment
from experiments.__main__ import main

COMMAND = [sys.executable, "-m", "experiments"]
RESULTS = Path(__file__).parents[2] / "results"


def run(*arguments, cwd=None, **environment):
    return subprocess.run(
        [*COMMAND, *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=240,
        cwd=cwd,
        env={**os.environ, "OMP_NUM_THREADS": "1", **environment},
    )


@pytest.fixture
def error_of(capsys):
    """Run a command that must fail, and return its error message."""

    def run(*arguments):
        try:
            code = main(list(map(str, arguments)))
        except SystemExit as stopped:
            code = stopped.code
        out, err = capsys.readouterr()
        assert (code, out) == (2, "")
        return err.splitlines()[-1]

    return run


def write(folder, profile, n=None, *, version=None):
    """Write the first n lines of table1, whose R² is 0.1 (seed + 1)."""
    experiment = get_experiment("table1")
    store = ResultStore(folder / "table1.jsonl")
    for cell in experiment.cells(profile)[:n]:
        metrics = {"r2": 0.1 * (cell["seed"] + 1), "spearman": 0.5}
        store.append(ResultLine("table1", version or experiment.version, profile, cell, metrics, 2.0))
    return store


@pytest.fixture
def folder(tmp_path):
    """Lines of the paper's profile with a cell missing, and outdated, unknown and incomplete ones."""
    store = write(tmp_path, "paper", -1)
    write(tmp_path, "quick", 3, version=1)
    store.append(ResultLine("elsewhere", 1, "paper", {"seed": 0}, {"r2": 99.0}, 1.0))
    with store.path.open("a") as file:
        file.write('{"experiment": "table1", "ver')
    return tmp_path


@pytest.mark.slow
def test_second_run_computes_nothing(tmp_path):
    folder = tmp_path / "new" / "results"
    first = run("table1", "--results", folder)
    file = folder / "table1.jsonl"
    assert first.returncode == 0, first.stderr
    assert "Profile quick: 18 lines, nothing missing." in first.stdout
    assert first.stdout.endswith(f"Lines: {file.resolve()}\n")
    before = file.read_bytes()
    assert run("table1", "--results", folder).stdout == first.stdout and file.read_bytes() == before


@pytest.mark.slow
@pytest.mark.parametrize("jobs", [1, 2])
def test_interrupted_run_can_be_continued(tmp_path, jobs):
    command = [
        *COMMAND,
        "table1-study",
        "--profile",
        "paper",
        "--jobs",
        str(jobs),
        "--results",
        str(tmp_path),
    ]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    # A terminal sends Ctrl-C to the whole group, so that the workers get it too.
    process = subprocess.Popen(
        command, stderr=subprocess.PIPE, text=True, start_new_session=True, env=environment
    )
    file = tmp_path / "table1-study.jsonl"
    deadline = time.monotonic() + 120
    while not (file.exists() and file.read_text().count("\n") >= 3) and time.monotonic() < deadline:
        time.sleep(0.1)
    os.killpg(process.pid, signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "Traceback" not in err
    completed = len(list(ResultStore(file)))
    total = len(get_experiment("table1-study").cells("paper"))
    assert f"interrupted; {completed} of {total} cells are in {file}" in err


def test_help_lists_experiments():
    assert "ablation-prior" in run("--help").stdout


def test_errors_of_a_run(error_of, tmp_path):
    assert "'table9'" in error_of("table9")
    assert "--jobs" in error_of("table1", "--jobs", "0")
    assert "'full'" in error_of("table1", "--profile", "full")
    assert "exists" in error_of("table1", "--results", __file__).lower()
    assert "key=value" in error_of("table1", "--only", "method")
    assert "'method'" in error_of("table1", "--only", "method=plain", "--results", tmp_path)
    assert "--backend ray" in error_of("table1", "--address", "auto", "--results", tmp_path)


def test_only_selected_cells_run(tmp_path):
    cell = get_experiment("table1").cells("quick")[0]
    only = [part for key, value in cell.items() for part in ("--only", f"{key}={value}")]
    done = run("table1", *only, "--results", tmp_path)
    assert done.returncode == 0, done.stderr
    assert [line.cell for line in ResultStore(tmp_path / "table1.jsonl")] == [cell]


def test_missing_data_names_the_folder(tmp_path):
    environment = {"DELTAUQ_CACHE": str(tmp_path / "cache"), "SCIKIT_LEARN_DATA": str(tmp_path / "sklearn")}
    environment |= {"http_proxy": "http://127.0.0.1:9", "https_proxy": "http://127.0.0.1:9"}
    data = tmp_path / "data"
    data.mkdir()
    done = run("table2", "--results", tmp_path / "out", DELTAUQ_DATA=str(data), **environment)
    assert done.returncode == 2 and "Traceback" not in done.stderr
    assert str(data) in done.stderr


def test_terminal_report(folder):
    done = run("report", "--results", folder, COLUMNS="80")
    assert (done.returncode, done.stderr) == (0, "")
    assert "table1: Choice of encoding" in done.stdout
    for text in ("89 lines", "1 cell missing", "3 outdated lines", "1 unknown line", "1 unreadable line"):
        assert text in " ".join(done.stdout.split())
    assert "0.300 ± 0.158" in done.stdout and "(0.85)" in done.stdout
    assert "99.0" not in done.stdout and "table2" not in done.stdout
    assert max(map(len, done.stdout.splitlines())) <= 80


def test_markdown_and_latex_report(folder, capsys):
    assert main(["report", "table1", "--results", str(folder), "--format", "markdown"]) == 0
    markdown = capsys.readouterr().out
    assert markdown.startswith("## table1: Choice of encoding\n")
    assert "| griewank-2d | **0.300 ± 0.158** (paper 0.99) | **0.300 ± 0.158** (paper 0.99) |" in markdown
    assert main(["report", "table1", "--results", str(folder), "--format", "latex"]) == 0
    latex = capsys.readouterr().out
    assert latex.startswith("% table1: Choice of encoding\n")
    assert latex.count("\\toprule") == 2
    text = [line for line in latex.splitlines() if not line.startswith("%")]
    assert not any(character in line for line in text for character in "±−σ²₁%")


def test_json_report(folder, capsys):
    assert main(["report", "--results", str(folder), "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["results"] == str(folder.resolve())
    (table1,) = report["experiments"]
    expected = {"experiment": "table1", "profile": "paper", "lines": 89, "missing": 1, "outdated": 3}
    assert {key: table1[key] for key in expected} == expected
    assert len(table1["summary"]) == 18
    first = table1["summary"][0]
    assert first["cell"] == {"function": "ackley-2d", "encoding": "identity"}
    assert first["metrics"]["r2"] == pytest.approx({"mean": 0.3, "std": 0.1581138830, "count": 5})


def test_html_report(folder, tmp_path, capsys):
    out = tmp_path / "page.html"
    arguments = ["report", "--results", str(folder), "--html", str(out)]
    assert main(arguments) == 0
    assert capsys.readouterr().out == f"Page: {out.resolve()}\n"
    html = out.read_text(encoding="utf-8")
    assert html.count('class="plot"') == 2 and html.count("<details") == 3
    assert "1 cell missing" in html and "paper 0.85" in html
    assert main([*arguments, "--json"]) == 0
    both = json.loads(capsys.readouterr().out)
    assert both["page"] == str(out.resolve()) and len(both["experiments"]) == 1


def test_report_prefers_the_paper_profile(tmp_path, capsys):
    def report(*arguments):
        assert main(["report", "--results", str(tmp_path), *arguments]) == 0
        return capsys.readouterr().out

    write(tmp_path, "quick")
    assert "Profile quick: 18 lines, nothing missing." in report()
    write(tmp_path, "paper", 1)
    assert "Profile paper: 1 line, 89 cells missing." in report()
    assert "Profile quick: 18 lines" in report("--profile", "quick")


def test_errors_of_a_report(error_of, folder, tmp_path):
    assert "'table9'" in error_of("report", "table9", "--results", folder)
    assert "--results" in error_of("report", "--results", tmp_path / "no")
    assert "'word'" in error_of("report", "--results", folder, "--format", "word")
    assert "x.html" in error_of("report", "--results", folder, "--html", tmp_path / "no" / "x.html")
    assert "no valid lines of table2" in error_of("report", "table2", "--results", folder)
    assert "3 outdated" in error_of("report", "table1", "--results", folder, "--profile", "quick")
    empty = tmp_path / "empty"
    empty.mkdir()
    assert "no valid lines" in error_of("report", "--results", empty)
    (empty / "table1.jsonl").write_bytes(b"\xff\xfe\x00")
    assert "table1.jsonl" in error_of("report", "--results", empty)


def test_a_missing_package_is_named(error_of, monkeypatch, folder):
    monkeypatch.setitem(sys.modules, "plotly", None)
    assert "plotly" in error_of("report", "--results", folder, "--html", folder / "x.html")


@pytest.fixture
def ray_folder():
    """A folder of Ray's own: its sockets need a short path."""
    with tempfile.TemporaryDirectory(prefix="ray-", ignore_cleanup_errors=True) as folder:
        yield folder


@pytest.mark.slow
def test_killed_run_on_ray_can_be_continued(tmp_path, ray_folder):
    pytest.importorskip("ray", reason="ray is not installed")
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "RAY_TMPDIR": ray_folder}
    command = [*COMMAND, "table1", "--backend", "ray", "--jobs", "2", "--results", str(tmp_path)]
    file = tmp_path / "table1.jsonl"
    with subprocess.Popen(command, env=environment) as driver:
        deadline = time.monotonic() + 120
        while not (file.exists() and file.read_text().count("\n") >= 3) and time.monotonic() < deadline:
            time.sleep(0.05)
        driver.kill()
    kept = [line.key for line in ResultStore(file)]
    experiment = get_experiment("table1")
    assert 3 <= len(kept) < len(experiment.cells("quick"))
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert "Profile quick: 18 lines, nothing missing." in done.stdout
    keys = [line.key for line in ResultStore(file)]
    assert keys[: len(kept)] == kept
    assert sorted(keys) == sorted(experiment.key(cell, "quick") for cell in experiment.cells("quick"))
    deadline = time.monotonic() + 30
    while left := [command for command in all_commands() if ray_folder in command]:
        assert time.monotonic() < deadline, left
        time.sleep(0.5)


def all_commands():
    listed = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True)
    return listed.stdout.splitlines()


def test_ray_errors(error_of, monkeypatch, tmp_path):
    arguments = ["table1", "--results", tmp_path, "--backend", "ray"]
    pytest.importorskip("ray", reason="ray is not installed")
    assert "127.0.0.1:9" in error_of(*arguments, "--address", "127.0.0.1:9")
    monkeypatch.setitem(sys.modules, "ray", None)
    assert install_command("ray") in error_of(*arguments)


def test_ray_is_imported_only_if_used():
    program = (
        "import sys, experiments.__main__; experiments.get_experiment('table1'); print('ray' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"


# Lines only ever get more.
COMPLETED = {
    "table1": 90,
    "table1-study": 810,
    "figure2": 10,
    "table2": 360,
    "table2-study": 936,
    "forest-study": 2420,
    "base-estimators": 1100,
    "ablation-anchors": 320,
    "ablation-anchors-images": 18,
    "ablation-prior": 30,
    "anchoring-variants": 25,
    "gap": 150,
    "uci": 1248,
    "uci-study": 1440,
    "coverage": 310,
    "table3": 275,
    "table3-study": 504,
    "table4": 100,
    "table5": 68,
    "figure5": 85,
    "gpu-bench": 8,
    "corruptions": 95,
    "targets-study": 9989,
    "classes": 1400,
    "extrapolation": 290,
    "intervals": 3056,
}


@pytest.mark.skipif(not RESULTS.is_dir(), reason="the result lines are not here")
@pytest.mark.parametrize("name", COMPLETED)
def test_committed_lines_are_recognised(name):
    experiment = get_experiment(name)
    store = ResultStore(RESULTS / f"{experiment.stored_name}.jsonl")
    assert len(experiment.lines(store, "paper")) >= COMPLETED[name]
