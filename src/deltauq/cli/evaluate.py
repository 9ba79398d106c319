"""`deltauq evaluate`."""

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from deltauq.cli import options
from deltauq.cli.files import check_page, load_model
from deltauq.cli.output import show_result
from deltauq.utils.progress import counting_bar

app = options.new_app()


@app.command()
def evaluate(
    model: options.ModelFolder,
    file: Annotated[Path, typer.Argument(help="Table with known targets that was not used for fitting.")],
    html: options.Html = None,
    trust: options.Trust = None,
    date_format: options.DateFormat = None,
    decimal: options.Decimal = None,
    encoding: options.Encoding = "utf-8",
    as_json: options.Json = False,
) -> None:
    """Compare predictions with known targets.

    The result has errors, empirical coverage, and the slices and rows where they are worst.
    """
    from deltauq import tables

    check_page(html)
    loaded, notes = load_model(model, trust)
    with counting_bar("rows") as tick:
        result = tables.evaluate(
            loaded, file, date_format=date_format, decimal=decimal, encoding=encoding, progress=tick
        )
    result = replace(result, notes=[*notes, *result.notes])
    title = f"{result.target} of {file.name}, {result.model}"
    show_result(result, {"file": str(file)}, html, title, as_json=as_json)
