"""The user's table, parted into features and target, or refused in one line."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from deltauq.tables.errors import TableError, did_you_mean, require_pandas
from deltauq.tables.files import read_frame
from deltauq.tables.schema import (
    DATE,
    NUMBER,
    WORD,
    Schema,
    days,
    first_stamp,
    kind_of,
    learn_schema,
    plain_floats,
    unusable_values,
)

if TYPE_CHECKING:
    import pandas as pd

REGRESSION, CLASSIFICATION = "regression", "classification"
TASKS = ("auto", REGRESSION, CLASSIFICATION)
FEW_VALUES = 10
"""Whole numbers with no more different values than this are taken for classes."""
LARGEST_CLASS = 2**63 - 1
"""Classes that are larger whole numbers are written as words."""
LARGEST_TARGET = 1e300
"""An interval around anything larger may leave the range of numbers."""


@dataclass(frozen=True)
class UserTable:
    """A table that is ready to be learnt from.

    Attributes
    ----------
    X : DataFrame of shape (n, d)
        Numbers, with NaN where they are missing, and strings.
    y : array of shape (n,)
        Floats, or strings.
    task : {"regression", "classification"}
    schema : Schema
        What the columns of X were made from.
    labels : {"string", "int64", "float64", "bool"}
        What classes were before they became strings.
    origin : str
        Of dates as targets of a regression, the ISO timestamp that days are counted from.
    notes : list of str
        What was left out or decided on the way.
    """

    X: pd.DataFrame
    y: np.ndarray
    task: str
    schema: Schema
    labels: str = "string"
    origin: str = ""
    notes: list[str] = field(default_factory=list)


def load_table(
    source: Any, target: str, task: str = "auto", max_rows: int | None = None, seed: int = 0
) -> UserTable:
    """Read a table and part it into features and target.

    Parameters
    ----------
    source : path or data frame
        As for `deltauq.tables.fit`.
    target : str
        A column's name.
    task : {"auto", "regression", "classification"}
    max_rows : int or None
        Of more, as many are drawn at random.
    seed : int
        For that drawing.

    Returns
    -------
    table : UserTable
    """
    if task not in TASKS:
        raise ValueError(f"task must be one of {list(TASKS)}, got {task!r}.")
    target = str(target)  # as the names of columns are
    frame, shared = read_frame(source)
    notes = [f"Columns that share a name were numbered: {', '.join(shared)}."] if shared else []
    _require_target(list(frame.columns), shared, target)
    missing = int(frame[target].isna().sum())
    if missing > 0:
        notes.append(f"{missing:,} of {len(frame):,} rows were left out: {target} is missing there.")
        frame = frame[frame[target].notna()]
    if len(frame) == 0:
        raise TableError(f"{target} is missing in every row." if missing else f"{source} has no rows.")
    if max_rows is not None and len(frame) > max_rows:
        notes.append(f"{max_rows:,} of {len(frame):,} rows, drawn at random (--max-rows).")
        frame = frame.sample(max_rows, random_state=seed)
    frame = frame.reset_index(drop=True)
    y, task, labels, origin = _read_target(frame[target], task, notes)
    features = frame.drop(columns=target)
    schema = learn_schema(features, notes)
    return UserTable(schema.read(features), y, task, schema, labels, origin, notes)


def _require_target(names: list[str], shared: list[str], target: str) -> None:
    if target in shared:
        raise TableError(f"{target} names several columns.")
    if target not in names:
        raise TableError(f'there is no column "{target}": {did_you_mean(target, names)}')


def _read_target(column: pd.Series, task: str, notes: list[str]) -> tuple[np.ndarray, str, str, str]:
    """Return the targets, the task, what classes were before they became strings, and the first date."""
    if unusable := unusable_values(column):
        raise TableError(f"{column.name} holds {unusable}: there is nothing to predict in them.")
    kind = kind_of(column)
    is_flag = require_pandas().api.types.infer_dtype(column, skipna=True) == "boolean"
    origin = first_stamp(column) if kind == DATE else ""
    if kind not in (NUMBER, WORD) and task != CLASSIFICATION:
        since = f" since {origin}" if origin else ""
        notes.append(f"{column.name} was taken as a number of days{since}.")
        column, kind, task = days(column), NUMBER, REGRESSION
    numbers = kind == NUMBER and not is_flag
    n_values = int(column.nunique())
    if n_values == 1:
        raise TableError(f"{column.name} is {column.iloc[0]} in every row: there is nothing to predict.")
    floats = plain_floats(column) if numbers else None
    if task == "auto":
        whole = floats is not None and bool(np.all(np.trunc(floats) == floats))
        task = CLASSIFICATION if not numbers or (whole and n_values <= FEW_VALUES) else REGRESSION
        notes.append(f"{column.name} has {n_values:,} different values: {task} (--task).")
    if task == CLASSIFICATION:
        if n_values > len(column) / 2:
            raise TableError(f"{column.name} has {n_values:,} classes in {len(column):,} rows.")
        return column.astype(str).to_numpy(dtype=object), task, _label_type(column, is_flag), ""
    if floats is None:
        raise TableError(
            f"{column.name} is not numeric (first value: {column.iloc[0]}), as regression needs."
        )
    y = floats.to_numpy()
    if not np.all(np.isfinite(y)):
        raise TableError(f"{column.name} has infinite values.")
    if np.abs(y).max() > LARGEST_TARGET:
        raise TableError(f"{column.name} has values beyond ±{LARGEST_TARGET:g}.")
    return y, task, "float64", origin


def _label_type(column: pd.Series, is_flag: bool) -> str:
    types = require_pandas().api.types
    if is_flag:
        return "bool"
    if types.is_integer_dtype(column):
        return "int64" if int(column.max()) <= LARGEST_CLASS else "string"
    return "float64" if types.is_float_dtype(column) else "string"
