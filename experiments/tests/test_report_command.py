"""`deltauq report` as a process of its own."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from deltauq.utils.install import install_command
from experiments import ResultLine, ResultStore, get_experiment


def run(*arguments, **environment):
    command = [sys.executable, "-m", "deltauq.cli", "report", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, env=environment or None)


def assert_one_line(done, *words):
    assert (done.returncode, done.stdout) == (2, "")
    lines = done.stderr.splitlines()
    assert len(lines) == 1 and lines[0].startswith("deltauq: ")
    for word in words:
        assert word in lines[0]


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
    """Lines of the paper's profile with a cell missing, and stale, foreign and cut-off ones."""
    store = write(tmp_path, "paper", -1)
    write(tmp_path, "quick", 3, version=1)
    store.append(ResultLine("elsewhere", 1, "paper", {"seed": 0}, {"r2": 99.0}, 1.0))
    with store.path.open("a") as file:
        file.write('{"experiment": "table1", "ver')
    return tmp_path


def test_the_terminal_shows_tables_and_says_what_is_missing(folder):
    done = run("--results", folder)
    assert (done.returncode, done.stderr) == (0, "")
    first, *lines = done.stdout.splitlines()
    assert first == f"Results: {folder.resolve()}"
    assert "table1: Choice of encoding" in done.stdout
    for words in ("89 lines", "1 cell missing", "3 stale lines", "1 foreign line ", "1 unreadable line "):
        assert words in done.stdout
    assert "0.300 ± 0.158" in done.stdout and "(0.85)" in done.stdout
    assert "99.0" not in done.stdout and "table2" not in done.stdout
    assert max(map(len, lines)) <= 80


def test_markdown_and_latex_are_text_to_paste(folder):
    markdown = run("table1", "--results", folder, "--format", "markdown").stdout
    assert markdown.startswith("## table1: Choice of encoding\n")
    assert "| griewank-2d | **0.300 ± 0.158** (paper 0.99) | **0.300 ± 0.158** (paper 0.99) |" in markdown
    latex = run("table1", "--results", folder, "--format", "latex").stdout
    assert latex.startswith("% table1: Choice of encoding\n")
    assert latex.count("\\toprule") == 2
    text = [line for line in latex.splitlines() if not line.startswith("%")]
    assert not any(character in line for line in text for character in "±−σ²₁%")


def test_paragraphs_of_a_note_are_all_comments_in_latex():
    results = Path(__file__).parents[2] / "results"
    latex = run("table4", "--results", results, "--format", "latex").stdout
    before, _ = latex.split("\\begin", 1)
    assert before.count("\n\n") > 3
    assert all(line.startswith("%") for line in before.splitlines() if line)


def test_json_is_the_summary(folder):
    done = run("--results", folder, "--json")
    assert done.stderr == ""
    found = json.loads(done.stdout)
    assert found["results"] == str(folder.resolve())
    (table1,) = found["experiments"]
    assert {key: table1[key] for key in ("experiment", "profile", "lines", "missing", "stale")} == {
        "experiment": "table1",
        "profile": "paper",
        "lines": 89,
        "missing": 1,
        "stale": 3,
    }
    assert len(table1["summary"]) == 18
    first = table1["summary"][0]
    assert first["cell"] == {"function": "ackley-2d", "encoding": "identity"}
    assert first["metrics"]["r2"] == pytest.approx({"mean": 0.3, "std": 0.1581138830, "count": 5})


def test_the_page_is_written_and_named(folder, tmp_path):
    out = tmp_path / "page.html"
    done = run("--results", folder, "--html", out)
    assert (done.returncode, done.stderr, done.stdout) == (0, "", f"Page: {out.resolve()}\n")
    html = out.read_text(encoding="utf-8")
    assert html.count('class="plot"') == 2 and html.count("<details") == 3
    assert "1 cell missing" in html and "paper 0.85" in html
    both = json.loads(run("--results", folder, "--html", out, "--json").stdout)
    assert both["page"] == str(out.resolve()) and len(both["experiments"]) == 1


def test_without_a_profile_the_paper_s_comes_first_and_the_quick_one_second(tmp_path):
    write(tmp_path, "quick")
    assert "Profile quick: 18 lines, nothing missing." in run("--results", tmp_path).stdout
    write(tmp_path, "paper", 1)
    assert "Profile paper: 1 line, 89 cells missing." in run("--results", tmp_path).stdout
    assert "Profile quick: 18 lines" in run("--results", tmp_path, "--profile", "quick").stdout


def test_bad_input_gets_one_line(folder, tmp_path):
    assert_one_line(run("table9", "--results", folder), "'table9'", "table1", "table2")
    assert_one_line(run("--results", tmp_path / "no"), f"{tmp_path.resolve() / 'no'}, which is", "--results")
    assert_one_line(run("--results", folder, "--format", "word"), "'word'")
    assert_one_line(run("--results", folder, "--html", tmp_path / "no" / "x.html"), "x.html")
    assert_one_line(run("table2", "--results", folder), "no valid lines of table2")
    assert_one_line(run("table1", "--results", folder, "--profile", "quick"), "3 stale")
    empty = tmp_path / "empty"
    empty.mkdir()
    assert_one_line(run("--results", empty), "no valid lines", "deltauq reproduce")
    (empty / "table1.jsonl").write_bytes(b"\xff\xfe\x00")
    assert_one_line(run("--results", empty), "cannot read", "table1.jsonl")


@pytest.mark.parametrize(("name", "arguments"), [("rich", []), ("plotly", ["--html", "x.html"])])
def test_a_missing_extra_gets_one_line(folder, name, arguments):
    program = f"import sys; sys.modules[{name!r}] = None; from deltauq.cli import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", program, "report", "--results", str(folder), *arguments],
        capture_output=True,
        text=True,
        timeout=120,
        cwd=folder,
    )
    assert_one_line(done, name, install_command("cli,report"))


def test_the_lines_of_this_repository_can_be_shown():
    from pathlib import Path

    results = Path(__file__).parents[2] / "results"
    if not results.is_dir():
        pytest.skip("the repository's results are not here")
    done = run("--results", results, "--json")
    assert done.returncode == 0, done.stderr
    assert {"table1", "table2"} <= {each["experiment"] for each in json.loads(done.stdout)["experiments"]}
