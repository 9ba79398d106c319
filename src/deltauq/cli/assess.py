"""`deltauq assess`."""

import warnings
from typing import TYPE_CHECKING, Annotated, Any

import typer

from deltauq.cli import options
from deltauq.cli.files import check_page
from deltauq.cli.output import show_result
from deltauq.tables.base_models import BaseModel
from deltauq.utils.errors import InputError
from deltauq.utils.progress import counting_bar

if TYPE_CHECKING:
    from deltauq.assessment import Assessment
    from deltauq.tables.preprocessing import TrainingTable

MAX_ROWS = 2000

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
    train_anchors: options.TrainAnchors = "auto",
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
    about = {
        "file": str(file),
        "target": target,
        "model": model.value,
        "columns": table.X.shape[1],
        "notes": table.notes,
    }
    show_result(result, about, html, f"{target} of {file.name}, {model.value}", as_json=as_json)


def _assess(table: "TrainingTable", model: BaseModel, **params: Any) -> "Assessment":
    """Assess a model with a progress bar; the result is in the units of the target."""
    import numpy as np
    from sklearn.exceptions import ConvergenceWarning

    from deltauq.assessment import assess
    from deltauq.tables.errors import model_errors
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
        warnings.filterwarnings("ignore", "Found unknown categories", UserWarning)
        warnings.simplefilter("ignore", ConvergenceWarning)
        pipeline = build_pipeline(model, table)
        with model_errors(f"{model.value} cannot be assessed on this table", pipeline):
            result = assess(pipeline, table.X, y, progress=tick, **params)
    return result.rescaled(unit) if table.task == "regression" else result
