"""Groups of rows: by uncertainty, by risk, and by the values of each column."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
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
MAX_VALUES_PER_SLICE = 5
"""A column of numbers with at most this many values is cut at each of them, any other at its quartiles."""
MAX_SLICED_CATEGORIES = 50
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
        The absolute error; of classes 1 for a misclassification and 0 otherwise.
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
    low, high : float
        The range of their spread.
    loss, coverage, size, median_loss : float
        The mean loss, coverage and size, and the median loss.
    """

    rows: int
    low: float
    high: float
    loss: float
    coverage: float
    size: float
    median_loss: float

    @classmethod
    def from_rows(cls, scores: RowScores, rows: np.ndarray) -> Group:
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
    return [Group.from_rows(scores, rows) for rows in np.array_split(order, min(N_GROUPS, len(order)))]


def find_failing_decile(groups: list[Group], coverage: float) -> int | None:
    """Return the index of the group with the smallest coverage, if one is significantly too small.

    A binomial test of each group, with a Bonferroni correction; None where none is significant.
    """
    covered = np.array([round(part.coverage * part.rows) for part in groups])
    rows = np.array([part.rows for part in groups])
    failing = np.flatnonzero(binom.cdf(covered, rows, coverage) * len(groups) < SIGNIFICANCE)
    return int(min(failing, key=lambda k: covered[k] / rows[k])) if len(failing) else None


def make_slices(schema: Schema, X: pd.DataFrame) -> Iterator[Slice]:
    """Yield all slices of a table, as `schema` reads it, that have enough rows inside and outside.

    By the categories of a column, or by its values or quartiles; rows with a missing value are a slice, and
    so are rows with unseen categories.
    """
    for column in schema.columns:
        parts = _by_category(column, X[column.name]) if column.kind == CATEGORY else _by_number(column, X)
        for name, rows in parts:
            if MIN_ROWS <= rows.sum() <= len(X) - MIN_ROWS:
                yield name, rows


def find_worse_slices(
    slices: Iterable[Slice], *losses: np.ndarray, most: int = 10
) -> tuple[int, list[list[WorseSlice]]]:
    """Return how many slices there are, and for each kind of loss at most `most` significantly worse ones.

    The loss of a slice is its median, which is robust to outliers, or the share of ones where losses are 0
    and 1. A median test decides: the rows of a slice with a loss above the median of all rows are counted,
    and with m slices one is returned when as many rows drawn at random would hold as many of these with a
    probability below 0.05 / m. The largest loss comes first.
    """
    compare = [_median_test(loss) for loss in losses]
    tested = [[test(name, rows) for test in compare] for name, rows in slices]
    worse = []
    for results in zip(*tested, strict=True) if tested else [()] * len(losses):
        significant = [part for chance, part in results if chance * len(tested) < SIGNIFICANCE]
        worse.append(sorted(significant, key=lambda part: -part.inside)[:most])
    return len(tested), worse


def _median_test(loss: np.ndarray) -> Callable[[str, np.ndarray], tuple[float, WorseSlice]]:
    """Return a test of a slice: the chance of as many large losses in a random sample, and the losses."""
    is_binary = bool(np.all((loss == 0.0) | (loss == 1.0)))
    typical = np.mean if is_binary else np.median
    is_large = loss > (0.0 if is_binary else np.median(loss))

    def test(name: str, rows: np.ndarray) -> tuple[float, WorseSlice]:
        n = int(rows.sum())
        chance = hypergeom.sf(is_large[rows].sum() - 1, len(rows), is_large.sum(), n)
        return float(chance), WorseSlice(name, n, float(typical(loss[rows])), float(typical(loss[~rows])))

    return test


def _by_category(column: Column, values: pd.Series) -> Iterator[Slice]:
    categories, seen = values.to_numpy(), values.isin([*column.categories, ""]).to_numpy()
    for category in values[seen].value_counts().index[:MAX_SLICED_CATEGORIES]:
        name = f"{column.name} = {category}" if category else f"{column.name} is missing"
        yield (name, categories == category)
    yield (f"{column.name} is an unseen category", ~seen)


def _by_number(column: Column, X: pd.DataFrame) -> Iterator[Slice]:
    numbers = X[column.name].to_numpy(dtype=np.float64)
    missing = np.isnan(numbers)
    yield (f"{column.name} is missing", missing)
    values = np.unique(numbers[~missing])
    if len(values) <= MAX_VALUES_PER_SLICE:
        for value in values:
            yield (f"{column.name} = {format_value(column, value)}", numbers == value)
        return
    edges = np.unique(np.quantile(numbers[~missing], (0.25, 0.5, 0.75)))
    texts = [format_value(column, edge) for edge in edges]
    yield (f"{column.name} ≤ {texts[0]}", numbers <= edges[0])
    for (low, high), (start, end) in zip(pairwise(edges), pairwise(texts), strict=True):
        yield (f"{start} < {column.name} ≤ {end}", (numbers > low) & (numbers <= high))
    yield (f"{column.name} > {texts[-1]}", numbers > edges[-1])
