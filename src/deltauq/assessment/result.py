"""Results as text, as JSON and as an HTML page; `Assessment`, what `assess` returns."""

from __future__ import annotations

import math
from dataclasses import dataclass, is_dataclass, replace
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from deltauq._version import __version__
from deltauq.assessment.fold_metrics import FoldMetrics, sample_std
from deltauq.assessment.recommendation import Recommendation, decide
from deltauq.assessment.scoring import METRICS, Predictions, rescale
from deltauq.plots.page import Section, Table, render_page
from deltauq.utils.filesystem import atomic_write
from deltauq.utils.formatting import short_repr
from deltauq.utils.install import import_optional

if TYPE_CHECKING:
    import pandas as pd

LEGEND = (
    "Means over folds, medians of times. ↓ ↑: significantly lower or higher than the plain model's, paired "
    "over the folds."
)


class Result:
    """Base of `Assessment` and `Evaluation`: text, JSON and an HTML page."""

    __repr__ = short_repr

    def heading(self) -> str:
        """Return what was measured, in one line."""
        raise NotImplementedError

    def summary(self) -> str:
        """Return the result in a few sentences."""
        raise NotImplementedError

    def tables(self) -> dict[str, Table]:
        """Return the result as tables of text, by their titles."""
        raise NotImplementedError

    def sections(self) -> list[Section]:
        """Return the sections of the page. Needs the `report` extra."""
        raise NotImplementedError

    def to_dict(self) -> dict[str, Any]:
        """Return everything but the rows as values that JSON can hold; NaN becomes None."""
        raise NotImplementedError

    def to_html(self, title: str = "") -> str:
        """Return a self-contained page, by default with the heading as title. Needs the `report` extra."""
        title = f"{type(self).__name__}: {title or self.heading()}"
        footer = f"deltauq {__version__}. {self.heading()}. Method: Δ-UQ, arXiv 2110.02197."
        return str(render_page(title, self.summary(), self.sections(), footer=footer))

    def save_html(self, path: str | PathLike[str], title: str = "") -> Path:
        """Write the page of `to_html` to a file and return its path."""
        path = Path(path)
        with atomic_write(path) as part:
            part.write_text(self.to_html(title), encoding="utf-8")
        return path

    def __str__(self) -> str:
        tables = ["\n".join([title, *_lines(table)]).strip() for title, table in self.tables().items()]
        return "\n\n".join([self.heading(), *tables, self.summary()])


@dataclass(frozen=True, repr=False)
class Assessment(Result):
    """A model, its anchored forms, inexpensive alternatives and a trivial baseline on one table.

    Attributes
    ----------
    estimator : str
        The name of the model's class.
    n_rows : int
        The number of rows.
    metrics : FoldMetrics
        Every method's metrics in every fold.
    targets : list of f arrays
        The targets of each fold's test rows: numbers, or indices of classes.
    predictions : dict of str to list of f Predictions
        Every method's predictions for these rows.
    fit_rows : list of f int
        How many rows the models were fitted to in each fold.
    n_repeats : int
        How often the folds were drawn.
    seconds : float
        The run time of the comparison.
    train_anchors, default_train_anchors : int
        Training anchors per row, and how many there are by default.
    """

    estimator: str
    n_rows: int
    metrics: FoldMetrics
    targets: list[np.ndarray]
    predictions: dict[str, list[Predictions]]
    fit_rows: list[int]
    n_repeats: int
    seconds: float
    train_anchors: int
    default_train_anchors: int

    @cached_property
    def recommendation(self) -> Recommendation:
        """The method to use and why: `.advice`, `.method` and `.text`."""
        return decide(self.metrics)

    @property
    def task(self) -> str:
        """Either "regression" or "classification"."""
        return self.metrics.task

    @property
    def methods(self) -> list[str]:
        """The names of the methods, the plain model's first."""
        return list(self.metrics.scores)

    @property
    def table(self) -> list[dict[str, Any]]:
        """One dict per method: "method" and the mean of every metric; NaN where it is not defined.

        Of seconds it is the median over folds.
        """
        return [
            {"method": method, **{name: self.metrics.mean(method, name) for name in scores}}
            for method, scores in self.metrics.scores.items()
        ]

    def to_frame(self) -> pd.DataFrame:
        """Return `table` as a pandas DataFrame with one row per method."""
        pandas: Any = import_optional("pandas", "to_frame needs pandas", "tables")
        return pandas.DataFrame(self.table).set_index("method")

    def to_dict(self) -> dict[str, Any]:
        """Return everything but the predictions as values that JSON can hold; NaN becomes None."""
        methods = []
        for row in self.table:
            method = row["method"]
            names = self.metrics.scores[method]
            deviations = {f"{name}_std": sample_std(self.metrics.values(method, name)) for name in names}
            methods.append({**row, **deviations, "against_plain": self.against_plain(method)})
        return to_json_values(
            {
                "version": __version__,
                "task": self.task,
                "estimator": self.estimator,
                "rows": self.n_rows,
                "folds": len(self.targets),
                "repeats": self.n_repeats,
                "fit_rows": self.fit_rows,
                "test_rows": [len(target) for target in self.targets],
                "coverage": self.metrics.coverage,
                "train_anchors": self.train_anchors,
                "default_train_anchors": self.default_train_anchors,
                "recommendation": self.recommendation,
                "methods": methods,
                "seconds": round(self.seconds, 2),
            }
        )

    def heading(self) -> str:
        """Return what was assessed, on how many rows and folds."""
        repeats = "" if self.n_repeats == 1 else f" ({self.n_repeats} repeats)"
        return (
            f"{self.estimator}, {self.task}: {self.n_rows:,} rows, {len(self.targets)} folds{repeats}, each "
            f"fitted to {_typical(self.fit_rows)} rows and tested on "
            f"{_typical([len(target) for target in self.targets])}"
        )

    def summary(self) -> str:
        """Return the recommendation."""
        return self.recommendation.text

    def tables(self) -> dict[str, Table]:
        """Return the metrics of all methods; the recommended method is bold."""
        names, level = list(self.metrics.scores["plain"]), f"{self.metrics.coverage:.0%}"
        headers = [METRICS[name].header.format(level) for name in names]
        meanings = [METRICS[name].meaning.format(level) for name in names]
        pairs = zip(headers, meanings, strict=True)
        legend = "; ".join(f"{header}: {meaning}" for header, meaning in pairs if header != meaning)
        trained = f"The anchored methods were trained with {self.train_anchors:,} anchors per row"
        if self.train_anchors != self.default_train_anchors:
            trained += f" (default: {self.default_train_anchors:,})"
        rows = [
            [self.metrics.label(method), *(self.metrics.cell(method, name) for name in names)]
            for method in self.methods
        ]
        recommended = self.methods.index(self.recommendation.method)
        bold = frozenset((recommended, column) for column in range(len(names) + 1))
        return {"": Table(["method", *headers], rows, f"{legend}. {LEGEND} {trained}.", bold)}

    def sections(self) -> list[Section]:
        """Return the sections of the page: the table, figures and the protocol."""
        from deltauq.assessment.page import assessment_sections

        return assessment_sections(self)

    def rescaled(self, unit: float) -> Assessment:
        """Return the assessment of a regression as it would be for targets ``unit`` times as large."""
        scores = {method: rescale(values, unit) for method, values in self.metrics.scores.items()}
        return replace(
            self,
            metrics=replace(self.metrics, scores=scores),
            targets=[unit * target for target in self.targets],
            predictions={
                m: [part.standardized(0.0, 1.0 / unit) for part in p] for m, p in self.predictions.items()
            },
        )

    def against_plain(self, method: str) -> dict[str, Any]:
        """Return the differences of errors and ranking from the plain model's."""
        m = self.metrics
        differences = {name: m.scores[method][name] - m.scores["plain"][name] for name in m.errors}
        scale = 1.0 if self.task == "regression" else 0.5  # of 2 AUROC − 1
        differences[m.rank_name(method)] = scale * (m.ranks(method) - m.ranks("plain"))
        keys = ("difference", "standard_error", "result")
        return {
            name: dict(zip(keys, (*m.mean_and_error(gain), m.change(method, name)), strict=True))
            for name, gain in differences.items()
        }


def to_json_values(value: Any) -> Any:
    """Return dataclasses and arrays as dicts and lists; None for numbers that JSON cannot hold."""
    if is_dataclass(value):
        value = vars(value)
    if isinstance(value, dict):
        return {name: to_json_values(part) for name, part in value.items()}
    if isinstance(value, (list, np.ndarray)):
        return [to_json_values(part) for part in list(value)]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _lines(table: Table) -> list[str]:
    """Return a table as aligned lines of text, with its caption."""
    rows = [table.header, *table.rows]
    first, *others = (max(map(len, column)) for column in zip(*rows, strict=True))
    lines = ["  ".join([row[0].ljust(first), *map(str.rjust, row[1:], others)]) for row in rows]
    return [*lines, table.caption] if table.caption else lines


def _typical(counts: list[int]) -> str:
    """Return the mean of counts, marked where they are not about equal."""
    about = "about " if max(counts) - min(counts) > 1 else ""
    return f"{about}{round(np.mean(counts)):,}"
