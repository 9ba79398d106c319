"""`deltauq predict` on a table of ten million rows and twenty columns: rows per second and peak memory.

The model is a forest of 5 trees with K = 20 anchors. The number of rows is an optional argument:
`bench_tables.py 100000`.
"""

from __future__ import annotations

import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
from pyarrow import parquet
from sklearn.ensemble import RandomForestRegressor

from deltauq.tables import fit

ROWS, COLUMNS, TRAIN, TREES, ANCHORS = 10_000_000, 20, 2_000, 5, 20
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


def predict(model: Path, table: Path, out: Path) -> tuple[float, float]:
    """Run the command and return its seconds and its peak memory in bytes."""
    command = [sys.executable, "-m", "deltauq.cli", "predict", str(model), str(table), "-o", str(out)]
    start = time.perf_counter()
    subprocess.run(command, check=True, capture_output=True)
    seconds = time.perf_counter() - start
    # Linux counts in kibibytes, macOS in bytes.
    unit = 1 if sys.platform == "darwin" else 1024
    return seconds, unit * resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss


def main(n: int = ROWS) -> None:
    """Print rows per second and memory, and fail above one gigabyte."""
    rng = np.random.default_rng(0)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        base = RandomForestRegressor(TREES, random_state=0)
        fit(make_rows(TRAIN, rng), "y", model=base, n_anchors=ANCHORS).save(folder / "model")
        write_table(folder / "table.parquet", n, rng)
        size = (folder / "table.parquet").stat().st_size
        seconds, memory = predict(folder / "model", folder / "table.parquet", folder / "out.parquet")
        done = parquet.read_metadata(folder / "out.parquet").num_rows
    assert done == n, f"{done:,} rows of {n:,} were predicted"
    print(
        f"{n:,} rows of {COLUMNS} columns ({size / 1e6:,.0f} MB), forest of {TREES}, K = {ANCHORS}: "
        f"{seconds:,.0f} s, {n / seconds:,.0f} rows/s, {memory / 1e6:,.0f} MB of memory at the peak"
    )
    assert memory < MAX_MEMORY, "more than a gigabyte of memory"


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
