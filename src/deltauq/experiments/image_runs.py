"""Networks trained on CIFAR-10 and what they say about images: what several image experiments share."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from deltauq.data.images import load_images
from deltauq.experiments.artifacts import shared_arrays

if TYPE_CHECKING:
    from torch import Tensor, nn

    from deltauq.nn.recipe import Recipe

CIFAR_MEAN, CIFAR_STD = (0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616)
N_ANCHORS = 10
SIZES = {"quick": (1000, 300), "paper": (None, None)}
"""Training and test images; None for all of them."""


@dataclass(frozen=True)
class Kind:
    """A way to train a network.

    Attributes
    ----------
    network : str
        Of `deltauq.nn.networks`.
    anchored : bool
    encoding : str
    mask : float
        Share of batches whose anchors are hidden.
    at : str or None
    """

    network: str
    anchored: bool = False
    encoding: str = "difference"
    mask: float = 0.0
    at: str | None = None


@dataclass(frozen=True)
class Schedule:
    """What a kind is trained with.

    Attributes
    ----------
    recipe : dict
        Words of a `Recipe`, the seed and the hardware's left out.
    normalised : bool
        Inputs are normalised by channel; otherwise they are in [0, 1].
    """

    recipe: Mapping[str, Any] = field(default_factory=dict)
    normalised: bool = True


def outputs(
    kind: Kind, schedule: Schedule, seed: int, profile: str, sets: Mapping[str, Callable[[], np.ndarray]]
) -> dict[str, np.ndarray]:
    """Train a network of a kind, or take it from the cache, and return its logits for sets of images.

    Parameters
    ----------
    kind : Kind
    schedule : Schedule
    seed : int
    profile : {"quick", "paper"}
    sets : mapping of name to callable
        Each gives uint8 images of shape (n, 32, 32, 3).

    Returns
    -------
    logits : dict of name to float16 array of shape (K, n, 10)
        Under K anchors; K = 1 for a plain network.
    """
    configuration = {
        "kind": asdict(kind),
        "schedule": {**schedule.recipe, "normalised": schedule.normalised},
        "seed": seed,
        "profile": profile,
        "sets": sorted(sets),
    }

    def make() -> dict[str, np.ndarray]:
        net = train(kind, schedule, seed, profile)
        return {name: predict(net, images(), schedule) for name, images in sets.items()}

    return shared_arrays(f"{kind.network}-{seed}", configuration, make)


def train(kind: Kind, schedule: Schedule, seed: int, profile: str) -> nn.Module:
    """Return a network of a kind, trained on CIFAR-10."""
    import torch

    from deltauq.nn.engine import fit

    images, labels = pictures("cifar10-train", SIZES[profile][0])
    torch.manual_seed(seed)
    net = make_network(kind)
    x = torch.from_numpy(np.ascontiguousarray(images.transpose(0, 3, 1, 2)))
    y = torch.from_numpy(labels.astype(np.int64))
    recipe = replace(recipe_for_device(schedule, kind), seed=seed)
    fit(net, x, y, recipe, normalise=_normalisation(schedule), progress=_say(kind, seed, recipe.epochs))
    return net


def predict(net: nn.Module, images: np.ndarray, schedule: Schedule) -> np.ndarray:
    """Return logits of shape (K, n, 10), float16, for uint8 images of shape (n, 32, 32, 3)."""
    import torch

    from deltauq.nn import Anchored

    found = []
    for rows in np.array_split(images, max(1, len(images) // 2000)):
        x = as_tensor(rows, schedule, next(net.parameters()).device)
        autocast = torch.bfloat16 if x.device.type == "cuda" else None
        if isinstance(net, Anchored):
            samples: Any = net.posterior(x, keep_samples=True, autocast=autocast).samples
        else:
            with torch.no_grad(), torch.autocast(x.device.type, autocast, enabled=autocast is not None):
                samples = net.eval()(x)[None]
        found.append(samples.float().cpu().numpy().astype(np.float16))
    return np.concatenate(found, axis=1)


def as_tensor(images: np.ndarray, schedule: Schedule, device: Any) -> Tensor:
    """Return uint8 images of shape (n, 32, 32, 3) as the network sees them."""
    import torch

    from deltauq.nn.epochs import as_inputs

    x = torch.from_numpy(np.ascontiguousarray(images.transpose(0, 3, 1, 2))).to(device)
    return as_inputs(x, _normalisation(schedule), channels_last=True)


def make_network(kind: Kind) -> nn.Module:
    """Return an untrained network of a kind."""
    from deltauq.nn import Anchored
    from deltauq.nn.networks import NETWORKS

    net = NETWORKS[kind.network]()
    if not kind.anchored:
        return net
    # The paper pairs a batch with itself in reverse order.
    return Anchored(net, N_ANCHORS, encoding=kind.encoding, at=kind.at, train_anchors="reverse")


def recipe_for_device(schedule: Schedule, kind: Kind) -> Recipe:
    """Return the recipe, with what makes it fast where there is a GPU."""
    import torch

    from deltauq.nn.recipe import Recipe

    on_gpu = torch.cuda.is_available()
    return Recipe(
        **schedule.recipe,
        mask=kind.mask,
        augment="crop-flip",
        drop_last=True,
        precision="bf16-mixed" if on_gpu else "32-true",
        compile=on_gpu,
        channels_last=on_gpu,
    )


@lru_cache(maxsize=4)
def pictures(name: str, n: int | None) -> tuple[np.ndarray, np.ndarray]:
    """Return the first n images and labels of a set."""
    images, labels = load_images(name)
    return np.asarray(images[:n]), np.asarray(labels[:n])


def _normalisation(schedule: Schedule) -> Any:
    import torch

    return (torch.tensor(CIFAR_MEAN), torch.tensor(CIFAR_STD)) if schedule.normalised else None


def _say(kind: Kind, seed: int, epochs: int) -> Callable[[int, float], None]:
    def say(epoch: int, loss: float) -> None:
        if epoch % 10 == 0 or epoch == epochs:
            print(f"  {kind} seed {seed}: epoch {epoch} of {epochs}, loss {loss:.4f}", flush=True)

    return say
