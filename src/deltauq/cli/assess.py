"""`deltauq assess`."""

import json
import warnings
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any

import typer

from deltauq.cli import options
from deltauq.cli.files import check_page, writing
from deltauq.tables.base_models import BaseModel
from deltauq.utils.errors import InputError
from deltauq.utils.progress import counting_bar

if TYPE_CHECKING:
    from deltauq.assessment import Assessment
    from deltauq.tables.preprocessing import TrainingTable

MAX_ROWS = 2000
WIDE = 100
"""Terminals of this width have space between columns."""

app = options.new_app()


@app.command()
def assess(
    file: options.Table,
    target: options.Target,
    model: Annotated[
        BaseModel, typer.Option(help="Model to assess; a forest has 50 trees.")
    ] = BaseModel.forest,
    task: options.Task = "auto",
    folds: Annotated[int, typer.Option(min=2, help="Number of folds.")] = 5,
    repeats: Annotated[
        int, typer.Option(min=1, help="Repetitions of the cross-validation; more detect smaller differences.")
    ] = 1,
    train_anchors: options.TrainAnchors = "quick",
    html: options.Html = None,
    as_json: options.Json = False,
    max_rows: options.MaxRows = MAX_ROWS,
    date_format: options.DateFormat = None,
    decimal: options.Decimal = None,
    encoding: options.Encoding = "utf-8",
    jobs: Annotated[int, typer.Option(min=1, help="Number of processes.")] = 1,
    seed: Annotated[int, typer.Option(min=0, help="Random seed.")] = 0,
) -> None:
    """Compare a model with and without anchoring by cross-validation.

    The result is a recommendation whether to use anchoring on this table, and the scores behind it.
    """
    from deltauq.tables.preprocessing import load_table

    check_page(html)
    table = load_table(
        file, target, task, max_rows, seed, date_format=date_format, decimal=decimal, encoding=encoding
    )
    if folds > len(table.y):
        raise InputError(f"--folds {folds} is more than the {len(table.y)} rows: choose fewer folds")
    result = _assess(
        table,
        model,
        cv=folds,
        n_repeats=repeats,
        n_train_anchors=train_anchors,
        n_jobs=jobs,
        random_state=seed,
    )
    if html is not None:
        with writing(html):
            result.save_html(html, f"{target} of {file.name}, {model.value}")
    page = None if html is None else str(html.resolve())
    if as_json:
        about = {"file": str(file), "target": target, "model": model.value, "columns": table.X.shape[1]}
        print(json.dumps({**about, **result.to_dict(), "notes": table.notes, "page": page}))
        return
    _print_result(result, table.notes)
    if page is not None:
        print(f"Page: {page}")


def _assess(table: "TrainingTable", model: BaseModel, **params: Any) -> "Assessment":
    """Assess a model with a progress bar; the result is in the units of the target."""
    import numpy as np

    from deltauq.assessment import assess
    from deltauq.assessment.recommendation import COMMAND_LINE
    from deltauq.tables.preprocessing import build_pipeline

    y, unit = table.y, 1.0
    if table.task == "regression":
        # Support vector machines and networks need a target with a variance of about one. Dividing by the
        # maximum first keeps the squares finite.
        largest = float(np.abs(table.y).max())
        y = table.y / largest
        unit = largest * float(y.std())
        y = (y - y.mean()) / y.std()
    with warnings.catch_warnings(), counting_bar("fits") as tick:
        warnings.simplefilter("ignore")
        try:
            result = assess(build_pipeline(model, table), table.X, y, progress=tick, **params)
        except ValueError as error:
            raise InputError(str(error)) from error
    result = replace(result, options=COMMAND_LINE)
    return result.rescaled(unit) if table.task == "regression" else result


def _print_result(result: "Assessment", notes: list[str]) -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console()
    for note in notes:
        console.print(Text(note))
    console.print(Text(f"\n{result.heading()}", style="bold"))
    grid = Table(box=box.SIMPLE, padding=(0, 1 if console.width >= WIDE else 0, 0, 0))
    (table,) = result.tables().values()
    for column, name in enumerate(table.header):
        # Names may wrap between words, numbers may not.
        texts = [cells[column] if column else max(cells[0].split(), key=len) for cells in table.rows]
        grid.add_column(name, justify="right" if column else "left", min_width=max(map(len, texts)))
    for row, cells in enumerate(table.rows):
        grid.add_row(*cells, style="bold" if (row, 0) in table.bold else "")
    console.print(grid)
    console.print(Text(table.caption))
    console.print(Text(f"\n{result.summary()}"))
