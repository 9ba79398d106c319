"""`Assessment`: what was found, as a table, as text and as a page."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from deltauq._version import __version__
from deltauq.assessment.measures import LABELS, Measures
from deltauq.assessment.verdict import Verdict, decide
from deltauq.core.representation import short_repr

LEGENDS = {
    "regression": (
        "rank: Spearman's correlation of σ with |error|, a dash where there is none, as where σ is the same "
        "for every row. raw: share of targets in intervals as they come. cal., width: the same, and their "
        "mean width, with σ scaled on rows left out. Means over folds; of times, medians."
    ),
    "classification": (
        "ECE: how far confidence is from accuracy. AUROC: how well mistakes are told from the rest by the "
        "spread of the probabilities (σ), and by one minus the largest (conf.). Means over folds; of times, "
        "medians."
    ),
}
IN_UNITS_OF_TARGET = ("mae", "rmse", "width")


@dataclass(frozen=True)
class Assessment:
    """A model, its anchored forms and its rivals on one table.

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
    verdict : Verdict
        The advice: `verdict.advice`, `verdict.method` and `verdict.sentence`.
    seconds : float
        What the comparison took.
    train_anchors, default_train_anchors : int
        How many anchors a row met in training, and how many it would meet by default.
    """

    estimator: str
    n_rows: int
    measures: Measures
    targets: list[np.ndarray]
    answers: dict[str, list[Any]]
    verdict: Verdict
    seconds: float
    train_anchors: int
    default_train_anchors: int

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
            method: {f"{name}_std": _sample_std(values) for name, values in scores.items()}
            for method, scores in self.measures.scores.items()
        }
        rows = [{**row, **deviations[row["method"]]} for row in self.table]
        return {
            "version": __version__,
            "task": self.task,
            "estimator": self.estimator,
            "rows": self.n_rows,
            "folds": len(self.targets),
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
        return ["method", *(name for name, _ in self._columns().values())]

    def cells(self) -> list[list[str]]:
        """Return the table as text, one list per method; a dash for what a method cannot say."""
        columns = self._columns()
        return [
            [
                self.label(row["method"]),
                *(form(row[key]) if math.isfinite(row[key]) else "–" for key, (_, form) in columns.items()),
            ]
            for row in self.table
        ]

    def label(self, method: str) -> str:
        """Return a method's name for people."""
        return "plain, one width" if (method, self.task) == ("plain", "regression") else LABELS[method]

    def legend(self) -> str:
        """Return what the columns mean, and how the anchored methods were trained."""
        m, default = self.train_anchors, self.default_train_anchors
        trained = f"The anchored methods were trained with {m:,} anchors a row"
        if m != default:
            trained += f" (n_train_anchors={m}); the default trains with {default:,}"
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
        return replace(self, measures=measures, targets=targets, answers=answers, verdict=decide(measures))

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
        """Return one line that says what was assessed."""
        return f"{self.estimator}, {self.task}: {self.n_rows} rows, {len(self.targets)} folds"

    def _columns(self) -> dict[str, tuple[str, Any]]:
        """Return the measures shown: key to column name and format."""
        level = f"{self.measures.level:.0%}"
        costs = {"fit_seconds": ("fit s", "{:.2g}".format), "row_seconds": ("µs/row", _microseconds)}
        if self.task == "regression":
            return {
                "mae": ("MAE", _number),
                "rmse": ("RMSE", _number),
                "spearman": ("rank", "{:.2f}".format),
                "coverage_raw": (f"raw {level}", "{:.0%}".format),
                "coverage": (f"cal. {level}", "{:.0%}".format),
                "width": ("width", _number),
                **costs,
            }
        return {
            "accuracy": ("accuracy", "{:.1%}".format),
            "log_loss": ("log loss", "{:.3f}".format),
            "ece": ("ECE", "{:.3f}".format),
            "auroc_spread": ("AUROC σ", "{:.2f}".format),
            "auroc_confidence": ("AUROC conf.", "{:.2f}".format),
            **costs,
        }


def _number(value: float) -> str:
    """Return three digits or all before the point, without an exponent where it can be helped."""
    return f"{value:,.0f}" if 1e3 <= abs(value) < 1e12 else f"{value:.3g}"


def _microseconds(seconds: float) -> str:
    return f"{1e6 * seconds:,.0f}" if seconds >= 1e-5 else f"{1e6 * seconds:.2g}"


def _sample_std(values: np.ndarray) -> float:
    values = values[np.isfinite(values)]
    return float(np.std(values, ddof=1)) if len(values) > 1 else math.nan


def _or_none(value: Any) -> Any:
    return None if isinstance(value, float) and not math.isfinite(value) else value
