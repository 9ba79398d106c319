"""The demonstration's numbers as tables in the terminal."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from deltauq.demo import gap, table, words
from deltauq.demo.run import STEPS, Demo
from experiments.figure2 import N_ANCHORS


@contextmanager
def progress_bar() -> Iterator[Callable[[str], None]]:
    """Show a progress bar on stderr, and yield the function that moves it before each step."""
    columns = (BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TextColumn("{task.description}"))
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("", total=STEPS)
        started = 0

        def tick(name: str) -> None:
            nonlocal started
            progress.update(task, description=name, completed=started)
            started += 1

        yield tick


def show(demo: Demo, console: Console) -> None:
    """Print the findings of all three parts."""
    console.print()
    console.print(_gap_table(demo.gap))
    _say(console, words.which_open(demo.gap))
    console.print(_model_table(demo.table))
    _say(console, words.accuracy(demo.table), words.ranking(demo.table), words.scale(demo.table))
    console.print(Text(f"3. Three classes: SVC with {N_ANCHORS} anchors", style="bold"))
    _say(
        console,
        f"Separable classes. {words.boundaries(demo.classes)}",
        f"Two small classes inside a large one. {words.nesting(demo.classes)}",
    )


def _gap_table(study: gap.GapStudy) -> Table:
    grid = _table(
        "1. A gap in the data: σ in the gap over σ where there is data",
        f"smallest of {len(gap.SEEDS)} draws; opens: {gap.OPEN_RATIO:g}× or more; sides: beside the gap",
    )
    grid.add_column("base model")
    grid.add_column("sides differ", justify="right")
    grid.add_column("sides agree", justify="right")
    grid.add_column("opens")
    for opening in study.openings:
        grid.add_row(opening.name, words.ratio(opening.step), words.ratio(opening.hill), opening.verdict)
    return grid


def _model_table(study: table.TableStudy) -> Table:
    n = len(study.y)
    grid = _table(
        f"2. Diabetes: {table.N_TRAIN} rows to train, {n} to test",
        f"rank correlation of σ with the error; coverage and width of {table.LEVEL:.0%} intervals",
    )
    grid.add_column("model")
    for name in ("MAE", "rank corr.", "coverage", "width"):
        grid.add_column(name, justify="right")
    for row in study.models():
        grid.add_row(*words.model_row(row))
    return grid


def _table(title: str, caption: str) -> Table:
    return Table(
        title=title, caption=caption, title_justify="left", caption_justify="left", title_style="bold"
    )


def _say(console: Console, *sentences: str) -> None:
    for sentence in sentences:
        console.print(Text(sentence))
    console.print()
