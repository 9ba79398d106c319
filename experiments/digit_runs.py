"""MNIST digits by thickness: the data, generator, forward models and classifier of `table4`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from deltauq.data import load_images
from experiments.cache import shared_arrays

if TYPE_CHECKING:
    from torch import Tensor, nn

    from deltauq.inverse import Generator
    from deltauq.nn.training import Recipe

VERSION = 3
"""Of everything in this file that arrays in the cache depend on and their configuration does not say."""
THRESHOLD = 0.2
"""A pixel brighter than this counts for the thickness."""
N_LATENT = 100
N_ANCHORS = 10
N_MEMBERS = 3
DROPOUT = 0.1


@dataclass(frozen=True)
class Size:
    """How much work is done.

    Attributes
    ----------
    images : int or None
        MNIST's training images, the first of them; None for all.
    restarts, steps : int
        Of the search for every target.
    generator, forward, classifier : mapping
        Words of a `Recipe`.
    layers, critic : {"perceptron", "convolutional"}
        What the generator is made of, and its critic.
    adversarial : float
        Weight of the critic's word.
    starts : float or None
        Share of the training digits, the thickest, at whose latents searches start; None for random starts.
    anchors : float or None
        Share of the training digits, the thickest, that Δ-UQ's anchors are drawn from; None for the last it
        was trained on.
    thickest : int
        Of the images that generator and forward models are trained on.
    """

    images: int | None
    restarts: int
    steps: int
    generator: Mapping[str, Any]
    forward: Mapping[str, Any]
    classifier: Mapping[str, Any]
    layers: str = "perceptron"
    critic: str = "perceptron"
    adversarial: float = 0.1
    starts: float | None = None
    anchors: float | None = None
    thickest: int = 200

    def configuration(self, model: str, seed: int) -> dict[str, Any]:
        """Return what the arrays of a model depend on."""
        return {"table4": VERSION, "model": model, "seed": seed, "size": asdict(self)}


@dataclass(frozen=True)
class Digits:
    """Images with their thickness.

    Attributes
    ----------
    x : tensor of shape (n, 784)
        In [0, 1].
    y : tensor of shape (n, 1)
        Standardised thickness.
    mean, std : float
        What it was standardised with.
    """

    x: Tensor
    y: Tensor
    mean: float
    std: float


def thickness(x: Any) -> Any:
    """Return how many of the pixels, along the last axis, are brighter than the threshold."""
    return (x > THRESHOLD).sum(-1)


def digits_up_to(thickest: float, images: np.ndarray) -> Digits:
    """Return those images, of shape (n, 28, 28) in bytes, that are no thicker than this."""
    x = _pixels(images)
    y = thickness(x)[:, None].float()
    thin = y[:, 0] <= thickest
    if not thin.any():
        raise ValueError(f"the training range is empty: none of {len(x)} images has thickness ≤ {thickest}.")
    x, y = x[thin], y[thin]
    mean, std = float(y.mean()), float(y.std(correction=0))
    if std == 0.0:
        raise ValueError(f"every image of the training range has the same thickness, {mean:g}.")
    return Digits(x, (y - mean) / std, mean, std)


@lru_cache(maxsize=1)
def training_digits(n: int | None, thickest: int) -> Digits:
    """Return the training range of the first n images of MNIST."""
    return digits_up_to(thickest, _pictures(n)[0])


def held_out_digits(size: Size) -> Digits:
    """Return the training range of MNIST's test images, standardised as the training images are."""
    images, _ = load_images("mnist-test")
    of_training = training_digits(size.images, size.thickest)
    found = digits_up_to(size.thickest, np.asarray(images[: size.images]))
    y = (found.mean + found.std * found.y - of_training.mean) / of_training.std
    return Digits(found.x, y, of_training.mean, of_training.std)


def generator(seed: int, size: Size) -> Generator:
    """Return the generator that all methods share, trained unless it is in the cache."""
    import torch

    from deltauq.inverse import Generator, fit_generator

    torch.manual_seed(seed)
    layers = convolutional_layers() if size.layers == "convolutional" else None
    g = Generator((784,), N_LATENT, layers=layers, output="clipped")
    critic = _critic() if size.critic == "convolutional" else None

    def train() -> None:
        digits = training_digits(size.images, size.thickest)
        learning = recipe(size.generator, seed)
        fit_generator(g, digits.x, digits.y, learning, adversarial=size.adversarial, critic=critic)

    return _cached(g, train, f"table4-generator-{seed}", size.configuration("generator", seed))


def starts(g: Generator, seed: int, size: Size) -> Tensor | None:
    """Return latents of training digits to start from, alike for all methods; None for random starts."""
    from deltauq.inverse import latents_of

    if size.starts is None:
        return None
    digits = training_digits(size.images, size.thickest)
    drawn = _among_thickest(digits, size.starts, size.restarts, seed)
    return latents_of(g, digits.x[drawn], digits.y[drawn])


def _among_thickest(digits: Digits, share: float, n: int, seed: int) -> Tensor:
    """Return the places of n digits, drawn from this share of all of them, the thickest."""
    import torch

    thickest = digits.y[:, 0].argsort(descending=True)[: max(int(share * len(digits.y)), n)]
    return thickest[torch.randperm(len(thickest), generator=torch.Generator().manual_seed(seed))[:n]]


def classifier(seed: int, size: Size) -> nn.Module:
    """Return a small convolutional network that tells digits of any thickness apart."""
    import torch
    from torch import nn

    from deltauq.nn.training import fit

    torch.manual_seed(seed)
    net = nn.Sequential(
        nn.Unflatten(1, (1, 28, 28)),
        *(nn.Conv2d(1, 16, 3), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Conv2d(16, 32, 3), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Flatten(), nn.Linear(800, 10)),
    )

    def train() -> None:
        images, classes = _pictures(size.images)
        y = torch.from_numpy(classes.astype(np.int64))
        fit(net, _pixels(images), y, recipe(size.classifier, seed))

    return _cached(net, train, f"table4-classifier-{seed}", size.configuration("classifier", seed))


def forward_model(method: str, seed: int, size: Size) -> Any:
    """Return the trained forward model of a method; all are of the same network, and plain is a member."""
    from deltauq.baselines import DeepEnsemble, MCDropout
    from deltauq.nn import Anchored

    if method == "plain":
        return _trained(network, seed, size)
    if method == "ensemble":
        seeds = [seed + 1000 * k for k in range(N_MEMBERS)]
        return DeepEnsemble.from_members([_trained(network, member, size) for member in seeds])
    if method == "mc-dropout":
        digits = training_digits(size.images, size.thickest)
        model = MCDropout(network, DROPOUT, N_ANCHORS, seed=seed)
        return model.fit(digits.x, digits.y, recipe(size.forward, seed))
    # The anchored layer begins as a plain network's; the paper pairs a batch with itself in reverse order.
    net: Anchored = _trained(
        lambda: Anchored(network(), N_ANCHORS, init="pretrained", train_anchors="reverse"), seed, size
    )
    if size.anchors is not None:
        digits = training_digits(size.images, size.thickest)
        # Other digits than those that searches start at.
        anchors = digits.x[_among_thickest(digits, size.anchors, N_ANCHORS, seed + 1000)]
        net.set_anchors(anchors.to(next(net.parameters()).device))
    return net


def recipe(words: Mapping[str, Any], seed: int) -> Recipe:
    """Return a recipe of these words."""
    from deltauq.nn.training import Recipe

    return Recipe(**words, batch_size=128, seed=seed)


def network() -> nn.Module:
    """Return the untrained network that all forward models are made of."""
    from deltauq.nn import MLP

    return MLP(784, 1, hidden=(512, 512, 512, 512))


def convolutional_layers() -> nn.Module:
    """Return layers of a generator that draws with the same strokes everywhere; it makes no lone pixels."""
    from torch import nn

    return nn.Sequential(
        *(nn.Linear(1 + N_LATENT, 512), nn.LeakyReLU(0.2)),
        *(nn.Linear(512, 128 * 7 * 7), nn.LeakyReLU(0.2), nn.Unflatten(1, (128, 7, 7))),
        *(nn.ConvTranspose2d(128, 64, 4, 2, 1), nn.LeakyReLU(0.2)),
        *(nn.ConvTranspose2d(64, 1, 4, 2, 1), nn.Flatten()),
    )


def _critic() -> nn.Module:
    """Return a convolutional network that says how real a digit looks for its thickness."""
    import torch
    from torch import nn

    class Critic(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layers = nn.Sequential(
                *(nn.Conv2d(2, 32, 4, 2, 1), nn.LeakyReLU(0.2)),
                *(nn.Conv2d(32, 64, 4, 2, 1), nn.LeakyReLU(0.2)),
                *(nn.Flatten(), nn.Linear(64 * 7 * 7, 128), nn.LeakyReLU(0.2), nn.Linear(128, 1)),
            )

        def forward(self, x: Tensor, y: Tensor) -> Tensor:
            pixels = x.view(-1, 1, 28, 28)
            said: Tensor = self.layers(torch.cat([pixels, y[:, :, None, None].expand_as(pixels)], dim=1))
            return said

    return Critic()


def _trained(make: Callable[[], nn.Module], seed: int, size: Size) -> Any:
    """Return a new network that has learned to tell the thickness."""
    import torch

    from deltauq.nn.training import fit

    digits = training_digits(size.images, size.thickest)
    torch.manual_seed(seed)
    net = make()
    fit(net, digits.x, digits.y, recipe(size.forward, seed))
    return net


def _cached(net: Any, train: Callable[[], None], name: str, configuration: dict[str, Any]) -> Any:
    """Return a network with its trained weights, on a GPU where there is one."""
    import torch

    def make() -> dict[str, np.ndarray]:
        train()
        return {key: weight.detach().cpu().numpy() for key, weight in net.state_dict().items()}

    arrays = shared_arrays(name, configuration, make)
    net.load_state_dict({key: torch.from_numpy(array) for key, array in arrays.items()})
    return net.to("cuda" if torch.cuda.is_available() else "cpu").eval()


def _pictures(n: int | None) -> tuple[np.ndarray, np.ndarray]:
    images, classes = load_images("mnist-train")
    return np.asarray(images[:n]), np.asarray(classes[:n])


def _pixels(images: np.ndarray) -> Tensor:
    """Return images in bytes as numbers in [0, 1], of shape (n, 784)."""
    import torch

    return torch.from_numpy(images.reshape(len(images), -1) / np.float32(255))
