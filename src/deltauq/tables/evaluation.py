"""`evaluate`: how far the predictions and the error bars of a table model hold on rows it has not seen."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import asdict, dataclass
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from deltauq.data.files import written_whole
from deltauq.tables.apart import Difference, set_apart
from deltauq.tables.errors import TableError, did_you_mean, require_pandas
from deltauq.tables.files import read_frame
from deltauq.tables.judging import Group, Judged, group, judge_classes, judge_numbers
from deltauq.tables.model import TableModel
from deltauq.tables.problem import REGRESSION
from deltauq.tables.rights import give_usual_rights
from deltauq.tables.schema import DATE, NUMBER, WORD, dates, days, kind_of, plain_floats, unusable_values
from deltauq.tables.slices import Worse, cut, worst
from deltauq.tables.text import FLAGS

if TYPE_CHECKING:
    import pandas as pd

BATCH_ROWS = 65_536
N_UNCERTAIN = 20


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
    large_loss, often_missed : list of Worse
        Slices whose loss, or whose share of missed targets, is larger than elsewhere by more than chance.
    n_slices : int
        How many were looked at.
    uncertain : list of UncertainRow
        The most uncertain first.
    notes : list of str
    """

    target: str
    task: str
    model: str
    coverage: float
    judged: Judged
    groups: list[Group]
    large_loss: list[Worse]
    often_missed: list[Worse]
    n_slices: int
    uncertain: list[UncertainRow]
    notes: list[str]

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
                "curve": {"claimed": claimed.tolist(), "observed": observed.tolist()},
                "deciles": [asdict(part) for part in self.groups],
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
        with written_whole(path) as part:
            part.write_text(self.to_html(title), encoding="utf-8")
            give_usual_rights(part)
        return path


def evaluate(
    model: TableModel,
    table: Any,
    *,
    progress: Callable[[int, int], None] | None = None,
) -> Evaluation:
    """Compare the predictions of a table with its targets.

    Parameters
    ----------
    model : TableModel
    table : path, pandas DataFrame, or anything that speaks Arrow
        With the columns of the training table and its target: of rows that the model was not fitted to.
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
    frame, _ = read_frame(table)
    X, y, numbers = _read(model, frame.reset_index(drop=True), notes)
    columns = _predict(model, X, progress)
    judged = (judge_numbers if model.task == REGRESSION else judge_classes)(model, y, columns)
    n_slices, (large_loss, often_missed) = worst(
        cut(model.schema, X), judged.loss, judged.missed.astype(np.float64)
    )
    return Evaluation(
        target=model.target,
        task=model.task,
        model=str(model.report.get("model", "")),
        coverage=model.coverage,
        judged=judged,
        groups=group(judged),
        large_loss=large_loss,
        often_missed=often_missed,
        n_slices=n_slices,
        uncertain=_most_uncertain(model, X, y, numbers, columns, judged),
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
    for name, count, first in model.schema.new_words(X):
        notes.append(f'{count:,} rows have words in "{name}" that training has not met, such as "{first}".')
    kept = frame[model.target].notna().to_numpy()
    if not kept.any():
        raise TableError(f"{model.target} is missing in every row.")
    if missing := int((~kept).sum()):
        notes.append(f"{missing:,} of {len(frame):,} rows were left out: {model.target} is missing there.")
    column = frame[model.target][kept]
    if unusable := unusable_values(column):
        raise TableError(f"{model.target} holds {unusable}: there is nothing to compare with in them.")
    rows = np.flatnonzero(kept)
    if model.task == REGRESSION:
        if model.origin:
            notes.append(f"{model.target} is a date: errors, σ and widths are in days.")
        return X.iloc[rows].reset_index(drop=True), _target_numbers(column, model.origin), rows + 1
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


def _target_numbers(column: pd.Series, origin: str) -> np.ndarray:
    """Return the targets of a regression, of shape (n,): dates in days since the origin."""
    kind = kind_of(column)
    if origin and kind != DATE:
        raise TableError(f'{column.name} holds "{column.iloc[0]}", where dates are due.')
    if origin:
        return days(column, origin).to_numpy()
    if kind == WORD:
        raise TableError(f'{column.name} holds "{column.iloc[0]}", where numbers are due.')
    if kind == DATE:
        raise TableError(f"{column.name} holds dates, where numbers are due.")
    y = (plain_floats(column) if kind == NUMBER else days(column)).to_numpy()
    if not np.all(np.isfinite(y)):
        raise TableError(f"{column.name} has infinite values.")
    return y


def _target_classes(model: TableModel, column: pd.Series) -> np.ndarray:
    """Return which class of the model each target is, of shape (n,), and -1 for one that it does not have."""
    known = {name: k for k, name in enumerate(model.classes)}
    if model.labels in ("int64", "float64"):
        values = _class_numbers(column)
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
        for k, apart in zip(rows, set_apart(model, X, rows), strict=True)
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
