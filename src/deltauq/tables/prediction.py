"""From a table file to a file of predictions in batches: memory does not depend on the size of the file."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from typing import Any

from deltauq.tables.errors import TableError, did_you_mean
from deltauq.tables.io import TableStream, Writer, open_table, output_format, to_frame
from deltauq.tables.model import TableModel, quantile_name
from deltauq.tables.risk import RISK_LEVELS
from deltauq.tables.schema import unseen_note
from deltauq.utils.filesystem import atomic_write

BATCH_ROWS = 65_536


@dataclass(frozen=True)
class PredictionSummary:
    """The counts of `predict_file`.

    Attributes
    ----------
    rows : int
        The number of predicted rows.
    risk : dict
        The number of rows with each level of risk.
    notes : list of str
        Columns and categories of the table that the model was not trained on.
    """

    rows: int
    risk: dict[str, int]
    notes: list[str]


@dataclass
class Tally:
    """Running counts for the summary of a table, or of a part of it."""

    rows: int = 0
    risk: Counter[str] = field(default_factory=Counter)
    """The number of rows with each level of risk."""
    unseen: Counter[str] = field(default_factory=Counter)
    """For each column, the number of rows with unseen categories."""
    first: dict[str, str] = field(default_factory=dict)
    """For each column, the first unseen category."""
    ignored: list[str] = field(default_factory=list)
    """Columns that the model was not trained on."""

    def add(self, other: Tally) -> None:
        """Add the counts of the rows that follow these."""
        self.rows += other.rows
        self.risk.update(other.risk)
        self.unseen.update(other.unseen)
        self.first = {**other.first, **self.first}
        self.ignored = list(dict.fromkeys([*self.ignored, *other.ignored]))

    def to_dict(self) -> dict[str, Any]:
        """Return the counts as JSON supports them."""
        return dict(vars(self))

    @classmethod
    def from_dict(cls, counts: dict[str, Any]) -> Tally:
        """Return the tally of which `to_dict` returned the counts."""
        return cls(**{**counts, "risk": Counter(counts["risk"]), "unseen": Counter(counts["unseen"])})

    def summary(self) -> PredictionSummary:
        """Return the summary of these rows."""
        notes = [_ignored_note(self.ignored)] if self.ignored else []
        notes += [unseen_note(name, count, self.first[name]) for name, count in self.unseen.items()]
        return PredictionSummary(self.rows, {level: self.risk[level] for level in RISK_LEVELS}, notes)


def predict_file(
    model: TableModel,
    source: str | PathLike[str],
    out: str | PathLike[str],
    *,
    keep: Sequence[str] = (),
    coverage: float | None = None,
    quantiles: Sequence[float] = (),
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
        A CSV (possibly compressed), Parquet or Arrow file.
    out : path
        The file to write. Its name determines the format: CSV (also ``.gz``), Parquet or Arrow.
    keep : sequence of str
        Columns of the source to copy to the output, before the predictions. Those of a CSV file are text.
    coverage : float, optional
        Nominal coverage. The default is the coverage that the model was fitted with.
    quantiles : sequence of float, optional
        Levels of quantiles to write as well, as for `TableModel.predict_quantiles`.
    strict : bool, default=False
        Whether columns and categories that the model was not trained on raise an error instead of a note.
    date_format, decimal, encoding
        As for `TableModel.predict`.
    batch_rows : int, default=65536
        The largest number of rows in memory.
    progress : callable, optional
        Called with the number of predicted rows and of all rows, if the file contains it, or None.

    Returns
    -------
    summary : PredictionSummary
    """
    source, out = Path(source), Path(out)
    coverage = model.coverage if coverage is None else coverage
    model.check_coverage(coverage)
    model.check_levels(quantiles)
    check_output(out)
    model = model.with_formats(date_format, decimal)
    if out.exists() and source.exists() and out.samefile(source):
        raise TableError(f"{out} is the table itself: name another output.")
    with open_table(source, batch_rows, encoding) as stream:
        tally = predict_stream(
            model,
            stream,
            source,
            out,
            keep=keep,
            coverage=coverage,
            quantiles=quantiles,
            strict=strict,
            progress=progress,
        )
    return tally.summary()


def predict_stream(
    model: TableModel,
    stream: TableStream,
    source: str | PathLike[str],
    out: Path,
    *,
    keep: Sequence[str],
    coverage: float,
    quantiles: Sequence[float] = (),
    strict: bool,
    progress: Callable[[int, int | None], None] | None = None,
    metadata: Callable[[Tally], dict[str, str]] | None = None,
) -> Tally:
    """Predict the rows of an open table, or of a part of one, into a file that appears when it is complete.

    The parameters are those of `predict_file`; `source` is the name of the table in errors, and `metadata`
    a function of the tally whose result is stored in the file, which must be Parquet.
    """
    check_columns(model, stream, keep, strict, quantiles)
    tally = Tally(ignored=_ignored(model, stream, keep))
    with atomic_write(out) as part, Writer(part, out) as writer:
        for batch in stream.batches:
            kept = writer.keep(batch.select(list(keep)))
            frame = to_frame(batch.select(model.schema.names))
            X = model.schema.read(frame, stream.first_row + tally.rows)
            for name, count, first in model.schema.unseen_categories(X):
                if strict:
                    raise TableError(unseen_note(name, count, first))
                tally.unseen[name] += count
                tally.first.setdefault(name, first)
            columns = model.predict_columns(X, coverage, quantiles)
            writer.write(kept, model.decode_dates(columns))
            tally.risk.update(columns["risk"])
            tally.rows += batch.num_rows
            if progress is not None:
                progress(tally.rows, stream.n_rows)
        if tally.rows == 0:
            raise TableError(f"{source} has no rows.")
        if metadata is not None:
            writer.add_metadata(metadata(tally))
    return tally


def check_output(out: Path) -> None:
    """Raise an error for a file name that does not determine a format."""
    if output_format(out) is None:
        raise TableError(f"cannot write {out}: its name must end in .parquet, .arrow, .csv or .csv.gz.")


def check_columns(
    model: TableModel,
    stream: TableStream,
    keep: Sequence[str],
    strict: bool,
    quantiles: Sequence[float] = (),
) -> None:
    """Raise an error for a missing column and, if strict, for columns that the model was not trained on."""
    model.schema.require_columns(stream.names)
    outputs = ["prediction", "std", "lower", "upper", "risk", *map(quantile_name, quantiles)]
    if model.classes:
        classes = [f"{prefix}_{name}" for name in model.classes for prefix in ("probability", "std")]
        outputs = ["prediction", *classes, "set", "risk"]
    for name, count in Counter(keep).items():
        if name not in stream.names:
            raise TableError(f'there is no column "{name}" to keep: {did_you_mean(name, stream.names)}')
        if name in outputs:
            raise TableError(f'"{name}" cannot be kept: a column of the output has that name.')
        if count > 1:
            raise TableError(f'"{name}" cannot be kept twice.')
    if strict and (ignored := _ignored(model, stream, keep)):
        raise TableError(_ignored_note(ignored))


def _ignored(model: TableModel, stream: TableStream, keep: Sequence[str]) -> list[str]:
    known = {*model.schema.names, model.target, *keep, *model.report.get("left_out", [])}
    return [name for name in stream.names if name not in known]


def _ignored_note(names: Sequence[str]) -> str:
    listed = ", ".join(names[:10]) + (", …" if len(names) > 10 else "")
    return f"Columns that the model was not trained on: {listed}."
