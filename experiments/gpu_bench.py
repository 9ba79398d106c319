"""`gpu-bench`: the cost of anchoring in training and prediction, for residual networks on images of 32×32.

The images are noise. Both sides of a ratio are measured in one cell on the same machine.
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
"""Groups of kernels, by parts of their names; the first group that matches counts. The compiler fuses batch
norm, activations and sums; what is left in normalisation is mostly the optimizer (`multi_tensor_apply`)."""


def cells(profile: str) -> list[Cell]:
    """Return one cell per network and task."""
    return [{"network": network, "task": task} for network in NETWORKS[profile] for task in TASKS]


def run(cell: Cell, profile: str) -> Outcome:
    """Measure one network."""
    if cell["task"] == "train":
        return Outcome(_training(cell["network"], profile))
    if cell["task"] == "spent":
        return _profile(cell["network"], profile)
    return Outcome(_prediction(cell["network"], profile, single_anchor=cell["task"] == "predict-one"))


def _training(network: str, profile: str) -> dict[str, float]:
    """Return seconds per epoch, without the first one, which compiles."""
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
    """Return images of noise, their classes, and the recipe."""
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


def _profile(network: str, profile: str) -> Outcome:
    """Return shares of the time of an epoch of the plain network, by the profiler."""
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
        groups = (group for group, parts in KERNELS.items() if any(part in name.lower() for part in parts))
        shares[next(groups, "rest")] += seconds
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


def _prediction(network: str, profile: str, single_anchor: bool) -> dict[str, float]:
    """Return seconds for all test images: one pass of the plain network, and of anchored ones.

    Those have one pass with a single anchor, or K anchors at the input and before the last stage.
    """
    import torch

    from deltauq.nn import Anchored

    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    autocast = torch.bfloat16 if device.type == "cuda" else None
    x = torch.randn(N_TEST[profile], 3, 32, 32, device=device)
    x = x.contiguous(memory_format=torch.channels_last)
    last = {"ResNet18": "stages.3", "ResNet20": "stages.2"}[network]
    if single_anchor:
        anchored = {"one": Anchored(_make(network), n_anchors=1)}
    else:
        anchored = {
            "input": Anchored(_make(network), N_ANCHORS),
            "hidden": Anchored(_make(network), N_ANCHORS, at=last),
        }

    def one_pass(net: Any) -> Any:
        with torch.no_grad(), torch.autocast(device.type, autocast, enabled=autocast is not None):
            return [net(rows) for rows in x.split(1000)]

    seconds = {}
    for name, net in {"plain": _make(network), **anchored}.items():
        net.to(device, memory_format=torch.channels_last).eval()
        if name != "plain":
            net.set_anchors(x)
        many = name in ("input", "hidden")
        call = partial(net.posterior, x, autocast=autocast) if many else partial(one_pass, net)
        seconds[name] = _timed(call, device)
    if single_anchor:
        return {**seconds, "one_over_plain": seconds["one"] / seconds["plain"]}
    return {
        **seconds,
        "input_over_plain": seconds["input"] / seconds["plain"],
        "hidden_over_input": seconds["hidden"] / seconds["input"],
    }


def _make(network: str) -> Any:
    from deltauq import nn

    return getattr(nn, network)()


def _timed(call: Callable[[], Any], device: Any) -> float:
    """Return the shortest time of a few calls after a warm-up."""
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
            "Training, seconds per epoch",
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
            "Prediction of 10,000 images with a single anchor, seconds",
            ("plain", "one", "one_over_plain"),
            "network",
            best=None,
            where={"task": "predict-one"},
            note="The mean alone, which is enough for a network trained with masked anchors.",
        ),
        TableSpec(
            "Time of a training epoch",
            ("epoch", "convolutions", "fused", "normalisation", "rest", "idle"),
            "network",
            best=None,
            where={"task": "spent"},
            labels={"normalisation": "optimiser and sums"},
            note="Seconds per epoch, and shares of them by the profiler. fused: batch norm, activations, "
            "sums and casts that the compiler fuses. idle: the GPU waits.",
        ),
    ),
)
