"""`TableModel`: an anchored model over a table, with intervals or sets that keep their promise."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from os import PathLike
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import ndtri
from sklearn.metrics import pairwise_distances_argmin

from deltauq.calibration import ConformalClassifier, ConformalRegressor
from deltauq.core import Posterior
from deltauq.estimators import AnchoredClassifier, AnchoredRegressor
from deltauq.tables.errors import TableError, require_pandas
from deltauq.tables.io import read_frame
from deltauq.tables.schema import REGRESSION, Schema, dates
from deltauq.tables.text_parsing import check_formats
from deltauq.utils.formatting import short_repr

if TYPE_CHECKING:
    import pandas as pd

STD_LEVEL = 0.9
"""`std` is the half-width of intervals of this coverage over that of a standard normal distribution."""
RISK_LEVELS = ("low", "moderate", "high")
RISK_SHARES = (0.20, 0.05)
"""At most so many of the rows like the training data are of moderate or high, and of high risk."""
SECOND_SHARE = 5
"""One in so many of these rows is for the second of two measures: the first one ranks errors better."""
ROWS_PER_CALL = 16_384


@dataclass(frozen=True)
class RiskScale:
    """The limits beyond which the risk of a row is moderate, and high.

    Attributes
    ----------
    limits : dict of str to (float, float)
        For each measure of risk. Of a regression `std`, the spread over anchors, and `reverse`, the
        reverse-anchoring score; of classes `error_probability`, 1 minus the probability of the predicted
        class.
    """

    limits: dict[str, tuple[float, float]]

    @classmethod
    def measure(cls, measures: Mapping[str, np.ndarray]) -> RiskScale:
        """Return the limits that a new row exceeds with a probability of at most `RISK_SHARES`.

        This is conformal prediction: of n held-out rows and a new one drawn like them, each is as likely as
        any other to have one of the a largest values, so that the a-th largest held-out value is exceeded
        with a probability of at most a / (n + 1). Two measures share the a rows. A limit that n is too small
        for is the largest number there is.

        Parameters
        ----------
        measures : mapping of str to array of shape (n,)
            Of the held-out rows; at most two.

        Returns
        -------
        scale : RiskScale
        """
        n = len(next(iter(measures.values())))
        limits: dict[str, list[float]] = {name: [] for name in measures}
        for share in RISK_SHARES:
            allowed = int(share * (n + 1) + 1e-9)
            second = max(allowed // SECOND_SHARE, min(allowed - 1, 1), 0) if len(measures) > 1 else 0
            for (name, values), a in zip(measures.items(), (allowed - second, second), strict=False):
                limits[name].append(float(np.sort(values)[n - a]) if a > 0 else np.finfo(np.float64).max)
        return cls({name: (moderate, high) for name, (moderate, high) in limits.items()})

    def levels(self, measures: Mapping[str, np.ndarray]) -> np.ndarray:
        """Return the risk of rows, by the measure that is further beyond its limits.

        Parameters
        ----------
        measures : mapping of str to array of shape (n,)

        Returns
        -------
        levels : array of n strings
            Of `RISK_LEVELS`.
        """
        steps = [np.searchsorted(limits, measures[name]) for name, limits in self.limits.items()]
        return np.array(RISK_LEVELS, dtype=object)[np.max(steps, axis=0)]


class Given:
    """Stands where a conformal wrapper asks its model, and hands back what the model has said already.

    Parameters
    ----------
    classes : array of shape (c,), optional
    """

    def __init__(self, classes: np.ndarray | None = None) -> None:
        self.classes_ = classes

    def posterior(self, posterior: Posterior) -> Posterior:
        """Return the posterior that was given."""
        return posterior

    def predict_proba(self, proba: np.ndarray) -> np.ndarray:
        """Return the probabilities that were given, of shape (n, c)."""
        return proba


@dataclass(frozen=True)
class Fitted:
    """The parts of a table model that were learnt, as they are written to a file.

    Attributes
    ----------
    columns : ColumnTransformer
        From a table that was read by the schema to numbers.
    model : AnchoredRegressor or AnchoredClassifier
        Over those numbers; of a regression, in units of `unit`.
    scores : array of shape (n,)
        The conformal scores of the rows held out, ascending.
    reference, reference_targets : arrays of shape (m, d) and (m,)
        Of a regression: the points that reverse anchoring compares with; else empty.
    fingerprints : uint64 array of shape (r,)
        A hash of each row that the model was made from, ascending; empty where none are kept.
    """

    columns: Any
    model: AnchoredRegressor | AnchoredClassifier
    scores: np.ndarray
    reference: np.ndarray = field(default_factory=lambda: np.empty((0, 0)))
    reference_targets: np.ndarray = field(default_factory=lambda: np.empty(0))
    fingerprints: np.ndarray = field(default_factory=lambda: np.empty(0, dtype=np.uint64))

    __repr__ = short_repr


@dataclass(frozen=True)
class TableModel:
    """A model of one column of a table by the others, as `deltauq.tables.fit` makes it.

    Attributes
    ----------
    target : str
    task : {"regression", "classification"}
    schema : Schema
        The columns it was trained on.
    coverage : float
        The share of targets that intervals or sets are to hold, unless asked otherwise.
    fitted : Fitted
    risk : RiskScale
    center, unit : float
        Of the target: the model predicts ``(y - center) / unit``.
    delta : float
        Of a regression: added to σ, so that a σ of nearly zero promises no error of nearly zero.
    labels : {"string", "int64", "float64", "bool"}
        What classes are written as.
    origin : str
        Of a date as target, the ISO timestamp that days are counted from; else empty.
    target_format : str
        How text is read as targets, as `Column.format`.
    report : dict
        What fitting found, in plain values.
    """

    target: str
    task: str
    schema: Schema
    coverage: float
    fitted: Fitted
    risk: RiskScale
    center: float = 0.0
    unit: float = 1.0
    delta: float = 0.0
    labels: str = "string"
    origin: str = ""
    target_format: str = ""
    report: dict[str, Any] = field(default_factory=dict)

    def __repr__(self) -> str:
        model = self.fitted.model
        return (
            f"TableModel(target={self.target!r}, task={self.task!r}, columns={len(self.schema.columns)}, "
            f"model={type(getattr(model, 'estimator', model)).__name__}, coverage={self.coverage})"
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
            With the columns of the training table; further ones are ignored.
        coverage : float, optional
            Instead of the model's own.
        date_format, decimal : str, optional
            As for `deltauq.tables.fit`, of a table with other formats than the training table.
        encoding : str, default="utf-8"
            Of a CSV file.

        Returns
        -------
        predictions : DataFrame of n rows
            Of a regression: `prediction`, `std`, `lower`, `upper` and `risk`. `std` is the half-width of the
            interval of 90 % over 1.645: where errors are normal, their standard deviation; it does not
            depend on `coverage`. Of dates, all but `std`, in days, and `risk` are timestamps in UTC. Of
            classes: `prediction`, for each class `probability_<class>` and `std_<class>`, `set`, the list of
            classes that may be, and `risk`. Of rows drawn like the training table, `risk` is "high" for at
            most 5 %, and "moderate" or "high" for at most 20 %.
        """
        if coverage is not None:
            self.check_coverage(coverage)
        frame, _ = read_frame(table, encoding)
        schema = self.with_formats(date_format, decimal).schema
        columns = self.predict_columns(schema.read(frame.reset_index(drop=True)), coverage)
        return require_pandas().DataFrame(self.dated(columns), index=frame.index)

    def check_coverage(self, coverage: float) -> None:
        """Refuse a coverage that the held-out rows cannot promise."""
        if not 0.0 < coverage < 1.0:
            raise TableError(f"coverage must lie between 0 and 1, got {coverage:g}.")
        n = len(self.fitted.scores)
        if (n + 1) * coverage > n + 1e-9:
            raise TableError(
                f"a coverage of {coverage:g} cannot be promised from {n:,} held-out rows: "
                f"{n / (n + 1):.3g} can."
            )

    def predict_columns(self, X: pd.DataFrame, coverage: float | None = None) -> dict[str, Any]:
        """Return the columns of `predict`, dates in days, for a table that was read by the schema."""
        coverage = self.coverage if coverage is None else coverage
        columns = self._regression_columns if self.task == REGRESSION else self._class_columns
        try:
            return columns(self._numbers(X), coverage)
        except (ValueError, IndexError, ArithmeticError) as error:  # such as predictions that are not finite
            said = str(error).strip().splitlines()[0].rstrip(".")
            raise TableError(f"the model cannot predict these rows: {said}.") from error

    def with_formats(self, date_format: str | None = None, decimal: str | None = None) -> TableModel:
        """Return this model for text in other formats than the training table had, where they are given.

        A format that the training table had changes nothing: each column keeps its own.
        """
        check_formats(date_format, decimal)
        known = {self.target_format, *(column.format for column in self.schema.columns)}
        date_format, decimal = (None if form in known else form for form in (date_format, decimal))
        given = date_format if self.origin else decimal
        schema = self.schema.with_formats(date_format, decimal)
        return replace(self, schema=schema, target_format=given or self.target_format)

    def dated(self, columns: dict[str, Any]) -> dict[str, Any]:
        """Return what `predict_columns` gave with dates for days, where the target is a date."""
        names = ("prediction", "lower", "upper") if self.origin else ()
        return {**columns, **{name: dates(columns[name], self.origin) for name in names}}

    def save(self, folder: str | PathLike[str]) -> None:
        """Write the model to a folder, from which `deltauq.load` reads it.

        Parameters
        ----------
        folder : path
            A new or empty one, or one that holds a model, which is replaced.
        """
        from deltauq.tables.folder import save

        save(self, folder)

    @property
    def classes(self) -> list[Any]:
        """The classes in the order of their columns, or nothing for a regression."""
        return [self._label(name) for name in getattr(self.fitted.model, "classes_", ())]

    @cached_property
    def conformal(self) -> ConformalRegressor | ConformalClassifier:
        """What makes intervals or sets: over `Posterior`s in the model's unit, or probabilities."""
        if self.task == REGRESSION:
            regressor = ConformalRegressor(Given(), delta=self.delta)
            regressor.delta_, regressor.scores_ = self.delta, self.fitted.scores
            return regressor
        classifier = ConformalClassifier(Given(self.fitted.model.classes_))
        classifier.classes_, classifier.scores_ = self.fitted.model.classes_, self.fitted.scores
        return classifier

    def _numbers(self, X: pd.DataFrame) -> np.ndarray:
        with warnings.catch_warnings():
            # Of words that training has not met: the schema tells of them.
            warnings.simplefilter("ignore")
            return np.asarray(self.fitted.columns.transform(X), dtype=np.float64)

    def _regression_columns(self, X: np.ndarray, coverage: float) -> dict[str, Any]:
        posterior = self.fitted.model.posterior(X)
        lower, upper = self.conformal.predict_interval(posterior, coverage)
        reverse = reverse_scores(self.fitted.model, X, self.fitted.reference, self.fitted.reference_targets)
        return {
            "prediction": self.center + self.unit * posterior.mean,
            "std": self.unit * error_std(self.fitted.scores, posterior.std + self.delta),
            "lower": self.center + self.unit * lower,
            "upper": self.center + self.unit * upper,
            "risk": self.risk.levels({"std": posterior.std, "reverse": reverse}),
        }

    def _class_columns(self, X: np.ndarray, coverage: float) -> dict[str, Any]:
        proba, std = self.fitted.model.predict_proba(X, return_std=True)
        sets = self.conformal.predict_set(proba, coverage, allow_empty=False)
        classes = self.classes
        columns: dict[str, Any] = {"prediction": [classes[k] for k in proba.argmax(axis=1)]}
        for k, name in enumerate(classes):
            columns[f"probability_{name}"] = proba[:, k]
            columns[f"std_{name}"] = std[:, k]
        columns["set"] = [_members(classes, row) for row in sets]
        columns["risk"] = self.risk.levels({"error_probability": error_probability(proba)})
        return columns

    def _label(self, name: str) -> Any:
        """Return a class as it stood in the training table."""
        if self.labels == "bool":
            return name == "True"
        return {"int64": int, "float64": float}.get(self.labels, str)(name)


def error_std(scores: np.ndarray, width: np.ndarray) -> np.ndarray:
    """Return a standard deviation of errors that fits the intervals and that no outlier sets.

    It is the half-width of the interval of 90 % over that of a normal distribution. Fewer than nine scores
    give a lower level, and where nine errors in ten are zero, the level is that of the smallest other score.

    Parameters
    ----------
    scores : array of shape (n,)
        The conformal scores of held-out rows, ascending.
    width : array of shape (m,)
        σ + δ of new rows.

    Returns
    -------
    std : array of shape (m,)
    """
    n = len(scores)
    zeros = int(np.searchsorted(scores, 0.0, side="right"))
    level = min(max(STD_LEVEL, (zeros + 1) / (n + 1)), n / (n + 1))
    score = scores[int(np.ceil((n + 1) * level - 1e-9)) - 1]
    return score / ndtri((1.0 + level) / 2.0) * width


def error_probability(proba: np.ndarray) -> np.ndarray:
    """Return how probable it is that the predicted class is wrong, by probabilities of shape (n, c)."""
    return 1.0 - proba.max(axis=1)


def _members(classes: Sequence[Any], row: np.ndarray) -> list[Any]:
    return [name for name, inside in zip(classes, row, strict=True) if inside]


def reverse_scores(model: Any, X: np.ndarray, anchors: np.ndarray, targets: np.ndarray) -> np.ndarray:
    """Return how badly each row serves as the anchor of training points whose targets are known.

    The score of x is the largest ``|y_r - f([x, r - x])|`` over the points r.

    Parameters
    ----------
    model : fitted AnchoredRegressor
    X : array of shape (n, d)
    anchors : array of shape (m, d)
        The points r.
    targets : array of shape (m,)

    Returns
    -------
    scores : array of shape (n,)
    """
    scores = np.zeros(len(X))
    for start in range(0, len(X), ROWS_PER_CALL):
        rows, worst = X[start : start + ROWS_PER_CALL], scores[start : start + ROWS_PER_CALL]
        for anchor, target in zip(anchors, targets, strict=True):
            tuples = model.encoding_.encode(np.broadcast_to(anchor, rows.shape), rows)
            np.maximum(worst, np.abs(target - model.estimator_.predict(tuples)), out=worst)
    return scores


def anchor_targets(anchors: np.ndarray, X: np.ndarray, y: np.ndarray, averaged: bool) -> np.ndarray:
    """Return the target of each anchor.

    Parameters
    ----------
    anchors : array of shape (m, d)
    X : array of shape (n, d)
        The training rows.
    y : array of shape (n,)
    averaged : bool
        Whether an anchor stands for all rows that it is nearest to, and has the mean of their targets; an
        anchor that is a row has that row's.

    Returns
    -------
    targets : array of shape (m,)
    """
    targets = y[pairwise_distances_argmin(anchors, X)].astype(np.float64)
    if averaged:
        nearest = pairwise_distances_argmin(X, anchors)
        counts = np.bincount(nearest, minlength=len(anchors))
        sums = np.bincount(nearest, weights=y, minlength=len(anchors))
        targets = np.where(counts > 0, sums / np.maximum(counts, 1), targets)
    return targets
