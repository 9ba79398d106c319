"""Parts of a table, each by one of its columns, on which a model does worse than on the rest."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
from scipy.stats import hypergeom

from deltauq.tables.schema import WORD, Column, Schema
from deltauq.tables.shown import shown

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
        parts = _by_words(column, X[column.name]) if column.kind == WORD else _by_numbers(column, X)
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
    scorers = [_scorer(loss) for loss in losses]
    found: list[list[tuple[float, Worse]]] = [[] for _ in losses]
    n_slices = 0
    for part in slices:
        n_slices += 1
        for score, parts in zip(scorers, found, strict=True):
            parts.append(score(part))
    worse = [[part for p, part in parts if p * n_slices < CHANCE] for parts in found]
    return n_slices, [sorted(parts, key=lambda part: -part.loss)[:most] for parts in worse]


def _scorer(loss: np.ndarray) -> Callable[[Slice], tuple[float, Worse]]:
    """Return what gives, for a slice, the probability of so many large losses by chance, and its loss."""
    binary = bool(np.all((loss == 0.0) | (loss == 1.0)))
    typical = np.mean if binary else np.median
    is_large = loss > (0.0 if binary else np.median(loss))
    n, n_large = len(loss), int(is_large.sum())

    def score(part: Slice) -> tuple[float, Worse]:
        rows = int(part.rows.sum())
        chance = float(hypergeom.sf(int(is_large[part.rows].sum()) - 1, n, n_large, rows))
        inside, outside = float(typical(loss[part.rows])), float(typical(loss[~part.rows]))
        return chance, Worse(part.name, rows, inside, outside)

    return score


def _by_words(column: Column, values: pd.Series) -> Iterator[Slice]:
    words, met = values.to_numpy(), values.isin([*column.words, ""]).to_numpy()
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
            yield Slice(f"{column.name} = {shown(column, value)}", numbers == value)
        return
    edges = np.unique(np.quantile(numbers[~missing], (0.25, 0.5, 0.75)))
    low, *inner, high = (shown(column, edge) for edge in (edges[0], *edges, edges[-1]))
    yield Slice(f"{column.name} ≤ {low}", numbers <= edges[0])
    for k, (start, end) in enumerate(pairwise(inner)):
        rows = (numbers > edges[k]) & (numbers <= edges[k + 1])
        yield Slice(f"{start} < {column.name} ≤ {end}", rows)
    yield Slice(f"{column.name} > {high}", numbers > edges[-1])
