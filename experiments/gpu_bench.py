"""`gpu-bench`: what anchoring costs in training and at prediction, by residual networks on images of 32×32.

The images are noise: time does not depend on what they show. Both sides of a ratio are measured in one cell,
on one machine; the line says which.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

from experiments.runner import Cell, Experiment, Outcome
from experiments.tables import TableSpec

N_TRAIN = {"quick": 512, "paper": 50_000}
N_TEST = {"quick": 64, "paper": 10_000}
N_EPOCHS = {"quick": 1, "paper": 3}
N_ANCHORS = 10
NETWORKS = {"quick": ("ResNet20",), "paper": ("ResNet18", "ResNet20")}
REPEATS = 3
TASKS = ("train", "predict", "predict-one", "spent")
KERNELS = {
    "fused": ("triton",),
    "convolutions": ("conv", "fprop", "dgrad", "wgrad", "gemm", "xmma", "cutlass", "cudnn", "nvjet"),
    "normalisation": ("batch_norm", "relu", "add", "mul", "sgd", "optimizer"),
}
"""What a kernel belongs to, by words in its name; the first that fits counts. The compiler writes batch norm,
activations and sums into kernels of its own, which are named after it; nearly all of what is then left to
normalisation is the optimiser's step (`multi_tensor_apply`)."""


def cells(profile: str) -> list[Cell]:
    """Return one cell per network and task."""
    return [{"network": network, "task": task} for network in NETWORKS[profile] for task in TASKS]


def run(cell: Cell, profile: str) -> Outcome:
    """Measure one network."""
    if cell["task"] == "train":
        return Outcome(_training(cell["network"], profile))
    if cell["task"] == "predict-one":
        return Outcome(_one_anchor(cell["network"], profile))
    if cell["task"] == "spent":
        return _spent(cell["network"], profile)
    return Outcome(_prediction(cell["network"], profile))


def _training(network: str, profile: str) -> dict[str, float]:
    """Return seconds an epoch, the first one left out, in which steps are compiled and recorded."""
    from deltauq.nn import Anchored
    from deltauq.nn.training import fit

    x, y, recipe = _task(profile)
    seconds = {}
    for name in ("plain", "anchored"):
        net = _make(network)
        history = fit(Anchored(net, N_ANCHORS) if name == "anchored" else net, x, y, recipe)
        seconds[name] = min(history.seconds[1:])
    return {**seconds, "anchored_over_plain": seconds["anchored"] / seconds["plain"]}


def _task(profile: str) -> tuple[Any, Any, Any]:
    """Return images of noise, their classes, and the recipe they are learned by."""
    import torch

    from deltauq.nn.training import Recipe

    on_gpu = torch.cuda.is_available()
    recipe = Recipe(
        epochs=1 + N_EPOCHS[profile],
        batch_size=128,
        optimizer="sgd",
        lr=0.1,
        weight_decay=5e-4,
        augment="crop-flip",
        drop_last=True,
        precision="bf16-mixed" if on_gpu else "32-true",
        compile=on_gpu,
        channels_last=on_gpu,
    )
    generator = torch.Generator().manual_seed(0)
    x = torch.randint(256, (N_TRAIN[profile], 3, 32, 32), generator=generator, dtype=torch.uint8)
    y = torch.randint(10, (N_TRAIN[profile],), generator=generator)
    return x, y, recipe


def _spent(network: str, profile: str) -> Outcome:
    """Return what an epoch of the plain network spends its time on, by the profiler's word."""
    import torch
    from torch.profiler import ProfilerActivity
    from torch.profiler import profile as profiling

    from deltauq.nn.training import fit

    on_gpu = torch.cuda.is_available()
    recorded = profiling(activities=[ProfilerActivity.CUDA if on_gpu else ProfilerActivity.CPU])
    x, y, recipe = _task(profile)

    def start_or_stop(epoch: int, loss: float) -> None:
        if epoch == 1:
            recorded.start()
        elif epoch == 2:
            recorded.stop()

    history = fit(_make(network), x, y, replace(recipe, epochs=2), progress=start_or_stop)
    measured = "self_device_time_total" if on_gpu else "self_cpu_time_total"
    times = {event.key: getattr(event, measured) / 1e6 for event in recorded.key_averages()}
    shares = dict.fromkeys((*KERNELS, "rest"), 0.0)
    for name, seconds in times.items():
        words = ((kind, word) for kind, known in KERNELS.items() for word in known)
        shares[next((kind for kind, word in words if word in name.lower()), "rest")] += seconds
    epoch = history.seconds[1]
    largest = sorted(times, key=lambda name: times[name], reverse=True)[:12]
    return Outcome(
        {
            "epoch": epoch,
            **{name: seconds / epoch for name, seconds in shares.items()},
            "idle": 1.0 - sum(shares.values()) / epoch,
        },
        {"largest": {name[:100]: round(times[name] / epoch, 4) for name in largest}},
    )


def _prediction(network: str, profile: str) -> dict[str, float]:
    """Return seconds for all test images: one pass of the plain network, and K anchors at two places."""
    import torch

    from deltauq.nn import Anchored

    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    x = torch.randn(N_TEST[profile], 3, 32, 32, device=device)
    x = x.contiguous(memory_format=torch.channels_last)
    last = {"ResNet18": "stages.3", "ResNet20": "stages.2"}[network]
    autocast = torch.bfloat16 if device.type == "cuda" else None
    anchored = {
        "input": Anchored(_make(network), N_ANCHORS),
        "hidden": Anchored(_make(network), N_ANCHORS, at=last),
    }
    plain = _make(network).to(device, memory_format=torch.channels_last).eval()

    def once() -> Any:
        with torch.no_grad(), torch.autocast(device.type, autocast, enabled=autocast is not None):
            return [plain(rows) for rows in x.split(1000)]

    seconds = {"plain": _timed(once, device)}
    for name, net in anchored.items():
        net.to(device, memory_format=torch.channels_last).eval()  # type: ignore[call-overload]
        net.set_anchors(x)
        seconds[name] = _timed(partial(net.posterior, x, autocast=autocast), device)
    return {
        **seconds,
        "input_over_plain": seconds["input"] / seconds["plain"],
        "hidden_over_input": seconds["hidden"] / seconds["input"],
    }


def _one_anchor(network: str, profile: str) -> dict[str, float]:
    """Return seconds for all test images: one pass of the plain network, and of one with a single anchor."""
    import torch

    from deltauq.nn import Anchored

    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    x = torch.randn(N_TEST[profile], 3, 32, 32, device=device)
    x = x.contiguous(memory_format=torch.channels_last)
    nets = {"plain": _make(network), "one": Anchored(_make(network), n_anchors=1)}
    for net in nets.values():
        net.to(device, memory_format=torch.channels_last).eval()
    nets["one"].set_anchors(x)

    def once(net: Any) -> Any:
        with torch.no_grad(), torch.autocast(device.type, torch.bfloat16, enabled=device.type == "cuda"):
            return [net(rows) for rows in x.split(1000)]

    seconds = {name: _timed(partial(once, net), device) for name, net in nets.items()}
    return {**seconds, "one_over_plain": seconds["one"] / seconds["plain"]}


def _make(network: str) -> Any:
    from deltauq.nn.networks import NETWORKS as MAKERS

    return MAKERS[network]()


def _timed(call: Callable[[], Any], device: Any) -> float:
    """Return the least time of a few calls, after one that does not count."""
    import torch

    times = []
    for _ in range(1 + REPEATS):
        started = time.perf_counter()
        call()
        if device.type == "cuda":
            torch.cuda.synchronize()
        times.append(time.perf_counter() - started)
    return min(times[1:])


EXPERIMENT = Experiment(
    "gpu-bench",
    1,
    "Cost of anchoring on a GPU",
    cells,
    run,
    tables=(
        TableSpec(
            "Training, seconds an epoch",
            ("plain", "anchored", "anchored_over_plain"),
            "network",
            best=None,
            where={"task": "train"},
            note="50,000 images in batches of 128, augmentation included.",
        ),
        TableSpec(
            "Prediction of 10,000 images, seconds",
            ("plain", "input", "hidden", "input_over_plain", "hidden_over_input"),
            "network",
            best=None,
            where={"task": "predict"},
            note="plain: one pass. input, hidden: 10 anchors, at the input and before the last stage.",
        ),
        TableSpec(
            "Prediction of 10,000 images under a single anchor, seconds",
            ("plain", "one", "one_over_plain"),
            "network",
            best=None,
            where={"task": "predict-one"},
            note="The mean alone: what a network trained with masked anchors needs.",
        ),
        TableSpec(
            "What an epoch of training is spent on",
            ("epoch", "convolutions", "fused", "normalisation", "rest", "idle"),
            "network",
            best=None,
            where={"task": "spent"},
            labels={"normalisation": "optimiser and sums"},
            note="Seconds of the epoch, and shares of them by the profiler's count. fused: batch norm, "
            "activations, sums and casts, as the compiler joins them. idle: the card waits.",
        ),
    ),
)
