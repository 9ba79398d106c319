"""An anchored network: its posterior against one matrix of all pairs, masked anchors, and a training step.

The plain method passes the pairs [R, X - R] through a network with an input twice as wide, in blocks. The
methods take turns, so that other load affects them equally; times are medians.

The first layer of the perceptron has a = 784 * 512 weights and the other layers have b. No gradient reaches
the input, so a training step needs two products with the first layer and three with the others. Anchoring
doubles the first layer: a step needs at least (4a + 3b) / (2a + 3b) = 1.25 times the products. The overhead
of a convolutional network is much smaller, because its first layer is small.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from functools import partial
from statistics import median

import torch
from measure import measure
from torch import Tensor, nn
from torch.nn import functional as F

from deltauq.core import Moments
from deltauq.nn import MLP, Anchored, ResNet20

FEATURES, WIDTHS, ROWS, ANCHORS, THREADS, REPEATS = 784, (512,) * 4, 10_000, 100, 2, 3
PAIRS, BATCH, TRIALS = 16_384, 128, 15


@torch.no_grad()
def by_pairs(network: nn.Module, anchors: Tensor, x: Tensor, pairs: int) -> Tensor:
    """Return mean and variance over anchors from all pairs, in blocks of this many."""
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
    """Return mean and variance of the library's posterior."""
    posterior = net.posterior(x)
    return torch.stack([posterior.mean, posterior.var])


def compare_posteriors() -> None:
    """Print the time and memory of both methods, and the memory for several numbers of anchors."""
    net = Anchored(MLP(FEATURES, 1, WIDTHS), ANCHORS).eval()
    x = torch.randn(ROWS, FEATURES)
    net.set_anchors(torch.randn(ANCHORS, FEATURES))
    plain = MLP(2 * FEATURES, 1, WIDTHS).eval()
    methods = {
        "posterior": partial(by_posterior, net, x),
        "all pairs in blocks": partial(by_pairs, plain, net.anchors, x, PAIRS),
    }
    by_posterior(net, x[:50])
    runs = [[measure(method) for method in methods.values()] for _ in range(REPEATS)]
    print(f"MLP {FEATURES}-4x512-1; {ROWS} rows, K = {ANCHORS}, {THREADS} threads, {PAIRS} pairs per block")
    seconds = [median(run[k][0] for run in runs) for k in range(len(methods))]
    memory = [max(run[k][1] for run in runs) for k in range(len(methods))]
    for name, s, mb in zip(methods, seconds, memory, strict=True):
        print(f"{name:26}  {s:6.2f} s  {s / seconds[0]:4.2f} times  {mb:4.0f} MB more at the peak")
    for k in (10, 100, 1000):
        net.set_anchors(torch.randn(k, FEATURES), n_anchors=k)
        _, mb = measure(partial(by_posterior, net, x[: 2 * PAIRS // k]))
        print(f"K = {k:4}: {mb:4.0f} MB more at the peak")


def compare_masked(name: str, network: nn.Module, x: Tensor, n_anchors: int) -> None:
    """Print how long a posterior takes with anchors only, and averaged over masked anchors."""
    net = Anchored(network, n_anchors, mask=0.25).eval()
    net.set_anchors(torch.randn(n_anchors, *x.shape[1:]))

    def seconds(average_masked: bool) -> float:
        net.average_masked = average_masked
        return measure(partial(net.posterior, x))[0]

    runs = [(seconds(False), seconds(True)) for _ in range(REPEATS + 1)][1:]
    plain, averaged = (median(run[k] for run in runs) for k in range(2))
    print(f"{name:26}  {plain:6.2f} s plain  {averaged:6.2f} s averaged  {averaged / plain:4.2f} times")


def training(net: nn.Module, x: Tensor, y: Tensor, loss: Callable, steps: int) -> Callable[[], None]:
    """Return a function that runs training steps."""
    optimizer = torch.optim.SGD(net.parameters(), 1e-3, momentum=0.9)

    def run() -> None:
        for _ in range(steps):
            optimizer.zero_grad()
            loss(net(x), y).backward()
            optimizer.step()

    return run


def compare_steps(name: str, network: nn.Module, x: Tensor, y: Tensor, loss: Callable, steps: int) -> None:
    """Print how long a training step takes, plain and anchored."""
    plain = training(copy.deepcopy(network), x, y, loss, steps)
    anchored = training(Anchored(network), x, y, loss, steps)
    runs = [(measure(plain)[0] / steps, measure(anchored)[0] / steps) for _ in range(TRIALS + 1)][1:]
    ratio = median(b / a for a, b in runs)
    times = [1e3 * median(run[k] for run in runs) for k in range(2)]
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
