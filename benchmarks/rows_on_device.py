"""Rows per second of an anchored perceptron on 20 columns, on a GPU if there is one, otherwise on one core.

Rows are on the device or in host memory, to which means and standard deviations are then copied back. Each
number is a median after a warm-up, printed as a JSON line. The number of rows is an optional argument:
`rows_on_device.py 100000`.
"""

from __future__ import annotations

import json
import statistics
import sys
import time
from collections.abc import Callable

import torch
from torch import Tensor

from deltauq.nn import MLP, Anchored

ROWS = {"cuda": 8_388_608, "cpu": 262_144}
COLUMNS, HIDDEN, ANCHORS, BATCH, REPEATS = 20, (128, 128), (10, 100), 1_048_576, 3


def predict(net: Anchored, x: Tensor, autocast: torch.dtype | None) -> None:
    """Compute mean and standard deviation of rows on the device."""
    for rows in x.split(BATCH):
        posterior = net.posterior(rows, autocast=autocast)
        torch.stack([posterior.mean, posterior.var.sqrt()])


def predict_from_host(net: Anchored, x: Tensor, out: Tensor, autocast: torch.dtype | None) -> None:
    """Compute mean and standard deviation of rows in host memory into `out` of shape (2, n)."""
    for start in range(0, len(x), BATCH):
        rows = x[start : start + BATCH].to(net.anchors.device, non_blocking=True)
        posterior = net.posterior(rows, autocast=autocast)
        both = torch.stack([posterior.mean[:, 0], posterior.var[:, 0].sqrt()])
        out[:, start : start + len(rows)].copy_(both, non_blocking=True)


def seconds(call: Callable[[], None]) -> float:
    """Return the median time of a few calls after a warm-up."""
    times = []
    for _ in range(1 + REPEATS):
        start = time.perf_counter()
        call()
        if torch.cuda.is_available():
            torch.cuda.synchronize()
        times.append(time.perf_counter() - start)
    return statistics.median(times[1:])


def main(n: int | None = None) -> None:
    """Print one JSON line per number of anchors, precision and location of the rows."""
    device = "cuda" if torch.cuda.is_available() else "cpu"
    n = n or ROWS[device]
    name = torch.cuda.get_device_name() if device == "cuda" else "one core"
    torch.set_num_threads(1)
    torch.manual_seed(0)
    on_host = torch.randn(n, COLUMNS, pin_memory=device == "cuda")
    out = torch.empty(2, n, pin_memory=device == "cuda")
    on_device = on_host.to(device)
    for n_anchors in ANCHORS:
        net = Anchored(MLP(COLUMNS, 1, hidden=HIDDEN), n_anchors).to(device).eval()
        net.set_anchors(on_device[:1000])
        for autocast in (None, torch.bfloat16) if device == "cuda" else (None,):
            taken = {
                "device": seconds(lambda net=net, autocast=autocast: predict(net, on_device, autocast)),
                "host": seconds(
                    lambda net=net, autocast=autocast: predict_from_host(net, on_host, out, autocast)
                ),
            }
            for location, value in taken.items():
                line = {
                    "device": name,
                    "n_anchors": n_anchors,
                    "precision": "bf16" if autocast else "float32",
                    "rows_on": location,
                    "rows": n,
                    "rows_per_second": round(n / value),
                    "torch": torch.__version__,
                }
                if device == "cuda":
                    line["peak_bytes"] = torch.cuda.max_memory_allocated()
                print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
