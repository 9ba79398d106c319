"""A search with each forward model of `table4`, relative to the plain network, on two threads.

The networks are hardly trained, which does not change their cost. The methods take turns; ratios are medians.
"""

from __future__ import annotations

import statistics
import time
from typing import Any

import torch

from deltauq.baselines import DeepEnsemble, MCDropout
from deltauq.inverse import Generator, search
from deltauq.nn import Anchored
from deltauq.nn.training import Recipe
from experiments.digit_models import (
    DROPOUT,
    N_ANCHORS,
    N_LATENT,
    N_MEMBERS,
    convolutional_layers,
    network,
)

TARGETS, RESTARTS, STEPS, ROUNDS = 5, 50, 20, 5


def forward_models() -> dict[str, Any]:
    """Return the forward models by method."""
    x, y, recipe = torch.rand(256, 784), torch.randn(256, 1), Recipe(epochs=1)
    anchored = Anchored(network(), N_ANCHORS)
    anchored.set_anchors(x[:N_ANCHORS])
    return {
        "plain": network().eval(),
        "ensemble": DeepEnsemble.from_members([network().eval() for _ in range(N_MEMBERS)]),
        "MC dropout": MCDropout(network, DROPOUT, N_ANCHORS).fit(x, y, recipe),
        "Δ-UQ": anchored.eval(),
    }


def main() -> None:
    torch.set_num_threads(2)
    torch.manual_seed(0)
    g = Generator((784,), N_LATENT, layers=convolutional_layers(), output="clipped").eval()
    models = forward_models()
    seconds: dict[str, list[float]] = {name: [] for name in models}
    for _ in range(1 + ROUNDS):
        for name, f in models.items():
            start = time.perf_counter()
            search(g, f, torch.linspace(-1.0, 1.0, TARGETS), n_restarts=RESTARTS, n_steps=STEPS)
            seconds[name].append(time.perf_counter() - start)
    plain = seconds["plain"][1:]
    for name, times in seconds.items():
        ratio = statistics.median(a / b for a, b in zip(times[1:], plain, strict=True))
        per_step = statistics.median(times[1:]) / STEPS
        print(f"{name:10} {1000 * per_step:6.1f} ms per step of {TARGETS} × {RESTARTS}, {ratio:.2f} × plain")


if __name__ == "__main__":
    main()
