"""Training of many small networks at once, against one after the other: 10 MLPs of 3x128 on 500 rows."""

from __future__ import annotations

import copy
import time
from dataclasses import replace

import torch

from deltauq.nn import MLP, Anchored
from deltauq.nn.training import Recipe, fit, fit_many

N_NETS, N_ROWS, EPOCHS = 10, 500, 10


def main() -> None:
    torch.set_num_threads(2)
    x = torch.randn(N_ROWS, 8)
    y = torch.sin(x[:, :1] * x[:, 1:2])
    for batch_size in (32, 100):
        for anchored in (False, True):
            nets = []
            for seed in range(N_NETS):
                torch.manual_seed(seed)
                net = MLP(8, hidden=(128, 128, 128))
                nets.append(Anchored(net) if anchored else net)
            recipe = Recipe(epochs=EPOCHS, batch_size=batch_size)
            seconds = {}
            for _ in range(2):  # the first round warms up
                alone, together = copy.deepcopy(nets), copy.deepcopy(nets)
                start = time.perf_counter()
                for k, net in enumerate(alone):
                    fit(net, x, y, replace(recipe, seed=k))
                middle = time.perf_counter()
                fit_many(together, x, y, recipe)
                seconds = {"alone": middle - start, "together": time.perf_counter() - middle}
            kind = "anchored" if anchored else "plain"
            ratio = seconds["alone"] / seconds["together"]
            print(
                f"{kind:8} batches of {batch_size:3}: one by one {seconds['alone']:.2f} s, "
                f"together {seconds['together']:.2f} s, {ratio:.1f} times as fast"
            )


if __name__ == "__main__":
    main()
