"""The seventeen regression tables of `table2` and `uci`, and base estimators that are anchored on them."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from importlib import import_module
from typing import Any

import numpy as np
from sklearn.ensemble import ExtraTreesRegressor, HistGradientBoostingRegressor, RandomForestRegressor
from sklearn.neighbors import KNeighborsRegressor
from sklearn.neural_network import MLPRegressor
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVR
from sklearn.tree import DecisionTreeRegressor

from deltauq.data import UCI, load_openml, load_uci
from experiments.table2 import REGRESSION

TABLES = (*REGRESSION, *UCI)
TRAIN_SHARE = 0.8
"""Largest share of a table's rows that is used to train."""

BASES: dict[str, Callable[[int], Any]] = {
    "tree": lambda seed: DecisionTreeRegressor(random_state=seed),
    "forest-5": lambda seed: RandomForestRegressor(5, random_state=seed),
    "forest-100": lambda seed: RandomForestRegressor(100, random_state=seed),
    "extra-trees-10": lambda seed: ExtraTreesRegressor(10, random_state=seed),
    "extra-trees-100": lambda seed: ExtraTreesRegressor(100, random_state=seed),
    "boosting": lambda seed: HistGradientBoostingRegressor(early_stopping=False, random_state=seed),
    "svr": lambda seed: SVR(),
    "knn": lambda seed: KNeighborsRegressor(),
    "mlp": lambda seed: MLPRegressor(max_iter=500, random_state=seed),
    "lightgbm": lambda seed: import_module("lightgbm").LGBMRegressor(random_state=seed, n_jobs=1, verbose=-1),
    "xgboost": lambda seed: import_module("xgboost").XGBRegressor(random_state=seed, n_jobs=1),
    "catboost": lambda seed: import_module("catboost").CatBoostRegressor(
        random_state=seed, thread_count=1, verbose=False, allow_writing_files=False
    ),
}
"""Name of a base estimator to a function of its seed; other parameters are defaults."""


def split_rows(dataset: int | str, seed: int, n_train: int) -> tuple[np.ndarray, np.ndarray]:
    """Return n training rows of a table in random order, at most 80 % of all, and the others."""
    n_rows = len(load_rows(dataset)[1])
    order = np.random.default_rng(seed).permutation(n_rows)
    n_train = min(n_train, int(TRAIN_SHARE * n_rows))
    return order[:n_train], order[n_train:]


def standardized(
    dataset: int | str, train: np.ndarray, test: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return inputs and targets of both sets of rows, standardised by the first: X, y, X_test, y_test."""
    X, y = load_rows(dataset)
    inputs, target = StandardScaler().fit(X[train]), StandardScaler().fit(y[train, None])
    X_train, X_test = (inputs.transform(X[rows]) for rows in (train, test))
    y_train, y_test = (target.transform(y[rows, None])[:, 0] for rows in (train, test))
    return X_train, y_train, X_test, y_test


@lru_cache(maxsize=2)
def load_rows(dataset: int | str) -> tuple[np.ndarray, np.ndarray]:
    """Return X and y of a table of OpenML, given its number, or UCI; consecutive cells use the same one."""
    table = load_openml(dataset) if isinstance(dataset, int) else load_uci(dataset)
    return table.X, table.y
