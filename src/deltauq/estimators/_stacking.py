"""What `StackedRegressor` and `StackedClassifier` share: members, out-of-fold predictions, the final fit."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from numbers import Integral
from typing import Any, ClassVar, Self

import numpy as np
from joblib import effective_n_jobs
from sklearn.base import BaseEstimator, clone, is_classifier
from sklearn.dummy import DummyClassifier
from sklearn.impute import SimpleImputer
from sklearn.model_selection import (
    GroupKFold,
    GroupShuffleSplit,
    KFold,
    StratifiedGroupKFold,
    StratifiedKFold,
    train_test_split,
)
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import StrOptions
from sklearn.utils.parallel import Parallel, delayed
from sklearn.utils.validation import check_consistent_length, check_is_fitted, validate_data
from threadpoolctl import threadpool_limits

from deltauq.estimators.base_estimators import accepts_nan, is_estimator, seed
from deltauq.estimators.smooth import smooth_pipeline
from deltauq.estimators.validation import all_or_nothing, check_no_dates
from deltauq.utils.formatting import ShortRepr

N_FOLDS, N_QUICK_FOLDS = 5, 3
MAX_FOLD_ROWS = 20_000
"""Up to this many rows every row trains and is scored by a model of the other folds."""
HELD_OUT_SHARE, MAX_HELD_OUT = 0.25, 20_000
"""Of more rows, this share is held out to score, but no more rows than this."""
MIN_BLOCK_ROWS = 1024
"""Of a thread that predicts."""
MIN_WEIGHT = 0.05
"""Members with a smaller share of the weights are left out, or with half the mean share if there are many."""

N_KERNELS, N_QUICK_KERNELS = 100, 50
"""Of a smooth member, of each width."""

Member = tuple[str, BaseEstimator]
Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class Scored:
    """Predictions of every member for rows that did not train it."""

    rows: np.ndarray
    """Numbers of the rows, of shape (n,)."""
    mean: np.ndarray
    """Of shape (members, n) or, for classes, (members, n, c)."""
    var: np.ndarray
    """Variances over anchors or trees, of the same shape."""
    is_held_out: bool
    """Whether they train no member that predicts."""
    groups: np.ndarray | None
    """Of shape (n,), if there are groups."""

    def halves(self, rng: np.random.RandomState) -> tuple[np.ndarray, np.ndarray]:
        """Return the rows to learn from and those to score: halves if they are held out, otherwise all."""
        rows = np.arange(len(self.rows))
        if not self.is_held_out:
            return rows, rows
        if self.groups is None:
            learned, others = np.array_split(rng.permutation(rows), 2)
            return learned, others
        groups = rng.permutation(np.unique(self.groups))
        is_learned = np.isin(self.groups, groups[: len(groups) // 2])
        return rows[is_learned], rows[~is_learned]


class BaseStacked(ShortRepr, BaseEstimator):
    """Members whose predictions are combined with weights that out-of-fold predictions determine."""

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "estimators": [StrOptions({"auto"}), list, tuple],
        "quick": ["boolean"],
        "random_state": ["random_state"],
        "n_jobs": [None, Integral],
    }

    def __init__(
        self,
        estimators: str | Sequence[Member] = "auto",
        *,
        quick: bool = False,
        random_state: int | np.random.RandomState | None = None,
        n_jobs: int | None = None,
    ) -> None:
        self.estimators = estimators
        self.quick = quick
        self.random_state = random_state
        self.n_jobs = n_jobs

    # -- what differs between regression and classification ----------------------------------------

    _member_method: ClassVar[str] = "predict"
    """What members need."""

    def _default_members(self, n: int) -> list[Member]:
        """Return the members of ``estimators="auto"`` for n training rows."""
        raise NotImplementedError

    def _read_target(self, y: np.ndarray) -> np.ndarray:
        """Return the target that members learn; set what describes the target."""
        raise NotImplementedError

    def _moments(self, model: Any, X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return mean and variance of a member's predictions."""
        raise NotImplementedError

    def _combine(
        self, X: np.ndarray, y: np.ndarray, scored: Scored, names: list[str], rng: np.random.RandomState
    ) -> list[int]:
        """Learn how the members of these names are combined; return the numbers of those that are kept.

        Set `n_scored_`, the number of rows that intervals or sets are based on.
        """
        raise NotImplementedError

    # -- fitting -----------------------------------------------------------------------------------

    def fit(self, X: Any, y: Any, groups: Any = None, *, progress: Progress | None = None) -> Self:
        """Fit the members and learn how to combine them.

        Parameters
        ----------
        X : array-like of shape (n, d)
            Training rows. They may contain missing values (NaN) if every member accepts them.
        y : array-like of shape (n,)
            Targets.
        groups : array-like of shape (n,), optional
            Rows of one group, such as repeated measurements, are predicted by members that saw none of them.
        progress : callable, optional
            Called with the number of finished fits and of all fits.

        Returns
        -------
        self
        """
        with all_or_nothing(self):
            self._validate_params()
            if not isinstance(self.estimators, str):
                check_members(self.estimators, self._member_method)
            check_no_dates("X", X)
            X, y = validate_data(
                self, X, y, dtype=np.float64, ensure_all_finite="allow-nan", ensure_min_samples=4
            )
            members = self._members(len(X))
            y = self._read_target(y)
            rng = check_random_state(self.random_state)
            members = [(name, seed(model, rng)) for name, model in members]
            if groups is not None:
                check_consistent_length(X, groups)
                groups = np.unique(np.asarray(groups), return_inverse=True)[1]
            splits = self._splits(y, rng, groups)
            scored, fitted = self._fit_members(members, X, y, groups, splits, progress)
            kept = self._combine(X, y, scored, [name for name, _ in members], rng)
            self.names_ = [members[k][0] for k in kept]
            self.estimators_ = [fitted[k] for k in kept]
        return self

    def _members(self, n: int) -> list[Member]:
        return self._default_members(n) if isinstance(self.estimators, str) else list(self.estimators)

    def _splits(
        self, y: np.ndarray, rng: np.random.RandomState, groups: np.ndarray | None = None
    ) -> list[tuple[np.ndarray, np.ndarray]]:
        """Return folds of the rows or, of many rows, one part to train on and one that is held out."""
        rows, fold_seed = np.arange(len(y)), int(rng.randint(np.iinfo(np.int32).max))
        strata = y if is_classifier(self) else None
        if groups is not None:
            return self._group_splits(rows, strata, groups, fold_seed)
        if len(y) > MAX_FOLD_ROWS:
            n_held = min(int(HELD_OUT_SHARE * len(y)), MAX_HELD_OUT)
            # The only row of a class is not held out.
            others = rows if strata is None else np.flatnonzero(np.bincount(strata)[strata] > 1)
            _, held_out = train_test_split(
                others,
                test_size=n_held,
                stratify=None if strata is None else strata[others],
                random_state=fold_seed,
            )
            return [(np.setdiff1d(rows, held_out), np.sort(held_out))]
        n_folds = min(N_QUICK_FOLDS if self.quick else N_FOLDS, len(y))
        if strata is None:
            return list(KFold(n_folds, shuffle=True, random_state=fold_seed).split(rows))
        largest = int(np.unique(strata, return_counts=True)[1].max())
        folds = StratifiedKFold(max(2, min(n_folds, largest)), shuffle=True, random_state=fold_seed)
        with warnings.catch_warnings():
            # A fold may lack a rare class.
            warnings.filterwarnings("ignore", "The least populated class", UserWarning)
            return list(folds.split(rows, strata))

    def _group_splits(
        self, rows: np.ndarray, strata: np.ndarray | None, groups: np.ndarray, fold_seed: int
    ) -> list[tuple[np.ndarray, np.ndarray]]:
        """Return folds, or a part that is held out, that do not divide a group."""
        n_folds = min(N_QUICK_FOLDS if self.quick else N_FOLDS, len(np.unique(groups)))
        if n_folds < 2:
            raise ValueError("groups has one group: at least two are needed.")
        if len(rows) > MAX_FOLD_ROWS:
            share = min(HELD_OUT_SHARE, MAX_HELD_OUT / len(rows))
            return list(
                GroupShuffleSplit(1, test_size=share, random_state=fold_seed).split(rows, groups=groups)
            )
        folds = GroupKFold if strata is None else StratifiedGroupKFold
        return list(folds(n_folds, shuffle=True, random_state=fold_seed).split(rows, strata, groups))

    def _fit_members(
        self,
        members: list[Member],
        X: np.ndarray,
        y: np.ndarray,
        groups: np.ndarray | None,
        splits: list[tuple[np.ndarray, np.ndarray]],
        progress: Progress | None,
    ) -> tuple[Scored, list[Any]]:
        """Predict the test rows of every split with members fitted to the others; return fitted members.

        With folds, these are fitted to all rows.
        """
        rows = np.arange(len(y))
        # The longest fits come first, which keeps all threads busy.
        fits = [(rows, rows[:0]), *splits] if len(splits) > 1 else splits
        tasks = [(part, member) for part in range(len(fits)) for member in range(len(members))]
        calls = (
            delayed(_fit_and_predict)(self, (part, k), members[k][1], X, y, *fits[part], part == 0)
            for part, k in tasks
        )
        results: dict[tuple[int, int], tuple[Any, Any, Any]] = {}
        parallel = Parallel(n_jobs=self.n_jobs, prefer="threads", return_as="generator_unordered")
        # Limits of other threads are restored when they end; this one holds until all have.
        with threadpool_limits(1), warnings.catch_warnings():
            if progress is not None:
                warnings.filterwarnings("ignore", "Training .* pairs of rows and anchors", UserWarning)
            for key, result in parallel(calls):
                results[key] = result
                if progress is not None:
                    progress(len(results), len(tasks))
        numbers, parts = range(len(members)), [part for part, (_, test) in enumerate(fits) if len(test)]
        mean, var = (
            np.stack([np.concatenate([results[part, k][moment] for part in parts]) for k in numbers])
            for moment in (0, 1)
        )
        rows = np.concatenate([test for _, test in splits])
        scored = Scored(rows, mean, var, len(splits) == 1, None if groups is None else groups[rows])
        return scored, [results[0, k][2] for k in numbers]

    def set_jobs(self, n_jobs: int | None) -> None:
        """Set the number of threads that predict; members use one each."""
        check_is_fitted(self)
        self.n_jobs = n_jobs

    # -- predicting --------------------------------------------------------------------------------

    def _predict_members(self, X: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return validated inputs, and mean and variance of every member."""
        check_is_fitted(self)
        check_no_dates("X", X)
        is_finite = "allow-nan" if self._accepts_nan() else True
        X = validate_data(self, X, reset=False, dtype=np.float64, ensure_all_finite=is_finite)
        blocks = self._blocks(X)
        n_blocks = len(blocks)
        moments = self._threads(
            delayed(self._moments)(model, rows) for model in self.estimators_ for rows in blocks
        )
        mean, var = (
            np.stack(
                [
                    np.concatenate([block[part] for block in moments[start : start + n_blocks]])
                    for start in range(0, len(moments), n_blocks)
                ]
            )
            for part in (0, 1)
        )
        return X, mean, var

    def _blocks(self, rows: np.ndarray) -> list[np.ndarray]:
        """Return one block of rows for each thread."""
        return np.array_split(rows, min(effective_n_jobs(self.n_jobs), max(1, len(rows) // MIN_BLOCK_ROWS)))

    def _threads(self, calls: Any) -> list[Any]:
        """Run calls in threads, and return their results in order."""
        threads = Parallel(n_jobs=self.n_jobs, prefer="threads", require="sharedmem")
        return list(threads(calls))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = self._accepts_nan()
        tags.target_tags.required = True
        return tags

    def _accepts_nan(self) -> bool:
        """Return whether all members accept missing values, or may accept them; the default ones do."""
        members = () if isinstance(self.estimators, str) else self.estimators
        return all(accepts_nan(model) for _, model in members)


def smooth_member(quick: bool, store_rows: bool, linear: BaseEstimator) -> Pipeline:
    """Return a smooth model, or a linear one unless it may contain rows of the training data."""
    if store_rows:
        return smooth_pipeline(linear, N_QUICK_KERNELS if quick else N_KERNELS)
    return make_pipeline(SimpleImputer(strategy="median", keep_empty_features=True), StandardScaler(), linear)


def numbers_of_kept(weights: np.ndarray) -> list[int]:
    """Return the numbers of the members whose weights are not too small."""
    smallest = min(MIN_WEIGHT, 0.5 / len(weights)) * weights.sum()
    return [int(k) for k in np.flatnonzero(weights >= smallest)]


def check_members(members: Sequence[Any], method: str) -> None:
    """Raise an error unless members are pairs of different names and of estimators with this method."""
    for member in members:
        if not (isinstance(member, tuple) and len(member) == 2 and isinstance(member[0], str)):
            raise ValueError("estimators must be a list of pairs (name, estimator).")
        if not (is_estimator(member[1]) and hasattr(member[1], method)):
            raise TypeError(f"the estimator {member[0]!r} has no fit, get_params or {method}: {member[1]!r}.")
    names = [name for name, _ in members]
    if not names or len(set(names)) < len(names):
        raise ValueError(f"estimators must have different names, and at least one, got {names}.")


def _fit_and_predict(
    stacked: BaseStacked,
    key: tuple[int, int],
    estimator: BaseEstimator,
    X: np.ndarray,
    y: np.ndarray,
    train: np.ndarray,
    test: np.ndarray,
    is_kept: bool,
) -> tuple[tuple[int, int], tuple[Any, Any, Any]]:
    """Fit a member to some rows and return its predictions for others, and the member if it is kept.

    It has one core: members are fitted side by side, and more threads than cores are slow.
    """
    # A column without any value becomes constant: no member accepts it.
    empty = np.isnan(X[train]).all(axis=0)
    if empty.any():
        X = np.where(empty, 0.0, X)
    with threadpool_limits(1):
        # A class with a single row is missing where this row is predicted.
        is_one_class = is_classifier(stacked) and np.ptp(y[train]) == 0
        model = DummyClassifier() if is_one_class else clone(estimator)
        try:
            model.fit(X[train], y[train])
        except ValueError as error:
            if not str(error).startswith("Input X contains NaN"):
                raise
            raise ValueError(
                f"X contains NaN, which {type(estimator).__name__} does not accept: fill it first, as in "
                f"make_pipeline(SimpleImputer(), {type(stacked).__name__}(...))."
            ) from error
        moments = stacked._moments(model, X[test]) if len(test) else (None, None)
    return key, (*moments, model if is_kept else None)
