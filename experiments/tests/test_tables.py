import dataclasses
import math

import pytest
from rich.console import Console

from deltauq.plots import Section, render_page
from experiments.summary import Spread, Summary
from experiments.tables import TableSpec, escape_latex, make_grid, to_html, to_latex, to_markdown, to_rich


def summary(row, column, mean, std=math.nan, **keys):
    return Summary({"set": row, "way": column, **keys}, {"m": Spread(mean, std, 5)})


@pytest.fixture
def summaries():
    return [
        summary(1, "new", 0.8904, 0.0101),
        summary(1, "old", 0.5, 0.25),
        summary(2, "new", -0.0004, 0.1),
        Summary({"set": 2, "way": "old"}, {"other": Spread(1.0, 1.0, 2)}),
    ]


@pytest.fixture
def spec():
    return TableSpec(
        "R² & more",
        "m",
        rows="set",
        columns="way",
        paper={("1", "new"): 0.867, ("2", "old"): 0.4},
        labels={"new": "new_way", "set": "dataset"},
        note="50 % of | it.",
    )


def test_markdown(spec, summaries):
    assert to_markdown(make_grid(spec, summaries)) == (
        "**R² & more**\n\n"
        "| dataset | new_way | old |\n"
        "| --- | ---: | ---: |\n"
        "| 1 | **0.890 ± 0.010** (paper 0.867) | 0.500 ± 0.250 |\n"
        "| 2 | 0.000 ± 0.100 | – (paper 0.4) |\n\n"
        "50 % of | it."
    )


def test_latex(spec, summaries):
    assert to_latex(make_grid(spec, summaries)) == (
        "\\begin{table}\n"
        "\\centering\n"
        "\\caption{R$^2$ \\& more. In parentheses: the paper's figure. 50 \\% of $|$ it.}\n"
        "\\begin{tabular}{lrr}\n"
        "\\toprule\n"
        "dataset & new\\_way & old \\\\\n"
        "\\midrule\n"
        "1 & \\textbf{0.890 $\\pm$ 0.010} (0.867) & 0.500 $\\pm$ 0.250 \\\\\n"
        "2 & 0.000 $\\pm$ 0.100 & -- (0.4) \\\\\n"
        "\\bottomrule\n"
        "\\end{tabular}\n"
        "\\end{table}"
    )


def test_latex_commands_are_spelt_out():
    assert (
        escape_latex(r"\input{x}~^$#") == r"\textbackslash{}input\{x\}\textasciitilde{}\textasciicircum{}\$\#"
    )


def test_html_table(spec, summaries):
    table = to_html(make_grid(spec, summaries))
    assert table.rows == [
        ["1", "0.890 ± 0.010\npaper 0.867", "0.500 ± 0.250"],
        ["2", "0.000 ± 0.100", "–\npaper 0.4"],
    ]
    assert table.bold == {(0, 1)}
    page = render_page("t", "l", [Section("s", [table])])
    assert '<td class="number"><b>0.890 ± 0.010</b><br><small>paper 0.867</small></td>' in page
    assert page.count('<td class="number">') == 6  # the row names are numbers too


@pytest.mark.parametrize("width", [30, 40, 200])
def test_narrow_terminal(spec, summaries, width):
    grid = make_grid(spec, summaries)
    pieces = to_rich(grid, width)
    assert len(pieces) == (1 if width == 200 else 2)
    console = Console(width=width, record=True, file=open("/dev/null", "w"))  # noqa: SIM115
    with console.file:
        for piece in pieces:
            console.print(piece)
        text = console.export_text()
    assert max(map(len, text.splitlines())) <= width
    for figure in ("0.890 ± 0.010", "(0.867)", "0.500 ± 0.250", "0.000 ± 0.100", "new_way", "old"):
        assert figure in text
    assert text.count("R² & more") == 1


def test_best_of_a_row(summaries):
    def best(which):
        grid = make_grid(TableSpec("t", "m", rows="set", columns="way", best=which), summaries)
        return [[cell.best for cell in cells] for _, cells in grid.rows]

    assert best("max") == [[True, False], [False, False]]
    assert best("min") == [[False, True], [False, False]]  # a lone figure is the best of nothing
    assert best(None) == [[False, False], [False, False]]


def test_ties_are_all_best_and_nan_is_not():
    cells = [summary(1, "a", 2.0), summary(1, "b", 2.0), summary(1, "c", math.nan), summary(1, "d", 1.0)]
    ((_, row),) = make_grid(TableSpec("t", "m", rows="set", columns="way"), cells).rows
    assert [cell.best for cell in row] == [True, True, False, False]
    assert [cell.ours for cell in row] == ["2.00", "2.00", "nan", "1.00"]


@pytest.mark.parametrize(
    ("values", "digits", "output"),
    [
        ((0.8903, 0.021), 3, ["0.890", "0.021"]),
        ((628.03, 767.96), 3, ["628", "768"]),
        ((1234.5, 3.0), 3, ["1234", "3"]),
        ((0.000153, 0.00017), 3, ["0.000153", "0.000170"]),
        ((11.444, 9.27), 2, ["11", "9"]),
        ((-0.0001, 1.0), 3, ["0.00", "1.00"]),
        ((-0.25, 0.0), 2, ["−0.25", "0.00"]),
        ((-0.5, 1.0), 2, ["−0.5", "1.0"]),
        ((0.0, 0.0), 3, ["0.00", "0.00"]),
        ((1.5e-9, 2e-10), 2, ["1.5e-09", "2.0e-10"]),
    ],
)
def test_digits_of_a_row(values, digits, output):
    cells = [summary("row", name, value) for name, value in zip("ab", values, strict=True)]
    grid = make_grid(TableSpec("t", "m", rows="set", columns="way", digits=digits), cells)
    assert [cell.ours for cell in grid.rows[0][1]] == output


def test_metrics_as_columns():
    def of(row, **metrics):
        return Summary({"set": row}, {name: Spread(value, math.nan, 1) for name, value in metrics.items()})

    result = [of(1, error=0.0123, seconds=47.71), of(2, error=0.45, share=0.5, seconds=5.7)]
    spec = TableSpec("t", ("error", "share", "seconds"), "set", best=None)
    grid = make_grid(spec, result)
    assert grid.columns == ("error", "share", "seconds")
    assert [[cell.mean for cell in cells] for _, cells in grid.rows] == [
        ["0.012", "–", "47.7"],
        ["0.450", "0.500", "5.7"],
    ]


def test_mean_row():
    cells = [summary(row, way, row / 10, 0.1) for row in (1, 2, 3) for way in ("a", "b")][:-1]
    paper = {(str(row), "a"): value for row, value in ((1, 0.5), (2, 0.6), (3, 0.8))} | {("1", "b"): 1.0}
    spec = TableSpec("t", "m", rows="set", columns="way", mean_over=("1", "2", "3"), paper=paper)
    name, (a, b) = make_grid(spec, cells).rows[-1]
    assert name == "mean"
    assert (a.ours, a.paper, a.best) == ("0.200", "0.633", False)  # alone in its row
    assert (b.ours, b.paper) == ("–", "")
    spec = TableSpec("t", "m", rows="set", columns="way", mean_over=("1", "2", "9"))
    name, (a, b) = make_grid(spec, cells).rows[-1]
    assert name == "mean of 2" and (a.ours, b.ours) == ("0.150", "0.150")


def test_ratios_with_geometric_mean_and_number_of_rows():
    cells = [summary(row, "a", value, 0.1) for row, value in ((1, 2.0), (2, 4.0), (3, 1.0))]
    cells += [summary(row, "b", value, 0.1) for row, value in ((1, 1.0), (2, 4.0), (3, 0.5))]
    cells += [summary(1, "c", 8.0), summary(4, "b", 1.0)]
    spec = TableSpec("t", "m", rows="set", columns="way", best="min", relative_to="a", labels={"a": "plain"})
    grid = make_grid(spec, cells)
    assert [[cell.ours for cell in cells] for _, cells in grid.rows] == [
        ["1.00", "0.50", "4.00"],
        ["1.00", "1.00", "–"],
        ["1.00", "0.50", "–"],
        ["1.00", "0.63", "–"],
        ["3 of 3", "3 of 3", "0 of 1"],
    ]
    assert [name for name, _ in grid.rows[3:]] == ["geometric mean", "at least as good as plain"]
    counts = make_grid(dataclasses.replace(spec, best="max"), cells).rows[-1][1]
    assert [cell.ours for cell in counts] == ["3 of 3", "1 of 3", "1 of 1"]


def test_average_over_configurations_has_no_deviation():
    cells = [summary(1, "a", 1.0, 0.1, size=10), summary(1, "a", 2.0, 0.1, size=20)]
    spec = TableSpec("t", "m", rows="set", columns="way")
    assert make_grid(spec, cells).rows[0][1][0].ours == "1.50"
    spec = TableSpec("t", "m", rows="set", columns="way", where={"size": 20})
    assert make_grid(spec, cells).rows[0][1][0].ours == "2.00 ± 0.10"


def test_empty_table():
    grid = make_grid(TableSpec("t", "absent", rows="set", columns="way"), [summary(1, "a", 1.0)])
    assert grid.rows == () and grid.columns == ()
    assert len(to_rich(grid, 80)) == 1
