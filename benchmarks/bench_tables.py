"""`deltauq fit` with its defaults and with `--quick`, and `deltauq predict` on ten million rows.

Tables have twenty columns. The number of rows to predict is an optional argument: `bench_tables.py 100000`.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
from pyarrow import parquet

ROWS, COLUMNS, TRAIN = 10_000_000, 20, 2_000
FIT_ROWS = (1_000, 10_000)
CHUNK = 100_000
MAX_MEMORY = 1e9


def make_rows(n: int, rng: np.random.Generator) -> pd.DataFrame:
    """Return columns, four of them discrete, and a noisy target `y`."""
    X = rng.normal(size=(n, COLUMNS)).astype(np.float32)
    X[:, :4] = rng.integers(0, 5, size=(n, 4))
    frame = pd.DataFrame(X, columns=[f"x{k}" for k in range(COLUMNS)])
    frame["y"] = 3 * np.sin(X[:, 5]) + X[:, 0] * X[:, 6] + np.abs(X[:, 7]) + 0.5 * rng.normal(size=n)
    return frame


def write_table(path: Path, n: int, rng: np.random.Generator) -> None:
    """Write n rows, one chunk at a time."""
    schema = pa.Schema.from_pandas(make_rows(1, rng), preserve_index=False)
    with parquet.ParquetWriter(path, schema) as writer:
        for start in range(0, n, CHUNK):
            frame = make_rows(min(CHUNK, n - start), rng)
            writer.write_table(pa.Table.from_pandas(frame, schema, preserve_index=False))


def run(*arguments: str | Path) -> tuple[float, float]:
    """Run a command of deltauq and return its seconds and its peak memory in bytes."""
    start = time.perf_counter()
    process = subprocess.Popen([sys.executable, "-m", "deltauq.cli", *arguments], stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    assert status == 0, "the command failed"
    # Linux counts in kibibytes, macOS in bytes.
    return time.perf_counter() - start, usage.ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def fit(folder: Path, n: int, rng: np.random.Generator, *options: str) -> float:
    """Fit a table of n rows, save the model in the folder, and return the seconds."""
    table = folder / "train.parquet"
    write_table(table, n, rng)
    return run("fit", table, "--target", "y", "-o", folder / "model", *options)[0]


def main(n: int = ROWS) -> None:
    """Print times, rows per second and memory; fail above one gigabyte."""
    rng = np.random.default_rng(0)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        fit(folder, TRAIN, rng)  # compiles
        for rows in FIT_ROWS:
            full, quick = fit(folder, rows, rng), fit(folder, rows, rng, "--quick")
            print(
                f"fit {rows:,} rows: {full:.1f} s; --quick: {quick:.1f} s, {quick / full:.2f} times",
                flush=True,
            )
        fit(folder, TRAIN, rng)
        table, out = folder / "table.parquet", folder / "out.parquet"
        write_table(table, n, rng)
        seconds, memory = run("predict", folder / "model", table, "-o", out)
        size, done = table.stat().st_size, parquet.read_metadata(out).num_rows
    assert done == n, f"{done:,} rows of {n:,} were predicted"
    print(
        f"predict {n:,} rows of {COLUMNS} columns ({size / 1e6:,.0f} MB): {seconds:,.0f} s, "
        f"{n / seconds:,.0f} rows/s, {memory / 1e6:,.0f} MB of memory at the peak"
    )
    assert memory < MAX_MEMORY, "more than a gigabyte of memory"


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
