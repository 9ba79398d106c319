"""Networks of the image experiments, trained on CIFAR-10; the weights stay in the cache."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from experiments.cache import artifact_path, shared_file
from experiments.image_kinds import N_ANCHORS, Kind, Run
from experiments.image_sets import HELD_OUT, Pictures, pictures

if TYPE_CHECKING:
    from torch import Tensor, nn

    from deltauq.nn.training import Objective, Recipe

CIFAR_MEAN, CIFAR_STD = (0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616)
N_CLASSES = 10
CHECKPOINT_EVERY = 10
"""Epochs."""
KERNEL_PENALTY = 0.5
"""Weight of DUQ's gradient penalty; its authors take 0.5 to 0.75 for CIFAR-10."""
PRIOR_STD = 0.2
"""Of variational weights: with 50,000 images it pulls on their means as a weight decay of 5e-4 does."""
INITIAL_STD = 0.01


@lru_cache(maxsize=1)
def trained(run: Run) -> nn.Module:
    """Return the network of a run, from the cache if it is there, on the GPU where there is one."""
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
    """Keep to ways of summing that give the same figures each time.

    The compiler would otherwise choose those that it finds fastest, and find others in another process.
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


def train(run: Run, checkpoint: Path | None = None) -> nn.Module:
    """Train the network of a run on CIFAR-10, from the checkpoint on where a killed run has left one."""
    import torch

    from deltauq.nn.training import fit

    given = training_pictures(run)
    x = torch.from_numpy(np.ascontiguousarray(given.images.transpose(0, 3, 1, 2)))
    y = torch.from_numpy(given.labels)
    recipe = recipe_for_device(run)
    words: dict[str, Any] = {
        "normalise": normalisation(run.kind),
        "checkpoint": checkpoint,
        "progress": _say(run),
    }
    if recipe.compile:
        # Networks of many kinds may be trained in one process, and only so many are compiled before PyTorch
        # gives up on their common code.
        torch.compiler.reset()
    if run.kind.kernels:
        return _train_kernels(run.kind, x, y, recipe, words)
    if run.kind.variational:
        return _train_variational(run.kind, x, y, recipe, words)
    torch.manual_seed(run.seed)
    net = make_network(run.kind)
    fit(net, x, y, recipe, _objective(run.kind), checkpoint_every=CHECKPOINT_EVERY, **words)
    return net


def training_pictures(run: Run) -> Pictures:
    """Return the images that a run is trained on."""
    given = pictures("train", run.profile)
    if not run.schedule.held_out:
        return given
    end = len(given.images) - HELD_OUT[run.profile]
    return Pictures(given.images[:end], given.labels[:end])


def as_tensor(images: np.ndarray, kind: Kind, device: Any) -> Tensor:
    """Return images of shape (n, 32, 32, 3), bytes or floats in [0, 1], as a network of a kind sees them."""
    import torch

    from deltauq.nn.training import as_inputs

    x = torch.from_numpy(np.array(images)).to(device).permute(0, 3, 1, 2)
    return as_inputs(x, normalisation(kind), channels_last=True)


def normalisation(kind: Kind) -> tuple[Tensor, Tensor] | None:
    """Return mean and standard deviation of CIFAR-10's channels; None for a kind that sees raw images."""
    import torch

    if kind.raw:
        return None
    return torch.tensor(CIFAR_MEAN), torch.tensor(CIFAR_STD)


def make_network(kind: Kind) -> nn.Module:
    """Return an untrained network of a kind."""
    from deltauq.baselines.mc_dropout import add_dropout
    from deltauq.baselines.svi import VariationalNetwork, convert
    from deltauq.nn import Anchored
    from deltauq.nn.networks import NETWORKS
    from experiments.duq import KernelNetwork

    if kind.kernels:
        extractor, n_features = _extractor(kind.network)
        return KernelNetwork(extractor, n_features, N_CLASSES, n_features, length_scale=0.1, batch_size=128)
    net = NETWORKS[kind.network](n_classes=N_CLASSES)
    if kind.dropout:
        return add_dropout(net, kind.dropout)
    if kind.variational:
        return VariationalNetwork(convert(net, INITIAL_STD), PRIOR_STD, noise=None)
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
    """Return a network without its head, and how many features it gives."""
    from torch import nn

    from deltauq.nn.networks import NETWORKS

    net: Any = NETWORKS[network]()
    n_features = net.head.in_features
    net.head = nn.Identity()
    return net, n_features


def _train_kernels(kind: Kind, x: Tensor, y: Tensor, recipe: Recipe, words: dict[str, Any]) -> nn.Module:
    from experiments.duq import DUQ

    model = DUQ(lambda: _extractor(kind.network)[0], penalty=KERNEL_PENALTY, n_classes=N_CLASSES)
    return model.fit(x, y, recipe, **words).network_


def _train_variational(kind: Kind, x: Tensor, y: Tensor, recipe: Recipe, words: dict[str, Any]) -> nn.Module:
    from deltauq.baselines.svi import SVI
    from deltauq.nn.networks import NETWORKS

    model = SVI(partial(NETWORKS[kind.network], n_classes=N_CLASSES), PRIOR_STD, INITIAL_STD)
    return model.fit(x, y, recipe, **words).network_


def _objective(kind: Kind) -> Objective | None:
    """Return the loss of a kind; None for cross-entropy."""
    from torch.nn.functional import cross_entropy

    from deltauq.nn.losses import anchored_loss

    if kind.copies > 1:
        # Anchors that the network would draw itself could not be drawn anew when a step is replayed.
        return lambda net, batch: anchored_loss(
            net,
            cross_entropy,
            batch.x,
            batch.y,
            n_anchors=kind.copies,
            consistency=kind.consistency,
            anchors=batch.anchors,
        )
    return _uniform_where_masked if kind.masked_target == "uniform" else None


def _uniform_where_masked(net: nn.Module, batch: Any) -> Tensor:
    """Return the cross-entropy of a batch, to equal probabilities in rows whose anchors are hidden."""
    import torch
    from torch.nn.functional import cross_entropy

    outputs = net(batch.x, anchors=batch.anchors, masked=batch.masked)
    to_label = cross_entropy(outputs, batch.y, reduction="none")
    return torch.where(batch.masked, -outputs.log_softmax(dim=1).mean(dim=1), to_label).mean()


def recipe_for_device(run: Run) -> Recipe:
    """Return the recipe, with what makes it fast where there is a GPU."""
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


def _say(run: Run) -> Callable[[int, float], None]:
    def say(epoch: int, loss: float) -> None:
        if epoch % 10 == 0 or epoch == run.schedule.epochs:
            print(f"  {run}: epoch {epoch} of {run.schedule.epochs}, loss {loss:.4f}", flush=True)

    return say
