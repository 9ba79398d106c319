"""`deltauq predict`."""

import json
import warnings
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from deltauq.cli.backend import Backend, backend_options, chosen_run
from deltauq.cli.complaints import BadInput, check_writable, complaint_about, told_in_one_line
from deltauq.cli.reading import DecimalMark, chosen_reading, reading_options
from deltauq.utils.progress import counting_bar

if TYPE_CHECKING:
    from deltauq.distributed.running import Run
    from deltauq.tables import PredictionSummary


def register(app: Any) -> None:
    """Add the command to the app."""
    import typer

    where, at = backend_options()
    dates, decimals, encodings = reading_options()

    @app.command()
    def predict(
        model: Annotated[Path, typer.Argument(help="A model folder that `deltauq fit` wrote.")],
        file: Annotated[
            str,
            typer.Argument(help="A table: CSV (also .gz), Parquet or Arrow; on Ray also a URL or a pattern."),
        ],
        out: Annotated[
            str,
            typer.Option("--out", "-o", help="The file to write, of these formats too; on Ray a folder."),
        ],
        keep: Annotated[
            list[str] | None, typer.Option(help="A column of the table to keep; may be given repeatedly.")
        ] = None,
        coverage: Annotated[
            float | None, typer.Option(help="The share of targets that intervals hold, if not the model's.")
        ] = None,
        strict: Annotated[
            bool, typer.Option("--strict", help="Refuse columns and words that training has not met.")
        ] = False,
        trust: Annotated[
            list[str] | None, typer.Option(help="A type of your own that the model may hold, by full name.")
        ] = None,
        date_format: Annotated[str | None, dates] = None,
        decimal: Annotated[DecimalMark | None, decimals] = None,
        encoding: Annotated[str, encodings] = "utf-8",
        backend: Annotated[Backend, where] = Backend.local,
        address: Annotated[str | None, at] = None,
        as_json: Annotated[bool, typer.Option("--json", help="Print the counts as JSON.")] = False,
    ) -> None:
        """Predict the rows of a table: prediction, std, interval and risk, or probabilities and set."""
        words = {
            "keep": keep or [],
            "coverage": coverage,
            "strict": strict,
            **chosen_reading(date_format, decimal, encoding),
        }
        run = chosen_run(backend, address)
        if run is None:
            _check_plain(file, out)
            done = run_predict(model, Path(file), Path(out), words, trust or [])
        else:
            done = run_predict_parts(model, file, out, words, trust or [], run)
        place = out if "://" in out else str(Path(out).resolve())
        if as_json:
            print(json.dumps({**vars(done), "out": place}))
            return
        for note in done.notes:
            print(note)
        levels = ", ".join(f"{level} {count:,}" for level, count in done.risk.items())
        print(f"{done.rows:,} rows{f'; risk: {levels}' if levels else ''}.")
        print(f"Predictions: {place}")


def _check_plain(file: str, out: str) -> None:
    """Refuse, without Ray, what only Ray's way can read or write."""
    if any(word in file for word in ("*", "?", "://")) and not Path(file).exists():
        raise BadInput(f"{file} does not exist: patterns and URLs need --backend ray")
    if "://" in out:
        raise BadInput(f"cannot write {out}: URLs need --backend ray")


def run_predict(
    model: Path, file: Path, out: Path, words: dict[str, Any], trust: list[str]
) -> "PredictionSummary":
    """Predict a file into a file, with a progress bar.

    Parameters
    ----------
    model : Path
        The model folder.
    file, out : Path
    words : dict
        Further arguments for `deltauq.tables.predict_file`.
    trust : list of str
        Further types that the model may hold.

    Returns
    -------
    predicted : PredictionSummary
    """
    from deltauq.tables import load, predict_file
    from deltauq.tables.prediction import check_output

    check_writable(out)
    with told_in_one_line(), complaint_about(out), counting_bar("rows") as tick:
        check_output(out)
        with warnings.catch_warnings(record=True) as warned:
            loaded = load(model, trust)
        done = predict_file(loaded, file, out, progress=tick, **words)
    return replace(done, notes=[*(str(warning.message) for warning in warned), *done.notes])


def run_predict_parts(
    model: Path, source: str, out: str, words: dict[str, Any], trust: list[str], run: "Run"
) -> "PredictionSummary":
    """Predict many files into a folder, with a progress bar.

    Parameters
    ----------
    model : Path
        The model folder.
    source, out : str
        Paths or URLs.
    words : dict
        Further arguments for `deltauq.distributed.predict_parts`.
    trust : list of str
        Further types that the model may hold.
    run : callable
        Where parts are run.

    Returns
    -------
    predicted : PredictionSummary
    """
    from deltauq.distributed import ClusterError, predict_parts

    with told_in_one_line(), counting_bar("rows") as tick:
        try:
            with warnings.catch_warnings(record=True) as warned:
                done = predict_parts(model, source, out, trust=trust, run=run, progress=tick, **words)
        except ClusterError as error:
            raise BadInput(str(error)) from error
        except OSError as error:
            raise BadInput(f"cannot write {out}: {error.strerror or error}") from error
    notes = (str(warning.message) for warning in warned if warning.category is UserWarning)
    return replace(done, notes=[*notes, *done.notes])
