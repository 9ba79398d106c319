"""`fit`: from a table to a model of one of its columns."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, clone
from sklearn.model_selection import train_test_split

from deltauq.calibration import ConformalClassifier, ConformalRegressor
from deltauq.calibration.scaling import permuted_features
from deltauq.core import Posterior
from deltauq.core.anchors import PRIORS
from deltauq.estimators import AnchoredClassifier, AnchoredRegressor
from deltauq.tables.base_models import ROW_KEEPERS, UNIT_FREE, BaseModel, build_base_model
from deltauq.tables.errors import TableError
from deltauq.tables.model import (
    Fitted,
    Given,
    RiskScale,
    TableModel,
    anchor_targets,
    error_probability,
    reverse_scores,
)
from deltauq.tables.model_selection import CENTERS, FOLDS, Choice, Settings, choose, typical_of
from deltauq.tables.preprocessing import (
    MOST_FINGERPRINTS,
    TrainingTable,
    build_preprocessor,
    load_table,
    row_fingerprints,
    table_sha256,
)
from deltauq.tables.schema import REGRESSION

HELD_OUT = 0.25
"""The share of rows that calibrate."""
MIN_ROWS = 10
"""Fewer rows are not trained on."""
N_ANCHORS = 20
ROWS_AS_ANCHORS = ("data", "balanced")
"""Priors whose anchors are rows of the training table."""
Progress = Callable[[int, int], None]


def fit(
    table: Any,
    target: str,
    *,
    task: str = "auto",
    model: str | BaseEstimator = "forest",
    coverage: float = 0.9,
    center: str = "auto",
    anchors: str = "data",
    n_anchors: int = N_ANCHORS,
    n_train_anchors: int | str = "quick",
    max_rows: int | None = None,
    date_format: str | None = None,
    decimal: str | None = None,
    encoding: str = "utf-8",
    random_state: int = 0,
    n_jobs: int | None = None,
    progress: Progress | None = None,
) -> TableModel:
    """Fit an anchored model to a table, and calibrate it on a part of the rows.

    Gaps are filled, dates become days and words become columns before anchoring. A quarter of the rows is
    held out: it calibrates intervals or sets by split conformal prediction, and the levels of risk.

    Parameters
    ----------
    table : path, pandas DataFrame, or anything that speaks Arrow
        A path names a CSV (possibly packed), Parquet or Arrow file.
    target : str
        The column to predict.
    task : {"auto", "regression", "classification"}, default="auto"
    model : {"forest", "boosting", "svm", "knn", "mlp", "tree", "linear"} or estimator, default="forest"
    coverage : float, default=0.9
        The share of targets that intervals or sets are to hold.
    center : {"auto", "anchored", "estimator"}, default="auto"
        What is predicted: the mean over anchors, or the plain model fitted beside it. "auto" takes the
        one with the smaller error in cross-validation.
    anchors : {"data", "normal", "balanced", "kmeans"}, default="data"
        The prior P(R). Anchors are part of the model: those of "data" and "balanced" are rows of the table.
    n_anchors : int, default=20
        K, but no more than there are rows to train on.
    n_train_anchors : int, "auto" or "quick", default="quick"
        M. "auto" is that of `AnchoredRegressor`; "quick" makes a tenth of its pairs, but for forests.
    max_rows : int, optional
        Of more rows, as many are drawn at random.
    date_format : str, optional
        The format of dates in text, as for `datetime.strptime`, such as "%d/%m/%Y". ISO 8601, days before
        months with points (31.12.2024), and what can be read in one way only are recognised without it.
    decimal : {".", ","}, optional
        The decimal mark of numbers in text that can be read in two ways, such as 1,250. Others, such as
        2.450,00, are recognised without it.
    encoding : str, default="utf-8"
        Of a CSV file.
    random_state : int, default=0
    n_jobs : int, optional
        Threads.
    progress : callable, optional
        Called with the steps done and the steps there are.

    Returns
    -------
    model : TableModel

    Examples
    --------
    >>> from deltauq.tables import fit
    >>> from sklearn.datasets import load_diabetes
    >>> table = load_diabetes(as_frame=True).frame
    >>> model = fit(table[:300], "target", model="tree")
    >>> list(model.predict(table[300:]).columns)
    ['prediction', 'std', 'lower', 'upper', 'risk']
    """
    _check_words(model, coverage, center, anchors)
    target = str(target)
    data = load_table(
        table,
        target,
        task,
        max_rows,
        random_state,
        date_format=date_format,
        decimal=decimal,
        encoding=encoding,
    )
    base = build_base_model(BaseModel(model), data.task) if isinstance(model, str) else model
    if "n_jobs" in base.get_params():
        base = clone(base).set_params(n_jobs=n_jobs)
    settings = Settings(base, data.task, anchors, n_anchors, n_train_anchors, random_state, n_jobs)
    steps = _Steps(progress, 2 * FOLDS + 2)
    with warnings.catch_warnings(), _told_of_the_table(model):
        # Of networks that might have gained by more epochs, and of words that a fold has not met.
        warnings.simplefilter("ignore")
        rows = _part(
            data, build_preprocessor(data.schema, scaled=model not in list(UNIT_FREE)), coverage, random_state
        )
        if n_anchors > len(rows.X):
            settings = replace(settings, n_anchors=len(rows.X))
            data.notes.append(f"Of {n_anchors:,} anchors, {len(rows.X):,} are used: the rows trained on.")
        choice = choose(settings, rows.X, rows.y, center, coverage, steps.done)
        anchored = settings.anchored(choice.center, len(rows.X)).fit(rows.X, rows.y)
        steps.done()
        finish = _finish_regression if data.task == REGRESSION else _finish_classes
        learnt, parts, widths = finish(anchored, rows, choice, settings, coverage)
        steps.done()
    fingerprints = row_fingerprints(data.X, data.y)
    holds_rows = anchors in ROWS_AS_ANCHORS or model in ROW_KEEPERS or not isinstance(model, str)
    if holds_rows and len(fingerprints) <= MOST_FINGERPRINTS:
        learnt["fingerprints"] = np.sort(fingerprints)
    report = {
        "rows": len(rows.X),
        "held_out": len(rows.held_X),
        "model": _name(model),
        "center": choice.center,
        "center_errors": {word: error * rows.unit for word, error in choice.errors.items()},
        "cross_validation": {"folds": FOLDS, "rows": choice.rows},
        "anchors": anchors,
        "n_anchors": len(np.unique(anchored.anchors_, axis=0)),
        "holds_rows": holds_rows,
        "sha256": table_sha256(fingerprints),
        "notes": data.notes,
        **{name: width * rows.unit for name, width in widths.items()},
    }
    return TableModel(
        target=target,
        task=data.task,
        schema=data.schema,
        coverage=coverage,
        fitted=Fitted(rows.columns, anchored, **learnt),
        center=rows.middle,
        unit=rows.unit,
        labels=data.labels,
        origin=data.origin,
        target_format=data.target_format,
        report=report,
        **parts,
    )


@dataclass(frozen=True)
class _Rows:
    """The rows as numbers, parted into those that train and those that calibrate.

    Attributes
    ----------
    columns : ColumnTransformer
        Fitted on the former.
    X, y : arrays of shape (n, d) and (n,)
        Targets of a regression are in units of `unit` from `middle`.
    held_X, held_y : arrays of shape (m, d) and (m,)
    middle, unit : float
    """

    columns: Any
    X: np.ndarray
    y: np.ndarray
    held_X: np.ndarray
    held_y: np.ndarray
    middle: float
    unit: float


class _Steps:
    """Counts steps, and tells whoever wants to know."""

    def __init__(self, progress: Progress | None, total: int) -> None:
        self._progress, self._total, self._count = progress, total, 0

    def done(self) -> None:
        """Count one more."""
        self._count += 1
        if self._progress is not None:
            self._progress(self._count, self._total)


def _check_words(model: Any, coverage: float, center: str, anchors: str) -> None:
    """Refuse words that mean nothing, before anything is read."""
    if isinstance(model, str) and model not in list(BaseModel):
        raise ValueError(f"model must be one of {[str(word) for word in BaseModel]}, got {model!r}.")
    if not 0.0 < coverage < 1.0:
        raise ValueError(f"coverage must lie between 0 and 1, got {coverage!r}.")
    for name, value, choices in (("center", center, ("auto", *CENTERS)), ("anchors", anchors, (*PRIORS,))):
        if value not in choices:
            raise ValueError(f"{name} must be one of {list(choices)}, got {value!r}.")


@contextmanager
def _told_of_the_table(model: Any) -> Iterator[None]:
    """Turn what a model says of rows that it cannot be fitted to into `TableError`."""
    try:
        yield
    except TableError:
        raise
    except ValueError as error:
        said = str(error).splitlines()[0].rstrip(".")
        raise TableError(f"a {_name(model)} model cannot be fitted to this table: {said}.") from error


def _name(model: Any) -> str:
    return model if isinstance(model, str) else type(model).__name__


def _part(data: TrainingTable, columns: Any, coverage: float, seed: int) -> _Rows:
    """Fit the preprocessing to three quarters of the rows, and apply it to all."""
    train, held = _hold_out(data, coverage, seed)
    X = np.asarray(columns.fit(data.X.iloc[train]).transform(data.X), dtype=np.float64)
    middle, unit = _unit(data, train)
    y = data.y if data.task != REGRESSION else (data.y - middle) / unit
    return _Rows(columns, X[train], y[train], X[held], y[held], middle, unit)


def _hold_out(data: TrainingTable, coverage: float, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the rows to train on and those that calibrate, in their order in the table."""
    n = len(data.y)
    n_held = int(np.ceil(HELD_OUT * n))
    needed = int(np.ceil(coverage / (1.0 - coverage) - 1e-9))
    if n_held < needed or n - n_held < MIN_ROWS:
        fewest = max(int(np.ceil((needed - 1) / HELD_OUT)) + 1, int(np.ceil(MIN_ROWS / (1 - HELD_OUT))))
        raise TableError(f"{n:,} rows are too few: a coverage of {coverage:g} takes at least {fewest:,}.")
    strata = None
    if data.task != REGRESSION:
        strata = data.y
        classes, counts = np.unique(data.y, return_counts=True)
        if counts.min() < 2:
            raise TableError(f'the class "{classes[counts.argmin()]}" has a single row: two are needed.')
        if n_held < len(classes):
            raise TableError(f"{len(classes):,} classes are too many for {n:,} rows.")
    train, held = train_test_split(np.arange(n), test_size=n_held, random_state=seed, stratify=strata)
    return np.sort(train), np.sort(held)


def _unit(data: TrainingTable, train: np.ndarray) -> tuple[float, float]:
    """Return the mean and the standard deviation of the training targets.

    Support vector machines and networks need a target of about unit size; to the others it is all one.
    Divided by the largest first, so that no square leaves the range of numbers.
    """
    if data.task != REGRESSION:
        return 0.0, 1.0
    y = data.y[train]
    largest = float(np.abs(y).max()) or 1.0
    return largest * float(np.mean(y / largest)), largest * float(np.std(y / largest)) or 1.0


def _finish_regression(
    model: AnchoredRegressor, rows: _Rows, choice: Choice, settings: Settings, coverage: float
) -> tuple[dict[str, Any], dict[str, Any], dict[str, float]]:
    """Return what held-out rows say of intervals and of risk: for `Fitted`, for `TableModel`, and widths."""
    posterior = model.posterior(rows.held_X)
    # δ must not look at the held-out rows: their scores would differ in kind from a new row's.
    delta = choice.delta * typical_of(model, permuted_features(rows.X, np.random.default_rng(settings.seed)))
    conformal = ConformalRegressor(Given(), delta=delta).conformalize(posterior, rows.held_y)
    lower, upper = conformal.predict_interval(posterior, coverage)
    reference = np.unique(model.anchors_, axis=0)
    averaged = settings.anchors not in ROWS_AS_ANCHORS
    targets = anchor_targets(reference, rows.X, rows.y, averaged)
    reverse = reverse_scores(model, rows.held_X, reference, targets)
    return (
        {"scores": conformal.scores_, "reference": reference, "reference_targets": targets},
        {"delta": delta, "risk": RiskScale.measure({"std": posterior.std, "reverse": reverse})},
        {
            "width": float(np.mean(upper - lower)),
            "constant_width": _constant_width(posterior, rows.held_y, coverage),
        },
    )


def _finish_classes(
    model: AnchoredClassifier, rows: _Rows, choice: Choice, settings: Settings, coverage: float
) -> tuple[dict[str, Any], dict[str, Any], dict[str, float]]:
    """Return what held-out rows say of sets, in the form of `_finish_regression`."""
    conformal = ConformalClassifier(Given(model.classes_))
    proba = model.predict_proba(rows.held_X)
    conformal.conformalize(proba, rows.held_y)
    risk = RiskScale.measure({"error_probability": error_probability(proba)})
    return {"scores": conformal.scores_}, {"risk": risk}, {}


def _constant_width(posterior: Posterior, y: np.ndarray, coverage: float) -> float:
    """Return how wide intervals would be if σ were ignored."""
    alike = Posterior(posterior.mean, np.zeros_like(posterior.mean))
    conformal = ConformalRegressor(Given(), delta=1.0).conformalize(alike, y)
    lower, upper = conformal.predict_interval(alike, coverage)
    return float(np.mean(upper - lower))
