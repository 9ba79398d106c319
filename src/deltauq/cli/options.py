"""Options and settings that several commands share."""

from pathlib import Path
from typing import Annotated, Literal

import typer

Table = Annotated[Path, typer.Argument(help="Table: a CSV (also compressed), Parquet or Arrow file.")]
ModelFolder = Annotated[Path, typer.Argument(help="Model folder written by `deltauq fit`.")]
Target = Annotated[str, typer.Option(help="Column to predict.")]
Task = Annotated[
    Literal["auto", "regression", "classification"],
    typer.Option(help="Type of the target; auto infers it from the values."),
]
MaxRows = Annotated[int, typer.Option(min=1, help="Draw this many rows at random if the table has more.")]
DateFormat = Annotated[
    str | None, typer.Option(help="Format of dates in text, such as %d/%m/%Y, where it is ambiguous.")
]
Decimal = Annotated[
    Literal[".", ","] | None, typer.Option(help="Decimal mark, where it is ambiguous, as in 1,250.")
]
Encoding = Annotated[str, typer.Option(help="Encoding of a CSV file, such as cp1252 or latin-1.")]
Trust = Annotated[
    list[str] | None,
    typer.Option(help="Full name of a type of your own that the model may contain; may be repeated."),
]
Jobs = Annotated[int | None, typer.Option(min=1, help="Number of threads; by default one per core.")]
Html = Annotated[Path | None, typer.Option(help="Also write an HTML page with figures.")]
Json = Annotated[bool, typer.Option("--json", help="Print the results as JSON.")]


def new_app() -> typer.Typer:
    """Return an app with plain help and plain tracebacks."""
    return typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)


def parse_train_anchors(value: str) -> int | str:
    """Return the value of `--train-anchors`."""
    if value == "auto":
        return value
    if not (value.isdecimal() and int(value) >= 1):
        raise typer.BadParameter(f"must be auto or a positive integer, got {value}")
    return int(value)


def parse_levels(value: str) -> list[float]:
    """Return the value of `--quantiles`."""
    try:
        return [float(level) for level in value.split(",")]
    except ValueError as error:
        raise typer.BadParameter(
            f'must be levels such as 0.05,0.5,0.95, got "{value}"', param_hint="--quantiles"
        ) from error


TrainAnchors = Annotated[
    str,
    typer.Option(
        parser=parse_train_anchors,
        metavar="auto|INT",
        help="Training anchors per row.",
    ),
]
