"""From a table file to a file of predictions, batch by batch: memory does not grow with the file."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from deltauq.tables.errors import TableError, did_you_mean
from deltauq.tables.io import TableStream, Writer, is_output, open_table, to_frame
from deltauq.tables.model import RISK_LEVELS, TableModel
from deltauq.utils.filesystem import atomic_write

if TYPE_CHECKING:
    import pyarrow as pa

BATCH_ROWS = 65_536


@dataclass(frozen=True)
class PredictionSummary:
    """What was predicted.

    Attributes
    ----------
    rows : int
    risk : dict
        Rows of each level of risk.
    notes : list of str
        What of the table the model did not know.
    """

    rows: int
    risk: dict[str, int]
    notes: list[str]


@dataclass
class Tally:
    """Counts what is told at the end, of a whole table or of parts of it.

    Attributes
    ----------
    rows : int
    risk : Counter
        Rows of each level of risk.
    new : Counter
        By column, rows with words that training has not met.
    first : dict
        By column, the first of these words.
    ignored : list of str
        Columns that the model was not trained on.
    """

    rows: int = 0
    risk: Counter[str] = field(default_factory=Counter)
    new: Counter[str] = field(default_factory=Counter)
    first: dict[str, str] = field(default_factory=dict)
    ignored: list[str] = field(default_factory=list)

    def add(self, other: Tally) -> None:
        """Add what was counted of rows that follow these."""
        self.rows += other.rows
        self.risk.update(other.risk)
        self.new.update(other.new)
        self.first = {**other.first, **self.first}
        self.ignored = list(dict.fromkeys([*self.ignored, *other.ignored]))

    def plain(self) -> dict[str, Any]:
        """Return the counts as JSON can say them."""
        return dict(vars(self))

    @classmethod
    def read(cls, plain: dict[str, Any]) -> Tally:
        """Return what `plain` gave."""
        return cls(**{**plain, "risk": Counter(plain["risk"]), "new": Counter(plain["new"])})

    def predicted(self) -> PredictionSummary:
        """Return what is told of these rows."""
        risk = {level: self.risk[level] for level in RISK_LEVELS}
        words = [
            f'{count:,} rows have words in "{name}" that training has not met, such as "{self.first[name]}".'
            for name, count in self.new.items()
        ]
        return PredictionSummary(self.rows, risk, _ignored_note(self.ignored) + words)


def predict_file(
    model: TableModel,
    source: str | PathLike[str],
    out: str | PathLike[str],
    *,
    keep: Sequence[str] = (),
    coverage: float | None = None,
    strict: bool = False,
    date_format: str | None = None,
    decimal: str | None = None,
    encoding: str = "utf-8",
    batch_rows: int = BATCH_ROWS,
    progress: Callable[[int, int | None], None] | None = None,
) -> PredictionSummary:
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
    date_format, decimal, encoding
        As those of `TableModel.predict`.
    batch_rows : int, default=65536
    progress : callable, optional
        Called with the rows done and, where the file says, the rows there are.

    Returns
    -------
    predicted : PredictionSummary
    """
    source, out = Path(source), Path(out)
    coverage = model.coverage if coverage is None else coverage
    model.check_coverage(coverage)
    check_output(out)
    model = model.with_formats(date_format, decimal)
    if out.exists() and source.exists() and out.samefile(source):
        raise TableError(f"{out} is the table itself: name another output.")
    with open_table(source, batch_rows, encoding) as stream:
        tally = predict_stream(
            model, stream, source, out, keep=keep, coverage=coverage, strict=strict, progress=progress
        )
    return tally.predicted()


def predict_stream(
    model: TableModel,
    stream: TableStream,
    source: str | PathLike[str],
    out: Path,
    *,
    keep: Sequence[str],
    coverage: float,
    strict: bool,
    progress: Callable[[int, int | None], None] | None = None,
    footer: Callable[[Tally], dict[str, str]] | None = None,
) -> Tally:
    """Predict the rows of an open table, or of a part of one, into a file that appears when it is complete.

    Parameters
    ----------
    model : TableModel
    stream : TableStream
    source : path
        What it is of, for complaints.
    out : Path
    keep, coverage, strict, progress
        As those of `predict_file`.
    footer : callable, optional
        From the counts to what the file is to say of itself; for Parquet files.

    Returns
    -------
    tally : Tally
    """
    check_columns(model, stream, keep, strict)
    tally = Tally(ignored=_ignored(model, stream, keep))
    with ExitStack() as stack:
        part = stack.enter_context(atomic_write(out))
        writer = stack.enter_context(Writer(part, out))
        for batch in stream.batches:
            first_row = stream.first_row + tally.rows
            kept = writer.keep(batch.select(list(keep)))
            columns = _predict_batch(model, batch, coverage, strict, first_row, tally)
            writer.write(kept, columns)
            tally.rows += batch.num_rows
            if progress is not None:
                progress(tally.rows, stream.n_rows)
        if tally.rows == 0:
            raise TableError(f"{source} has no rows.")
        if footer is not None:
            writer.describe(footer(tally))
        writer.close()
    return tally


def check_output(out: Path) -> None:
    """Refuse a name that says nothing of the format, before any work is done."""
    if not is_output(out):
        raise TableError(f"cannot write {out}: its name must end in .parquet, .arrow, .csv or .csv.gz.")


def check_columns(model: TableModel, stream: TableStream, keep: Sequence[str], strict: bool) -> None:
    """Refuse a table without a column that is needed, or, if strict, with others that are unknown."""
    model.schema.require_columns(stream.names)
    for name in keep:
        if name not in stream.names:
            raise TableError(f'there is no column "{name}" to keep: {did_you_mean(name, stream.names)}')
    outputs = _output_names(model)
    if clash := [name for name in keep if name in outputs]:
        raise TableError(f'"{clash[0]}" cannot be kept: a column of the output has that name.')
    if repeated := [name for name, count in Counter(keep).items() if count > 1]:
        raise TableError(f'"{repeated[0]}" is to be kept twice.')
    if strict and (notes := _ignored_note(_ignored(model, stream, keep))):
        raise TableError(notes[0])


def _ignored(model: TableModel, stream: TableStream, keep: Sequence[str]) -> list[str]:
    known = {*model.schema.names, model.target, *keep}
    return [name for name in stream.names if name not in known]


def _ignored_note(extra: Sequence[str]) -> list[str]:
    listed = ", ".join(extra[:10]) + (", …" if len(extra) > 10 else "")
    return [f"Columns that the model was not trained on: {listed}."] if extra else []


def _output_names(model: TableModel) -> list[str]:
    if not model.classes:
        return ["prediction", "std", "lower", "upper", "risk"]
    classes = [f"{word}_{name}" for name in model.classes for word in ("probability", "std")]
    return ["prediction", *classes, "set", "risk"]


def _predict_batch(
    model: TableModel,
    batch: pa.RecordBatch,
    coverage: float,
    strict: bool,
    first_row: int,
    tally: Tally,
) -> dict[str, Any]:
    X = model.schema.read(to_frame(batch.select(model.schema.names)), first_row)
    for name, count, first in model.schema.unseen_categories(X):
        tally.new[name] += count
        tally.first.setdefault(name, first)
        if strict:
            raise TableError(f'the column "{name}" holds "{first}", which training has not met.')
    columns = model.predict_columns(X, coverage)
    tally.risk.update(columns["risk"])
    return model.decode_dates(columns)
