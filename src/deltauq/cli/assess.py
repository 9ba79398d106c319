"""`deltauq assess`."""

import json
import warnings
from dataclasses import replace
from enum import StrEnum
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np

from deltauq.cli.complaints import BadInput, check_writable, complaint_about, told_in_one_line
from deltauq.cli.reading import DecimalMark, chosen_reading, reading_options
from deltauq.tables.base_models import BaseModel
from deltauq.utils.progress import counting_bar

if TYPE_CHECKING:
    from deltauq.assessment import Assessment
    from deltauq.tables.preprocessing import TrainingTable

MAX_ROWS = 2000
WIDE = 100
"""Terminals of this width have room between columns."""


class TaskWord(StrEnum):
    """What `--task` may be."""

    auto = "auto"
    regression = "regression"
    classification = "classification"


def register(app: Any) -> None:
    """Add the command to the app."""
    import typer

    dates, decimals, encodings = reading_options()

    @app.command()
    def assess(
        file: Annotated[Path, typer.Argument(help="A table: CSV (also .gz), Parquet or Arrow.")],
        target: Annotated[str, typer.Option(help="The column to predict.")],
        model: Annotated[
            BaseModel, typer.Option(help="The model to assess; a forest has 50 trees.")
        ] = BaseModel.forest,
        task: Annotated[TaskWord, typer.Option(help="What kind of target it is.")] = TaskWord.auto,
        folds: Annotated[int, typer.Option(min=2, help="Folds.")] = 5,
        repeats: Annotated[
            int, typer.Option(min=1, help="How often the folds are drawn; more find smaller differences.")
        ] = 1,
        train_anchors: Annotated[
            str,
            typer.Option(
                metavar="quick|auto|INT",
                help="Training anchors a row: quick is about a tenth of auto.",
            ),
        ] = "quick",
        html: Annotated[Path | None, typer.Option(help="Also write a page with figures.")] = None,
        as_json: Annotated[bool, typer.Option("--json", help="Print the numbers as JSON.")] = False,
        max_rows: Annotated[int, typer.Option(min=1, help="Use no more rows.")] = MAX_ROWS,
        date_format: Annotated[str | None, dates] = None,
        decimal: Annotated[DecimalMark | None, decimals] = None,
        encoding: Annotated[str, encodings] = "utf-8",
        jobs: Annotated[int, typer.Option(min=1, help="Processes.")] = 1,
        seed: Annotated[int, typer.Option(min=0, help="For everything random.")] = 0,
    ) -> None:
        """Say whether anchoring helps a model on your table, by cross-validation with and without it."""
        if html is not None:
            check_writable(html)
            import_module("plotly")
        words = {
            "cv": folds,
            "n_repeats": repeats,
            "n_train_anchors": read_train_anchors(train_anchors),
            "n_jobs": jobs,
            "random_state": seed,
        }
        from deltauq.tables.preprocessing import load_table

        with told_in_one_line():
            reading = chosen_reading(date_format, decimal, encoding)
            table = load_table(file, target, task.value, max_rows, seed, **reading)
        if folds > len(table.y):
            raise BadInput(f"--folds {folds} is more than the {len(table.y)} rows: give fewer folds")
        found = run_assess(table, model, words)
        if html is not None:
            with complaint_about(html):
                found.save_html(html, f"{target} of {file.name}, {model.value}")
        about = {"file": str(file), "target": target, "model": model.value, "columns": table.X.shape[1]}
        if as_json:
            page = None if html is None else str(html.resolve())
            print(json.dumps({**about, **found.to_dict(), "notes": table.notes, "page": page}))
            return
        show(found, table.notes)
        if html is not None:
            print(f"Page: {html.resolve()}")


def read_train_anchors(word: str) -> int | str:
    """Return what `--train-anchors` means, or refuse it."""
    if word in ("quick", "auto"):
        return word
    if not (word.isdecimal() and int(word) >= 1):
        raise BadInput(f"--train-anchors must be quick, auto or a positive integer, got {word}")
    return int(word)


def run_assess(table: "TrainingTable", word: BaseModel, words: dict[str, Any]) -> "Assessment":
    """Compare the methods on a table, with a progress bar.

    Parameters
    ----------
    table : TrainingTable
    word : BaseModel
    words : dict
        Further arguments for `assess`.

    Returns
    -------
    assessment : Assessment
        In the units of the target. Its text names options of the command line.
    """
    from deltauq.assessment import assess
    from deltauq.assessment.recommendation import COMMAND_LINE
    from deltauq.tables.preprocessing import build_pipeline

    y, unit = table.y, 1.0
    if table.task == "regression":
        # Support vector machines and networks need a target of about unit size; to the others it is all one.
        # Divided by the largest first, so that no square leaves the range of numbers.
        largest = float(np.abs(table.y).max())
        y = table.y / largest
        unit = largest * float(y.std())
        y = (y - y.mean()) / y.std()
    with warnings.catch_warnings(), counting_bar("fits") as tick:
        # Of categories that a fold has not met, and of networks that might have gained by more epochs.
        warnings.simplefilter("ignore")
        try:
            found = assess(build_pipeline(word, table), table.X, y, progress=tick, **words)
        except ValueError as error:
            raise BadInput(str(error)) from error
    found = replace(found, options=COMMAND_LINE)
    return found.rescaled(unit) if table.task == "regression" else found


def show(found: "Assessment", notes: list[str]) -> None:
    """Print an assessment: the notes, the folds, the table with the advised method in bold, the advice."""
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console()
    for note in notes:
        console.print(Text(note))
    console.print(Text(f"\n{found.heading()}", style="bold"))
    grid = Table(box=box.SIMPLE, padding=(0, 1 if console.width >= WIDE else 0, 0, 0))
    (table,) = found.tables().values()
    for column, name in enumerate(table.header):
        # Names may wrap between words, numbers may not.
        texts = [cells[column] if column else max(cells[0].split(), key=len) for cells in table.rows]
        grid.add_column(name, justify="right" if column else "left", min_width=max(map(len, texts)))
    for row, cells in enumerate(table.rows):
        grid.add_row(*cells, style="bold" if (row, 0) in table.bold else "")
    console.print(grid)
    console.print(Text(table.caption))
    console.print(Text(f"\n{found.summary()}"))
