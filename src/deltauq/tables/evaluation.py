"""`evaluate`: how far the predictions and the error bars of a table model hold on rows it has not seen."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import asdict, dataclass
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.stats import binom

from deltauq.tables.errors import TableError, did_you_mean, require_pandas
from deltauq.tables.io import read_frame
from deltauq.tables.judging import (
    Group,
    Judged,
    find_failing_group,
    group,
    group_by_risk,
    judge_classes,
    judge_numbers,
)
from deltauq.tables.model import TableModel
from deltauq.tables.nearest_anchor import Difference, largest_differences
from deltauq.tables.preprocessing import row_fingerprints, twin_share
from deltauq.tables.schema import (
    CATEGORY,
    DATE,
    NUMBER,
    REGRESSION,
    Column,
    dates,
    days,
    format_hint,
    kind_of,
    plain_floats,
    unusable_values,
)
from deltauq.tables.slices import Worse, cut, worst
from deltauq.tables.text_parsing import FLAGS, is_text, plain_text, read_dates, read_numbers
from deltauq.utils.filesystem import atomic_write
from deltauq.utils.formatting import short_repr

if TYPE_CHECKING:
    import pandas as pd

BATCH_ROWS = 65_536
N_UNCERTAIN = 20
TRAINING_CHANCE = 0.001
"""How improbable it must be that new rows equal training rows by chance for a warning."""


@dataclass(frozen=True)
class UncertainRow:
    """One of the rows that the model is least sure of.

    Attributes
    ----------
    row : int
        Its number in the table, from 1.
    target, prediction : float, a date in writing, or a class
    spread : float
        As in `Judged`.
    missed : bool
    apart : list of Difference
        What sets it apart from its nearest anchor, the largest first.
    """

    row: int
    target: Any
    prediction: Any
    spread: float
    missed: bool
    apart: list[Difference]

    __repr__ = short_repr


@dataclass(frozen=True)
class Evaluation:
    """What a table with known targets says of a model.

    Attributes
    ----------
    target : str
    task : {"regression", "classification"}
    model : str
        What was anchored.
    coverage : float
        What intervals or sets were to hold.
    judged : Judged
        Row by row, with the metrics and the calibration curve.
    groups : list of Group
        By decile of the spread.
    failing : int or None
        Which of the groups holds the smallest share of targets, if fewer than promised by more than chance.
    risk : dict of str to Group
        By level of risk.
    large_loss, often_missed : list of Worse
        Slices whose loss, or whose share of missed targets, is larger than elsewhere by more than chance.
    n_slices : int
        How many were looked at.
    uncertain : list of UncertainRow
        The most uncertain first.
    training_rows : int or None
        How many rows equal, in all columns and the target, one that the model was made from; None where
        the model keeps no fingerprints of these.
    notes : list of str
    """

    target: str
    task: str
    model: str
    coverage: float
    judged: Judged
    groups: list[Group]
    failing: int | None
    risk: dict[str, Group]
    large_loss: list[Worse]
    often_missed: list[Worse]
    n_slices: int
    uncertain: list[UncertainRow]
    training_rows: int | None
    notes: list[str]

    __repr__ = short_repr

    @property
    def n_rows(self) -> int:
        """How many rows were evaluated."""
        return len(self.judged.loss)

    def numbers(self) -> dict[str, Any]:
        """Return everything but the rows in plain values that JSON can hold."""
        claimed, observed = self.judged.curve
        return _plain(
            {
                "target": self.target,
                "task": self.task,
                "model": self.model,
                "rows": self.n_rows,
                "promised": self.coverage,
                "metrics": self.judged.metrics,
                "trimmed": self.judged.trimmed,
                "training_rows": self.training_rows,
                "curve": {"claimed": claimed.tolist(), "observed": observed.tolist()},
                "deciles": [asdict(part) for part in self.groups],
                "failing_decile": self.failing,
                "risk": {level: asdict(part) for level, part in self.risk.items()},
                "slices": {
                    "looked_at": self.n_slices,
                    "large_loss": [_slice_numbers(part) for part in self.large_loss],
                    "often_missed": [_slice_numbers(part) for part in self.often_missed],
                },
                "uncertain": [asdict(row) for row in self.uncertain],
                "notes": self.notes,
            }
        )

    def to_html(self, title: str = "") -> str:
        """Return a self-contained page of all this. Needs the `report` extra.

        Parameters
        ----------
        title : str, optional
            Names what was evaluated; the target and the model by default.

        Returns
        -------
        html : str
        """
        from deltauq.tables.evaluation_page import render_evaluation

        return render_evaluation(self, title or f"{self.target}, {self.model}")

    def save_html(self, path: str | PathLike[str], title: str = "") -> Path:
        """Write the page of `to_html` to a file and return its path."""
        path = Path(path)
        with atomic_write(path) as part:
            part.write_text(self.to_html(title), encoding="utf-8")
        return path


def evaluate(
    model: TableModel,
    table: Any,
    *,
    date_format: str | None = None,
    decimal: str | None = None,
    encoding: str = "utf-8",
    progress: Callable[[int, int], None] | None = None,
) -> Evaluation:
    """Compare the predictions of a table with its targets.

    Parameters
    ----------
    model : TableModel
    table : path, pandas DataFrame, or anything that speaks Arrow
        With the columns of the training table and its target: of rows that the model was not fitted to.
    date_format, decimal, encoding
        As those of `TableModel.predict`.
    progress : callable, optional
        Called with the rows predicted and the rows there are.

    Returns
    -------
    evaluation : Evaluation

    Examples
    --------
    >>> from deltauq.tables import evaluate, fit
    >>> from sklearn.datasets import load_diabetes
    >>> table = load_diabetes(as_frame=True).frame
    >>> found = evaluate(fit(table[:300], "target", model="tree"), table[300:])
    >>> found.n_rows, len(found.groups), len(found.uncertain)
    (142, 10, 20)
    """
    notes: list[str] = []
    model = model.with_formats(date_format, decimal)
    frame, _ = read_frame(table, encoding)
    X, y, numbers = _read(model, frame.reset_index(drop=True), notes)
    columns = _predict(model, X, progress)
    judged = (judge_numbers if model.task == REGRESSION else judge_classes)(model, y, columns)
    n_slices, (large_loss, often_missed) = worst(
        cut(model.schema, X), judged.loss, judged.missed.astype(np.float64)
    )
    training_rows = _count_training_rows(model, X, y, notes)
    groups = group(judged)
    return Evaluation(
        target=model.target,
        task=model.task,
        model=str(model.report.get("model", "")),
        coverage=model.coverage,
        judged=judged,
        groups=groups,
        failing=find_failing_group(groups, model.coverage),
        risk=group_by_risk(judged),
        large_loss=large_loss,
        often_missed=often_missed,
        n_slices=n_slices,
        uncertain=_most_uncertain(model, X, y, numbers, columns, judged),
        training_rows=training_rows,
        notes=notes,
    )


def _read(
    model: TableModel, frame: pd.DataFrame, notes: list[str]
) -> tuple[pd.DataFrame, np.ndarray, np.ndarray]:
    """Return the features and targets of the rows that can be judged, and their numbers in the table."""
    if model.target not in frame.columns:
        raise TableError(
            f'there is no column "{model.target}" to compare with: '
            f"{did_you_mean(model.target, map(str, frame.columns))}"
        )
    if len(frame) == 0:
        raise TableError("the table has no rows.")
    X = model.schema.read(frame)
    for name, count, first in model.schema.unseen_categories(X):
        notes.append(f'{count:,} rows have words in "{name}" that training has not met, such as "{first}".')
    column = plain_text(frame[model.target])
    kept = column.notna().to_numpy()
    if not kept.any():
        raise TableError(f"{model.target} is missing in every row.")
    if missing := int((~kept).sum()):
        notes.append(f"{missing:,} of {len(frame):,} rows were left out: {model.target} is missing there.")
    column = column[kept]
    if unusable := unusable_values(column):
        raise TableError(f"{model.target} holds {unusable}: there is nothing to compare with in them.")
    rows = np.flatnonzero(kept)
    if model.task == REGRESSION:
        if model.origin:
            notes.append(f"{model.target} is a date: errors, σ and widths are in days.")
        return X.iloc[rows].reset_index(drop=True), _target_numbers(model, column), rows + 1
    y = _target_classes(model, column)
    if unknown := int((y < 0).sum()):
        first = column[y < 0].iloc[0]
        if unknown == len(y):
            raise TableError(f'{model.target} is "{first}" in the first row, which is no class of the model.')
        notes.append(
            f"{unknown:,} of {len(frame):,} rows were left out: the model has no class "
            f'"{first}"{" or others like it" if column[y < 0].nunique() > 1 else ""}.'
        )
    return X.iloc[rows[y >= 0]].reset_index(drop=True), y[y >= 0], rows[y >= 0] + 1


def _count_training_rows(model: TableModel, X: pd.DataFrame, y: np.ndarray, notes: list[str]) -> int | None:
    """Return how many rows the model was made from, and warn if they are more than chance explains.

    Tables may repeat rows: as many as equal another row of the training table are expected among new rows.
    """
    known = model.fitted.fingerprints
    if not len(known):
        return None
    targets = y if model.task == REGRESSION else np.asarray(model.fitted.model.classes_)[y]
    n, count = len(y), int(np.isin(row_fingerprints(X, targets), known).sum())
    expected = twin_share(known)
    if count:
        note = (
            f"{count:,} of {n:,} rows ({count / n:.1%}) equal a row that the model was made from; by chance "
            f"about {expected:.1%} would, as many as are repeated there."
        )
        if binom.sf(count - 1, n, expected) < TRAINING_CHANCE:
            note = f"Warning: {note} New rows may have larger errors and a smaller coverage."
        notes.insert(0, note)
    return count


def _target_numbers(model: TableModel, column: pd.Series) -> np.ndarray:
    """Return the targets of a regression, of shape (n,): dates in days since the origin."""
    origin = model.origin
    if is_text(column):
        column = _read_text(
            Column(model.target, DATE if origin else NUMBER, format=model.target_format), column
        )
    kind = kind_of(column)
    if origin and kind != DATE:
        raise TableError(f'{column.name} holds "{column.iloc[0]}", where dates are due.')
    if origin:
        return days(column, origin).to_numpy()
    if kind == CATEGORY:
        raise TableError(f'{column.name} holds "{column.iloc[0]}", where numbers are due.')
    if kind == DATE:
        raise TableError(f"{column.name} holds dates, where numbers are due.")
    y = (plain_floats(column) if kind == NUMBER else days(column)).to_numpy()
    if not np.all(np.isfinite(y)):
        raise TableError(f"{column.name} has infinite values.")
    return y


def _read_text(column: Column, values: pd.Series) -> pd.Series:
    """Return the numbers or dates in a column of text, or refuse the first value that is none."""
    read = (read_dates if column.kind == DATE else read_numbers)(values, column.format)
    if read.isna().any():
        first = values[read.isna()].iloc[0]
        raise TableError(
            f'{column.name} holds "{first}", where {column.kind}s are due{format_hint(column, first)}.'
        )
    return read


def _target_classes(model: TableModel, column: pd.Series) -> np.ndarray:
    """Return which class of the model each target is, of shape (n,), and -1 for one that it does not have."""
    known = {name: k for k, name in enumerate(model.classes)}
    if model.labels in ("int64", "float64"):
        values = _class_numbers(read_numbers(column, model.target_format) if is_text(column) else column)
    elif model.labels == "bool":
        values = [FLAGS.get(str(value).strip().lower()) for value in column]
    else:
        values = column.astype(str).tolist()
    return np.array([known.get(value, -1) for value in values])


def _class_numbers(column: pd.Series) -> list[Any]:
    """Return classes that are numbers; what is none of them stays text, and is found nowhere."""
    if require_pandas().api.types.is_integer_dtype(column):
        # Not by way of floats, which do not tell large ones apart.
        return [int(value) for value in column]
    # Gaps make floats of integers, and 2.0 is found as 2.
    return (plain_floats(column) if kind_of(column) == NUMBER else column.astype(str)).tolist()


def _predict(
    model: TableModel, X: pd.DataFrame, progress: Callable[[int, int], None] | None
) -> dict[str, Any]:
    """Return the columns of all rows, predicted in batches so that progress can be told."""
    parts = []
    for start in range(0, len(X), BATCH_ROWS):
        rows = X.iloc[start : start + BATCH_ROWS].reset_index(drop=True)
        parts.append(model.predict_columns(rows))
        if progress is not None:
            progress(start + len(rows), len(X))
    if len(parts) == 1:
        return parts[0]
    return {
        name: np.concatenate([part[name] for part in parts])
        if isinstance(parts[0][name], np.ndarray)
        else [value for part in parts for value in part[name]]
        for name in parts[0]
    }


def _most_uncertain(
    model: TableModel,
    X: pd.DataFrame,
    y: np.ndarray,
    numbers: np.ndarray,
    columns: dict[str, Any],
    judged: Judged,
) -> list[UncertainRow]:
    rows = np.argsort(-judged.spread, kind="stable")[:N_UNCERTAIN]
    classes = model.classes

    def told(value: float) -> float | str:
        if not model.origin:
            return float(value)
        return str(np.datetime_as_string(dates(np.array(value), model.origin), unit="m"))

    return [
        UncertainRow(
            row=int(numbers[k]),
            target=classes[y[k]] if classes else told(y[k]),
            prediction=columns["prediction"][k] if classes else told(columns["prediction"][k]),
            spread=float(judged.spread[k]),
            missed=bool(judged.missed[k]),
            apart=apart,
        )
        for k, apart in zip(rows, largest_differences(model, X, rows), strict=True)
    ]


def _slice_numbers(part: Worse) -> dict[str, Any]:
    return {
        "slice": part.name,
        "rows": part.rows,
        "inside": part.loss,
        "elsewhere": part.elsewhere,
    }


def _plain(value: Any) -> Any:
    """Return a value with None for what is no finite number, which JSON does not know."""
    if isinstance(value, dict):
        return {name: _plain(part) for name, part in value.items()}
    if isinstance(value, list):
        return [_plain(part) for part in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
