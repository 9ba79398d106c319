"""Groups of rows: by uncertainty, by risk, and by the values of each column."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
from scipy.stats import binom, hypergeom

from deltauq.tables.schema import CATEGORY, Column, Schema, format_value
from deltauq.utils.formatting import short_repr

if TYPE_CHECKING:
    import pandas as pd

N_GROUPS = 10
MIN_ROWS = 10
"""A slice must have at least this many rows, and leave at least this many."""
FEW_VALUES = 5
"""A column of numbers with at most this many values is cut at each of them, any other at its quartiles."""
MAX_CATEGORIES = 50
"""Of a column with more categories, the most frequent make slices."""
SIGNIFICANCE = 0.05
"""The probability of a false alarm among all deciles, or among all slices."""

Slice = tuple[str, np.ndarray]
"""A name such as ``"area > 110"``, and which of n rows belong to it."""


@dataclass(frozen=True)
class RowScores:
    """How good the prediction of each of n rows is.

    Attributes
    ----------
    loss : array of shape (n,)
        The absolute error; of classes 1 for a mistake and 0 otherwise.
    spread : array of shape (n,)
        The predicted standard deviation of the error; of classes the root of the summed variances over
        anchors.
    missed : bool array of shape (n,)
        Whether the target lies outside the interval or set.
    size : array of shape (n,)
        The width of the interval, or the number of classes in the set.
    risk : array of n strings
    """

    loss: np.ndarray
    spread: np.ndarray
    missed: np.ndarray
    size: np.ndarray
    risk: np.ndarray

    __repr__ = short_repr


@dataclass(frozen=True)
class Group:
    """Rows that are about equally uncertain, or have the same risk.

    Attributes
    ----------
    rows : int
        The number of rows.
    low, high : float
        The range of their spread.
    loss, coverage, size : float
        Means over the rows.
    median_loss : float
    """

    rows: int
    low: float
    high: float
    loss: float
    coverage: float
    size: float
    median_loss: float

    @classmethod
    def of(cls, scores: RowScores, rows: np.ndarray) -> Group:
        """Return the group of rows with these indices."""
        return cls(
            len(rows),
            float(scores.spread[rows].min()),
            float(scores.spread[rows].max()),
            float(scores.loss[rows].mean()),
            1.0 - float(scores.missed[rows].mean()),
            float(scores.size[rows].mean()),
            float(np.median(scores.loss[rows])),
        )


@dataclass(frozen=True)
class WorseSlice:
    """A slice with a larger loss than the rest.

    Attributes
    ----------
    name : str
    rows : int
        The number of rows.
    inside, elsewhere : float
        The loss of its rows, and of all others: the median, or the share where losses are 0 and 1.
    """

    name: str
    rows: int
    inside: float
    elsewhere: float


def make_deciles(scores: RowScores) -> list[Group]:
    """Return groups of equal size by spread, the least uncertain first; fewer than ten for few rows."""
    order = np.argsort(scores.spread, kind="stable")
    return [Group.of(scores, rows) for rows in np.array_split(order, min(N_GROUPS, len(order)))]


def find_failing_decile(groups: list[Group], coverage: float) -> int | None:
    """Return the index of the group with the smallest coverage, if that is significantly too small.

    A binomial test of each group gives the probability of so few covered targets at the nominal coverage; the
    probabilities are multiplied by the number of groups (Bonferroni).

    Returns
    -------
    index : int or None
        None where the smallest probability is above 5 %.
    """
    covered = np.array([round(part.coverage * part.rows) for part in groups])
    rows = np.array([part.rows for part in groups])
    failing = np.flatnonzero(binom.cdf(covered, rows, coverage) * len(groups) < SIGNIFICANCE)
    return int(min(failing, key=lambda k: covered[k] / rows[k])) if len(failing) else None


def make_slices(schema: Schema, X: pd.DataFrame) -> Iterator[Slice]:
    """Yield all slices of a table that have enough rows inside and outside.

    Parameters
    ----------
    schema : Schema
    X : DataFrame of n rows
        As the schema reads it.

    Yields
    ------
    name, rows : str and bool array of shape (n,)
        By the categories of a column, or by its values or quartiles; rows with a missing value are a slice,
        and so are rows with unseen categories.
    """
    for column in schema.columns:
        parts = _by_category(column, X[column.name]) if column.kind == CATEGORY else _by_number(column, X)
        for name, rows in parts:
            if MIN_ROWS <= rows.sum() <= len(X) - MIN_ROWS:
                yield name, rows


def find_worse_slices(
    slices: Iterable[Slice], *losses: np.ndarray, most: int = 10
) -> tuple[int, list[list[WorseSlice]]]:
    """Return the slices whose loss is significantly larger than that of the rest, the worst first.

    The loss of a slice is its median, which is robust to outliers, or the share of ones where losses are 0
    and 1. A median test decides: the rows of a slice with a loss above the median of all rows are counted,
    and with m slices one is returned when as many rows drawn at random would hold as many of these with a
    probability below 0.05 / m.

    Parameters
    ----------
    slices : iterable of Slice
        Iterated once; the rows of a slice are not stored.
    *losses : arrays of shape (n,)
    most : int, default=10
        The largest number of slices to return for each loss.

    Returns
    -------
    n_slices : int
        m.
    worse : list of lists of WorseSlice
        One list for each kind of loss.
    """
    tests = [_LossTest(loss) for loss in losses]
    found = [[test(name, rows) for test in tests] for name, rows in slices]
    worse = []
    for k in range(len(losses)):
        significant = [part[k][1] for part in found if part[k][0] * len(found) < SIGNIFICANCE]
        worse.append(sorted(significant, key=lambda part: -part.inside)[:most])
    return len(found), worse


class _LossTest:
    """Compares the losses of slices with those of all n rows."""

    def __init__(self, loss: np.ndarray) -> None:
        is_binary = bool(np.all((loss == 0.0) | (loss == 1.0)))
        self.loss, self.typical = loss, np.mean if is_binary else np.median
        self.is_large = loss > (0.0 if is_binary else np.median(loss))

    def __call__(self, name: str, rows: np.ndarray) -> tuple[float, WorseSlice]:
        """Return the probability of as many large losses among rows drawn at random, and the slice."""
        n = int(rows.sum())
        chance = hypergeom.sf(self.is_large[rows].sum() - 1, len(rows), self.is_large.sum(), n)
        inside, elsewhere = (float(self.typical(self.loss[part])) for part in (rows, ~rows))
        return float(chance), WorseSlice(name, n, inside, elsewhere)


def _by_category(column: Column, values: pd.Series) -> Iterator[Slice]:
    categories, seen = values.to_numpy(), values.isin([*column.categories, ""]).to_numpy()
    for category in values[seen].value_counts().index[:MAX_CATEGORIES]:
        name = f"{column.name} = {category}" if category else f"{column.name} is missing"
        yield (name, categories == category)
    yield (f"{column.name} is an unseen category", ~seen)


def _by_number(column: Column, X: pd.DataFrame) -> Iterator[Slice]:
    numbers = X[column.name].to_numpy(dtype=np.float64)
    missing = np.isnan(numbers)
    yield (f"{column.name} is missing", missing)
    values = np.unique(numbers[~missing])
    if len(values) <= FEW_VALUES:
        for value in values:
            yield (f"{column.name} = {format_value(column, value)}", numbers == value)
        return
    edges = np.unique(np.quantile(numbers[~missing], (0.25, 0.5, 0.75)))
    texts = [format_value(column, edge) for edge in edges]
    yield (f"{column.name} ≤ {texts[0]}", numbers <= edges[0])
    for (low, high), (start, end) in zip(pairwise(edges), pairwise(texts), strict=True):
        yield (f"{start} < {column.name} ≤ {end}", (numbers > low) & (numbers <= high))
    yield (f"{column.name} > {texts[-1]}", numbers > edges[-1])
