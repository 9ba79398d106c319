"""`deltauq predict`."""

import json
import os
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from deltauq.cli import options
from deltauq.cli.files import check_writable, load_model, os_errors_as_input_errors, version_warnings
from deltauq.utils.errors import InputError
from deltauq.utils.progress import counting_bar

if TYPE_CHECKING:
    from deltauq.tables import PredictionSummary

app = options.new_app()


@app.command()
def predict(
    model: options.ModelFolder,
    file: Annotated[
        str,
        typer.Argument(
            help="Table: a CSV (also compressed), Parquet or Arrow file; with Ray also a URL or a pattern."
        ),
    ],
    out: Annotated[
        str, typer.Option("--out", "-o", help="File to write, in one of these formats; with Ray a folder.")
    ],
    keep: Annotated[
        list[str] | None, typer.Option(help="Column of the table to copy to the output; may be repeated.")
    ] = None,
    coverage: Annotated[
        float | None,
        typer.Option(help="Nominal coverage of intervals and sets of classes; by default that of the model."),
    ] = None,
    quantiles: Annotated[
        str | None,
        typer.Option(
            metavar="LEVELS", help="Also write quantiles of a number, such as those at 0.05,0.5,0.95."
        ),
    ] = None,
    jobs: options.Jobs = None,
    strict: Annotated[
        bool, typer.Option("--strict", help="Raise an error for unseen categories and unknown columns.")
    ] = False,
    trust: options.Trust = None,
    date_format: options.DateFormat = None,
    decimal: options.Decimal = None,
    encoding: options.Encoding = "utf-8",
    backend: Annotated[
        Literal["local", "ray"], typer.Option(help="Predict in this process, or on Ray (extra ray).")
    ] = "local",
    address: Annotated[
        str | None,
        typer.Option(help="Address of a Ray cluster; auto: one on this machine. By default, start one."),
    ] = None,
    as_json: options.Json = False,
) -> None:
    """Predict the rows of a table, with intervals or class sets.

    Each row gets a prediction, its standard deviation, an interval or a set of classes, and a level of risk.
    """
    params = {
        "keep": keep or [],
        "coverage": coverage,
        "quantiles": () if quantiles is None else options.parse_levels(quantiles),
        "strict": strict,
        "date_format": date_format,
        "decimal": decimal,
        "encoding": encoding,
    }
    if backend == "ray":
        summary = _predict_on_ray(model, file, out, trust or [], address, params)
    elif address is not None:
        raise InputError("--address is the address of a Ray cluster: add --backend ray")
    else:
        summary = _predict_file(model, file, out, trust, jobs, params)
    path = out if "://" in out else str(Path(out).resolve())
    if as_json:
        print(json.dumps({**vars(summary), "out": path}))
        return
    for note in summary.notes:
        print(note)
    risk = ", ".join(f"{level} {count:,}" for level, count in summary.risk.items())
    print(f"{summary.rows:,} rows{f'; risk: {risk}' if risk else ''}.")
    print(f"Predictions: {path}")


def _predict_file(
    model: Path, file: str, out: str, trust: list[str] | None, jobs: int | None, params: dict[str, Any]
) -> "PredictionSummary":
    from deltauq.tables import predict_file
    from deltauq.tables.prediction import check_output

    if any(sign in file for sign in ("*", "?", "://")) and not Path(file).exists():
        raise InputError(f"{file} does not exist: patterns and URLs need --backend ray")
    if "://" in out:
        raise InputError(f"cannot write {out}: URLs need --backend ray")
    check_writable(Path(out))
    check_output(Path(out))
    loaded, notes = load_model(model, trust)
    loaded.set_jobs(jobs or os.cpu_count())
    with os_errors_as_input_errors(out), counting_bar("rows") as tick:
        summary = predict_file(loaded, Path(file), Path(out), progress=tick, **params)
    return replace(summary, notes=[*notes, *summary.notes])


def _predict_on_ray(
    model: Path, file: str, out: str, trust: list[str], address: str | None, params: dict[str, Any]
) -> "PredictionSummary":
    from deltauq.distributed import ClusterError, predict_parts
    from deltauq.distributed.runners import LOCAL, require_ray, run_on_ray

    require_ray()
    run = partial(run_on_ray, address=address or LOCAL)
    with os_errors_as_input_errors(out), counting_bar("rows") as tick:
        try:
            with version_warnings() as notes:
                summary = predict_parts(model, file, out, trust=trust, run=run, progress=tick, **params)
        except ClusterError as error:
            raise InputError(str(error)) from error
    return replace(summary, notes=[*notes, *summary.notes])
