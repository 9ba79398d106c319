"""`Assessment`: what was found, as a table, as text and as a page."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from deltauq._version import __version__
from deltauq.assessment.columns import cell, columns
from deltauq.assessment.comparison import arrow
from deltauq.assessment.measures import Measures
from deltauq.assessment.terms import PYTHON, Terms
from deltauq.assessment.verdict import Verdict, decide
from deltauq.utils.formatting import short_repr

ARROWS = "↓ ↑: lower or higher than the plain model's by more than the noise, paired over the folds."
LEGENDS = {
    "regression": (
        "trimmed MAE: MAE without the largest 5 % of the errors. rank: Spearman's correlation of σ with "
        "|error|, zero in a fold where σ is the same for every row, a dash where no fold has one. raw: "
        "share of targets in intervals as they come. cal., width: the same, and their mean width, with σ "
        f"scaled on rows left out. Means over folds; of times, medians. {ARROWS}"
    ),
    "classification": (
        "AUROC: how well mistakes are told from the rest by the spread of the probabilities (σ), and by one "
        f"minus the largest (conf.). Means over folds; of times, medians. {ARROWS}"
    ),
}
IN_UNITS_OF_TARGET = ("mae", "trimmed_mae", "rmse", "width")


@dataclass(frozen=True)
class Assessment:
    """A model, its anchored forms, cheap alternatives and a trivial baseline on one table.

    Attributes
    ----------
    estimator : str
        The name of the model's class.
    n_rows : int
    measures : Measures
        Every method's measures in every fold.
    targets : list of f arrays
        The targets of each fold's test rows: numbers, or class numbers.
    answers : dict of str to list of f Interval or Opinion
        What each method said about these rows.
    fit_rows : list of f int
        How many rows the models were fitted to in each fold.
    n_repeats : int
        How often the folds were drawn.
    seconds : float
        What the comparison took.
    train_anchors, default_train_anchors : int
        How many anchors a row met in training, and how many it would meet by default.
    terms : Terms
        How the text names options: as parameters in Python, or as options on the command line.
    """

    estimator: str
    n_rows: int
    measures: Measures
    targets: list[np.ndarray]
    answers: dict[str, list[Any]]
    fit_rows: list[int]
    n_repeats: int
    seconds: float
    train_anchors: int
    default_train_anchors: int
    terms: Terms = PYTHON

    @cached_property
    def verdict(self) -> Verdict:
        """The advice: `verdict.advice`, `verdict.method` and `verdict.sentence`."""
        return decide(self.measures, self.terms)

    __repr__ = short_repr

    @property
    def task(self) -> str:
        """Either "regression" or "classification"."""
        return self.measures.task

    @property
    def methods(self) -> list[str]:
        """The names of the methods, the plain model's first."""
        return list(self.measures.scores)

    @property
    def table(self) -> list[dict[str, Any]]:
        """One dict per method: "method" and the mean of every measure; NaN for what it cannot say.

        Of seconds it is the median over folds.
        """
        return [
            {"method": method, **{name: self.measures.mean(method, name) for name in scores}}
            for method, scores in self.measures.scores.items()
        ]

    def to_frame(self) -> Any:
        """Return `table` as a pandas DataFrame with one row per method."""
        try:
            import pandas as pd
        except ImportError as error:
            raise ImportError("to_frame needs pandas: pip install pandas") from error
        return pd.DataFrame(self.table).set_index("method")

    def numbers(self) -> dict[str, Any]:
        """Return everything but the predictions as values that JSON can hold; NaN becomes None."""
        deviations = {
            method: {f"{name}_std": _sample_std(self.measures.values(method, name)) for name in scores}
            for method, scores in self.measures.scores.items()
        }
        rows = [
            {**row, **deviations[row["method"]], "against_plain": self._against_plain(row["method"])}
            for row in self.table
        ]
        return {
            "version": __version__,
            "task": self.task,
            "estimator": self.estimator,
            "rows": self.n_rows,
            "folds": len(self.targets),
            "repeats": self.n_repeats,
            "fit_rows": self.fit_rows,
            "test_rows": [len(target) for target in self.targets],
            "coverage": self.measures.level,
            "train_anchors": self.train_anchors,
            "default_train_anchors": self.default_train_anchors,
            "verdict": {
                "advice": str(self.verdict.advice),
                "method": self.verdict.method,
                "sentence": self.verdict.sentence,
            },
            "methods": [{key: _or_none(value) for key, value in row.items()} for row in rows],
            "seconds": round(self.seconds, 2),
        }

    def header(self) -> list[str]:
        """Return the column names of `cells`."""
        return ["method", *(name for name, _ in columns(self.measures).values())]

    def cells(self) -> list[list[str]]:
        """Return the table as text, one list per method; a dash for what a method cannot say.

        Arrows show where errors and rankings differ from the plain model's by more than noise.
        """
        names = columns(self.measures)
        return [
            [self.label(method), *(cell(self.measures, method, name) for name in names)]
            for method in self.methods
        ]

    def label(self, method: str) -> str:
        """Return a method's name for people."""
        return self.measures.label(method)

    def legend(self) -> str:
        """Return what the columns mean, and how the anchored methods were trained."""
        m, default = self.train_anchors, self.default_train_anchors
        trained = f"The anchored methods were trained with {m:,} anchors a row"
        if m != default:
            trained += (
                f" ({self.terms.train_anchors.format(m)}); {self.terms.default_train_anchors.format(default)}"
            )
        return f"{LEGENDS[self.task]} {trained}."

    def rescaled(self, unit: float) -> Assessment:
        """Return the assessment of a regression as it would be for targets ``unit`` times as large."""
        scores = {
            method: {
                name: unit * values if name in IN_UNITS_OF_TARGET else values
                for name, values in by_name.items()
            }
            for method, by_name in self.measures.scores.items()
        }
        answers = {
            method: [answer.rescaled(unit) for answer in answers] for method, answers in self.answers.items()
        }
        measures = replace(self.measures, scores=scores)
        targets = [unit * target for target in self.targets]
        return replace(self, measures=measures, targets=targets, answers=answers)

    def to_html(self, title: str = "") -> str:
        """Return a self-contained page with the advice, the table and figures. Needs the `report` extra.

        Parameters
        ----------
        title : str, optional
            Names what was assessed; the model's class by default.

        Returns
        -------
        html : str
        """
        from deltauq.assessment.page import render_assessment

        return render_assessment(self, title or self.estimator)

    def save_html(self, path: str | Path, title: str = "") -> Path:
        """Write the page of `to_html` to a file and return its path."""
        path = Path(path)
        path.write_text(self.to_html(title), encoding="utf-8")
        return path

    def __str__(self) -> str:
        rows = [self.header(), *self.cells()]
        widths = [max(len(row[k]) for row in rows) for k in range(len(rows[0]))]
        lines = [
            "  ".join(
                cell.ljust(size) if k == 0 else cell.rjust(size)
                for k, (cell, size) in enumerate(zip(row, widths, strict=True))
            ).rstrip()
            for row in rows
        ]
        rule = "-" * max(map(len, lines))
        parts = [
            self.heading(),
            rule,
            lines[0],
            rule,
            *lines[1:],
            rule,
            self.legend(),
            "",
            self.verdict.sentence,
        ]
        return "\n".join(parts)

    def heading(self) -> str:
        """Return one line that says what was assessed, and in which folds."""
        tested = _typical([len(target) for target in self.targets])
        repeats = "" if self.n_repeats == 1 else f" ({self.n_repeats} repeats)"
        return (
            f"{self.estimator}, {self.task}: {self.n_rows:,} rows, {len(self.targets)} folds{repeats}, each "
            f"fitted to {_typical(self.fit_rows)} rows and tested on {tested}"
        )

    def _against_plain(self, method: str) -> dict[str, Any]:
        """Return each error and the ranking less the plain model's, its standard error, and what it shows."""
        measures = self.measures
        names = [*measures.error_names(), measures.rank_name(method)]
        ranks = measures.ranks(method) - measures.ranks("plain")
        if self.task == "classification":
            ranks = ranks / 2.0  # of 2 AUROC − 1
        found = {}
        for name in names:
            scores = measures.scores
            gain = ranks if name == names[-1] else scores[method][name] - scores["plain"][name]
            difference, error = measures.mean_and_error(gain)
            found[name] = {
                "difference": _or_none(difference),
                "standard_error": _or_none(error),
                "result": {"↑": "higher", "↓": "lower", "": "tie"}[arrow(measures, method, name)],
            }
        return found


def _typical(counts: list[int]) -> str:
    """Return the mean of counts, marked where they are not about equal."""
    about = "about " if max(counts) - min(counts) > 1 else ""
    return f"{about}{round(np.mean(counts)):,}"


def _sample_std(values: np.ndarray) -> float:
    values = values[np.isfinite(values)]
    return float(np.std(values, ddof=1)) if len(values) > 1 else math.nan


def _or_none(value: Any) -> Any:
    return None if isinstance(value, float) and not math.isfinite(value) else value
