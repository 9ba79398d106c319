"""Mean and variance over the anchors of forests and boosting: compiled trees against a loop over anchors.

The loop forms the tuples of one anchor at a time and calls the estimator's own `predict`. The methods take
turns, so that other load affects them equally; times are medians.
"""

from __future__ import annotations

from functools import partial
from importlib.util import find_spec

import numpy as np
from lightgbm import LGBMRegressor
from measure import measure
from sklearn.ensemble import HistGradientBoostingRegressor, RandomForestRegressor
from xgboost import XGBRegressor

from deltauq import AnchoredRegressor
from deltauq.core import Moments

TRAIN, ROWS, THREADS, REPEATS = 200, 10_000, 2, 3
MODELS = {
    "forest of 5, [R, X - R] -> y": (
        RandomForestRegressor(5, n_jobs=THREADS),
        {"target": "value", "n_anchors": 100},
    ),
    "forest of 5, [R, X, X - R] -> y - y_R": (
        RandomForestRegressor(5, n_jobs=THREADS),
        {"encoding": "full", "n_anchors": 100},
    ),
    "boosting of scikit-learn": (HistGradientBoostingRegressor(), {"n_anchors": 50}),
    "LightGBM": (LGBMRegressor(n_jobs=THREADS, verbose=-1), {"n_anchors": 50}),
    "XGBoost": (XGBRegressor(n_jobs=THREADS), {"n_anchors": 50}),
}


def make_data(n: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Return rows with 26 features, 14 of them discrete or rounded, and a noisy nonlinear target."""
    X = rng.normal(size=(n, 26))
    X[:, :6] = rng.integers(0, 5, size=(n, 6))
    X[:, 6:10] = rng.integers(0, 2, size=(n, 4))
    X[:, 10:14] = np.round(rng.gamma(2.0, 2.0, size=(n, 4)), 1)
    smooth = 3 * np.sin(X[:, 14]) + X[:, 0] * X[:, 15] + np.abs(X[:, 17]) + X[:, 10] / 2
    return X, smooth + 2 * X[:, 6] * X[:, 16] ** 2 + 0.5 * rng.normal(size=n)


def by_loop(model: AnchoredRegressor, X: np.ndarray) -> np.ndarray:
    """Return mean and variance, with one call of the estimator's `predict` per anchor."""
    moments = Moments()
    anchors = model.anchors_
    for k in range(len(anchors)):
        output = model.estimator_.predict(model.encoding_.encode(X, anchors.X[k][None]))
        moments.update(output if anchors.y is None else output + anchors.y[k])
    return np.stack([moments.mean, moments.var])


def by_posterior(model: AnchoredRegressor, X: np.ndarray) -> np.ndarray:
    """Return mean and variance of the library's posterior."""
    posterior = model.posterior(X)
    return np.stack([posterior.mean, posterior.var])


def main() -> None:
    """Print the time and memory of both methods, and their ratio."""
    rng = np.random.default_rng(0)
    (R, y), (X, _) = make_data(TRAIN, rng), make_data(ROWS, rng)
    print(f"{TRAIN} training rows of {X.shape[1]} columns; {ROWS} rows, {THREADS} threads")
    for name, (estimator, options) in MODELS.items():
        model = AnchoredRegressor(estimator, n_jobs=THREADS, random_state=0, **options).fit(R, y)
        methods = {"compiled": partial(by_posterior, model), "loop": partial(by_loop, model)}
        # Few rows: this compiles the code without allocating the memory of a full run.
        few = [method(X[:50]) for method in methods.values()]
        np.testing.assert_allclose(few[0], few[1], rtol=1e-4)
        runs = [[measure(partial(method, X)) for method in methods.values()] for _ in range(REPEATS)]
        (fast, slow), memory = np.median(runs, axis=0)[:, 0], np.max(runs, axis=0)[0, 1]
        more = model.set_anchors(
            np.tile(model.anchors_.X + 1e-9 * rng.normal(size=model.anchors_.X.shape), (4, 1)),
            None if model.anchors_.y is None else np.tile(model.anchors_.y, 4),
        )
        _, memory_of_more = measure(partial(by_posterior, more, X))
        print(
            f"{name:38} K = {options['n_anchors']:3}  loop {slow:6.3f} s  compiled {fast:6.3f} s  "
            f"{slow / fast:5.1f} times as fast  memory {memory:3.0f} MB, {memory_of_more:3.0f} MB with 4 K"
        )


if __name__ == "__main__":
    main() if find_spec("numba") else print("numba is not installed: nothing to compare")
