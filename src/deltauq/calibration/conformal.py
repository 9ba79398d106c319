"""Intervals and sets that hold the truth as often as they say (split conformal prediction)."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.exceptions import NotFittedError

from deltauq.calibration._arrays import check_labels, on_host, to_numbers
from deltauq.calibration._models import mean_and_std, probabilities
from deltauq.core.encoding import Array
from deltauq.utils.formatting import ShortRepr, shown

HELD_SHARE = 5
"""One conformal row in so many is set aside to choose δ."""
DELTAS = (100.0, 30.0, 10.0, 3.0, 1.0, 0.3)
"""Candidates for δ, in units of the root mean square of σ; the first makes the widths all but constant."""
TIE = 1e-9
"""Losses that differ by less are equal."""


class ConformalRegressor(ShortRepr, BaseEstimator):
    """Prediction intervals of a promised coverage, wide where the model's σ is large.

    Rows that the model has not seen are scored by ``|y - mean| / (σ + δ)``. The interval of a new input is
    ``mean ± q · (σ + δ)``, where q is the ⌈(n + 1) · coverage⌉-th smallest of the n scores. If the new row
    and the conformal rows are exchangeable (drawn alike, in no particular order), the interval holds the
    target with at least the promised probability, whatever the model; and with at most 1 / (n + 1) more if
    no two scores are equal. This holds on average over inputs, and not for every region of them.

    δ keeps a σ of nearly zero from promising an error of nearly zero. It must not be computed from
    the scored rows: their scores would then differ in kind from the new row's. By default one row in five is
    therefore set aside, by a draw that looks at their number only. On them the likeliest of a few
    values is chosen, from 0.3 to 100 times the root mean square of σ: where σ tells little, δ is large
    and the widths are nearly constant. The other rows are scored, so that n is four fifths of the rows.

    The unit of y does not matter: a model of ``c · y`` gets intervals c times as wide. Nor does that of σ,
    unless σ is zero on all rows set aside; δ is then their mean error.

    Parameters
    ----------
    model : fitted model
        With ``posterior(X)`` (an anchored model, a baseline, an anchored network) or, without one,
        ``predict(X, return_std=True)``. `clone` forgets what it learned; wrap it in scikit-learn's
        `FrozenEstimator` where that matters.
    delta : float, array-like of shape (o,) or None, default=None
        A δ known beforehand; all rows are scored then. None chooses it as described.

    Attributes
    ----------
    delta_ : float, or array of shape (o,)
    scores_ : array of shape (n,) or (n, o)
        The scores in ascending order, for each output by itself.

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

    def __init__(self, model: Any, *, delta: Any = None) -> None:
        self.model = model
        self.delta = delta

    def conformalize(self, X: Any, y: Array) -> ConformalRegressor:
        """Score rows that the model was not trained on.

        Parameters
        ----------
        X : whatever the model takes, of n rows
        y : array-like or tensor of shape (n,) or (n, o)

        Returns
        -------
        self
        """
        mean, std = mean_and_std(self.model, X)
        y = to_numbers(y, "y")
        if y.size != mean.size or y.shape[:1] != mean.shape[:1]:
            raise ValueError(f"y must have the shape {mean.shape} of the predictions, got {y.shape}.")
        # A network's single output often comes as (n, 1) where y is (n,).
        errors = np.abs(y.reshape(mean.shape) - mean)
        if self.delta is None:
            held, scored = _set_aside(len(errors))
            self.delta_ = _choose_delta(errors[held], std[held])
            errors, std = errors[scored], std[scored]
        else:
            self.delta_ = _check_delta(self.delta, mean.shape[1:])
        with np.errstate(divide="ignore", invalid="ignore"):
            # With δ = 0 a σ of zero promises no error at all: kept, the score is 0; broken, it is infinite.
            scores = np.where(errors == 0.0, 0.0, errors / (std + self.delta_))
        self.scores_ = np.sort(scores, axis=0)
        return self

    def predict_interval(self, X: Any, coverage: float = 0.9) -> tuple[np.ndarray, np.ndarray]:
        """Return intervals that hold the target with probability `coverage`.

        Parameters
        ----------
        X : whatever the model takes, of n rows
        coverage : float, default=0.9
            In (0, 1). Of several outputs each is covered by itself, not all of them at once.

        Returns
        -------
        lower, upper : arrays of shape (n,) or (n, o)
            Infinite, with a warning, where the conformal rows are too few for the coverage.
        """
        _require_scores(self)
        limit = _limit(self.scores_, coverage, "every interval is infinite")
        mean, std = mean_and_std(self.model, X)
        if mean.shape[1:] != self.scores_.shape[1:]:
            raise ValueError(
                f"The model now gives outputs of shape {mean.shape}, but was conformalized with "
                f"{self.scores_.shape[1:] or 'one output'}."
            )
        half = np.full_like(std, np.inf)
        np.multiply(limit, std + self.delta_, out=half, where=np.isfinite(limit))
        return mean - half, mean + half


class ConformalClassifier(ShortRepr, BaseEstimator):
    """Sets of classes that hold the right one with a promised probability.

    Rows that the model has not seen are scored by ``1 - p``, with p the probability given to their class. The
    set of a new input holds every class whose score is no larger than the ⌈(n + 1) · coverage⌉-th smallest
    of the n scores. If the new row and the conformal rows are exchangeable, it holds the right class with at
    least the promised probability, on average over inputs.

    Parameters
    ----------
    model : fitted model
        With ``predict_proba(X)``, or a network with ``posterior(X, link="softmax")``, whose probabilities
        are the mean over anchors of the softmax. `clone` forgets what it learned; wrap it in
        scikit-learn's `FrozenEstimator` where that matters.

    Attributes
    ----------
    classes_ : array of shape (c,)
        What the columns of the sets stand for: the model's `classes_`, or 0 to c - 1 for a network.
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

    def __init__(self, model: Any) -> None:
        self.model = model

    def conformalize(self, X: Any, y: Array) -> ConformalClassifier:
        """Score rows that the model was not trained on.

        Parameters
        ----------
        X : whatever the model takes, of n rows
        y : labels of shape (n,)

        Returns
        -------
        self
        """
        proba = probabilities(self.model, X)
        known = getattr(self.model, "classes_", None)
        self.classes_ = np.arange(proba.shape[1]) if known is None else np.asarray(known)
        columns = check_labels(y if known is None else _columns_of(y, self.classes_), *proba.shape)
        self.scores_ = np.sort(1.0 - proba[np.arange(len(proba)), columns])
        return self

    def predict_set(self, X: Any, coverage: float = 0.9, allow_empty: bool = True) -> np.ndarray:
        """Return sets that hold the right class with probability `coverage`.

        Parameters
        ----------
        X : whatever the model takes, of n rows
        coverage : float, default=0.9
            In (0, 1).
        allow_empty : bool, default=True
            A set is empty where no class is probable enough. False puts the most probable class into
            every set; the coverage can only rise.

        Returns
        -------
        sets : boolean array of shape (n, c)
            Whether the set of a row holds a class, in the order of `classes_`. Full, with a warning, where
            the conformal rows are too few for the coverage.
        """
        _require_scores(self)
        limit = _limit(self.scores_, coverage, "every set is full")
        proba = probabilities(self.model, X)
        sets = 1.0 - proba <= limit
        if not allow_empty:
            sets[np.arange(len(proba)), np.argmax(proba, axis=1)] = True
        return sets


def _require_scores(conformal: BaseEstimator) -> None:
    if not hasattr(conformal, "scores_"):
        name = type(conformal).__name__
        raise NotFittedError(f"This {name} has no scores yet: call conformalize(X, y) first.")


def _limit(scores: np.ndarray, coverage: float, otherwise: str) -> Any:
    """Return the ⌈(n + 1) · coverage⌉-th smallest score, of each output, or infinity beyond the last.

    Parameters
    ----------
    scores : array of shape (n,) or (n, o), ascending along the first axis
    coverage : float
    otherwise : str
        What follows from an infinite limit, for the warning.

    Returns
    -------
    limit : float, or array of shape (o,)
    """
    if not 0.0 < coverage < 1.0:
        raise ValueError(f"coverage must lie between 0 and 1, got {shown(coverage)}.")
    # 100 · 0.07 is 7.000000000000001 in floating point, and must not become 8.
    rank = int(np.ceil((len(scores) + 1) * coverage - 1e-9))
    if rank > len(scores):
        needed = int(np.ceil(coverage / (1.0 - coverage) - 1e-9))
        warnings.warn(
            f"A coverage of {coverage} takes at least {needed} scored rows, but there are {len(scores)}: "
            f"{otherwise}.",
            stacklevel=3,
        )
        return np.full(scores.shape[1:], np.inf)
    return scores[max(rank, 1) - 1]


def _columns_of(y: Array, classes: np.ndarray) -> np.ndarray:
    """Return where each label stands in `classes`."""
    labels = on_host(y)
    unknown = sorted(set(labels.ravel().tolist()) - set(classes.tolist()), key=str)
    if unknown:
        raise ValueError(f"y has labels that the model does not know: {unknown[:5]}.")
    order = np.argsort(classes)
    return order[np.searchsorted(classes, labels, sorter=order)]


def _set_aside(n: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the rows that choose δ and the rows that are scored, by a draw that looks at n only.

    A draw, because the rows of a table are often sorted.
    """
    if n < 2:
        raise ValueError(f"conformalize needs at least two rows, one of them to choose delta, got {n}.")
    order = np.random.default_rng(0).permutation(n)
    n_held = max(1, n // HELD_SHARE)
    return order[:n_held], order[n_held:]


def _choose_delta(errors: np.ndarray, stds: np.ndarray) -> Any:
    """Return the likeliest δ of each output, from absolute errors and stds of shape (n,) or (n, o)."""
    columns = zip(errors.reshape(len(errors), -1).T, stds.reshape(len(stds), -1).T, strict=True)
    return np.reshape([_likeliest_delta(*column) for column in columns], errors.shape[1:])[()]


def _likeliest_delta(errors: np.ndarray, stds: np.ndarray) -> float:
    """Return the likeliest δ of one output, from absolute errors and stds of shape (n,)."""
    error, typical = float(np.mean(errors)), float(np.sqrt(np.mean(stds**2)))
    if typical == 0.0 or error == 0.0:
        # Nothing spreads or nothing errs, so σ tells nothing: what is left is a scale of the right unit.
        return error or typical or 1.0
    # Errors of a Laplace distribution with scale b · (σ + δ): the mean negative log-likelihood at the best b.
    scales = [stds + share * typical for share in DELTAS]
    losses = np.array([np.mean(np.log(scale)) + np.log(np.mean(errors / scale)) for scale in scales])
    # Of equals the largest, so that rounding does not decide: a single row makes all of them equal.
    return DELTAS[int(np.argmax(losses <= losses.min() + TIE))] * typical


def _check_delta(delta: Any, shape: tuple[int, ...]) -> Any:
    """Return δ with one value for each output."""
    values = to_numbers(delta, "delta")
    if np.any(values < 0.0):
        raise ValueError(f"delta must not be negative, got {shown(delta)}.")
    if values.ndim and values.shape != shape:
        raise ValueError(f"delta must be a number or have shape {shape}, got shape {values.shape}.")
    return np.broadcast_to(values, shape)[()]
