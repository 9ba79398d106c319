"""Mean and variance over anchors of a forest: packed trees against forming every tuple matrix.

The plain side is timed twice: with the forest's own threads over trees, and with threads over rows as on the
packed side, because starting the forest's threads for every anchor takes longer than the trees themselves.
All sides run in turn, so that other load on the machine meets them alike; times are medians.
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

from deltauq.estimators._packed_trees import PackedTrees, numba_available, plain_outputs

TRAIN, ROWS, ANCHORS, TREES, THREADS, REPEATS = 200, 20_000, 100, 5, 2, 7


def make_data(n: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Rows with 26 features, 14 of them discrete or rounded, and a noisy nonlinear target."""
    X = rng.normal(size=(n, 26))
    X[:, :6] = rng.integers(0, 5, size=(n, 6))
    X[:, 6:10] = rng.integers(0, 2, size=(n, 4))
    X[:, 10:14] = np.round(rng.gamma(2.0, 2.0, size=(n, 4)), 1)
    smooth = 3 * np.sin(X[:, 14]) + X[:, 0] * X[:, 15] + np.abs(X[:, 17]) + X[:, 10] / 2
    return X, smooth + 2 * X[:, 6] * X[:, 16] ** 2 + 0.5 * rng.normal(size=n)


def tuples(X: np.ndarray, anchor: np.ndarray) -> np.ndarray:
    return np.hstack([np.broadcast_to(anchor, X.shape), X - anchor])


def stream(outputs: Callable, X: np.ndarray, anchors: np.ndarray) -> np.ndarray:
    """Mean and variance of ``outputs(X, anchor)`` over the anchors, kept running."""
    mean = squares = np.zeros(1)
    for count, anchor in enumerate(anchors, start=1):
        value = outputs(X, anchor)
        deviation = value - mean
        mean = mean + deviation / count
        squares = squares + deviation * (value - mean)
    return np.stack([mean, squares / len(anchors)])


def in_threads(outputs: Callable, X: np.ndarray, anchors: np.ndarray) -> np.ndarray:
    parts = np.array_split(X, THREADS)
    work = (delayed(stream)(outputs, rows, anchors) for rows in parts)
    return np.hstack(Parallel(n_jobs=THREADS, prefer="threads")(work))


def resident() -> float:
    """Megabytes of memory the process holds; 0 where the system does not say."""
    status = Path("/proc/self/statm")
    return int(status.read_text().split()[1]) * PAGESIZE / 1e6 if status.exists() else 0.0


def measure(side: Callable, *args: np.ndarray) -> tuple[float, float]:
    """Seconds, and the most megabytes added as seen by a thread beside the run."""
    before, seen, done = resident(), [0.0], threading.Event()

    def watch() -> None:
        while not done.wait(0.005):
            seen.append(resident() - before)

    threading.Thread(target=watch).start()
    start = time.perf_counter()
    side(*args)
    done.set()
    return time.perf_counter() - start, max(seen)


def main() -> None:
    rng = np.random.default_rng(0)
    (R, y), (X, _) = make_data(TRAIN, rng), make_data(ROWS, rng)
    forest = RandomForestRegressor(TREES, random_state=0, n_jobs=THREADS)
    forest.fit(np.vstack([tuples(R, r) for r in R]), np.concatenate([y - target for target in y]))
    trees, anchors = PackedTrees(forest, X.shape[1]), R[rng.choice(TRAIN, ANCHORS, replace=False)]
    sides = {
        "packed, threads over rows": (in_threads, lambda X, r: trees.outputs(X, r, r)[:, 0]),
        "plain, threads over rows": (in_threads, lambda X, r: plain_outputs(forest, tuples(X, r))[:, 0]),
        "plain, forest.predict": (stream, lambda X, r: forest.predict(tuples(X, r))),
    }
    # Few rows, so that this compiles but leaves the memory of a full run still to be taken.
    few = [run(outputs, X[:50], anchors) for run, outputs in sides.values()]
    np.testing.assert_allclose(few, [few[0]] * len(few), rtol=1e-9)
    runs = [[measure(*side, X, anchors) for side in sides.values()] for _ in range(REPEATS)]
    seconds, memory = np.median(runs, axis=0)[:, 0], np.max(runs, axis=0)[:, 1]
    for name, s, mb in zip(sides, seconds, memory, strict=True):
        print(f"{name:25}  {s:.3f} s  {s / seconds[0]:4.1f} times packed  {mb:3.0f} MB more at the peak")


if __name__ == "__main__":
    main() if numba_available() else print("numba is not installed: there is no packed side to measure")
