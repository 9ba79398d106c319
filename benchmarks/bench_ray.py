"""Bulk prediction through Ray against the path of a single machine: rows per second, on two cores each.

A forest of 5 on 20 columns, K = 10 and 100. The single path reads one Parquet file in one process, with a
model of two threads; Ray takes the row groups of the same file in two workers of one core. Ray's own start
counts. Each job takes a minute or more, in a process of its own. Other numbers of rows may be given, for
K = 10 and 100: `bench_ray.py 200000 100000`. Rows must be equal, and Ray at least 0.7 times as fast.
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
LEAST_RATIO, LEAST_SECONDS = 0.7, 60


@dataclass(frozen=True)
class Use:
    """What a process has used so far: the most bytes it held, and the seconds that cores worked for it."""

    process: int
    memory: float
    cores: float


def used() -> Use:
    """Return what this process has used."""
    told = resource.getrusage(resource.RUSAGE_SELF)
    return Use(os.getpid(), _most_memory(told.ru_maxrss), told.ru_utime + told.ru_stime)


def _most_memory(told: int) -> int:
    """Return the most bytes this process held, which Linux tells only with what its parent held before it."""
    status = Path("/proc/self/status")
    if not status.exists():
        return told  # macOS
    line = next(line for line in status.read_text().splitlines() if line.startswith("VmHWM:"))
    return 1024 * int(line.split()[1])


def predict_singly(model: str, table: str, out: str) -> list[Use]:
    """Predict in this process, and return what it used."""
    from deltauq.tables import load, predict_file

    predict_file(load(model), table, out)
    return [used()]


def predict_on_ray(model: str, table: str, out: str) -> list[Use]:
    """Predict on a Ray of this machine, and return what each worker used."""
    from deltauq.distributed import predict_parts, run_on_ray

    workers = {}

    def run(work: Callable[[Any], Any], tasks: Iterable[Any]) -> Iterator[tuple[Any, Any]]:
        for task, (result, use) in run_on_ray(partial(with_use, work), tasks, n_jobs=CORES):
            workers[use.process] = max(use, workers.get(use.process, use), key=lambda use: use.cores)
            yield task, result

    predict_parts(model, table, out, run=run)
    return list(workers.values())


def with_use(work: Callable[[Any], Any], task: Any) -> tuple[Any, Use]:
    """Do a task, and add what its process has used."""
    return work(task), used()


WAYS = {"single": predict_singly, "ray": predict_on_ray}


def measure(way: str, *paths: Path) -> tuple[float, list[Use]]:
    """Predict in a process of its own, and return its seconds from start to end, and what was used."""
    start = time.perf_counter()
    command = [sys.executable, __file__, way, *map(str, paths)]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    return time.perf_counter() - start, [Use(**use) for use in json.loads(done.stdout)]


def compare(folder: Path, n_anchors: int, n: int) -> float:
    """Print what both ways take for n rows, and return how many times as fast Ray is."""
    rng = np.random.default_rng(0)
    model, table = folder / "model", folder / "table.parquet"
    base = RandomForestRegressor(TREES, random_state=0)
    fit(make_rows(TRAIN, rng), "y", model=base, n_anchors=n_anchors, n_jobs=CORES).save(model)
    write_table(table, n, rng)
    seconds = {}
    for way in WAYS:
        seconds[way], uses = measure(way, model, table, folder / f"{way}.parquet")
        print(
            f"K = {n_anchors}, {way}: {n:,} rows in {seconds[way]:,.0f} s, {n / seconds[way]:,.0f} rows/s, "
            f"{n / sum(use.cores for use in uses):,.0f} per second of a core; "
            f"{max(use.memory for use in uses) / 1e6:,.0f} MB a {'worker' if way == 'ray' else 'process'}",
            flush=True,
        )
    whole, parts = (parquet.read_table(folder / f"{way}.parquet") for way in WAYS)
    assert parts.equals(whole), "Ray's rows are not those of the single path"
    read, write = ((folder / name).stat().st_size / n for name in ("table.parquet", "single.parquet"))
    print(f"K = {n_anchors}: a row takes {read:.0f} bytes to read and {write:.0f} to write")
    ratio = seconds["single"] / seconds["ray"]
    short = "" if min(seconds.values()) >= LEAST_SECONDS else " (shorter than a minute: no fair comparison)"
    print(f"K = {n_anchors}: Ray has {ratio:.2f} times the rows per second of the single path{short}")
    return ratio if not short else LEAST_RATIO


def main(*rows: int) -> None:
    """Compare for both numbers of anchors, and fail where Ray is too slow."""
    for n_anchors, n in zip(ROWS, rows or ROWS.values(), strict=True):
        with tempfile.TemporaryDirectory() as folder:
            ratio = compare(Path(folder), n_anchors, n)
        assert ratio >= LEAST_RATIO, f"Ray is slower than {LEAST_RATIO} times the single path"


if __name__ == "__main__":
    if sys.argv[1:2] and sys.argv[1] in WAYS:
        print(json.dumps([asdict(use) for use in WAYS[sys.argv[1]](*sys.argv[2:])]))
    else:
        main(*map(int, sys.argv[1:]))
