"""The results as text for the terminal, Markdown or LaTeX, as one HTML page, or as JSON."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from deltauq import __version__
from deltauq.plots import Block, Details, Section, Table, render_page
from deltauq.utils import InputError, counting_bar
from experiments import NAMES, get_experiment
from experiments.store import ResultStore
from experiments.summary import Results, load_results
from experiments.tables import PAPER_NOTE, Grid, make_grid, to_html, to_latex, to_markdown, to_rich

LEAD = (
    "Every figure on this page comes from a line in `results/`, written when its cell was computed. The "
    "tables show mean and sample standard deviation over the seeds, the best of a row in bold, and the "
    "paper's figure below, if there is one. A click on a name in a figure's legend hides that series; a "
    "double click shows it alone."
)
NO_TABLES = "This experiment has no tables; `python -m experiments report --json` prints its results."


def load_all(names: Sequence[str], folder: Path, profile: str | None) -> list[Results]:
    """Load the results of several experiments.

    Parameters
    ----------
    names : sequence of str
        Experiments; all that have valid lines if empty.
    folder : Path
        The folder of the result lines.
    profile : {"quick", "paper"} or None
        None: paper if it has lines, otherwise quick.
    """
    if not folder.is_dir():
        raise InputError(
            f"{folder.resolve()} is not a folder: name the folder of the result lines by --results"
        )
    loaded = []
    with counting_bar("experiments") as progress:
        for name in names or NAMES:
            loaded.append(_load(name, folder, profile))
            progress(len(loaded), len(names or NAMES))
    valid = [results for results in loaded if results.lines]
    if empty := [results for results in loaded if not results.lines and (names or not valid)]:
        outdated = sum(results.outdated for results in empty)
        ignored = f" ({outdated} outdated ones ignored)" if outdated else ""
        what = ", ".join(results.experiment.name for results in empty) if names else "any experiment"
        raise InputError(f"{folder} has no valid lines of {what}{ignored}: run python -m experiments NAME")
    return valid


def _load(name: str, folder: Path, profile: str | None) -> Results:
    experiment = get_experiment(name)
    store = ResultStore(folder / f"{experiment.stored_name}.jsonl")
    try:
        results = load_results(experiment, store, profile or "paper")
        return results if profile or results.lines else load_results(experiment, store, "quick")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"cannot read {store.path}: {error}") from error


def print_report(results: Results, format: str) -> None:
    """Print an experiment's tables in a format: "terminal", "markdown" or "latex"."""
    if format == "markdown":
        print(_text(results, f"## {title(results)}", to_markdown), end="\n\n")
    elif format == "latex":
        print(_text(results, f"% {title(results)}", to_latex, comment="% "), end="\n\n")
    else:
        _print_to_terminal(results)


def _print_to_terminal(results: Results) -> None:
    from rich.console import Console
    from rich.text import Text

    console = Console()
    console.print(Text(title(results), style="bold underline"))
    console.print(Text(results.status()))
    console.print()
    for grid in _grids(results):
        for piece in to_rich(grid, console.width):
            console.print(piece)
        notes = [PAPER_NOTE] if grid.has_paper else []
        notes += [grid.note] if grid.note else []
        if notes:
            console.print(Text(" ".join(notes), style="dim"))
        console.print()
    for text in (NO_TABLES if not results.experiment.tables else "", results.experiment.notes):
        if text:
            console.print(Text(text.replace("`", "")))
    console.print()


def _text(results: Results, heading: str, render: Callable[[Grid], str], comment: str = "") -> str:
    parts = [heading, f"{comment}{results.status()}"]
    if results.experiment.notes:
        parts.append(f"{comment}{results.experiment.notes}")
    parts += [render(grid) for grid in _grids(results)]
    return "\n\n".join(parts)


def render_results(loaded: Sequence[Results]) -> str:
    """Return the HTML page of the results of several experiments."""
    sections = [Section(title(results), _blocks(results)) for results in loaded]
    footer = f"deltauq {__version__}. Method and paper: Δ-UQ, arXiv 2110.02197."
    return render_page("deltauq: results", LEAD, sections, footer=footer, contents=True)


def _blocks(results: Results) -> list[Block]:
    experiment = results.experiment
    blocks: list[Block] = [experiment.notes] if experiment.notes else []
    blocks.append(results.status())
    if not experiment.tables and experiment.figures is None:
        blocks.append(NO_TABLES)
    if experiment.figures is not None:
        blocks.append(experiment.figures(results.lines))
    for index, grid in enumerate(_grids(results)):
        table: list[Block] = [to_html(grid), grid.note] if grid.note else [to_html(grid)]
        blocks.append(Details(grid.title, table, open=index == 0 or grid.has_paper))
    blocks.append(Details("Provenance", [_provenance(results)]))
    return blocks


def _provenance(results: Results) -> Table:
    rows = [[name, "; ".join(values)] for name, values in results.provenance().items()]
    rows += [["lines", str(len(results.lines))], ["computing time", f"{results.seconds():.0f} seconds"]]
    return Table(["", "how these results were computed"], rows)


def title(results: Results) -> str:
    """Return the heading of an experiment."""
    return f"{results.experiment.name}: {results.experiment.title}"


def _grids(results: Results) -> list[Grid]:
    """Return an experiment's tables; those without any value are left out."""
    summaries = results.summaries()
    grids = (make_grid(spec, summaries) for spec in results.experiment.tables)
    return [grid for grid in grids if grid.rows]
