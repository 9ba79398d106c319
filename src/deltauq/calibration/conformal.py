"""Split conformal prediction: prediction intervals and prediction sets of a given coverage."""

from __future__ import annotations

import warnings
from numbers import Real
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.exceptions import NotFittedError

from deltauq.calibration._arrays import on_host, to_numbers
from deltauq.calibration.scaling import choose_delta
from deltauq.core.encoding import Array
from deltauq.utils.formatting import ShortRepr, as_text

DELTA_FRACTION = 0.2
"""The fraction of the conformal rows that is set aside to choose δ."""
ROUNDING = 1e-9
"""100 · 0.07 is 7.000000000000001 in floating point, and must not be rounded up to 8."""


def conformal_quantile(scores: Array, coverage: float) -> Any:
    """Return the ⌈(n + 1) · coverage⌉-th smallest of n conformal scores.

    The score of a new row is at most this value with probability `coverage` or more, if the new row and the
    scored rows are exchangeable.

    Parameters
    ----------
    scores : array-like of shape (n,) or (n, o)
        Conformal scores of n held-out rows, for each of o outputs.
    coverage : float
        Nominal coverage, in (0, 1).

    Returns
    -------
    quantile : float, or array of shape (o,)
        Infinite, with a warning, if there are too few rows for the coverage.
    """
    if not isinstance(coverage, Real) or not 0.0 < coverage < 1.0:
        raise ValueError(f"coverage must lie between 0 and 1, got {as_text(coverage)}.")
    scores = np.sort(on_host(scores), axis=0)
    rank = int(np.ceil((len(scores) + 1) * coverage - ROUNDING))
    if rank > len(scores):
        warnings.warn(
            f"A coverage of {coverage} requires at least {rows_needed(coverage)} scored rows, but there are "
            f"{len(scores)}: intervals are infinite, and prediction sets contain all classes.",
            stacklevel=3,
        )
        return np.full(scores.shape[1:], np.inf)[()]
    return scores[max(rank, 1) - 1]


def quantiles_of_scores(scores: Array, levels: Array) -> np.ndarray:
    """Return quantiles of signed scores such that a new score is beyond them with at most the nominal share.

    Parameters
    ----------
    scores : array-like of shape (n,)
        Signed scores of n rows that did not train the model.
    levels : array-like of shape (q,)
        Levels in (0, 1).

    Returns
    -------
    quantiles : array of shape (q,)
        They rise with the level. Below one half, a new score is smaller with at most the probability of the
        level, and above one half it is larger with at most its complement, as in `conformal_quantile`.
        Infinite, with a warning, if there are too few scores.
    """
    levels = to_numbers(levels, "levels")
    if levels.ndim != 1 or np.any((levels <= 0.0) | (levels >= 1.0)):
        raise ValueError(f"levels must be a list of numbers between 0 and 1, got {as_text(levels.tolist())}.")
    scores = np.sort(on_host(scores))
    n = len(scores)
    position = (n + 1) * levels
    lower, upper = np.floor(position + ROUNDING), np.ceil(position - ROUNDING)
    rank = np.where(levels < 0.5, lower, np.where(levels > 0.5, upper, (n + 1) / 2))
    if np.any((rank < 1) | (rank > n)):
        warnings.warn(
            f"{n} scored rows are too few for quantiles of {levels[(rank < 1) | (rank > n)]}: they are "
            "infinite.",
            stacklevel=3,
        )
    # The median of an even number of scores is between two.
    padded = np.concatenate([[-np.inf], scores, [np.inf]])
    below, above = np.floor(rank).astype(int), np.ceil(rank).astype(int)
    return np.asarray(np.where(below == above, padded[below], 0.5 * (padded[below] + padded[above])))


def rows_needed(coverage: float) -> int:
    """Return the smallest number of scored rows for which the `conformal_quantile` is finite."""
    return int(np.ceil(coverage / (1.0 - coverage) - ROUNDING))


def max_coverage(n: int) -> float:
    """Return the largest coverage for which the `conformal_quantile` of n scores is finite."""
    return (n + ROUNDING) / (n + 1)


def regression_scores(y: Array, mean: Array, std: Array, delta: Array) -> np.ndarray:
    """Return the sorted scores ``|y - mean| / (std + delta)``.

    Parameters
    ----------
    y : array-like of shape (n,) or (n, o)
        Targets of held-out rows.
    mean, std : array-like of the same shape
        Predictions for these rows.
    delta : float, or array-like of shape (o,)
        Added to σ. It must not depend on these rows.

    Returns
    -------
    scores : array of shape (n,) or (n, o)
        In ascending order, for each output separately.
    """
    mean, std = _checked_prediction(mean, std)
    errors = np.abs(_checked_target(y, mean) - mean)
    with np.errstate(divide="ignore", invalid="ignore"):
        # Where σ + δ is zero, an error of zero scores 0 and any other scores infinity.
        scores = np.where(errors == 0.0, 0.0, errors / (std + _checked_delta(delta, std.shape[1:])))
    return np.sort(scores, axis=0)


def classification_scores(y: Array, proba: Array, classes: Array) -> np.ndarray:
    """Return the sorted scores ``1 - p``, where p is the predicted probability of the true class.

    Parameters
    ----------
    y : array-like of shape (n,)
        Labels of held-out rows.
    proba : array-like of shape (n, c)
        Predicted probabilities for these rows.
    classes : array-like of shape (c,)
        The class of each column of `proba`.

    Returns
    -------
    scores : array of shape (n,)
        In ascending order.
    """
    proba, labels, classes = _checked_proba(proba), on_host(y), np.asarray(classes)
    if labels.shape != (len(proba),):
        raise ValueError(f"y must have shape ({len(proba)},), one label for each row, got {labels.shape}.")
    unknown = sorted(set(labels.tolist()) - set(classes.tolist()), key=str)
    if unknown:
        raise ValueError(f"y has labels that are not among the classes of the model: {unknown[:5]}.")
    order = np.argsort(classes)
    columns = order[np.searchsorted(classes, labels, sorter=order)]
    return np.sort(1.0 - proba[np.arange(len(proba)), columns])


class ConformalRegressor(ShortRepr, BaseEstimator):
    """Prediction intervals that contain the target with a given probability, wider where σ is larger.

    The workflow is: fit the model, `conformalize` with rows that it was not trained on, `predict_interval`.
    For predictions that exist already, use `from_scores` and `interval` instead; no model is needed then.

    Held-out rows are scored by ``|y - mean| / (σ + δ)``. The interval of a new input is
    ``mean ± q · (σ + δ)``, where q is the `conformal_quantile` of the scores. If the new row and the
    held-out rows are exchangeable (drawn from one distribution, in no particular order), the interval
    contains the target with at least the nominal coverage, whatever the model; and with at most 1 / (n + 1)
    more if no two scores are equal. This holds on average over inputs, not for every region of them.

    δ keeps intervals from having nearly no width where σ is nearly zero. It must not be computed from the
    scored rows: their scores would then differ in distribution from that of a new row. By default one row in
    five is therefore set aside at random for `choose_delta`, and the other rows are scored. Where σ is not
    informative, δ is large and the widths are nearly constant.

    The unit of y does not matter: a model of ``c · y`` gets intervals c times as wide. Nor does the unit of
    σ, unless σ is zero on all rows set aside; δ is then their mean absolute error.

    Parameters
    ----------
    model : fitted model, default=None
        With ``posterior(X)`` (an anchored model, a baseline, an anchored network) or, without one,
        ``predict(X, return_std=True)``. `clone` returns an unfitted copy of it; wrap it in scikit-learn's
        `FrozenEstimator` where that matters.
    delta : float, array-like of shape (o,) or None, default=None
        A fixed δ; all rows are scored then. None chooses δ as described above.

    Attributes
    ----------
    delta_ : float, or array of shape (o,)
        δ, added to σ.
    scores_ : array of shape (n,) or (n, o)
        The scores in ascending order, for each output separately.

    Examples
    --------
    >>> from deltauq import AnchoredRegressor
    >>> from deltauq.calibration import ConformalRegressor
    >>> from sklearn.datasets import load_diabetes
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = AnchoredRegressor(random_state=0).fit(X[:150], y[:150])
    >>> conformal = ConformalRegressor(model).conformalize(X[150:300], y[150:300])
    >>> lower, upper = conformal.predict_interval(X[300:], coverage=0.8)
    >>> lower.shape, upper.shape
    ((142,), (142,))
    """

    def __init__(self, model: Any = None, *, delta: Any = None) -> None:
        self.model = model
        self.delta = delta

    @classmethod
    def from_scores(cls, scores: Array, delta: Array) -> Self:
        """Return a fitted object from scores that were computed before.

        Parameters
        ----------
        scores : array-like of shape (n,) or (n, o)
            What `regression_scores` returned.
        delta : float, or array-like of shape (o,)
            The δ they were computed with.

        Returns
        -------
        conformal : ConformalRegressor
            Without a model: use `interval`.
        """
        conformal = cls(delta=delta)
        conformal.scores_ = np.sort(on_host(scores), axis=0)
        conformal.delta_ = _checked_delta(delta, conformal.scores_.shape[1:])
        return conformal

    @classmethod
    def from_predictions(cls, y: Array, mean: Array, std: Array) -> Self:
        """Return a fitted object from predictions for rows that the model was not trained on.

        Parameters
        ----------
        y : array-like of shape (n,) or (n, o)
            Targets of these rows.
        mean, std : array-like of the same shape
            Predictions for these rows.

        Returns
        -------
        conformal : ConformalRegressor
            Without a model: use `interval`.
        """
        return cls()._score(y, *_checked_prediction(mean, std))

    def conformalize(self, X: Any, y: Array) -> Self:
        """Score rows that the model was not trained on.

        Parameters
        ----------
        X : array-like, table or tensor of n rows
            Inputs of the kind that the model takes.
        y : array-like or tensor of shape (n,) or (n, o)
            Targets of these rows.

        Returns
        -------
        self
        """
        return self._score(y, *_mean_and_std(self.model, X))

    def _score(self, y: Array, mean: np.ndarray, std: np.ndarray) -> Self:
        y = _checked_target(y, mean)
        if self.delta is None:
            if len(y) < 2:
                raise ValueError("conformalize needs at least two rows, one of them to choose delta.")
            # At random, because tables are often sorted.
            order = np.random.default_rng(0).permutation(len(y))
            aside, scored = np.split(order, [max(1, int(DELTA_FRACTION * len(y)))])
            self.delta_ = choose_delta(np.abs(y - mean)[aside], std[aside])
            y, mean, std = y[scored], mean[scored], std[scored]
        else:
            self.delta_ = _checked_delta(self.delta, std.shape[1:])
        self.scores_ = regression_scores(y, mean, std, self.delta_)
        return self

    def predict_interval(self, X: Any, coverage: float = 0.9) -> tuple[np.ndarray, np.ndarray]:
        """Return intervals that contain the target with probability `coverage`.

        Parameters
        ----------
        X : array-like, table or tensor of n rows
            Inputs of the kind that the model takes.
        coverage : float, default=0.9
            Nominal coverage, in (0, 1). Each of several outputs is covered separately, not all at once.

        Returns
        -------
        lower, upper : arrays of shape (n,) or (n, o)
            Infinite, with a warning, if there are too few scores for the coverage.
        """
        return self.interval(*_mean_and_std(self.model, X), coverage)

    def interval(self, mean: Array, std: Array, coverage: float = 0.9) -> tuple[np.ndarray, np.ndarray]:
        """Return the intervals for given predictions.

        Parameters
        ----------
        mean, std : array-like of shape (n,) or (n, o)
            Predictions of the model whose held-out rows were scored.
        coverage : float, default=0.9
            Nominal coverage, in (0, 1).

        Returns
        -------
        lower, upper : arrays of shape (n,) or (n, o)
        """
        _check_has_scores(self)
        mean, std = _checked_prediction(mean, std)
        if mean.shape[1:] != self.scores_.shape[1:]:
            raise ValueError(
                f"the predictions have outputs of shape {mean.shape[1:]}, but the scores were computed for "
                f"{self.scores_.shape[1:] or 'one output'}."
            )
        quantile = conformal_quantile(self.scores_, coverage)
        half = np.full_like(std, np.inf)
        np.multiply(quantile, std + self.delta_, out=half, where=np.isfinite(quantile))
        return mean - half, mean + half


class ConformalClassifier(ShortRepr, BaseEstimator):
    """Prediction sets that contain the true class with a given probability.

    The workflow is: fit the model, `conformalize` with rows that it was not trained on, `predict_set`. For
    predictions that exist already, use `from_scores` and `sets` instead; no model is needed then.

    Held-out rows are scored by ``1 - p``, where p is the predicted probability of the true class. The set of
    a new input holds every class whose score is at most the `conformal_quantile` of these scores. If the new
    row and the held-out rows are exchangeable, it contains the true class with at least the nominal
    coverage, on average over inputs.

    Parameters
    ----------
    model : fitted model, default=None
        With ``predict_proba(X)``, or a network with ``posterior(X, link="softmax")``, whose probabilities
        are the mean over anchors of the softmax. `clone` returns an unfitted copy of it; wrap it in
        scikit-learn's `FrozenEstimator` where that matters.

    Attributes
    ----------
    classes_ : array of shape (c,)
        The class of each column of the sets: the model's `classes_`, or 0 to c - 1 for a network.
    scores_ : array of shape (n,)
        The scores in ascending order.

    Examples
    --------
    >>> from deltauq import AnchoredClassifier
    >>> from deltauq.calibration import ConformalClassifier
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> model = AnchoredClassifier(random_state=0).fit(X[::3], y[::3])
    >>> conformal = ConformalClassifier(model).conformalize(X[1::3], y[1::3])
    >>> conformal.predict_set(X[2::3], coverage=0.9).shape
    (50, 3)
    """

    def __init__(self, model: Any = None) -> None:
        self.model = model

    @classmethod
    def from_scores(cls, scores: Array, classes: Array) -> Self:
        """Return a fitted object from scores that were computed before.

        Parameters
        ----------
        scores : array-like of shape (n,)
            What `classification_scores` returned.
        classes : array-like of shape (c,)
            The class of each column of the probabilities.

        Returns
        -------
        conformal : ConformalClassifier
            Without a model: use `sets`.
        """
        conformal = cls()
        conformal.scores_, conformal.classes_ = np.sort(on_host(scores)), np.asarray(classes)
        return conformal

    def conformalize(self, X: Any, y: Array) -> Self:
        """Score rows that the model was not trained on.

        Parameters
        ----------
        X : array-like, table or tensor of n rows
            Inputs of the kind that the model takes.
        y : array-like or tensor of shape (n,)
            Labels of these rows.

        Returns
        -------
        self
        """
        proba = _probabilities(self.model, X)
        self.classes_ = np.asarray(getattr(self.model, "classes_", np.arange(proba.shape[1])))
        self.scores_ = classification_scores(y, proba, self.classes_)
        return self

    def predict_set(self, X: Any, coverage: float = 0.9, allow_empty: bool = True) -> np.ndarray:
        """Return sets that contain the true class with probability `coverage`.

        Parameters
        ----------
        X : array-like, table or tensor of n rows
            Inputs of the kind that the model takes.
        coverage : float, default=0.9
            Nominal coverage, in (0, 1).
        allow_empty : bool, default=True
            Whether a set is empty where no class is probable enough. False adds the most probable class to
            every set; the coverage can only rise.

        Returns
        -------
        sets : boolean array of shape (n, c)
            Whether the set of a row holds a class, in the order of `classes_`. All True, with a warning, if
            there are too few scores for the coverage.
        """
        return self.sets(_probabilities(self.model, X), coverage, allow_empty)

    def sets(self, proba: Array, coverage: float = 0.9, allow_empty: bool = True) -> np.ndarray:
        """Return the sets for given probabilities.

        Parameters
        ----------
        proba : array-like of shape (n, c)
            Predictions of the model whose held-out rows were scored.
        coverage, allow_empty
            As in `predict_set`.

        Returns
        -------
        sets : boolean array of shape (n, c)
        """
        _check_has_scores(self)
        proba = _checked_proba(proba)
        sets = 1.0 - proba <= conformal_quantile(self.scores_, coverage)
        if not allow_empty:
            sets[np.arange(len(proba)), np.argmax(proba, axis=1)] = True
        return sets


def _check_has_scores(conformal: BaseEstimator) -> None:
    if not hasattr(conformal, "scores_"):
        name = type(conformal).__name__
        raise NotFittedError(f"This {name} has no scores yet: call conformalize(X, y) first.")


def _checked_target(y: Array, mean: np.ndarray) -> np.ndarray:
    y = to_numbers(y, "y")
    if y.size != mean.size or y.shape[:1] != mean.shape[:1]:
        raise ValueError(f"y must have the shape {mean.shape} of the predictions, got {y.shape}.")
    # A network's single output often has shape (n, 1) where y has (n,).
    return y.reshape(mean.shape)


def _checked_prediction(mean: Array, std: Array) -> tuple[np.ndarray, np.ndarray]:
    mean, std = to_numbers(mean, "mean"), to_numbers(std, "std")
    if mean.ndim not in (1, 2) or mean.shape != std.shape:
        raise ValueError(
            f"mean and std must both have shape (n,) or (n, o), got {mean.shape} and {std.shape}."
        )
    return mean, std


def _checked_delta(delta: Any, shape: tuple[int, ...]) -> Any:
    """Return δ with one value for each output."""
    values = to_numbers(delta, "delta")
    if np.any(values < 0.0):
        raise ValueError(f"delta must not be negative, got {as_text(delta)}.")
    if values.ndim and values.shape != shape:
        raise ValueError(f"delta must be a number or have shape {shape}, got shape {values.shape}.")
    return np.broadcast_to(values, shape)[()]


def _checked_proba(proba: Array) -> np.ndarray:
    if isinstance(proba, list) and proba and np.ndim(proba[0]) == 2:
        raise ValueError(f"model must predict one output, got probabilities for {len(proba)}.")
    proba = to_numbers(proba, "proba")
    if proba.ndim != 2:
        raise ValueError(f"proba must have shape (n, c), got {proba.shape}.")
    return proba


def _mean_and_std(model: Any, X: Any) -> tuple[np.ndarray, np.ndarray]:
    """Return the model's mean and σ for n inputs, each of shape (n,) or (n, o)."""
    if hasattr(model, "posterior"):
        posterior = model.posterior(X)
        # The square root is taken in double precision, also of a tensor of single precision.
        return _checked_prediction(posterior.mean, np.sqrt(to_numbers(posterior.variance, "the variance")))
    if hasattr(model, "predict"):
        return _checked_prediction(*model.predict(X, return_std=True))
    raise TypeError(
        f"model must have posterior(X) or predict(X, return_std=True), got {type(model).__name__}."
    )


def _probabilities(model: Any, X: Any) -> np.ndarray:
    """Return the model's probabilities for n inputs, of shape (n, c)."""
    if hasattr(model, "predict_proba"):
        return _checked_proba(model.predict_proba(X))
    if not hasattr(model, "posterior"):
        raise TypeError(
            f'model must have predict_proba(X) or posterior(X, link="softmax"), got {type(model).__name__}.'
        )
    proba = _checked_proba(model.posterior(X, link="softmax").link_mean)
    if proba.shape[1] < 2:
        raise ValueError("the network must have at least two logits, one for each class, got one.")
    return proba
