"""`TableModel`: a model of one column of a table, with intervals or sets and levels of risk."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from os import PathLike
from typing import TYPE_CHECKING, Any

import numpy as np

from deltauq.calibration import quantiles_of_scores
from deltauq.calibration.conformal import max_coverage
from deltauq.estimators import StackedClassifier, StackedRegressor
from deltauq.tables.errors import TableError, model_errors, require_pandas
from deltauq.tables.io import read_frame
from deltauq.tables.preprocessing import encode
from deltauq.tables.risk import ColumnRanges, RiskScale
from deltauq.tables.schema import REGRESSION, Schema, from_days
from deltauq.tables.text_parsing import check_formats
from deltauq.utils.formatting import short_repr

if TYPE_CHECKING:
    import pandas as pd


QUANTILE = "quantile_"
DATE_COLUMNS = ("prediction", "lower", "upper", QUANTILE)
"""Columns that are dates if the target is one."""


@dataclass(frozen=True)
class Fitted:
    """The fitted parts of a table model, as they are stored in its folder."""

    preprocessor: Any
    """The preprocessing, from a table that the schema has read to numbers."""
    model: StackedRegressor | StackedClassifier
    """Fitted to these numbers."""
    ranges: ColumnRanges
    """The ranges of the numbers."""
    reference: np.ndarray
    """Rows, or averages of rows, that `evaluate` compares uncertain rows with."""
    fingerprints: np.ndarray = field(default_factory=lambda: np.empty(0, dtype=np.uint64))
    """A hash of each row that the model was fitted to, ascending; empty where none are kept."""

    __repr__ = short_repr


@dataclass(frozen=True)
class TableModel:
    """A model of one column of a table, as `deltauq.tables.fit` returns it.

    Attributes
    ----------
    target : str
        The column to predict.
    task : {"regression", "classification"}
    schema : Schema
        The columns that the model was trained on.
    coverage : float
        Default nominal coverage of intervals or sets.
    fitted : Fitted
        The fitted parts.
    risk : RiskScale
        The limits of the levels of risk.
    labels : {"string", "int64", "float64", "bool"}
        The type of classes in the output.
    origin : str
        The ISO timestamp that days are counted from if the target is a date; else empty.
    target_format : str
        The format of targets in text, as `Column.format`.
    report : dict
        The results of fitting, in plain values.
    """

    target: str
    task: str
    schema: Schema
    coverage: float
    fitted: Fitted
    risk: RiskScale
    labels: str = "string"
    origin: str = ""
    target_format: str = ""
    report: dict[str, Any] = field(default_factory=dict)

    def __repr__(self) -> str:
        return (
            f"TableModel(target={self.target!r}, task={self.task!r}, columns={len(self.schema.columns)}, "
            f"model={self.report.get('model')}, coverage={self.coverage})"
        )

    def predict(
        self,
        table: Any,
        coverage: float | None = None,
        *,
        date_format: str | None = None,
        decimal: str | None = None,
        encoding: str = "utf-8",
    ) -> pd.DataFrame:
        """Predict every row of a table.

        Parameters
        ----------
        table : path or data frame of n rows
            With the columns of the training table; other columns are ignored.
        coverage : float, optional
            Nominal coverage. The default is the coverage that the model was fitted with.
        date_format, decimal : str, optional
            As for `deltauq.tables.fit`, if this table has other formats than the training table.
        encoding : str, default="utf-8"
            The encoding of a CSV file.

        Returns
        -------
        predictions : DataFrame of n rows
            For regression: `prediction`, `std`, `lower`, `upper` and `risk`. `std` is the half-width of the
            90 % interval over 1.645, which is the standard deviation of errors if they are normal; it does
            not depend on `coverage`. If the target is a date, `prediction`, `lower` and `upper` are
            timestamps in UTC, and `std` is in days. For classification: `prediction`, `probability_<class>`
            and `std_<class>` for each class, `set`, the list of classes in the prediction set, and `risk`.
            Of rows drawn like the training table, at most 5 % have a high, and at most 20 % a moderate or
            high `risk`.
        """
        if coverage is not None:
            self.check_coverage(coverage)
        X, index = self._read(table, date_format, decimal, encoding)
        columns = self.decode_dates(self.predict_columns(X, coverage))
        return require_pandas().DataFrame(columns, index=index)

    def predict_quantiles(
        self,
        table: Any,
        levels: Sequence[float],
        *,
        date_format: str | None = None,
        decimal: str | None = None,
        encoding: str = "utf-8",
    ) -> pd.DataFrame:
        """Predict quantiles of a number for every row of a table.

        Parameters
        ----------
        table, date_format, decimal, encoding
            As for `predict`.
        levels : sequence of float
            Levels in (0, 1), such as 0.5 for the median.

        Returns
        -------
        quantiles : DataFrame of n rows
            A column for each level, such as `quantile_0.5`. Higher levels have higher quantiles in every row.
        """
        self.check_levels(levels)
        X, index = self._read(table, date_format, decimal, encoding)
        columns = self.decode_dates(self.predict_columns(X, levels=levels))
        names = [name for name in columns if name.startswith(QUANTILE)]
        return require_pandas().DataFrame(columns, columns=names, index=index)

    def check_coverage(self, coverage: float) -> None:
        """Raise an error for a coverage that the number of scored rows does not allow."""
        if not 0.0 < coverage < 1.0:
            raise TableError(f"coverage must lie between 0 and 1, got {coverage:g}.")
        if coverage > self.max_coverage:
            raise TableError(
                f"a coverage of {coverage:g} requires more than {self.n_scored:,} scored rows: the largest "
                f"coverage is {_rounded_down(self.max_coverage):g}."
            )

    def check_levels(self, levels: Sequence[float]) -> None:
        """Raise an error for levels that the task or the number of scored rows does not allow."""
        if len(levels) and self.task != REGRESSION:
            raise TableError(f"{self.target} is a class: quantiles are for numbers.")
        largest = max_coverage(self.n_scored)
        for level in levels:
            if not 0.0 < level < 1.0:
                raise TableError(f"levels of quantiles must lie between 0 and 1, got {level:g}.")
            if not 1.0 - largest <= level <= largest:
                bound = _rounded_down(largest)
                raise TableError(
                    f"a quantile at {level:g} requires more than {self.n_scored:,} scored rows: levels "
                    f"from {1.0 - bound:g} to {bound:g} are possible."
                )
        if len({*map(quantile_name, levels)}) < len(levels):
            raise TableError(f"two of the levels {', '.join(f'{level:g}' for level in levels)} are equal.")

    def set_jobs(self, n_jobs: int | None) -> None:
        """Set the number of threads that predict."""
        self.fitted.model.set_jobs(n_jobs)

    @property
    def n_scored(self) -> int:
        """The number of rows whose out-of-fold or held-out predictions determine intervals or sets."""
        return self.fitted.model.n_scored_

    @property
    def max_coverage(self) -> float:
        """The largest coverage that the number of scored rows allows."""
        largest = max_coverage(self.n_scored)
        # Half of the rows that an interval misses are beyond each end.
        return 2.0 * largest - 1.0 if self.task == REGRESSION else largest

    def encode(self, X: pd.DataFrame) -> np.ndarray:
        """Return n rows, as the schema reads them, as the numbers that the model is fitted to."""
        return encode(self.fitted.preprocessor, X)

    def predict_columns(
        self, X: pd.DataFrame, coverage: float | None = None, levels: Sequence[float] = ()
    ) -> dict[str, Any]:
        """Return the columns of `predict` and `predict_quantiles` for a table that the schema has read.

        Dates are in days.
        """
        coverage = self.coverage if coverage is None else coverage
        with model_errors("the model cannot predict these rows", self.fitted.model):
            numbers = self.encode(X)
            if self.task == REGRESSION:
                return self._regression_columns(numbers, coverage, levels)
            return self._class_columns(numbers, coverage)

    def with_formats(self, date_format: str | None = None, decimal: str | None = None) -> TableModel:
        """Return this model for text in the given formats, if the training table had others.

        A format that the training table had changes nothing: each column keeps its own.
        """
        check_formats(date_format, decimal)
        known = {self.target_format, *(column.format for column in self.schema.columns)}
        date_format, decimal = (None if form in known else form for form in (date_format, decimal))
        given = date_format if self.origin else decimal
        schema = self.schema.with_formats(date_format, decimal)
        return replace(self, schema=schema, target_format=given or self.target_format)

    def decode_dates(self, columns: dict[str, Any]) -> dict[str, Any]:
        """Return the columns of `predict_columns` with dates instead of days, if the target is a date."""
        dates = [name for name in columns if name.startswith(DATE_COLUMNS)] if self.origin else []
        return {**columns, **{name: from_days(columns[name], self.origin) for name in dates}}

    def save(self, folder: str | PathLike[str]) -> None:
        """Write the model to a folder, from which `deltauq.load` reads it.

        Parameters
        ----------
        folder : path
            A new or empty folder, or one that contains a model, which is replaced.
        """
        from deltauq.tables.folder import save

        save(self, folder)

    @property
    def classes(self) -> list[Any]:
        """The classes in the order of their columns; empty for regression."""
        return [self._label(name) for name in getattr(self.fitted.model, "classes_", ())]

    def _read(
        self, table: Any, date_format: str | None, decimal: str | None, encoding: str
    ) -> tuple[pd.DataFrame, pd.Index]:
        """Return the features of a table, and the index of its rows."""
        frame, _ = read_frame(table, encoding)
        schema = self.with_formats(date_format, decimal).schema
        return schema.read(frame.reset_index(drop=True)), frame.index

    def _regression_columns(self, X: np.ndarray, coverage: float, levels: Sequence[float]) -> dict[str, Any]:
        model = self.fitted.model
        mean, sizes = model.predict_sizes(X)
        if not (np.all(np.isfinite(mean)) and np.all(np.isfinite(sizes))):
            raise TableError("the model cannot predict these rows: its predictions are not finite.")
        tails = [(1.0 - coverage) / 2.0, (1.0 + coverage) / 2.0]
        lower, upper = quantiles_of_scores(model.scores_, tails)
        return {
            "prediction": mean,
            "std": model.std_factor_ * sizes,
            "lower": mean + sizes * lower,
            "upper": mean + sizes * upper,
            "risk": self._risk(X, sizes),
            **{
                quantile_name(level): mean + sizes * score
                for level, score in zip(levels, quantiles_of_scores(model.scores_, levels), strict=True)
            },
        }

    def _class_columns(self, X: np.ndarray, coverage: float) -> dict[str, Any]:
        model, classes = self.fitted.model, self.classes
        proba, std = model.predict_proba(X, return_std=True)
        if not (np.all(np.isfinite(proba)) and np.all(np.isfinite(std))):
            raise TableError("the model cannot predict these rows: its probabilities are not finite.")
        columns: dict[str, Any] = {"prediction": [classes[k] for k in proba.argmax(axis=1)]}
        for k, name in enumerate(classes):
            columns[f"probability_{name}"] = proba[:, k]
            columns[f"std_{name}"] = std[:, k]
        sets = model.conformal_.sets(proba, coverage, allow_empty=False)
        columns["set"] = [[classes[k] for k in np.flatnonzero(row)] for row in sets]
        columns["risk"] = self._risk(X, error_probability(proba))
        return columns

    def _risk(self, X: np.ndarray, size: np.ndarray) -> np.ndarray:
        return self.risk.levels({"size": size, "beyond": self.fitted.ranges.beyond(X)})

    def _label(self, name: str) -> Any:
        """Return a class with its type in the training table."""
        if self.labels == "bool":
            return name == "True"
        return {"int64": int, "float64": float}.get(self.labels, str)(name)


def quantile_name(level: float) -> str:
    """Return the name of the column of quantiles at a level."""
    return f"{QUANTILE}{level:g}"


def _rounded_down(largest: float) -> float:
    """Return a largest level with few digits, rounded such that it is allowed."""
    unit = 10.0 ** (1 - np.floor(np.log10(1.0 - largest)))
    return float(np.floor(largest * unit) / unit)


def error_probability(proba: np.ndarray) -> np.ndarray:
    """Return the probability that the predicted class is wrong, from probabilities of shape (n, c)."""
    return 1.0 - proba.max(axis=1)
