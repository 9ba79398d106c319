"""`classes`: plain, anchored, bagged and temperature-scaled classifiers on twenty tables of KEEL."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import lru_cache
from importlib import import_module
from typing import Any

import numpy as np
from scipy.special import softmax
from sklearn.ensemble import BaggingClassifier, HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.model_selection import StratifiedKFold, cross_val_predict, train_test_split

from deltauq.calibration import TemperatureScaler
from deltauq.data import KEEL, ClassTable, load_keel
from deltauq.estimators import AnchoredClassifier, StackedClassifier
from deltauq.metrics import accuracy, brier, ece, nll
from experiments.runner import Cell, Experiment, Outcome
from experiments.tables import TableSpec

N_TRAIN = {"quick": (100,), "paper": (300, 2000)}
MAX_TRAIN_SHARE = 0.6
"""Tables that are too small for n training rows use this share of their rows."""
LARGE = ("banana", "letter", "magic", "optdigits", "phoneme", "satimage", "spambase", "splice")
"""Tables with at least 2500 rows, the only ones with 2000 training rows."""
MAX_TEST = 2000
SEEDS = {"quick": range(1), "paper": range(5)}
DATASETS = {"quick": ("heart", "wdbc"), "paper": tuple(KEEL)}
N_FOLDS = 5
SET_COVERAGE = 0.9

BASES: dict[str, Callable[[int], Any]] = {
    "forest": lambda seed: RandomForestClassifier(100, random_state=seed),
    "boosting": lambda seed: HistGradientBoostingClassifier(early_stopping=False, random_state=seed),
}
N_MEMBERS = {100: 50, 300: 50, 2000: 30}
"""Of the bagged models, by training rows: they take at least the time of the anchored model."""
FORMS = ("plain", "anchored", "bagged", "temperature")
STACKED = "stacked"
METHODS = (*(f"{base}-{form}" for base in BASES for form in FORMS), "catboost", STACKED)
SIZES = {
    "plain": (0, 1),
    "plain, 2 x": (0, 2),
    "10 anchors": (10, 1),
    "50 anchors": (50, 1),
    "5 anchors, 2 x": (5, 2),
    "10 anchors, 2 x": (10, 2),
    "20 anchors, 2 x": (20, 2),
    "50 anchors, 2 x": (50, 2),
}
"""M, and a factor of the iterations, of boosting in the part "size", which uses training rows only."""
SIZE_SEEDS = {300: range(2), 2000: range(1)}
N_STUDY_FOLDS = 4


class TemperatureScaled:
    """A classifier whose log-probabilities are divided by a temperature, fitted to its out-of-fold ones.

    Parameters
    ----------
    estimator : scikit-learn classifier
    floor : float
        The smallest probability; see `with_floor`.
    seed : int
        Of the folds.
    """

    def __init__(self, estimator: Any, floor: float, seed: int) -> None:
        self.estimator, self.floor, self.seed = estimator, floor, seed

    def fit(self, X: np.ndarray, y: np.ndarray) -> TemperatureScaled:
        """Fit the temperature on folds, and the estimator on all rows."""
        folds = StratifiedKFold(N_FOLDS, shuffle=True, random_state=self.seed)
        proba = cross_val_predict(self.estimator, X, y, cv=folds, method="predict_proba")
        self.scaler = TemperatureScaler().fit(self._logits(proba), y)
        self.estimator.fit(X, y)
        return self

    def predict_proba(self, X: np.ndarray) -> np.ndarray:
        """Return the scaled probabilities."""
        logits = self._logits(self.estimator.predict_proba(X))
        return np.asarray(softmax(self.scaler.transform(logits), axis=1))

    def _logits(self, proba: np.ndarray) -> np.ndarray:
        return np.log(with_floor(proba, self.floor))


def make_method(method: str, n_train: int, floor: float, seed: int) -> Any:
    """Return an unfitted classifier for this number of training rows."""
    if method == STACKED:
        return StackedClassifier(random_state=seed)
    if method == "catboost":
        return import_module("catboost").CatBoostClassifier(
            random_state=seed, thread_count=1, verbose=False, allow_writing_files=False
        )
    base, _, form = method.partition("-")
    estimator = BASES[base](seed)
    makers: dict[str, Callable[[], Any]] = {
        "plain": lambda: estimator,
        "anchored": lambda: AnchoredClassifier(estimator, random_state=seed),
        "bagged": lambda: BaggingClassifier(estimator, N_MEMBERS[n_train], random_state=seed),
        "temperature": lambda: TemperatureScaled(estimator, floor, seed),
    }
    return makers[form]()


def boosting_of_size(setting: str, seed: int) -> Any:
    """Return unfitted boosting of the part "size"."""
    n_anchors, iterations = SIZES[setting]
    base = BASES["boosting"](seed)
    base.set_params(max_iter=iterations * base.max_iter)
    return AnchoredClassifier(base, n_train_anchors=n_anchors, random_state=seed) if n_anchors else base


def cells(profile: str) -> list[Cell]:
    """Return one cell per number of training rows, table, method and trial, and those of the study of M."""
    study = [
        {"part": "size", "n_train": n_train, "dataset": dataset, "setting": setting, "seed": seed}
        for n_train, seeds in (SIZE_SEEDS.items() if profile == "paper" else ())
        for seed in seeds
        for dataset in (LARGE if n_train == 2000 else DATASETS[profile])
        for setting in SIZES
    ]
    methods = [
        {"n_train": n_train, "dataset": dataset, "method": method, "seed": seed}
        for seed in SEEDS[profile]
        for n_train in N_TRAIN[profile]
        for dataset in DATASETS[profile]
        for method in METHODS
        if n_train < 2000 or dataset in LARGE
    ]
    return methods + study


def run(cell: Cell, profile: str) -> Outcome:
    """Fit one method on one split and measure its probabilities on the test rows."""
    table, seed = keel_table(cell["dataset"]), cell["seed"]
    train, test = split(table, seed, cell["n_train"])
    if "part" in cell:
        folds = StratifiedKFold(N_STUDY_FOLDS, shuffle=True, random_state=seed)
        train, test = (train[rows] for rows in next(folds.split(train, table.y[train])))
    floor = 1 / (10 * len(train))
    model = (
        boosting_of_size(cell["setting"], seed)
        if "part" in cell
        else make_method(cell["method"], cell["n_train"], floor, seed)
    )
    started = time.perf_counter()
    model.fit(table.X[train], table.y[train])
    fitted = time.perf_counter()
    proba = model.predict_proba(table.X[test])
    predicted = time.perf_counter()
    y = table.y[test]
    of_sets = {}
    if cell.get("method") == STACKED:
        sets = model.conformal_.sets(proba, SET_COVERAGE)
        of_sets = {
            "coverage": float(sets[np.arange(len(y)), y].mean()),
            "set_size": float(sets.sum(1).mean()),
        }
    proba = with_floor(proba, floor)
    return Outcome(
        {
            **of_sets,
            "accuracy": accuracy(y, proba),
            "nll": nll(y, proba),
            "brier": brier(y, proba),
            "ece": ece(y, proba),
            "seconds_fit": fitted - started,
            "seconds_predict": predicted - fitted,
        }
    )


def split(table: ClassTable, seed: int, n_train: int) -> tuple[np.ndarray, np.ndarray]:
    """Return training and test rows with the same shares of the classes; the same for every method."""
    n_rows = len(table.y)
    n_train = min(n_train, int(MAX_TRAIN_SHARE * n_rows))
    train, test = train_test_split(
        np.arange(n_rows),
        train_size=n_train,
        test_size=min(MAX_TEST, n_rows - n_train),
        stratify=table.y,
        random_state=seed,
    )
    return train, test


def with_floor(proba: np.ndarray, floor: float) -> np.ndarray:
    """Return probabilities of shape (n, c) of at least about `floor`, so that their logarithms are finite."""
    proba = np.maximum(proba, floor)
    return np.asarray(proba / proba.sum(axis=1, keepdims=True))


@lru_cache(maxsize=2)
def keel_table(name: str) -> ClassTable:
    """Return a table; consecutive cells use the same one."""
    return load_keel(name)


LABELS = {f"{base}-{form}": f"{base}, {form}" for base in BASES for form in FORMS}
LABELS |= {
    "forest-plain": "forest",
    "boosting-plain": "boosting",
    "catboost": "CatBoost",
    STACKED: "deltauq stacked",
}


def _table(title: str, metric: str, n_train: int, best: Any, relative_to: str = "") -> TableSpec:
    return TableSpec(
        f"{title}, {n_train} training rows",
        metric,
        "dataset",
        "method",
        best=best,
        where={"n_train": n_train, "part": None},
        relative_to=relative_to,
        labels=LABELS,
    )


def _tables() -> tuple[TableSpec, ...]:
    metrics: tuple[tuple[str, str, Any, str], ...] = (
        ("NLL relative to boosting", "nll", "min", "boosting-plain"),
        ("Accuracy relative to boosting", "accuracy", "max", "boosting-plain"),
        ("Brier score relative to boosting", "brier", "min", "boosting-plain"),
        ("NLL", "nll", "min", ""),
        ("Accuracy", "accuracy", "max", ""),
        ("Brier score", "brier", "min", ""),
        ("ECE", "ece", "min", ""),
        ("Seconds to train", "seconds_fit", None, ""),
        ("Seconds to predict the test rows", "seconds_predict", None, ""),
    )
    of_methods = tuple(
        _table(title, metric, n_train, best, reference)
        for title, metric, best, reference in metrics
        for n_train in N_TRAIN["paper"]
    )
    of_sizes = tuple(
        TableSpec(
            f"NLL relative to boosting by anchors and iterations, {n_train} training rows",
            "nll",
            "dataset",
            "setting",
            best="min",
            where={"part": "size", "n_train": n_train},
            relative_to="plain",
        )
        for n_train in SIZE_SEEDS
    )
    of_sets = tuple(
        TableSpec(
            f"Prediction sets of deltauq stacked, nominal coverage 90 %, {n_train} training rows",
            ("coverage", "set_size"),
            "dataset",
            best=None,
            where={"n_train": n_train, "method": STACKED},
            labels={"set_size": "classes per set"},
            mean_over=tuple(KEEL) if n_train == 300 else LARGE,
        )
        for n_train in N_TRAIN["paper"]
    )
    return of_methods + of_sets + of_sizes


EXPERIMENT = Experiment(
    "classes",
    1,
    "Classifiers on twenty tables",
    cells,
    run,
    tables=_tables(),
    notes=(
        "A forest of 100 trees and gradient boosting with scikit-learn's defaults: plain; anchored with the "
        "library's defaults; bagged, with as many members as take the time of the anchored model; and with "
        "a temperature fitted to the out-of-fold log-probabilities of the training rows. Text columns are "
        "one-hot encoded. Tables with few rows use at most 60 % of them to train, and only those with 2500 "
        f"rows or more have 2000 training rows; the others, at most {MAX_TEST}, are test rows. For every "
        "method alike, probabilities below 1 / (10 n) with n training rows are set to this value. The last "
        "tables compare anchors per row and multiples of the default number of iterations (2 x) on a quarter "
        'of the training rows, which is held out; they chose `n_train_anchors="auto"` of boosting.'
    ),
)
