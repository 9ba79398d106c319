"""`fit`: from a table to a calibrated model of one of its columns."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, clone
from sklearn.model_selection import train_test_split

from deltauq.calibration.conformal import (
    classification_scores,
    conformal_quantile,
    regression_scores,
    rows_needed,
)
from deltauq.calibration.scaling import permuted_features
from deltauq.core.anchors import PRIORS
from deltauq.estimators import AnchoredClassifier, AnchoredRegressor
from deltauq.tables.base_models import SCALE_INVARIANT, STORES_TRAINING_ROWS, BaseModel, build_base_model
from deltauq.tables.errors import TableError
from deltauq.tables.model import (
    Fitted,
    RiskScale,
    TableModel,
    error_probability,
    reference_points,
    reverse_scores,
)
from deltauq.tables.model_selection import (
    CENTERS,
    FOLDS,
    Selection,
    fit_anchored,
    select_center,
    typical_sigma,
)
from deltauq.tables.preprocessing import (
    MAX_FINGERPRINTS,
    TrainingTable,
    build_preprocessor,
    encode,
    load_table,
    row_fingerprints,
    table_sha256,
)
from deltauq.tables.schema import REGRESSION

HELD_OUT_FRACTION = 0.25
"""The share of rows that are held out for calibration."""
MIN_ROWS = 10
"""The smallest number of rows to train on."""
N_ANCHORS = 20
ROWS_AS_ANCHORS = ("data", "balanced")
"""Priors whose anchors are rows of the training table."""
Rows = tuple[np.ndarray, np.ndarray]
"""Features and targets."""


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
    n_train_anchors: int | str = "auto",
    max_rows: int | None = None,
    date_format: str | None = None,
    decimal: str | None = None,
    encoding: str = "utf-8",
    random_state: int = 0,
    n_jobs: int | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> TableModel:
    """Fit an anchored model to a table, and calibrate it with a part of the rows.

    Missing values are imputed, dates become days, and categories become columns before anchoring. A model of
    a number learns differences from the known targets of the anchors. A quarter of the rows is held out to
    calibrate intervals or sets (split conformal prediction) and levels of risk.

    Parameters
    ----------
    table : path, pandas DataFrame, or any data frame with the Arrow interface
        A path names a CSV (possibly compressed), Parquet or Arrow file.
    target : str
        The column to predict.
    task : {"auto", "regression", "classification"}, default="auto"
        "auto" is classification for categories, flags and at most ten different whole numbers.
    model : {"forest", "boosting", "svm", "knn", "mlp", "tree", "linear"} or estimator, default="forest"
        The base estimator, by name or as a scikit-learn estimator.
    coverage : float, default=0.9
        Default nominal coverage of intervals or sets.
    center : {"auto", "anchored", "estimator"}, default="auto"
        The prediction: the mean over anchors, or that of the plain model, which is fitted as well. "auto"
        selects the one with the smaller error in cross-validation, significant or not; `deltauq.assess` also
        tests significance and compares the uncertainty, so its recommendation can differ.
    anchors : {"data", "normal", "balanced", "kmeans"}, default="data"
        The prior of the anchors, which are stored with the model. Anchors of "data" and "balanced" are rows
        of the table. Those of "normal" have no targets, so that the model learns values with them.
    n_anchors : int, default=20
        Number of anchors to predict with, K; at most the number of training rows.
    n_train_anchors : int or "auto", default="auto"
        Number of training anchors, M, as in `AnchoredRegressor`.
    max_rows : int, optional
        The largest number of rows to use. Larger tables are sampled at random.
    date_format : str, optional
        The format of dates in text, as for `datetime.strptime`, such as "%d/%m/%Y". ISO 8601, days before
        months with points (31.12.2024), and unambiguous formats are recognised without it.
    decimal : {".", ","}, optional
        The decimal mark of ambiguous numbers in text, such as 1,250. Others, such as 2.450,00, are
        recognised without it.
    encoding : str, default="utf-8"
        The encoding of a CSV file.
    random_state : int, default=0
        Random seed.
    n_jobs : int, optional
        Number of threads.
    progress : callable, optional
        Called with the number of finished steps and of all steps.

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
    _check_parameters(model, coverage, center, anchors)
    target, steps_done = str(target), 0
    formats: dict[str, Any] = {"date_format": date_format, "decimal": decimal, "encoding": encoding}
    data = load_table(table, target, task, max_rows, random_state, **formats)
    base = build_base_model(BaseModel(model), data.task) if isinstance(model, str) else clone(model)
    if "n_jobs" in base.get_params():
        base.set_params(n_jobs=n_jobs)

    def done() -> None:
        nonlocal steps_done
        steps_done += 1
        if progress is not None:
            progress(steps_done, 2 * FOLDS + 2)

    is_regression = data.task == REGRESSION
    train, held = _hold_out(data, coverage, random_state)
    preprocessor = build_preprocessor(data.schema, scaled=model not in list(SCALE_INVARIANT))
    X = encode(preprocessor.fit(data.X.iloc[train]), data.X)
    middle, unit = _mean_and_std(data.y[train]) if is_regression else (0.0, 1.0)
    y = (data.y - middle) / unit if is_regression else data.y
    if n_anchors > len(train):
        data.notes.append(f"Of {n_anchors:,} anchors, {len(train):,} are used: the number of training rows.")
    # Normally distributed anchors have no targets.
    options = {"target": "value"} if is_regression and anchors == "normal" else {}
    anchored = (AnchoredRegressor if is_regression else AnchoredClassifier)(
        base,
        **options,
        n_anchors=min(n_anchors, len(train)),
        n_train_anchors=n_train_anchors,
        anchors=anchors,
        random_state=random_state,
        n_jobs=n_jobs,
    )
    selection = select_center(anchored, X[train], y[train], center, done)
    anchored = fit_anchored(anchored, selection.center, X[train], y[train])
    done()
    calibrate = _calibrate_regression if is_regression else _calibrate_classification
    calibration = calibrate(anchored, selection, (X[train], y[train]), (X[held], y[held]), coverage)
    done()
    fingerprints = row_fingerprints(data.X, data.y)
    stores_rows = anchors in ROWS_AS_ANCHORS or model in STORES_TRAINING_ROWS or not isinstance(model, str)
    if stores_rows and len(fingerprints) <= MAX_FINGERPRINTS:
        calibration.parts["fingerprints"] = np.sort(fingerprints)
    report = {
        "rows": len(train),
        "held_out": len(held),
        "model": model if isinstance(model, str) else type(model).__name__,
        "center": selection.center,
        "center_errors": {name: error * unit for name, error in selection.errors.items()},
        "cross_validation": {"folds": FOLDS, "rows": selection.rows},
        "anchors": anchors,
        "n_anchors": len(np.unique(anchored.anchors_.X, axis=0)),
        "stores_rows": stores_rows,
        "sha256": table_sha256(fingerprints),
        "notes": data.notes,
        **{name: width * unit for name, width in calibration.widths.items()},
    }
    return TableModel(
        target=target,
        task=data.task,
        schema=data.schema,
        coverage=coverage,
        fitted=Fitted(preprocessor, anchored, **calibration.parts),
        risk=calibration.risk,
        target_mean=middle,
        target_scale=unit,
        delta=calibration.delta,
        labels=data.labels,
        origin=data.origin,
        target_format=data.target_format,
        report=report,
    )


@dataclass(frozen=True)
class _Calibration:
    """What the held-out rows determine; in units of the scaled target."""

    parts: dict[str, Any]
    """Fields of `Fitted`."""
    risk: RiskScale
    delta: float = 0.0
    widths: dict[str, float] = field(default_factory=dict)
    """Mean width of intervals, and the width of intervals of constant width with the same coverage."""


def _calibrate_regression(
    anchored: Any, selection: Selection, train: Rows, held: Rows, coverage: float
) -> _Calibration:
    # δ is not computed from the held-out rows: their scores would differ from those of new rows.
    probes = permuted_features(train[0], np.random.default_rng(anchored.random_state))
    delta = selection.delta * typical_sigma(anchored, probes)
    X, y = held
    posterior = anchored.posterior(X)
    mean, std = posterior.mean, posterior.std
    scores = regression_scores(y, mean, std, delta)
    reference = reference_points(anchored.anchors_, *train)
    reverse = reverse_scores(anchored, X, mean, reference)
    half = conformal_quantile(scores, coverage) * np.mean(std + delta)
    constant_half = conformal_quantile(np.abs(y - mean), coverage)
    return _Calibration(
        {"scores": scores, "reference": reference},
        RiskScale.from_held_out({"std": std, "reverse": reverse}),
        delta,
        {"width": float(2 * half), "constant_width": float(2 * constant_half)},
    )


def _calibrate_classification(
    anchored: Any, selection: Selection, train: Rows, held: Rows, coverage: float
) -> _Calibration:
    X, y = held
    proba = anchored.predict_proba(X)
    risk = RiskScale.from_held_out({"error_probability": error_probability(proba)})
    return _Calibration({"scores": classification_scores(y, proba, anchored.classes_)}, risk)


def _check_parameters(model: Any, coverage: float, center: str, anchors: str) -> None:
    if isinstance(model, str) and model not in list(BaseModel):
        raise ValueError(f"model must be one of {[str(name) for name in BaseModel]}, got {model!r}.")
    if not 0.0 < coverage < 1.0:
        raise ValueError(f"coverage must lie between 0 and 1, got {coverage!r}.")
    for name, value, choices in (("center", center, ("auto", *CENTERS)), ("anchors", anchors, (*PRIORS,))):
        if value not in choices:
            raise ValueError(f"{name} must be one of {list(choices)}, got {value!r}.")


def _hold_out(data: TrainingTable, coverage: float, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the rows to train on and the rows for calibration, in their order in the table."""
    n = len(data.y)
    n_held = int(np.ceil(HELD_OUT_FRACTION * n))
    needed = rows_needed(coverage)
    if n_held < needed or n - n_held < MIN_ROWS:
        fewest = max(
            int(np.ceil((needed - 1) / HELD_OUT_FRACTION)) + 1,
            int(np.ceil(MIN_ROWS / (1 - HELD_OUT_FRACTION))),
        )
        raise TableError(f"{n:,} rows are too few: a coverage of {coverage:g} requires at least {fewest:,}.")
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


def _mean_and_std(y: np.ndarray) -> tuple[float, float]:
    """Return the mean and the standard deviation of targets, which svm and mlp need near 0 and 1.

    The targets are divided by the largest first, so that their squares do not overflow.
    """
    largest = float(np.abs(y).max()) or 1.0
    return largest * float(np.mean(y / largest)), largest * float(np.std(y / largest)) or 1.0
