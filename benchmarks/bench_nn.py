"""An anchored network: its posterior against forming all pairs, masked anchors, its training step.

The plain side forms the tuples [R, X - R] in blocks of as many pairs and passes them through the widened
network. All sides run in turn, so that other load on the machine meets them alike; times are medians.

A training step cannot cost less than its products: the first layer of the perceptron is a third of it and
takes twice as many columns, which makes (4a + 3b) / (2a + 3b) = 1.25 times the products for the a = 784 * 512
weights there and the b after it (no gradient reaches the input, so the first layer has two products a step,
others three). Where the first layer is small, as in a convolutional network, anchoring costs next to nothing.
"""

from __future__ import annotations

import copy
import threading
import time
from collections.abc import Callable
from functools import partial
from mmap import PAGESIZE
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from deltauq.core import Moments
from deltauq.nn import MLP, Anchored, ResNet20

FEATURES, WIDTHS, ROWS, ANCHORS, THREADS, REPEATS = 784, (512,) * 4, 10_000, 100, 2, 3
BATCH, TRIALS = 128, 15


def widened(net: Anchored) -> nn.Sequential:
    """Return the same function of tuples as an ordinary network."""
    stem, *rest = net.module.layers
    return nn.Sequential(stem.wide, *rest)


@torch.no_grad()
def by_pairs(network: nn.Module, anchors: Tensor, x: Tensor, pairs: int) -> Tensor:
    """Mean and variance over anchors, all tuples formed, `pairs` of them at a time."""
    means, variances = [], []
    for rows in x.split(max(1, pairs // len(anchors))):
        left = anchors[:, None].expand(-1, len(rows), -1)
        tuples = torch.cat([left, rows - left], dim=-1).flatten(0, 1)
        moments = Moments()
        for output in network(tuples).unflatten(0, (len(anchors), -1)).unbind():
            moments.update(output)
        means.append(moments.mean)
        variances.append(moments.var)
    return torch.stack([torch.cat(means), torch.cat(variances)])


def by_posterior(net: Anchored, x: Tensor) -> Tensor:
    """Mean and variance over anchors as the library gives them."""
    posterior = net.posterior(x)
    return torch.stack([posterior.mean, posterior.var])


def resident() -> float:
    """Megabytes of memory the process holds; 0 where the system does not say."""
    status = Path("/proc/self/statm")
    return int(status.read_text().split()[1]) * PAGESIZE / 1e6 if status.exists() else 0.0


def measure(side: Callable[[], object]) -> tuple[float, float]:
    """Seconds, and the most megabytes added as seen by a thread beside the run."""
    before, seen, done = resident(), [0.0], threading.Event()

    def watch() -> None:
        while not done.wait(0.005):
            seen.append(resident() - before)

    threading.Thread(target=watch).start()
    start = time.perf_counter()
    side()
    done.set()
    return time.perf_counter() - start, max(seen)


def median(values: list[float]) -> float:
    return sorted(values)[len(values) // 2]


def compare_posteriors() -> None:
    """Print seconds and memory of both sides, and the memory with fewer and more anchors."""
    net = Anchored(MLP(FEATURES, 1, WIDTHS), ANCHORS).eval()
    x = torch.randn(ROWS, FEATURES)
    net.set_anchors(torch.randn(ANCHORS, FEATURES))
    network = widened(net)
    few = by_posterior(net, x[:50])
    pairs = next(iter(net._plans.values())).pairs(None, x.device)
    torch.testing.assert_close(few, by_pairs(network, net.anchors, x[:50], pairs), rtol=1e-4, atol=1e-5)
    sides = {
        "posterior": partial(by_posterior, net, x),
        "all pairs in equal blocks": partial(by_pairs, network, net.anchors, x, pairs),
    }
    runs = [[measure(side) for side in sides.values()] for _ in range(REPEATS)]
    print(f"MLP {FEATURES}-4x512-1; {ROWS} rows, K = {ANCHORS}, {THREADS} threads, {pairs} pairs a block")
    seconds = [median([run[k][0] for run in runs]) for k in range(len(sides))]
    memory = [max(run[k][1] for run in runs) for k in range(len(sides))]
    for name, s, mb in zip(sides, seconds, memory, strict=True):
        print(f"{name:26}  {s:6.2f} s  {s / seconds[0]:4.2f} times  {mb:4.0f} MB more at the peak")
    for k in (10, 100, 1000):
        net.set_anchors(torch.randn(k, FEATURES), k)
        _, mb = measure(partial(by_posterior, net, x[: 2 * pairs // k]))
        print(f"K = {k:4}: {mb:4.0f} MB more at the peak")


def compare_masked(name: str, network: nn.Module, x: Tensor, n_anchors: int) -> None:
    """Print how long a posterior takes with anchors alone, and averaged over masked anchors."""
    net = Anchored(network, n_anchors, mask=0.25).eval()
    net.set_anchors(torch.randn(n_anchors, *x.shape[1:]))

    def seconds(average_masked: bool) -> float:
        net.average_masked = average_masked
        return measure(partial(net.posterior, x))[0]

    runs = [(seconds(False), seconds(True)) for _ in range(REPEATS + 1)][1:]
    plain, averaged = (median([run[k] for run in runs]) for k in range(2))
    print(f"{name:26}  {plain:6.2f} s plain  {averaged:6.2f} s averaged  {averaged / plain:4.2f} times")


def training(net: nn.Module, x: Tensor, y: Tensor, loss: Callable, steps: int) -> Callable[[], None]:
    """Return a run of training steps."""
    optimiser = torch.optim.SGD(net.parameters(), 1e-3, momentum=0.9)

    def run() -> None:
        for _ in range(steps):
            optimiser.zero_grad()
            loss(net(x), y).backward()
            optimiser.step()

    return run


def compare_steps(name: str, network: nn.Module, x: Tensor, y: Tensor, loss: Callable, steps: int) -> None:
    """Print how long a training step takes, plain and anchored."""
    plain = training(copy.deepcopy(network), x, y, loss, steps)
    anchored = training(Anchored(network), x, y, loss, steps)
    runs = [(measure(plain)[0] / steps, measure(anchored)[0] / steps) for _ in range(TRIALS + 1)][1:]
    ratio = median([b / a for a, b in runs])
    times = [1e3 * median([run[k] for run in runs]) for k in range(2)]
    print(f"{name:26}  {times[0]:6.2f} ms plain  {times[1]:6.2f} ms anchored  {ratio:4.2f} times")


def main() -> None:
    """Run all comparisons."""
    torch.manual_seed(0)
    torch.set_num_threads(THREADS)
    compare_posteriors()
    print("posterior, plain and averaged over masked anchors")
    compare_masked(
        "MLP 784-4x512-1, K = 100", MLP(FEATURES, 1, WIDTHS), torch.randn(ROWS // 4, FEATURES), ANCHORS
    )
    compare_masked("ResNet-20, K = 10", ResNet20(), torch.randn(2 * BATCH, 3, 32, 32), 10)
    print(f"training step, batches of {BATCH}")
    x, y = torch.randn(BATCH, FEATURES), torch.randn(BATCH, 1)
    compare_steps("MLP 784-4x512-1", MLP(FEATURES, 1, WIDTHS), x, y, F.mse_loss, steps=20)
    images, labels = torch.randn(BATCH, 3, 32, 32), torch.randint(10, (BATCH,))
    compare_steps("ResNet-20", ResNet20(), images, labels, F.cross_entropy, steps=1)


if __name__ == "__main__":
    main()
