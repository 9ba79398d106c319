"""`deltauq fit`."""

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from deltauq.cli import options
from deltauq.cli.files import os_errors_as_input_errors
from deltauq.tables.base_models import AUTO, STORES_TRAINING_ROWS, BaseModel
from deltauq.utils.errors import InputError
from deltauq.utils.progress import counting_bar

if TYPE_CHECKING:
    from deltauq.tables import TableModel

MAX_ROWS = 20_000
MAX_SEED = 2**32 - 1
"""The largest seed of scikit-learn."""

app = options.new_app()


@app.command()
def fit(
    file: options.Table,
    target: options.Target,
    out: Annotated[Path, typer.Option("--out", "-o", help="Model folder to write.")],
    task: options.Task = "auto",
    model: Annotated[
        str,
        typer.Option(
            help=f"{AUTO}: several models, combined; or one, fitted with anchors and without: "
            f"{', '.join(BaseModel)}.",
            metavar="NAME",
        ),
    ] = AUTO,
    coverage: Annotated[float, typer.Option(help="Nominal coverage of intervals and sets of classes.")] = 0.9,
    anchors: Annotated[
        Literal["data", "balanced", "kmeans", "normal"],
        typer.Option(help="Source of the anchors; with data and balanced, the model contains table rows."),
    ] = "data",
    n_anchors: Annotated[int, typer.Option(min=2, help="Anchors per prediction.")] = 20,
    train_anchors: options.TrainAnchors = "auto",
    quick: Annotated[
        bool,
        typer.Option("--quick", help="Fit in about a quarter of the time, with somewhat wider intervals."),
    ] = False,
    max_rows: options.MaxRows = MAX_ROWS,
    date_format: options.DateFormat = None,
    decimal: options.Decimal = None,
    encoding: options.Encoding = "utf-8",
    jobs: options.Jobs = None,
    seed: Annotated[int, typer.Option(min=0, max=MAX_SEED, help="Random seed.")] = 0,
    as_json: options.Json = False,
) -> None:
    """Fit a model with uncertainty estimates to a table.

    Intervals and sets follow from predictions for rows that did not train the models. The model is written
    to a folder.
    """
    from deltauq import tables
    from deltauq.tables.errors import require_skops
    from deltauq.tables.folder import check_free

    if model not in (names := [AUTO, *BaseModel]):
        raise InputError(f'--model must be one of {", ".join(names)}, got "{model}"')
    if not 0.0 < coverage < 1.0:
        raise InputError(f"--coverage must lie between 0 and 1, got {coverage:g}")
    with os_errors_as_input_errors(out):
        check_free(out)
        require_skops()
        with counting_bar("steps") as tick:
            fitted = tables.fit(
                file,
                target,
                task=task,
                model=model,
                coverage=coverage,
                anchors=anchors,
                n_anchors=n_anchors,
                n_train_anchors=train_anchors,
                quick=quick,
                max_rows=max_rows,
                date_format=date_format,
                decimal=decimal,
                encoding=encoding,
                n_jobs=jobs or os.cpu_count(),
                random_state=seed,
                progress=tick,
            )
        fitted.save(out)
    if as_json:
        about = {"file": str(file), "target": target, "task": fitted.task, "out": str(out.resolve())}
        print(json.dumps({**about, "coverage": fitted.coverage, **fitted.report}))
    else:
        print("\n".join(_describe(fitted)))
        print(f"Model: {out.resolve()}")


def _describe(model: "TableModel") -> list[str]:
    report, regression = model.report, model.task == "regression"
    lines = [
        *report["notes"],
        f"{model.target}, {model.task}: {report['rows']:,} training rows.",
        f"{'Mean absolute error' if regression else 'Log loss'} on rows that did not train the model: "
        f"{report['error']:.4g}. Of the models: {_listed(report['errors'])}.",
        f"{'Weights' if regression else 'Powers of probabilities'}: {_listed(report['members'], '.2f')}.",
    ]
    if regression:
        lines.append(
            f"Intervals with a coverage of {model.coverage:.0%} have a mean width of {report['width']:.4g}; "
            f"intervals of constant width would need {report['constant_width']:.4g}."
        )
    lines.append(_describe_rows(report))
    if len(model.fitted.fingerprints):
        lines.append(
            "It also contains a hash of each row, so that `deltauq evaluate` recognises training rows."
        )
    return lines


def _listed(values: dict[str, float], form: str = ".4g") -> str:
    return ", ".join(f"{name} {value:{form}}" for name, value in values.items())


def _describe_rows(report: dict[str, Any]) -> str:
    """Say whether rows of the training table can be read from the model."""
    if report["model"] in STORES_TRAINING_ROWS:
        return f"The model folder contains rows of the table: a {report['model']} model consists of them."
    if report["stores_rows"]:
        others = " and others in its smooth model" if "smooth" in report["members"] else ""
        return (
            f"The model folder contains {report['n_anchors']:,} rows of the table as anchors{others}, which "
            "anyone with the folder can read (--anchors kmeans stores averages of rows instead)."
        )
    return "The model folder contains no rows of the table."
