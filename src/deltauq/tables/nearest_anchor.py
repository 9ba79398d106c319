"""What sets a row apart from the anchor that is nearest to it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from deltauq.tables.model import TableModel
from deltauq.tables.schema import CATEGORY, format_value

if TYPE_CHECKING:
    import pandas as pd

MISMATCH = 2.0
"""The squared distance of two different words: that of two numbers drawn alike, in units of their spread."""
RARE = "infrequent_sklearn"
"""What scikit-learn calls the words that share a column because each is rare."""


@dataclass(frozen=True)
class Difference:
    """A feature in which a row differs from its nearest anchor.

    Attributes
    ----------
    feature : str
    value, anchor : str
        Of the row, and of the anchor.
    share : float
        Of the squared distance between the two.
    """

    feature: str
    value: str
    anchor: str
    share: float


def largest_differences(
    model: TableModel, X: pd.DataFrame, rows: np.ndarray, most: int = 3
) -> list[list[Difference]]:
    """Return the features in which rows differ most from their nearest anchors.

    Numbers differ in units of the standard deviation of the anchors; of words, two are alike or not.

    Parameters
    ----------
    model : TableModel
    X : DataFrame of n rows
        As the schema reads it.
    rows : int array of shape (m,)
    most : int, default=3
        Features of each row.

    Returns
    -------
    differences : list of m lists of Difference
        The largest first.
    """
    numbers, words = _decode(model, model.encode(X.iloc[rows]))
    anchor_numbers, anchor_words = _decode(model, np.unique(model.fitted.model.anchors_, axis=0))
    gaps = (numbers[:, None] - anchor_numbers[None]) / _units(anchor_numbers, numbers)
    unlike = MISMATCH * (words[:, None] != anchor_words[None])
    distances = np.concatenate([gaps**2, unlike.astype(np.float64)], axis=2)
    nearest = distances.sum(axis=2).argmin(axis=1)
    order = [*model.schema.number_names, *model.schema.category_names]
    found = []
    for i, (row, k) in enumerate(zip(rows, nearest, strict=True)):
        parts = distances[i, k]
        largest = [j for j in np.argsort(-parts, kind="stable")[:most] if parts[j] > 0]
        anchor = dict(zip(order, [*anchor_numbers[k], *anchor_words[k]], strict=True))
        found.append(
            [
                _difference(model, order[j], X.iloc[row], anchor, float(parts[j] / parts.sum()))
                for j in largest
            ]
        )
    return found


def _difference(model: TableModel, name: str, row: Any, anchor: dict[str, Any], share: float) -> Difference:
    column = next(column for column in model.schema.columns if column.name == name)
    theirs = anchor[name]
    if column.kind == CATEGORY and theirs in (RARE, None):
        theirs = "a rare word"
    return Difference(name, format_value(column, row[name]), format_value(column, theirs), share)


def _decode(model: TableModel, encoded: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return what the model sees of rows in the terms of the table.

    Returns
    -------
    numbers : array of shape (n, a)
        Gaps filled.
    words : object array of shape (n, b)
        Rare ones share a name, and unknown ones may be None.
    """
    columns, schema = model.fitted.columns, model.schema
    categorical = schema.category_names
    n = len(encoded)
    numbers, words = np.empty((n, 0)), np.empty((n, 0), dtype=object)
    # The order of `build_preprocessor`: numbers, then words.
    if schema.number_names:
        numbers = encoded[:, : len(schema.number_names)]
        scaler = columns.transformers_[0][1].named_steps.get("standardscaler")
        numbers = numbers if scaler is None else scaler.inverse_transform(numbers)
    if categorical:
        encoder = next(
            step for _, step, names in columns.transformers_ if list(names) == schema.category_names
        )
        words = encoder.inverse_transform(encoded[:, len(schema.number_names) :])
    return numbers, words


def _units(anchors: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Return the spread of each column over the anchors; of one in which they agree, over the rows."""
    unit = np.where(anchors.std(axis=0) > 0, anchors.std(axis=0), rows.std(axis=0))
    return np.where(unit > 0, unit, 1.0)
