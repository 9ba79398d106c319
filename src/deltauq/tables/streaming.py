"""From a table file to a file of predictions, batch by batch: memory does not grow with the file."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from deltauq.data.files import written_whole
from deltauq.tables.errors import TableError, did_you_mean, require_pyarrow
from deltauq.tables.files import ARROW, PARQUET, TableStream, open_table
from deltauq.tables.model import TableModel
from deltauq.tables.rights import give_usual_rights
from deltauq.tables.risk import LEVELS

if TYPE_CHECKING:
    import pyarrow as pa

BATCH_ROWS = 65_536
CSV = (".csv", ".tsv", ".txt")


@dataclass(frozen=True)
class Predicted:
    """What was predicted.

    Attributes
    ----------
    rows : int
    risk : dict
        Rows of each level of risk, of a regression.
    notes : list of str
        What of the table the model did not know.
    """

    rows: int
    risk: dict[str, int]
    notes: list[str]


def predict_file(
    model: TableModel,
    source: str | PathLike[str],
    out: str | PathLike[str],
    *,
    keep: Sequence[str] = (),
    coverage: float | None = None,
    strict: bool = False,
    batch_rows: int = BATCH_ROWS,
    progress: Callable[[int, int | None], None] | None = None,
) -> Predicted:
    """Predict every row of a table file; the output appears under its name only when it is complete.

    Parameters
    ----------
    model : TableModel
    source : path
        CSV (possibly packed), Parquet or Arrow.
    out : path
        CSV (also ``.gz``), Parquet or Arrow, by its name.
    keep : sequence of str
        Columns of the source that the output begins with, as they are: text if the source is CSV.
    coverage : float, optional
        Instead of the model's own.
    strict : bool, default=False
        Whether columns and words that the model was not trained on are refused instead of noted.
    batch_rows : int, default=65536
    progress : callable, optional
        Called with the rows done and, where the file says, the rows there are.

    Returns
    -------
    predicted : Predicted
    """
    source, out = Path(source), Path(out)
    coverage = model.coverage if coverage is None else coverage
    _check_coverage(model, coverage)
    check_output(out)
    if out.exists() and source.exists() and out.samefile(source):
        raise TableError(f"{out} is the table itself: name another output.")
    with ExitStack() as stack:
        stream = stack.enter_context(open_table(source, batch_rows))
        _check_columns(model, stream, keep, strict)
        part = stack.enter_context(written_whole(out))
        writer = stack.enter_context(_Writer(part, out))
        told = _Told()
        for batch in stream.batches:
            columns = _predict_batch(model, batch, stream.commas, coverage, strict, told)
            writer.write(batch.select(list(keep)), columns)
            told.rows += batch.num_rows
            if progress is not None:
                progress(told.rows, stream.n_rows)
        if told.rows == 0:
            raise TableError(f"{source} has no rows.")
        writer.close()
        give_usual_rights(part)
    risk = {level: told.risk[level] for level in LEVELS} if model.risk is not None else {}
    return Predicted(told.rows, risk, _ignored(model, stream, keep) + told.notes())


def check_output(out: Path) -> None:
    """Refuse a name that says nothing of the format, before any work is done."""
    if out.suffix.lower() not in (*PARQUET, *ARROW, *CSV) and _inner(out) not in CSV:
        raise TableError(f"cannot write {out}: its name must end in .parquet, .arrow, .csv or .csv.gz.")


def _check_coverage(model: TableModel, coverage: float) -> None:
    """Refuse a coverage that the held-out rows cannot promise."""
    if not 0.0 < coverage < 1.0:
        raise TableError(f"coverage must lie between 0 and 1, got {coverage:g}.")
    n = len(model.fitted.scores)
    if (n + 1) * coverage > n + 1e-9:
        raise TableError(
            f"a coverage of {coverage:g} cannot be promised from {n:,} held-out rows: {n / (n + 1):.3g} can."
        )


class _Told:
    """Counts what is told at the end."""

    def __init__(self) -> None:
        self.rows = 0
        self.risk: Counter[str] = Counter()
        self.new: Counter[str] = Counter()
        self.first: dict[str, str] = {}

    def notes(self) -> list[str]:
        return [
            f'{count:,} rows have words in "{name}" that training has not met, such as "{self.first[name]}".'
            for name, count in self.new.items()
        ]


def _check_columns(model: TableModel, stream: TableStream, keep: Sequence[str], strict: bool) -> None:
    model.schema.require_columns(stream.names)
    for name in keep:
        if name not in stream.names:
            raise TableError(f'there is no column "{name}" to keep: {did_you_mean(name, stream.names)}')
    outputs = _output_names(model)
    if clash := [name for name in keep if name in outputs]:
        raise TableError(f'"{clash[0]}" cannot be kept: a column of the output has that name.')
    if repeated := [name for name, count in Counter(keep).items() if count > 1]:
        raise TableError(f'"{repeated[0]}" is to be kept twice.')
    if strict and (notes := _ignored(model, stream, keep)):
        raise TableError(notes[0])


def _ignored(model: TableModel, stream: TableStream, keep: Sequence[str]) -> list[str]:
    known = {*model.schema.names, model.target, *keep}
    extra = [name for name in stream.names if name not in known]
    listed = ", ".join(extra[:10]) + (", …" if len(extra) > 10 else "")
    return [f"Columns that the model was not trained on: {listed}."] if extra else []


def _output_names(model: TableModel) -> list[str]:
    if model.risk is not None:
        return ["prediction", "std", "lower", "upper", "risk"]
    classes = [f"{word}_{name}" for name in model.classes for word in ("probability", "std")]
    return ["prediction", *classes, "set"]


def _predict_batch(
    model: TableModel, batch: pa.RecordBatch, commas: bool, coverage: float, strict: bool, told: _Told
) -> dict[str, Any]:
    X = model.schema.read(batch.select(model.schema.names).to_pandas(), commas, told.rows)
    for name, count, first in model.schema.new_words(X):
        told.new[name] += count
        told.first.setdefault(name, first)
        if strict:
            raise TableError(f'the column "{name}" holds "{first}", which training has not met.')
    columns = model.predict_columns(X, coverage)
    told.risk.update(columns.get("risk", ()))
    return columns


class _Writer:
    """Writes batches to a file, in the format that the final name asks for."""

    def __init__(self, part: Path, out: Path) -> None:
        self._part, self._out = part, out
        self._stack = ExitStack()
        self._writer: Any = None

    def __enter__(self) -> _Writer:
        return self

    def __exit__(self, *error: object) -> None:
        self._stack.close()

    def close(self) -> None:
        """Finish the file."""
        self._stack.close()

    def write(self, kept: pa.RecordBatch, columns: dict[str, Any]) -> None:
        """Add the rows of a batch: columns that are kept, then those of the predictions."""
        pa = require_pyarrow()
        is_text = self._out.suffix.lower() not in (*PARQUET, *ARROW)
        if is_text and "set" in columns:
            columns = {**columns, "set": [json.dumps(row, ensure_ascii=False) for row in columns["set"]]}
        arrays = [*kept.columns, *(pa.array(values) for values in columns.values())]
        batch = pa.RecordBatch.from_arrays(arrays, names=[*kept.schema.names, *columns])
        if self._writer is None:
            self._writer = self._stack.enter_context(_open_writer(self._part, self._out, batch.schema))
        self._writer.write_batch(batch)


@contextmanager
def _open_writer(part: Path, out: Path, schema: Any) -> Iterator[Any]:
    pa = require_pyarrow()
    if out.suffix.lower() in PARQUET:
        from pyarrow import parquet

        with parquet.ParquetWriter(part, schema) as writer:
            yield writer
    elif out.suffix.lower() in ARROW:
        with pa.OSFile(str(part), "wb") as file, pa.ipc.new_file(file, schema) as writer:
            yield writer
    else:
        from pyarrow import csv

        packed = "gzip" if out.suffix.lower() == ".gz" else None
        options = csv.WriteOptions(delimiter="\t" if _inner(out) == ".tsv" or out.suffix == ".tsv" else ",")
        with (
            pa.output_stream(str(part), compression=packed) as file,
            csv.CSVWriter(file, schema, write_options=options) as writer,
        ):
            yield writer


def _inner(out: Path) -> str:
    """Return what stands before ``.gz``."""
    return Path(out.stem).suffix.lower() if out.suffix.lower() == ".gz" else ""
