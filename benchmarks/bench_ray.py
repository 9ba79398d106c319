"""Prediction with Ray against a single process: rows per second, on two cores each.

The model is a forest of 5 trees on 20 columns, with K = 10 and 100. The single process uses two threads; Ray
predicts the row groups of the same Parquet file with two workers. The time includes the start of Ray. Each
job takes more than a minute. The numbers of rows for K = 10 and 100 are optional arguments:
`bench_ray.py 200000 100000`. The predictions must be equal, and Ray at least 0.7 times as fast.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from bench_tables import TRAIN, TREES, make_rows, write_table
from pyarrow import parquet
from sklearn.ensemble import RandomForestRegressor

from deltauq.tables import fit

ROWS = {10: 9_000_000, 100: 5_000_000}
CORES = 2
MIN_RATIO, MIN_SECONDS = 0.7, 60


@dataclass(frozen=True)
class Usage:
    """The peak memory of a process in bytes, and its CPU time in seconds."""

    process: int
    memory: float
    cores: float


def usage() -> Usage:
    """Return the usage of this process."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return Usage(os.getpid(), _peak_memory(used.ru_maxrss), used.ru_utime + used.ru_stime)


def _peak_memory(maxrss: int) -> int:
    """Return the peak memory in bytes. On Linux, `maxrss` includes the parent before the fork."""
    status = Path("/proc/self/status")
    if not status.exists():
        return maxrss  # macOS
    line = next(line for line in status.read_text().splitlines() if line.startswith("VmHWM:"))
    return 1024 * int(line.split()[1])


def predict_in_one_process(model: str, table: str, out: str) -> list[Usage]:
    """Predict in this process and return its usage."""
    from deltauq.tables import load, predict_file

    predict_file(load(model), table, out)
    return [usage()]


def predict_on_ray(model: str, table: str, out: str) -> list[Usage]:
    """Predict with a local Ray and return the usage of each worker."""
    from deltauq.distributed import predict_parts, run_on_ray

    workers = {}

    def run(work: Callable[[Any], Any], tasks: Iterable[Any]) -> Iterator[tuple[Any, Any]]:
        for task, (result, use) in run_on_ray(partial(with_usage, work), tasks, n_jobs=CORES):
            workers[use.process] = max(use, workers.get(use.process, use), key=lambda use: use.cores)
            yield task, result

    predict_parts(model, table, out, run=run)
    return list(workers.values())


def with_usage(work: Callable[[Any], Any], task: Any) -> tuple[Any, Usage]:
    """Run a task and add the usage of its process."""
    return work(task), usage()


BACKENDS = {"single": predict_in_one_process, "ray": predict_on_ray}


def measure(backend: str, *paths: Path) -> tuple[float, list[Usage]]:
    """Predict in a new process; return its seconds and its usage."""
    start = time.perf_counter()
    command = [sys.executable, __file__, backend, *map(str, paths)]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    return time.perf_counter() - start, [Usage(**use) for use in json.loads(done.stdout)]


def compare(folder: Path, n_anchors: int, n: int) -> float:
    """Print time and memory of both backends for n rows, and return how many times as fast Ray is."""
    rng = np.random.default_rng(0)
    model, table = folder / "model", folder / "table.parquet"
    base = RandomForestRegressor(TREES, random_state=0)
    fit(make_rows(TRAIN, rng), "y", model=base, n_anchors=n_anchors, n_jobs=CORES).save(model)
    write_table(table, n, rng)
    seconds = {}
    for backend in BACKENDS:
        seconds[backend], uses = measure(backend, model, table, folder / f"{backend}.parquet")
        per_second, per_core = n / seconds[backend], n / sum(use.cores for use in uses)
        memory = max(use.memory for use in uses) / 1e6
        print(
            f"K = {n_anchors}, {backend}: {n:,} rows in {seconds[backend]:,.0f} s, {per_second:,.0f} rows/s, "
            f"{per_core:,.0f} per core second; {memory:,.0f} MB per process",
            flush=True,
        )
    whole, parts = (parquet.read_table(folder / f"{backend}.parquet") for backend in BACKENDS)
    assert parts.equals(whole), "the predictions of Ray differ from those of a single process"
    read, write = ((folder / name).stat().st_size / n for name in ("table.parquet", "single.parquet"))
    print(f"K = {n_anchors}: {read:.0f} bytes read and {write:.0f} written per row")
    ratio = seconds["single"] / seconds["ray"]
    short = "" if min(seconds.values()) >= MIN_SECONDS else " (less than a minute: not comparable)"
    print(f"K = {n_anchors}: Ray has {ratio:.2f} times the rows per second of a single process{short}")
    return ratio if not short else MIN_RATIO


def main(*rows: int) -> None:
    """Compare for both numbers of anchors, and fail if Ray is too slow."""
    for n_anchors, n in zip(ROWS, rows or ROWS.values(), strict=True):
        with tempfile.TemporaryDirectory() as folder:
            ratio = compare(Path(folder), n_anchors, n)
        assert ratio >= MIN_RATIO, f"Ray is slower than {MIN_RATIO} times a single process"


if __name__ == "__main__":
    if sys.argv[1:2] and sys.argv[1] in BACKENDS:
        print(json.dumps([asdict(use) for use in BACKENDS[sys.argv[1]](*sys.argv[2:])]))
    else:
        main(*map(int, sys.argv[1:]))
