"""The features in which rows differ most from their nearest anchors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from deltauq.tables.model import TableModel
from deltauq.tables.schema import CATEGORY, format_value

if TYPE_CHECKING:
    import pandas as pd

MISMATCH = 2.0
"""Squared distance of two different categories, and of a number from a missing one: the expected one of two
numbers, in units of their spread."""
RARE = "infrequent_sklearn"
"""scikit-learn's name for rare categories, which share a column."""


@dataclass(frozen=True)
class Difference:
    """A feature in which a row differs from its nearest anchor."""

    feature: str
    """The name of the column."""
    value: str
    """The value of the row, as text."""
    anchor: str
    """The value of the anchor, as text."""
    share: float
    """The share of the squared distance between the two."""


def largest_differences(
    model: TableModel, X: pd.DataFrame, rows: np.ndarray, n_features: int = 3
) -> list[list[Difference]]:
    """Return the features in which rows differ most from their nearest anchors, the largest first.

    Numbers differ in units of the standard deviation of the anchors; categories are equal or not, and so are
    a number and a missing one.

    Parameters
    ----------
    model : TableModel
    X : DataFrame of n rows
        As the schema reads it.
    rows : int array of shape (m,)
        The rows of X to compare.
    n_features : int, default=3
        The largest number of features for each row.
    """
    numbers, categories = _decode(model, model.encode(X.iloc[rows]))
    anchor_numbers, anchor_categories = _decode(model, model.fitted.reference)
    anchor_std, own_std = (
        np.ma.masked_invalid(part).std(axis=0).filled(0.0) for part in (anchor_numbers, numbers)
    )
    unit = np.where(anchor_std > 0, anchor_std, own_std)
    gaps = (numbers[:, None] - anchor_numbers[None]) / np.where(unit > 0, unit, 1.0)
    is_one_missing = np.isnan(numbers)[:, None] != np.isnan(anchor_numbers)[None]
    squares = np.where(np.isnan(gaps), MISMATCH * is_one_missing, gaps**2)
    mismatches = MISMATCH * (categories[:, None] != anchor_categories[None])
    distances = np.concatenate([squares, mismatches.astype(np.float64)], axis=2)
    by_name = {column.name: column for column in model.schema.columns}
    columns = [by_name[name] for name in (*model.schema.number_names, *model.schema.category_names)]
    differences = []
    for row, all_parts in zip(rows, distances, strict=True):
        k = all_parts.sum(axis=1).argmin()
        parts, anchor = all_parts[k], [*anchor_numbers[k], *anchor_categories[k]]
        largest = [j for j in np.argsort(-parts, kind="stable")[:n_features] if parts[j] > 0]
        differences.append(
            [
                Difference(
                    columns[j].name,
                    format_value(columns[j], X[columns[j].name].iloc[row]),
                    "a rare category"
                    if columns[j].kind == CATEGORY and anchor[j] in (RARE, None)
                    else format_value(columns[j], anchor[j]),
                    float(parts[j] / parts.sum()),
                )
                for j in largest
            ]
        )
    return differences


def _decode(model: TableModel, encoded: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return encoded rows as numbers and categories; rare ones share a name, unseen ones are None."""
    schema, n_numbers = model.schema, len(model.schema.number_names)
    steps = {tuple(names): step for _, step, names in model.fitted.preprocessor.transformers_}
    numbers, categories = encoded[:, :n_numbers], np.empty((len(encoded), 0), dtype=object)
    if n_numbers:
        scaler = steps[tuple(schema.number_names)].named_steps.get("standardscaler")
        numbers = numbers if scaler is None else scaler.inverse_transform(numbers)
    if schema.category_names:
        encoder = steps[tuple(schema.category_names)]
        stop = n_numbers + len(encoder.get_feature_names_out())
        categories = encoder.inverse_transform(encoded[:, n_numbers:stop])
    return numbers, categories
