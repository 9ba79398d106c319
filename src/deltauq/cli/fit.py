"""`deltauq fit`."""

import json
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from deltauq.cli.assess import TaskWord, read_train_anchors
from deltauq.cli.complaints import BadInput, complaint_about, told_in_one_line
from deltauq.cli.reading import DecimalMark, chosen_reading, reading_options
from deltauq.tables.base_models import BaseModel
from deltauq.utils.progress import counting_bar

if TYPE_CHECKING:
    from deltauq.tables import TableModel

MAX_ROWS = 20_000
LARGEST_SEED = 2**32 - 1
"""scikit-learn takes no larger one."""


class CenterWord(StrEnum):
    """What `--center` may be."""

    auto = "auto"
    anchored = "anchored"
    estimator = "estimator"


class AnchorWord(StrEnum):
    """What `--anchors` may be."""

    data = "data"
    balanced = "balanced"
    kmeans = "kmeans"
    normal = "normal"


def register(app: Any) -> None:
    """Add the command to the app."""
    import typer

    dates, decimals, encodings = reading_options()

    @app.command()
    def fit(
        file: Annotated[Path, typer.Argument(help="A table: CSV (also .gz), Parquet or Arrow.")],
        target: Annotated[str, typer.Option(help="The column to predict.")],
        out: Annotated[Path, typer.Option("--out", "-o", help="The model folder to write.")],
        task: Annotated[TaskWord, typer.Option(help="What kind of target it is.")] = TaskWord.auto,
        model: Annotated[BaseModel, typer.Option(help="The model to anchor.")] = BaseModel.forest,
        coverage: Annotated[float, typer.Option(help="The share of targets that intervals hold.")] = 0.9,
        center: Annotated[
            CenterWord, typer.Option(help="Whose predictions to take; auto cross-validates both.")
        ] = CenterWord.auto,
        anchors: Annotated[
            AnchorWord, typer.Option(help="Where anchors come from; kmeans ships averages of rows only.")
        ] = AnchorWord.data,
        n_anchors: Annotated[int, typer.Option(min=2, help="Anchors to predict with.")] = 20,
        train_anchors: Annotated[
            str, typer.Option(metavar="quick|auto|INT", help="Training anchors a row.")
        ] = "quick",
        max_rows: Annotated[int, typer.Option(min=1, help="Use no more rows.")] = MAX_ROWS,
        date_format: Annotated[str | None, dates] = None,
        decimal: Annotated[DecimalMark | None, decimals] = None,
        encoding: Annotated[str, encodings] = "utf-8",
        jobs: Annotated[int, typer.Option(min=1, help="Threads.")] = 1,
        seed: Annotated[int, typer.Option(min=0, max=LARGEST_SEED, help="For everything random.")] = 0,
        as_json: Annotated[bool, typer.Option("--json", help="Print the findings as JSON.")] = False,
    ) -> None:
        """Fit a model with error bars to a table, and write it to a folder."""
        words = {
            "task": task.value,
            "model": model.value,
            "coverage": coverage,
            "center": center.value,
            "anchors": anchors.value,
            "n_anchors": n_anchors,
            "n_train_anchors": read_train_anchors(train_anchors),
            "max_rows": max_rows,
            "n_jobs": jobs,
            "random_state": seed,
            **chosen_reading(date_format, decimal, encoding),
        }
        fitted = run_fit(file, target, out, words)
        if as_json:
            about = {"file": str(file), "target": target, "task": fitted.task, "out": str(out.resolve())}
            print(json.dumps({**about, "coverage": fitted.coverage, **fitted.report}))
        else:
            print("\n".join(describe(fitted)))
            print(f"Model: {out.resolve()}")


def run_fit(file: Path, target: str, out: Path, words: dict[str, Any]) -> "TableModel":
    """Fit and save, with a progress bar.

    Parameters
    ----------
    file : Path
    target : str
    out : Path
        The model folder.
    words : dict
        Further arguments for `deltauq.tables.fit`.

    Returns
    -------
    model : TableModel
    """
    from deltauq.tables import fit
    from deltauq.tables.errors import require_skops
    from deltauq.tables.folder import check_free

    if not 0.0 < words["coverage"] < 1.0:
        raise BadInput(f"--coverage must lie between 0 and 1, got {words['coverage']:g}")
    with told_in_one_line(), complaint_about(out):
        check_free(out)
        require_skops()
        with counting_bar("steps") as tick:
            model = fit(file, target, progress=tick, **words)
        model.save(out)
    return model


def describe(model: "TableModel") -> list[str]:
    """Return what fitting found, in sentences."""
    report = model.report
    lines = [
        *report["notes"],
        f"{model.target}, {report['model']}, {model.task}: {report['rows']:,} rows trained on, "
        f"{report['held_out']:,} held out to calibrate.",
    ]
    if errors := report["center_errors"]:
        measure = "Mean absolute error" if model.task == "regression" else "Brier score"
        taken = "mean over anchors" if report["center"] == "anchored" else "plain model's prediction"
        lines.append(
            f"{measure} in {_about_folds(report)}: anchored {errors['anchored']:.4g}, plain "
            f"{errors['estimator']:.4g}. The {taken} is taken (--center {report['center']})."
        )
    if model.task == "regression":
        lines.append(
            f"Intervals of {model.coverage:.0%} are {report['width']:.4g} wide on average; of constant width "
            f"they would be {report['constant_width']:.4g}."
        )
    lines.append(_about_rows(report))
    if len(model.fitted.fingerprints):
        lines.append("It also holds a hash of each row, by which `deltauq evaluate` notices training rows.")
    return lines


def _about_folds(report: dict[str, Any]) -> str:
    used, rows = report["cross_validation"]["rows"], report["rows"]
    part = f"{used:,} of the {rows:,} rows" if used < rows else f"the {rows:,} rows"
    return f"{report['cross_validation']['folds']}-fold cross-validation on {part} trained on"


def _about_rows(report: dict[str, Any]) -> str:
    """Say whether whoever has the model has rows of the training table."""
    if report["anchors"] in ("data", "balanced"):
        return (
            f"The model folder holds {report['n_anchors']:,} rows of the table as anchors: whoever has it "
            "has these (--anchors kmeans ships averages of rows)."
        )
    if report["holds_rows"]:
        return f"The model folder holds rows of the table: a {report['model']} model is made of them."
    return "The model folder holds no row of the table."
