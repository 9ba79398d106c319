"""Mean and variance over anchors of a forest: packed trees against forming every tuple matrix.

Both sides run in turn, so that other load on the machine meets them alike; times are medians.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from mmap import PAGESIZE
from pathlib import Path

import numpy as np
from joblib import Parallel, delayed
from sklearn.ensemble import RandomForestRegressor

from deltauq.estimators._packed_trees import PackedTrees, numba_available

TRAIN, ROWS, ANCHORS, TREES, THREADS, REPEATS = 200, 20_000, 100, 5, 2, 7
Moments = tuple[np.ndarray, np.ndarray]


def make_data(n: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Rows with 26 features, 14 of them discrete or rounded, and a noisy nonlinear target."""
    X = rng.normal(size=(n, 26))
    X[:, :6] = rng.integers(0, 5, size=(n, 6))
    X[:, 6:10] = rng.integers(0, 2, size=(n, 4))
    X[:, 10:14] = np.round(rng.gamma(2.0, 2.0, size=(n, 4)), 1)
    smooth = 3 * np.sin(X[:, 14]) + X[:, 0] * X[:, 15] + np.abs(X[:, 17]) + X[:, 10] / 2
    return X, smooth + 2 * X[:, 6] * X[:, 16] ** 2 + 0.5 * rng.normal(size=n)


def stream(outputs: Callable[[np.ndarray], np.ndarray], anchors: np.ndarray) -> Moments:
    """Running mean and variance of ``outputs(anchor)`` over the anchors."""
    mean = squares = np.zeros(1)
    for count, anchor in enumerate(anchors, start=1):
        value = outputs(anchor)
        deviation = value - mean
        mean = mean + deviation / count
        squares = squares + deviation * (value - mean)
    return mean, squares / len(anchors)


def plain(forest: RandomForestRegressor, X: np.ndarray, anchors: np.ndarray) -> Moments:
    """Form the tuples of one anchor at a time and let the forest predict."""
    return stream(lambda r: forest.predict(np.hstack([np.broadcast_to(r, X.shape), X - r])), anchors)


def packed(forest: RandomForestRegressor, X: np.ndarray, anchors: np.ndarray) -> Moments:
    """Pack the forest and let every thread stream its own rows."""
    trees = PackedTrees(forest, X.shape[1])
    parts = Parallel(n_jobs=THREADS, prefer="threads")(
        delayed(stream)(lambda r, rows=rows: trees.outputs(rows, r, r)[:, 0], anchors)
        for rows in np.array_split(X, THREADS)
    )
    return np.concatenate([part[0] for part in parts]), np.concatenate([part[1] for part in parts])


def resident() -> float:
    """Megabytes of memory the process holds; 0 where the system does not say."""
    status = Path("/proc/self/statm")
    return int(status.read_text().split()[1]) * PAGESIZE / 1e6 if status.exists() else 0.0


def measure(side: Callable[..., Moments], *args: object) -> tuple[float, float]:
    """Seconds, and the most megabytes added as seen by a thread beside the run."""
    before, seen, done = resident(), [0.0], threading.Event()

    def watch() -> None:
        while not done.wait(0.005):
            seen.append(resident() - before)

    threading.Thread(target=watch).start()
    start = time.perf_counter()
    side(*args)
    seconds = time.perf_counter() - start
    done.set()
    return seconds, max(seen)


def main() -> None:
    """Fit on all pairs, check that both sides agree, and time them in turn."""
    rng = np.random.default_rng(0)
    (R, y), (X, _) = make_data(TRAIN, rng), make_data(ROWS, rng)
    i, j = np.divmod(np.arange(TRAIN**2), TRAIN)
    forest = RandomForestRegressor(TREES, random_state=0, n_jobs=THREADS)
    forest.fit(np.hstack([R[i], R[j] - R[i]]), y[j] - y[i])
    anchors = R[rng.choice(TRAIN, ANCHORS, replace=False)]
    # Few rows, so that this compiles but leaves the memory of a full run still to be taken.
    np.testing.assert_allclose(packed(forest, X[:50], anchors), plain(forest, X[:50], anchors), rtol=1e-9)
    runs = [[measure(side, forest, X, anchors) for side in (packed, plain)] for _ in range(REPEATS)]
    (fast, slow), (fast_memory, slow_memory) = np.median(runs, axis=0)[:, 0], np.max(runs, axis=0)[:, 1]
    print(f"plain  {slow:.3f} s, {slow_memory:.0f} MB more at the peak")
    print(f"packed {fast:.3f} s, {fast_memory:.0f} MB more at the peak")
    print(f"ratio  {slow / fast:.1f}")


if __name__ == "__main__":
    main() if numba_available() else print("numba is not installed: there is no packed side to measure")
