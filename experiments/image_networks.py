"""Networks of the image experiments, trained on CIFAR-10, with weights stored in the cache."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from experiments.cache import artifact_path, shared_file
from experiments.image_configs import N_ANCHORS, NetworkKind, TrainingRun
from experiments.image_data import HELD_OUT, LabelledImages, load_image_set

if TYPE_CHECKING:
    from torch import Tensor, nn

    from deltauq.nn.training import Objective, Recipe

CIFAR_MEAN, CIFAR_STD = (0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616)
N_CLASSES = 10
CHECKPOINT_EVERY = 10
"""Epochs."""
KERNEL_PENALTY = 0.5
"""Weight of DUQ's gradient penalty; its authors use 0.5 to 0.75 for CIFAR-10."""
PRIOR_STD = 0.2
"""Of variational weights: with 50,000 images it acts on their means as a weight decay of 5e-4."""


@lru_cache(maxsize=1)
def trained(run: TrainingRun) -> nn.Module:
    """Return the network of a run, trained unless it is in the cache, on a GPU if there is one."""
    import torch
    from safetensors.torch import load_file, save_file

    def write(path: Path) -> None:
        unfinished = artifact_path(str(run), run.configuration(), ".checkpoint")
        with _repeatable():
            state = train(run, unfinished).state_dict()
        save_file({name: value.detach().cpu().contiguous() for name, value in state.items()}, path)
        unfinished.unlink(missing_ok=True)

    path = shared_file(str(run), run.configuration(), ".safetensors", write)
    net = make_network(run.kind)
    net.load_state_dict(load_file(path))
    net.to("cuda" if torch.cuda.is_available() else "cpu", memory_format=torch.channels_last)  # type: ignore[call-overload]
    return net.eval()


@contextmanager
def _repeatable() -> Iterator[None]:
    """Use deterministic algorithms.

    The compiler would otherwise choose the fastest ones by timing, with other results in each process.
    """
    import torch
    from torch._inductor import config

    before = torch.backends.cudnn.deterministic
    torch.backends.cudnn.deterministic = True
    try:
        with config.patch(deterministic=True):
            yield
    finally:
        torch.backends.cudnn.deterministic = before


def train(run: TrainingRun, checkpoint: Path | None = None) -> nn.Module:
    """Train the network of a run on CIFAR-10, continuing from the checkpoint if there is one."""
    import torch

    from deltauq.nn.training import fit

    image_set = training_images(run)
    x = torch.from_numpy(np.ascontiguousarray(image_set.images.transpose(0, 3, 1, 2)))
    y = torch.from_numpy(image_set.labels)
    recipe = recipe_for_device(run)
    options: dict[str, Any] = {
        "normalize": normalisation(run.kind),
        "checkpoint": checkpoint,
        "progress": _print_progress(run),
    }
    if recipe.compile:
        # PyTorch limits how often the common code of several networks is compiled in one process.
        torch.compiler.reset()
    if run.kind.kernels:
        from experiments.duq import train_duq

        make = partial(_extractor, run.kind.network)
        return train_duq(make, N_CLASSES, x, y, recipe, penalty=KERNEL_PENALTY, **options)
    if run.kind.variational:
        from deltauq import nn as networks
        from deltauq.baselines import SVI

        model = SVI(partial(getattr(networks, run.kind.network), n_classes=N_CLASSES), PRIOR_STD)
        return model.fit(x, y, recipe, **options).network_
    torch.manual_seed(run.seed)
    net = make_network(run.kind)
    fit(net, x, y, recipe, _objective(run.kind), checkpoint_every=CHECKPOINT_EVERY, **options)
    return net


def training_images(run: TrainingRun) -> LabelledImages:
    """Return the training images of a run."""
    image_set = load_image_set("train", run.profile)
    if not run.schedule.held_out:
        return image_set
    end = len(image_set.images) - HELD_OUT[run.profile]
    return LabelledImages(image_set.images[:end], image_set.labels[:end])


def as_tensor(images: np.ndarray, kind: NetworkKind, device: Any) -> Tensor:
    """Return images of shape (n, 32, 32, 3), bytes or floats in [0, 1], as inputs of a network."""
    import torch

    from deltauq.nn.training import as_inputs

    x = torch.from_numpy(np.array(images)).to(device).permute(0, 3, 1, 2)
    return as_inputs(x, normalisation(kind), channels_last=True)


def normalisation(kind: NetworkKind) -> tuple[Tensor, Tensor] | None:
    """Return mean and standard deviation of CIFAR-10's channels; None for raw images."""
    import torch

    if kind.raw:
        return None
    return torch.tensor(CIFAR_MEAN), torch.tensor(CIFAR_STD)


def make_network(kind: NetworkKind) -> nn.Module:
    """Return an untrained network of a kind."""
    from deltauq import nn as networks
    from deltauq.baselines import VariationalNetwork, add_dropout, make_variational
    from deltauq.nn import Anchored
    from experiments.duq import KernelNetwork

    if kind.kernels:
        extractor, n_features = _extractor(kind.network)
        return KernelNetwork(extractor, n_features, N_CLASSES, n_features, length_scale=0.1, batch_size=128)
    net = getattr(networks, kind.network)(n_classes=N_CLASSES)
    if kind.dropout:
        return add_dropout(net, kind.dropout)
    if kind.variational:
        return VariationalNetwork(make_variational(net), PRIOR_STD, noise=None)
    if not kind.anchored:
        return net
    return Anchored(
        net,
        N_ANCHORS,
        encoding=kind.encoding,
        at=kind.at,
        mask=kind.mask,
        mask_rows=kind.mask_rows,
        train_anchors="reverse",  # as in the paper
    )


def _extractor(network: str) -> tuple[nn.Module, int]:
    """Return a network without its head, and its number of features."""
    from torch import nn

    from deltauq import nn as networks

    net: Any = getattr(networks, network)()
    n_features = net.head.in_features
    net.head = nn.Identity()
    return net, n_features


def _objective(kind: NetworkKind) -> Objective | None:
    """Return the loss of a kind; None for cross-entropy."""
    from torch.nn.functional import cross_entropy

    from deltauq.nn import anchored_loss

    if kind.copies > 1:
        # Anchors drawn inside the network would be the same whenever a recorded step is replayed.
        return lambda net, batch: anchored_loss(
            net,
            cross_entropy,
            batch.x,
            batch.y,
            anchors_per_step=kind.copies,
            consistency=kind.consistency,
            anchors=batch.anchors,
        )
    return _uniform_where_masked if kind.masked_target == "uniform" else None


def _uniform_where_masked(net: nn.Module, batch: Any) -> Tensor:
    """Return the cross-entropy of a batch; rows with masked anchors have the uniform target."""
    import torch
    from torch.nn.functional import cross_entropy

    outputs = net(batch.x, anchors=batch.anchors, masked=batch.masked)
    to_label = cross_entropy(outputs, batch.y, reduction="none")
    return torch.where(batch.masked, -outputs.log_softmax(dim=1).mean(dim=1), to_label).mean()


def recipe_for_device(run: TrainingRun) -> Recipe:
    """Return the recipe, with mixed precision and compilation on a GPU."""
    import torch

    from deltauq.nn.training import Recipe

    on_gpu, schedule = torch.cuda.is_available(), run.schedule
    return Recipe(
        epochs=schedule.epochs,
        optimizer="sgd",
        lr=schedule.lr,
        weight_decay=schedule.weight_decay,
        schedule=schedule.shape,  # type: ignore[arg-type]
        milestones=schedule.milestones,
        gamma=0.2,
        mask=run.kind.mask,
        augment="crop-flip",
        drop_last=True,
        precision="bf16-mixed" if on_gpu else "32-true",
        compile=on_gpu,
        channels_last=on_gpu,
        seed=run.seed,
    )


def _print_progress(run: TrainingRun) -> Callable[[int, float], None]:
    def progress(epoch: int, loss: float) -> None:
        if epoch % 10 == 0 or epoch == run.schedule.epochs:
            print(f"  {run}: epoch {epoch} of {run.schedule.epochs}, loss {loss:.4f}", flush=True)

    return progress
