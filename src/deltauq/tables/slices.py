"""Parts of a table, each by one of its columns, on which a model does worse than on the rest."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
from scipy.stats import hypergeom

from deltauq.tables.schema import CATEGORY, Column, Schema, format_value

if TYPE_CHECKING:
    import pandas as pd

FEWEST_ROWS = 10
"""A slice of fewer rows, or all but so few, is not looked at."""
FEW_VALUES = 5
"""A column of numbers with no more different values is cut at each of them, any other at its quartiles."""
MOST_WORDS = 50
"""Of a column with more words, the most frequent make slices."""
CHANCE = 0.05
"""The probability that a model that is equally good everywhere has any slice to be told of."""


@dataclass(frozen=True)
class Slice:
    """Rows that have something in common.

    Attributes
    ----------
    name : str
        What it is, such as ``"area > 110"``.
    rows : bool array of shape (n,)
    """

    name: str
    rows: np.ndarray


@dataclass(frozen=True)
class Worse:
    """A slice with a larger loss than the rest.

    Attributes
    ----------
    name : str
    rows : int
        How many it has.
    loss, elsewhere : float
        Of its rows, and of all others: the median, or the share where losses are 0 and 1.
    """

    name: str
    rows: int
    loss: float
    elsewhere: float


def cut(schema: Schema, X: pd.DataFrame) -> Iterator[Slice]:
    """Yield all slices of a table that have enough rows inside and outside.

    Parameters
    ----------
    schema : Schema
    X : DataFrame of n rows
        As the schema reads it.

    Yields
    ------
    slice : Slice
        By the words of a column of words, and by the values or quartiles of any other; rows without a
        value are a slice, and so are rows with words that training has not met.
    """
    for column in schema.columns:
        parts = _by_words(column, X[column.name]) if column.kind == CATEGORY else _by_numbers(column, X)
        for part in parts:
            if FEWEST_ROWS <= part.rows.sum() <= len(X) - FEWEST_ROWS:
                yield part


def worst(slices: Iterable[Slice], *losses: np.ndarray, most: int = 10) -> tuple[int, list[list[Worse]]]:
    """Return the slices whose loss is larger than that of the rest by more than chance, the worst first.

    The loss of a slice is its median, which outliers do not set, or the share of ones where losses are 0 and
    1. A median test decides whether it is larger than chance explains: the rows of a slice with a loss above
    the median of all rows are counted, and with m slices one is returned when as many rows drawn at random
    from all would hold as many of these with a probability below 0.05 / m.

    Parameters
    ----------
    slices : iterable of Slice
        Gone through once; a slice is not kept.
    *losses : arrays of shape (n,)
    most : int, default=10

    Returns
    -------
    n_slices : int
        m.
    worse : list of lists of Worse
        One list for each kind of loss.
    """
    counters = [_LargeLosses(loss) for loss in losses]
    n_slices = 0
    for part in slices:
        n_slices += 1
        for counter in counters:
            counter.add(part)
    return n_slices, [counter.worst(most) for counter in counters]


class _LargeLosses:
    """Counts the large losses of slices: those of 1, or above the median of all."""

    def __init__(self, loss: np.ndarray) -> None:
        binary = bool(np.all((loss == 0.0) | (loss == 1.0)))
        self._typical = np.mean if binary else np.median
        self._loss, self._is_large = loss, loss > (0.0 if binary else np.median(loss))
        self._slices: list[Worse] = []
        self._counts: list[int] = []

    def add(self, part: Slice) -> None:
        """Count those of one slice."""
        inside, outside = (float(self._typical(self._loss[rows])) for rows in (part.rows, ~part.rows))
        self._slices.append(Worse(part.name, int(part.rows.sum()), inside, outside))
        self._counts.append(int(self._is_large[part.rows].sum()))

    def worst(self, most: int) -> list[Worse]:
        """Return the slices that have more of them than chance explains, the worst first."""
        rows = np.array([part.rows for part in self._slices], dtype=np.int64)
        counts = np.array(self._counts, dtype=np.int64)
        # Of as many rows drawn at random, the probability of at least as many large losses.
        chance = hypergeom.sf(counts - 1, len(self._loss), self._is_large.sum(), rows)
        found = [self._slices[k] for k in np.flatnonzero(chance * len(rows) < CHANCE)]
        return sorted(found, key=lambda part: -part.loss)[:most]


def _by_words(column: Column, values: pd.Series) -> Iterator[Slice]:
    words, met = values.to_numpy(), values.isin([*column.categories, ""]).to_numpy()
    for word in values[met].value_counts().index[:MOST_WORDS]:
        name = f"{column.name} = {word}" if word else f"{column.name} is missing"
        yield Slice(name, words == word)
    yield Slice(f"{column.name} is a word that training has not met", ~met)


def _by_numbers(column: Column, X: pd.DataFrame) -> Iterator[Slice]:
    numbers = X[column.name].to_numpy(dtype=np.float64)
    missing = np.isnan(numbers)
    yield Slice(f"{column.name} is missing", missing)
    values = np.unique(numbers[~missing])
    if len(values) <= FEW_VALUES:
        for value in values:
            yield Slice(f"{column.name} = {format_value(column, value)}", numbers == value)
        return
    edges = np.unique(np.quantile(numbers[~missing], (0.25, 0.5, 0.75)))
    low, *inner, high = (format_value(column, edge) for edge in (edges[0], *edges, edges[-1]))
    yield Slice(f"{column.name} ≤ {low}", numbers <= edges[0])
    for k, (start, end) in enumerate(pairwise(inner)):
        rows = (numbers > edges[k]) & (numbers <= edges[k + 1])
        yield Slice(f"{start} < {column.name} ≤ {end}", rows)
    yield Slice(f"{column.name} > {high}", numbers > edges[-1])
