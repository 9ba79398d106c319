"""`Evaluation`: the metrics of a table model on a table with known targets, as text, JSON and HTML."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from deltauq import plots
from deltauq.assessment.page import KEPT, kept_figure
from deltauq.assessment.result import Result, to_json_values
from deltauq.assessment.scoring import METRICS, number
from deltauq.metrics import risk_coverage
from deltauq.plots.page import Block, Figure, Section, Table
from deltauq.tables.nearest_anchor import Difference
from deltauq.tables.risk import RISK_FRACTIONS
from deltauq.tables.schema import REGRESSION
from deltauq.tables.slices import SIGNIFICANCE, Group, RowScores, WorseSlice
from deltauq.utils.formatting import short_repr

OUTLIER_FRACTION = 0.01
"""The share of rows, those with the largest errors, that `Evaluation.trimmed` leaves out."""
STRENGTHS = (
    (0.1, "σ does not rank the {}"),
    (0.3, "σ ranks the {} weakly"),
    (0.6, "σ ranks the {} moderately"),
    (math.inf, "σ ranks the {} well"),
)
"""By the upper limit of a correlation, or of an AUROC scaled from chance to perfect."""
TRIMMED_HEADER = f"without the {OUTLIER_FRACTION:.0%} largest errors"
RISK_NOTE = (
    f"Of rows from the training distribution, at most {RISK_FRACTIONS[1]:.0%} have a high risk, and at most "
    f"{RISK_FRACTIONS[0]:.0%} a high or a moderate one. Clearly more indicates a distribution shift."
)
UNCERTAIN_NOTE = (
    "Rows are numbered from 1, without the header. In parentheses: the anchor's value. Numbers are compared "
    "in units of the anchors' standard deviation, categories by equality. Percentages are shares of the "
    "squared distance."
)


@dataclass(frozen=True)
class UncertainRow:
    """One of the most uncertain rows.

    Attributes
    ----------
    row : int
        Its number in the table, from 1.
    target, prediction : float, a date as text, or a class
    spread : float
        As in `RowScores`.
    missed : bool
        Whether the target lies outside the interval or set.
    differences : list of Difference
        The features in which it differs most from its nearest anchor, the largest difference first.
    """

    row: int
    target: Any
    prediction: Any
    spread: float
    missed: bool
    differences: list[Difference]

    __repr__ = short_repr


@dataclass(frozen=True, repr=False)
class Evaluation(Result):
    """The metrics of a model on a table with known targets, and where its predictions are worst.

    Attributes
    ----------
    target : str
        The name of the target's column.
    task : {"regression", "classification"}
    model : str
        The model that was anchored.
    coverage : float
        The nominal coverage of intervals or sets.
    metrics : dict of str to float
    trimmed : dict of str to float
        Of a regression: the metrics that are sensitive to outliers, without the 1 % of rows with the largest
        errors. Empty for classes, and for fewer than 100 rows.
    curve : (nominal, observed), arrays of shape (l,)
        Nominal and empirical coverage of intervals; of classes, confidence and accuracy.
    rows : RowScores
    deciles : list of Group
        By spread, the least uncertain rows first.
    failing_decile : int or None
        The index of the decile with the smallest coverage, if that is significantly below the nominal one.
    risk : dict of str to Group
        By level of risk.
    large_loss, often_missed : list of WorseSlice
        Slices whose loss, or whose share of missed targets, is significantly larger than elsewhere.
    n_slices : int
        How many slices were compared.
    uncertain : list of UncertainRow
        The most uncertain first.
    training_rows : int or None
        How many rows equal, in all columns and the target, a training row; None where the model stores no
        fingerprints of these.
    notes : list of str
    """

    target: str
    task: str
    model: str
    coverage: float
    metrics: dict[str, float]
    trimmed: dict[str, float]
    curve: tuple[np.ndarray, np.ndarray]
    rows: RowScores
    deciles: list[Group]
    failing_decile: int | None
    risk: dict[str, Group]
    large_loss: list[WorseSlice]
    often_missed: list[WorseSlice]
    n_slices: int
    uncertain: list[UncertainRow]
    training_rows: int | None
    notes: list[str]

    @property
    def n_rows(self) -> int:
        """The number of rows that were evaluated."""
        return len(self.rows.loss)

    def heading(self) -> str:
        """Return what was evaluated, on how many rows."""
        return f"{self.target}, {self.model}, {self.task}: {self.n_rows:,} rows"

    def summary(self) -> str:
        """Return coverage, error and ranking in a few sentences."""
        metrics, nominal = self.metrics, self.coverage
        coverage = f"Coverage {metrics['coverage']:.1%} (nominal {nominal:.0%}) on {self.n_rows:,} rows"
        difference = metrics["coverage"] - nominal
        if abs(difference) > 2 * math.sqrt(nominal * (1 - nominal) / self.n_rows):
            coverage += f", significantly {'higher' if difference > 0 else 'lower'}"
        if (k := self.failing_decile) is not None:
            ends = {0: "the least uncertain tenth", len(self.deciles) - 1: "the most uncertain tenth"}
            group = ends.get(k, f"decile {k + 1} of σ")
            coverage += f", but only {self.deciles[k].coverage:.1%} in {group}"
        if self.task == REGRESSION:
            mean = f"mean {number(metrics['mae'])}"
            if self.trimmed:
                mean += f"; {number(self.trimmed['mae'])} {TRIMMED_HEADER}"
            error = f"Median absolute error {number(metrics['median_absolute_error'])} ({mean})"
            ranking = _ranking(metrics["spearman"], 0.0, "errors", "rank correlation")
        else:
            error = f"Accuracy {metrics['accuracy']:.1%}"
            ranking = _ranking(metrics["auroc_spread"], 0.5, "misclassifications", "AUROC")
        return f"{coverage}. {error}. {ranking}."

    def tables(self, most: int | None = 5) -> dict[str, Table]:
        """Return the evaluation as tables of text, by their titles.

        Parameters
        ----------
        most : int or None, default=5
            The largest number of slices, and of uncertain rows; None for all.
        """
        return {
            "Metrics": self._metric_table(),
            "Risk": self._group_table("risk", self.risk, RISK_NOTE),
            **self._slice_tables(most),
            "Most uncertain rows": self._uncertain_table(most),
        }

    def sections(self) -> list[Section]:
        """Return the sections of the page: tables and figures."""
        errors = "Error" if self.task == REGRESSION else "Mistakes"
        deciles = {str(k): part for k, part in enumerate(self.deciles, start=1)}
        caption = (
            f"By decile of σ, the least uncertain rows first. The nominal coverage, {self.coverage:.0%}, "
            "is guaranteed on average over all rows, not in each decile."
        )
        return [
            Section("Metrics", [*self.notes, self._metric_table()]),
            Section("Coverage", [self._coverage_figure(), self._group_table("decile", deciles, caption)]),
            Section("Risk", [self._group_table("risk", self.risk, RISK_NOTE)]),
            Section(f"{errors} against σ", [self._error_figures()]),
            Section("Slices with larger errors", self._slice_blocks()),
            Section("Most uncertain rows", [self._uncertain_table(None)]),
        ]

    def to_dict(self) -> dict[str, Any]:
        """Return everything but the rows as values that JSON can hold; NaN becomes None."""
        nominal, observed = self.curve
        curve = {"nominal": nominal, "observed": observed}
        return dict(to_json_values({**vars(self), "rows": self.n_rows, "curve": curve}))

    def _metric_table(self) -> Table:
        trimmed = self.trimmed
        rows = []
        for name, metric in METRICS.items():
            if name in self.metrics:
                row = [metric.meaning.format(f"{self.coverage:.0%}"), metric.text(self.metrics[name])]
                rows.append([*row, metric.text(trimmed.get(name, math.nan))] if trimmed else row)
        return Table(["metric", "value", *([TRIMMED_HEADER] if trimmed else [])], rows)

    def _group_table(self, name: str, groups: Mapping[str, Group], caption: str) -> Table:
        regression = self.task == REGRESSION
        losses = ("median |error|", "mean |error|") if regression else ("error rate", "classes in the set")
        rows = []
        for label, part in groups.items():
            values = (number(part.median_loss), number(part.loss))
            if not regression:
                values = (f"{part.loss:.1%}", number(part.size))
            share, spread = f"{part.rows / self.n_rows:.1%}", f"{number(part.low)} to {number(part.high)}"
            rows.append([label, f"{part.rows:,}", share, spread, *values, f"{part.coverage:.1%}"])
        return Table([name, "rows", "share", "σ", *losses, "coverage"], rows, caption)

    def _slice_tables(self, most: int | None) -> dict[str, Table]:
        regression = self.task == REGRESSION
        loss = "median |error|" if regression else "error rate"
        tables = {}
        for title, parts, text in (
            (f"Slices with a larger {loss}", self.large_loss, number if regression else "{:.1%}".format),
            ("Slices with a larger share of missed targets", self.often_missed, "{:.1%}".format),
        ):
            rows = [[p.name, f"{p.rows:,}", text(p.inside), text(p.elsewhere)] for p in parts[:most]]
            if rows:
                tables[title] = Table(["slice", "rows", "inside", "elsewhere"], rows)
        return tables

    def _uncertain_table(self, most: int | None) -> Table:
        header = ["row", self.target, "predicted", "σ", "covered", "differences from the nearest anchor"]
        rows = []
        for row in self.uncertain[:most]:
            # No line breaks within a feature: the column stays wide enough on narrow screens.
            parts = (f"{d.feature} {d.value} ({d.anchor}), {d.share:.0%}" for d in row.differences)
            differences = "; ".join(part.replace(" ", "\N{NO-BREAK SPACE}") for part in parts) or "none"
            values = [number(v) if isinstance(v, float) else str(v) for v in (row.target, row.prediction)]
            covered = "no" if row.missed else "yes"
            rows.append([f"{row.row:,}", *values, number(row.spread), covered, differences])
        return Table(header, rows, UNCERTAIN_NOTE)

    def _coverage_figure(self) -> Figure:
        nominal, observed = self.curve
        if self.task == REGRESSION:
            figure = plots.coverage_curves(nominal, {"intervals": observed})
            return Figure(figure, "Intervals", "Empirical coverage of intervals of every nominal coverage.")
        figure = plots.coverage_curves(nominal, {"rows with this confidence": observed})
        figure.update_xaxes(title_text="probability of the predicted class")
        figure.update_yaxes(title_text="accuracy")
        return Figure(figure, "Probabilities", "In ten bins of the probability; empty bins are left out.")

    def _error_figures(self) -> list[Figure]:
        scores = self.rows
        if self.task != REGRESSION:
            losses = np.interp(KEPT, *risk_coverage(scores.loss, scores.spread))
            figure = kept_figure({"rows kept": losses}, "error rate of the rows kept")
            figure.figure.update_yaxes(tickformat=".0%")
            return [figure]
        errors = scores.loss[np.argsort(scores.spread, kind="stable")]
        losses = np.array([np.median(errors[: math.ceil(share * len(errors))]) for share in KEPT])
        by_width = Figure(
            plots.errors_by_width(scores.loss, scores.size / 2, self.coverage),
            "Rows in groups of equal size, by σ",
            "Rising points: σ ranks the errors. Points on the diagonal: intervals have their nominal "
            "coverage in each group; above it they are too narrow.",
        )
        return [by_width, kept_figure({"rows kept": losses}, "median |error| of the rows kept")]

    def _slice_blocks(self) -> list[Block]:
        large = "errors above the median" if self.task == REGRESSION else "misclassifications"
        rule = (
            f"{self.n_slices:,} slices were compared: each by the categories, values or quartiles of one "
            f"column. A slice is listed if it has significantly more {large}, or more missed targets, than "
            f"as many rows drawn at random (significance {SIGNIFICANCE:.0%}, Bonferroni correction)."
        )
        tables = self._slice_tables(None)
        if not tables:
            return ["No slice is significantly worse than the rest.", rule]
        return [*(Table(table.header, table.rows, title) for title, table in tables.items()), rule]


def _ranking(value: float, chance: float, errors: str, name: str) -> str:
    """Describe how well σ ranks errors."""
    if not math.isfinite(value):
        return f"The ranking of {errors} by σ is not defined"
    strength = (value - chance) / (1.0 - chance)
    text = next(text for limit, text in STRENGTHS if strength < limit)
    return f"{text.format(errors)} ({name} {number(value)})"
