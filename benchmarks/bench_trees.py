"""Mean and variance over the anchors of a forest: packed trees against one matrix of pairs per anchor.

The plain method is timed with the forest's own threads over trees and with threads over rows, because
starting the forest's threads for every anchor takes longer than the trees. The methods take turns, so that
other load affects them equally; times are medians.
"""

from __future__ import annotations

from copy import copy
from functools import partial
from importlib.util import find_spec

import numpy as np
from measure import measure
from sklearn.ensemble import RandomForestRegressor

from deltauq import AnchoredRegressor
from deltauq.core import Difference, Moments

TRAIN, ROWS, ANCHORS, TREES, THREADS, REPEATS = 200, 20_000, 100, 5, 2, 7


def make_data(n: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Return rows with 26 features, 14 of them discrete or rounded, and a noisy nonlinear target."""
    X = rng.normal(size=(n, 26))
    X[:, :6] = rng.integers(0, 5, size=(n, 6))
    X[:, 6:10] = rng.integers(0, 2, size=(n, 4))
    X[:, 10:14] = np.round(rng.gamma(2.0, 2.0, size=(n, 4)), 1)
    smooth = 3 * np.sin(X[:, 14]) + X[:, 0] * X[:, 15] + np.abs(X[:, 17]) + X[:, 10] / 2
    return X, smooth + 2 * X[:, 6] * X[:, 16] ** 2 + 0.5 * rng.normal(size=n)


class Unpacked(Difference):
    """The default encoding; trees are packed for encodings that do not override `encode` only."""

    def encode(self, *args, **options):
        """Join anchors and input into tuples."""
        return super().encode(*args, **options)


def by_forest(model: AnchoredRegressor, X: np.ndarray) -> np.ndarray:
    """Return mean and variance, with one call of the forest's `predict` per anchor."""
    moments = Moments()
    for anchor in model.anchors_:
        moments.update(model.estimator_.predict(np.hstack([np.broadcast_to(anchor, X.shape), X - anchor])))
    return np.stack([moments.mean, moments.var])


def by_posterior(model: AnchoredRegressor, X: np.ndarray, *, packed: bool) -> np.ndarray:
    """Return mean and variance of the library's posterior, with or without packed trees."""
    model = model if packed else copy(model)
    if not packed:
        model.encoding_ = Unpacked()
    posterior = model.posterior(X)
    return np.stack([posterior.mean, posterior.var])


def main() -> None:
    """Print the time and memory of all methods, and the ratio to packed trees."""
    rng = np.random.default_rng(0)
    (R, y), (X, _) = make_data(TRAIN, rng), make_data(ROWS, rng)
    forest = RandomForestRegressor(TREES, n_jobs=THREADS)
    model = AnchoredRegressor(forest, n_anchors=ANCHORS, n_jobs=THREADS, random_state=0).fit(R, y)
    methods = {
        "packed, threads over rows": partial(by_posterior, packed=True),
        "plain, threads over rows": partial(by_posterior, packed=False),
        "plain, forest.predict": by_forest,
    }
    # Few rows: this compiles the code without allocating the memory of a full run.
    few = [method(model, X[:50]) for method in methods.values()]
    np.testing.assert_allclose(few, [few[0]] * len(few), rtol=1e-9)
    runs = [[measure(partial(method, model, X)) for method in methods.values()] for _ in range(REPEATS)]
    seconds, memory = np.median(runs, axis=0)[:, 0], np.max(runs, axis=0)[:, 1]
    print(
        f"forest of {TREES} on {TRAIN}x{X.shape[1]}, all pairs; {ROWS} rows, K = {ANCHORS}, {THREADS} threads"
    )
    for name, s, mb in zip(methods, seconds, memory, strict=True):
        print(f"{name:25}  {s:.3f} s  {s / seconds[0]:4.1f} times packed  {mb:3.0f} MB more at the peak")


if __name__ == "__main__":
    main() if find_spec("numba") else print("numba is not installed: nothing to compare")
