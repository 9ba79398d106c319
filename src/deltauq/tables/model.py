"""`TableModel`: an anchored model of one column of a table, with intervals or sets and levels of risk."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from os import PathLike
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import ndtri
from sklearn.metrics import pairwise_distances_argmin

from deltauq.calibration import ConformalClassifier, ConformalRegressor
from deltauq.calibration.conformal import conformal_quantile, max_coverage
from deltauq.core import Anchors
from deltauq.estimators import AnchoredClassifier, AnchoredRegressor
from deltauq.tables.errors import TableError, model_errors, require_pandas
from deltauq.tables.io import read_frame
from deltauq.tables.preprocessing import encode
from deltauq.tables.schema import REGRESSION, Schema, from_days
from deltauq.tables.text_parsing import check_formats
from deltauq.utils.formatting import short_repr

if TYPE_CHECKING:
    import pandas as pd

STD_LEVEL = 0.9
"""`std` is the half-width of intervals of this coverage over that of a standard normal distribution."""
RISK_LEVELS = ("low", "moderate", "high")
RISK_FRACTIONS = (0.20, 0.05)
"""Of rows like the training data, at most these shares have a moderate or high, and a high risk."""
REVERSE_FRACTION = 0.2
"""The part of these rows for the second of two measures: the first one ranks errors better."""
ROWS_PER_CALL = 16_384


@dataclass(frozen=True)
class RiskScale:
    """The limits beyond which the risk of a row is moderate, and high.

    Attributes
    ----------
    limits : dict of str to (float, float)
        For each measure of risk. Regression has `std`, the spread over anchors, and `reverse`, the
        reverse-anchoring score; classification has `error_probability`, 1 minus the probability of the
        predicted class.
    """

    limits: dict[str, tuple[float, float]]

    @classmethod
    def from_held_out(cls, measures: Mapping[str, np.ndarray]) -> RiskScale:
        """Return the limits that a new row exceeds with a probability of at most `RISK_FRACTIONS`.

        This is conformal prediction: if n held-out rows and a new row are exchangeable, the new row exceeds
        the a-th largest held-out value with a probability of at most a / (n + 1). Two measures share the a
        rows. Where n is too small, the limit is the largest float. Each measure is an array of shape (n,).
        """
        n = len(next(iter(measures.values())))
        limits: dict[str, list[float]] = {name: [] for name in measures}
        for share in RISK_FRACTIONS:
            allowed = int(share * (n + 1) + 1e-9)
            second = (
                max(int(REVERSE_FRACTION * allowed + 1e-9), min(allowed - 1, 1), 0)
                if len(measures) > 1
                else 0
            )
            for (name, values), a in zip(measures.items(), (allowed - second, second), strict=False):
                limits[name].append(float(np.sort(values)[n - a]) if a > 0 else np.finfo(np.float64).max)
        return cls({name: (moderate, high) for name, (moderate, high) in limits.items()})

    def levels(self, measures: Mapping[str, np.ndarray]) -> np.ndarray:
        """Return the `RISK_LEVELS` of n rows, by the measure with the higher level."""
        steps = [np.searchsorted(limits, measures[name]) for name, limits in self.limits.items()]
        return np.array(RISK_LEVELS, dtype=object)[np.max(steps, axis=0)]


@dataclass(frozen=True)
class Fitted:
    """The fitted parts of a table model, as they are stored in its folder."""

    preprocessor: Any
    """The preprocessing, from a table that the schema has read to numbers."""
    model: AnchoredRegressor | AnchoredClassifier
    """Fitted to these numbers; a regression predicts in units of `TableModel.target_scale`."""
    scores: np.ndarray
    """The conformal scores of the held-out rows, ascending."""
    reference: Anchors | None = None
    """The points with known targets that reverse anchoring compares with; None for classification."""
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
    target_mean, target_scale : float
        The model predicts ``(y - target_mean) / target_scale``.
    delta : float
        Added to σ of a regression, so that a σ near zero does not claim an error near zero.
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
    target_mean: float = 0.0
    target_scale: float = 1.0
    delta: float = 0.0
    labels: str = "string"
    origin: str = ""
    target_format: str = ""
    report: dict[str, Any] = field(default_factory=dict)

    def __repr__(self) -> str:
        return (
            f"TableModel(target={self.target!r}, task={self.task!r}, columns={len(self.schema.columns)}, "
            f"model={type(self.fitted.model.estimator).__name__}, coverage={self.coverage})"
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
        frame, _ = read_frame(table, encoding)
        schema = self.with_formats(date_format, decimal).schema
        columns = self.predict_columns(schema.read(frame.reset_index(drop=True)), coverage)
        return require_pandas().DataFrame(self.decode_dates(columns), index=frame.index)

    def check_coverage(self, coverage: float) -> None:
        """Raise an error for a coverage that the number of held-out rows does not allow."""
        if not 0.0 < coverage < 1.0:
            raise TableError(f"coverage must lie between 0 and 1, got {coverage:g}.")
        n = len(self.fitted.scores)
        if coverage > max_coverage(n):
            raise TableError(
                f"a coverage of {coverage:g} requires more than {n:,} held-out rows: "
                f"the largest coverage is {max_coverage(n):.3g}."
            )

    def encode(self, X: pd.DataFrame) -> np.ndarray:
        """Return n rows, as the schema reads them, as the numbers that the model is fitted to."""
        return encode(self.fitted.preprocessor, X)

    def predict_columns(self, X: pd.DataFrame, coverage: float | None = None) -> dict[str, Any]:
        """Return the columns of `predict`, dates in days, for a table that the schema has read."""
        coverage = self.coverage if coverage is None else coverage
        columns = self._regression_columns if self.task == REGRESSION else self._class_columns
        with model_errors("the model cannot predict these rows", self.fitted.model.estimator):
            return columns(self.encode(X), coverage)

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
        names = ("prediction", "lower", "upper") if self.origin else ()
        return {**columns, **{name: from_days(columns[name], self.origin) for name in names}}

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

    def _regression_columns(self, X: np.ndarray, coverage: float) -> dict[str, Any]:
        fitted = self.fitted
        posterior = fitted.model.posterior(X)
        mean, std = posterior.mean, posterior.std
        if not (np.all(np.isfinite(mean)) and np.all(np.isfinite(std))):
            raise TableError("the model cannot predict these rows: its predictions are not finite.")
        lower, upper = ConformalRegressor.from_scores(fitted.scores, self.delta).interval(mean, std, coverage)
        reverse = reverse_scores(fitted.model, X, mean, fitted.reference)
        return {
            "prediction": self.target_mean + self.target_scale * mean,
            "std": self.target_scale * error_std(fitted.scores, std + self.delta),
            "lower": self.target_mean + self.target_scale * lower,
            "upper": self.target_mean + self.target_scale * upper,
            "risk": self.risk.levels({"std": std, "reverse": reverse}),
        }

    def _class_columns(self, X: np.ndarray, coverage: float) -> dict[str, Any]:
        model, classes = self.fitted.model, self.classes
        proba, std = model.predict_proba(X, return_std=True)
        conformal = ConformalClassifier.from_scores(self.fitted.scores, model.classes_)
        columns: dict[str, Any] = {"prediction": [classes[k] for k in proba.argmax(axis=1)]}
        for k, name in enumerate(classes):
            columns[f"probability_{name}"] = proba[:, k]
            columns[f"std_{name}"] = std[:, k]
        sets = conformal.sets(proba, coverage, allow_empty=False)
        columns["set"] = [[classes[k] for k in np.flatnonzero(row)] for row in sets]
        columns["risk"] = self.risk.levels({"error_probability": error_probability(proba)})
        return columns

    def _label(self, name: str) -> Any:
        """Return a class with its type in the training table."""
        if self.labels == "bool":
            return name == "True"
        return {"int64": int, "float64": float}.get(self.labels, str)(name)


def reverse_scores(model: Any, X: np.ndarray, predicted: np.ndarray, reference: Any) -> np.ndarray:
    """Return for n rows how wrong predictions of points with known targets are if the row is the anchor.

    The score of x is the largest ``|y_r - f(r)|`` over the reference points r with the targets y_r, where
    f(r) is predicted under the anchor x alone. A model of differences needs the target of that anchor, which
    is not known: the prediction for x, of which `predicted` has shape (n,), takes its place.
    """
    scores = np.zeros(len(X))
    for start in range(0, len(X), ROWS_PER_CALL):
        part = slice(start, start + ROWS_PER_CALL)
        rows, worst = X[part], scores[part]
        for point, target in zip(reference.X, reference.y, strict=True):
            tuples = model.encoding_.encode(np.broadcast_to(point, rows.shape), rows)
            value = model.target_.decode(model.estimator_.predict(tuples), predicted[part])
            np.maximum(worst, np.abs(target - value), out=worst)
    return scores


def reference_points(anchors: Anchors, X: np.ndarray, y: np.ndarray) -> Anchors:
    """Return the different anchors with targets, given the training rows X and their targets y.

    An anchor without a target gets the mean target of all rows that it is nearest to, or that of the row
    nearest to it.
    """
    anchors = anchors.take(np.unique(anchors.X, axis=0, return_index=True)[1])
    if anchors.y is not None:
        return anchors
    nearest = pairwise_distances_argmin(X, anchors.X)
    counts = np.bincount(nearest, minlength=len(anchors))
    sums = np.bincount(nearest, weights=y, minlength=len(anchors))
    own = y[pairwise_distances_argmin(anchors.X, X)]
    return Anchors(anchors.X, np.where(counts > 0, sums / np.maximum(counts, 1), own))


def error_std(scores: np.ndarray, width: np.ndarray) -> np.ndarray:
    """Return a standard deviation of errors that is consistent with the intervals and robust to outliers.

    It is the half-width of the 90 % interval over that of a normal distribution. With fewer than nine scores
    the level is lower; where more than 90 % of the scores are zero, it is that of the smallest other score.
    The scores are ascending; the width is σ + δ of new rows.
    """
    n = len(scores)
    zeros = int(np.searchsorted(scores, 0.0, side="right"))
    level = min(max(STD_LEVEL, (zeros + 1) / (n + 1)), n / (n + 1))
    return conformal_quantile(scores, level) / ndtri((1.0 + level) / 2.0) * width


def error_probability(proba: np.ndarray) -> np.ndarray:
    """Return the probability that the predicted class is wrong, from probabilities of shape (n, c)."""
    return 1.0 - proba.max(axis=1)
