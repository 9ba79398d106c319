"""`evaluate`: the predictions of a table model, compared with known targets."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.stats import binom

from deltauq.assessment.page import LEVELS
from deltauq.assessment.scoring import Predictions, compute, rescale
from deltauq.calibration import quantiles_of_scores
from deltauq.metrics import calibration_curve
from deltauq.tables.errors import TableError, did_you_mean, require_pandas
from deltauq.tables.evaluation_result import OUTLIER_FRACTION, Evaluation, UncertainRow
from deltauq.tables.io import read_frame
from deltauq.tables.model import TableModel, error_probability
from deltauq.tables.nearest_anchor import largest_differences
from deltauq.tables.preprocessing import duplicate_fraction, row_fingerprints
from deltauq.tables.risk import RISK_LEVELS
from deltauq.tables.schema import (
    DATE,
    DURATION,
    NUMBER,
    REGRESSION,
    Column,
    format_hint,
    from_days,
    kind_of,
    plain_floats,
    to_days,
    unseen_note,
    unusable_values,
)
from deltauq.tables.slices import (
    Group,
    RowScores,
    find_failing_decile,
    find_worse_slices,
    make_deciles,
    make_slices,
)
from deltauq.tables.text_parsing import FLAGS, is_text, parse_dates, parse_numbers, plain_text

if TYPE_CHECKING:
    import pandas as pd

BATCH_ROWS = 65_536
N_UNCERTAIN = 20
TRAINING_CHANCE = 0.001
"""New rows that equal training rows raise a warning if chance explains them with a smaller probability."""
N_BINS = 10
PROBABILITY_METRICS = ("accuracy", "log_loss", "brier", "ece", "auroc_spread", "auroc_confidence")
INTERVAL_METRICS = ("coverage", "median_width", "width", "nll", "crps")
EVALUATED_METRICS = {
    "regression": ("median_absolute_error", "mae", "rmse", "r2", "spearman", *INTERVAL_METRICS),
    "classification": (*PROBABILITY_METRICS, "coverage", "set_size"),
}
TRIMMED_METRICS = ("mae", "rmse", "r2", "nll", "crps")


def evaluate(
    model: TableModel,
    table: Any,
    *,
    date_format: str | None = None,
    decimal: str | None = None,
    encoding: str = "utf-8",
    progress: Callable[[int, int], None] | None = None,
) -> Evaluation:
    """Compare the predictions of a table with its targets.

    Parameters
    ----------
    model : TableModel
    table : path, pandas DataFrame, or anything with the Arrow interface
        With the columns of the training table and its target; of rows that the model was not fitted to.
    date_format, decimal, encoding
        As for `TableModel.predict`.
    progress : callable, optional
        Called with the number of rows predicted and the number of all rows.

    Returns
    -------
    evaluation : Evaluation

    Examples
    --------
    >>> from deltauq.tables import evaluate, fit
    >>> from sklearn.datasets import load_diabetes
    >>> table = load_diabetes(as_frame=True).frame
    >>> evaluation = evaluate(fit(table[:300], "target", model="tree"), table[300:])
    >>> evaluation.n_rows, len(evaluation.deciles), len(evaluation.uncertain)
    (142, 10, 20)
    """
    notes: list[str] = []
    model = model.with_formats(date_format, decimal)
    frame, _ = read_frame(table, encoding)
    X, y, numbers = _read(model, frame.reset_index(drop=True), notes)
    columns = _predict(model, X, progress)
    predictions = _predictions(model, columns)
    metrics, trimmed = _metrics(model, y, predictions)
    is_regression = model.task == REGRESSION
    loss = np.abs(y - predictions.value) if is_regression else (predictions.value != y).astype(np.float64)
    assert predictions.spread is not None
    scores = RowScores(
        loss, predictions.spread, ~predictions.covers(y), predictions.sizes(), columns["risk"].to_numpy()
    )
    if is_regression:
        curve = _coverage_curve(model, y, predictions)
    else:
        bins = calibration_curve(y, np.asarray(predictions.proba), N_BINS)
        curve = (bins.confidence[bins.count > 0], bins.accuracy[bins.count > 0])
    n_slices, (large_loss, often_missed) = find_worse_slices(
        make_slices(model.schema, X), scores.loss, scores.missed.astype(np.float64)
    )
    training_rows = _count_training_rows(model, X, y, notes)
    deciles = make_deciles(scores)
    by_risk = {level: np.flatnonzero(scores.risk == level) for level in RISK_LEVELS}
    return Evaluation(
        target=model.target,
        task=model.task,
        model=str(model.report.get("model", "")),
        coverage=model.coverage,
        metrics=metrics,
        trimmed=trimmed,
        curve=curve,
        rows=scores,
        deciles=deciles,
        failing_decile=find_failing_decile(deciles, model.coverage),
        risk={level: Group.from_rows(scores, rows) for level, rows in by_risk.items() if len(rows)},
        large_loss=large_loss,
        often_missed=often_missed,
        n_slices=n_slices,
        uncertain=_most_uncertain(model, X, y, numbers, columns["prediction"], scores),
        training_rows=training_rows,
        notes=notes,
    )


def _predictions(model: TableModel, columns: pd.DataFrame) -> Predictions:
    """Return predicted columns as arrays; classes by their indices."""
    if model.task == REGRESSION:
        names = ("prediction", "std", "lower", "upper")
        return Predictions(*(columns[name].to_numpy(dtype=np.float64) for name in names))
    proba = columns[[f"probability_{name}" for name in model.classes]].to_numpy()
    std = columns[[f"std_{name}" for name in model.classes]].to_numpy()
    return Predictions(
        proba.argmax(axis=1),
        np.sqrt(np.sum(std**2, axis=1)),
        proba=proba,
        error_score=error_probability(proba),
        sets=np.array([[name in members for name in model.classes] for members in columns["set"]]),
    )


def _metrics(
    model: TableModel, y: np.ndarray, predictions: Predictions
) -> tuple[dict[str, float], dict[str, float]]:
    """Return the metrics, and those that are sensitive to outliers without the largest errors."""
    names = EVALUATED_METRICS[model.task]
    if model.task != REGRESSION:
        return compute(names, y, predictions, model.coverage), {}
    # In the model's unit, so that squares do not overflow.
    with np.errstate(over="ignore"):
        center, unit = model.fitted.model.target_mean_, model.fitted.model.target_scale_
        scaled, target = predictions.standardized(center, unit), (y - center) / unit
        if not np.all(np.isfinite(target)):
            raise TableError(f"{model.target} has values too far from those that the model was trained on.")
        metrics = rescale(compute(names, target, scaled, model.coverage), unit)
        n_outliers = int(OUTLIER_FRACTION * len(y))
        if n_outliers == 0:
            return metrics, {}
        kept = np.argsort(np.abs(target - scaled.value), kind="stable")[:-n_outliers]
        assert scaled.spread is not None
        typical = Predictions(scaled.value[kept], scaled.spread[kept])
        trimmed = compute(TRIMMED_METRICS, target[kept], typical, model.coverage)
        return metrics, rescale(trimmed, unit)


def _coverage_curve(model: TableModel, y: np.ndarray, p: Predictions) -> tuple[np.ndarray, np.ndarray]:
    """Return the levels that the scored rows allow, and the empirical coverage of intervals of each."""
    stacked = model.fitted.model
    levels = LEVELS[model.max_coverage >= LEVELS]
    std = np.asarray(p.spread)
    sizes = np.divide(std, stacked.std_factor_, out=np.zeros_like(std), where=stacked.std_factor_ > 0)
    lower, upper = (
        quantiles_of_scores(stacked.scores_, ends) for ends in ((1.0 - levels) / 2.0, (1.0 + levels) / 2.0)
    )
    error = (y - p.value)[:, None]
    inside = (lower * sizes[:, None] <= error) & (error <= upper * sizes[:, None])
    return levels, inside.mean(axis=0)


def _read(
    model: TableModel, frame: pd.DataFrame, notes: list[str]
) -> tuple[pd.DataFrame, np.ndarray, np.ndarray]:
    """Return the features and targets of the rows with a usable target, and their numbers in the table."""
    if model.target not in frame.columns:
        raise TableError(
            f'there is no column "{model.target}" to compare with: '
            f"{did_you_mean(model.target, map(str, frame.columns))}"
        )
    if len(frame) == 0:
        raise TableError("the table has no rows.")
    X = model.schema.read(frame)
    for name, count, first in model.schema.unseen_categories(X):
        notes.append(unseen_note(name, count, first))
    column = plain_text(frame[model.target])
    kept = column.notna().to_numpy()
    if not kept.any():
        raise TableError(f"{model.target} is missing in every row.")
    if missing := int((~kept).sum()):
        notes.append(f"{missing:,} of {len(frame):,} rows were left out because {model.target} is missing.")
    column = column[kept]
    if unusable := unusable_values(column):
        raise TableError(f"{model.target} contains {unusable}, which cannot be compared with predictions.")
    rows = np.flatnonzero(kept)
    if model.task == REGRESSION:
        if model.origin:
            notes.append(f"{model.target} is a date: errors, σ and widths are in days.")
        return X.iloc[rows].reset_index(drop=True), _target_numbers(model, column), rows + 1
    y = _target_classes(model, column)
    if unknown := int((y < 0).sum()):
        first = column[y < 0].iloc[0]
        if unknown == len(y):
            raise TableError(
                f'{model.target} is "{first}" in the first row, which is not a class of the model.'
            )
        notes.append(
            f"{unknown:,} of {len(frame):,} rows were left out: the model has no class "
            f'"{first}"{" or others like it" if column[y < 0].nunique() > 1 else ""}.'
        )
    return X.iloc[rows[y >= 0]].reset_index(drop=True), y[y >= 0], rows[y >= 0] + 1


def _count_training_rows(model: TableModel, X: pd.DataFrame, y: np.ndarray, notes: list[str]) -> int | None:
    """Return how many rows equal a training row, and warn if they are more than chance explains.

    Tables may repeat rows: the share of repeated training rows is expected among new rows.
    """
    known = model.fitted.fingerprints
    if not len(known):
        return None
    targets = y if model.task == REGRESSION else np.asarray(model.fitted.model.classes_)[y]
    n, count = len(y), int(np.isin(row_fingerprints(X, targets), known).sum())
    expected = duplicate_fraction(known)
    if count:
        note = (
            f"{count:,} of {n:,} rows ({count / n:.1%}) equal a training row; by chance about "
            f"{expected:.1%} would, which is the share of repeated training rows."
        )
        if binom.sf(count - 1, n, expected) < TRAINING_CHANCE:
            note = f"Warning: {note} Errors and coverage on new rows may be worse."
        notes.insert(0, note)
    return count


def _target_numbers(model: TableModel, column: pd.Series) -> np.ndarray:
    """Return the targets of a regression, of shape (n,): dates in days since the origin."""
    expected, kinds = (DATE, (DATE,)) if model.origin else (NUMBER, (NUMBER, DURATION))
    read = column
    if is_text(column):
        read = (parse_dates if model.origin else parse_numbers)(column, model.target_format)
    wrong = column[read.isna()] if kind_of(read) in kinds else column
    if len(wrong):
        hint = format_hint(Column(model.target, expected, format=model.target_format), str(wrong.iloc[0]))
        raise TableError(f'{model.target} contains "{wrong.iloc[0]}", where {expected}s are expected{hint}.')
    y = (plain_floats(read) if kind_of(read) == NUMBER else to_days(read, model.origin)).to_numpy()
    if not np.all(np.isfinite(y)):
        raise TableError(f"{model.target} has infinite values.")
    return y


def _target_classes(model: TableModel, column: pd.Series) -> np.ndarray:
    """Return which class of the model each target is, of shape (n,), and -1 for one that it does not have."""
    known = {name: k for k, name in enumerate(model.classes)}
    if model.labels in ("int64", "float64"):
        column = parse_numbers(column, model.target_format) if is_text(column) else column
        # As floats, large integers would be merged. Anything but a number matches no class.
        if not require_pandas().api.types.is_integer_dtype(column):
            column = plain_floats(column) if kind_of(column) == NUMBER else column.astype(str)
        values = column.tolist()
    elif model.labels == "bool":
        values = [FLAGS.get(str(value).strip().lower()) for value in column]
    else:
        values = column.astype(str).tolist()
    return np.array([known.get(value, -1) for value in values])


def _predict(model: TableModel, X: pd.DataFrame, progress: Callable[[int, int], None] | None) -> pd.DataFrame:
    """Return the predicted columns of all rows."""
    parts = []
    for start in range(0, len(X), BATCH_ROWS):
        rows = X.iloc[start : start + BATCH_ROWS].reset_index(drop=True)
        parts.append(require_pandas().DataFrame(model.predict_columns(rows)))
        if progress is not None:
            progress(start + len(rows), len(X))
    return require_pandas().concat(parts, ignore_index=True)


def _most_uncertain(
    model: TableModel,
    X: pd.DataFrame,
    y: np.ndarray,
    numbers: np.ndarray,
    predicted: pd.Series,
    scores: RowScores,
) -> list[UncertainRow]:
    rows = np.argsort(-scores.spread, kind="stable")[:N_UNCERTAIN]
    targets, predictions = y[rows], predicted.to_numpy()[rows]
    if model.origin:
        targets, predictions = (
            np.datetime_as_string(from_days(part, model.origin), unit="m") for part in (targets, predictions)
        )
    return [
        UncertainRow(
            row=int(numbers[k]),
            target=model.classes[target] if model.classes else target,
            prediction=prediction,
            spread=float(scores.spread[k]),
            missed=bool(scores.missed[k]),
            differences=differences,
        )
        for k, target, prediction, differences in zip(
            rows, targets.tolist(), predictions.tolist(), largest_differences(model, X, rows), strict=True
        )
    ]
