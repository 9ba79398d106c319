"""Options that say how a table is read."""

from enum import StrEnum
from typing import Any


class DecimalMark(StrEnum):
    """What `--decimal` may be."""

    point = "."
    comma = ","


def reading_options() -> tuple[Any, Any, Any]:
    """Return the options `--date-format`, `--decimal` and `--encoding`, for commands that read a table."""
    import typer

    return (
        typer.Option(help="The format of dates in text, such as %d/%m/%Y, if it is not certain."),
        typer.Option(help="The decimal mark, if it is not certain, as in 1,250."),
        typer.Option(help="The encoding of a CSV file, such as cp1252 or latin-1."),
    )


def chosen_reading(date_format: str | None, decimal: DecimalMark | None, encoding: str) -> dict[str, Any]:
    """Return the options as arguments of what reads the table."""
    return {"date_format": date_format, "decimal": decimal and decimal.value, "encoding": encoding}
