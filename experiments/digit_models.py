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
"""Part of the cache key: raised when the code in this file changes its arrays."""
THRESHOLD = 0.2
"""Thickness is the number of pixels brighter than this."""
N_LATENT = 100
N_ANCHORS = 10
N_MEMBERS = 3
DROPOUT = 0.1


@dataclass(frozen=True)
class Size:
    """The size of the experiment.

    Attributes
    ----------
    images : int or None
        Number of MNIST training images; None for all.
    restarts, steps : int
        Restarts and steps of the search for every target.
    generator, forward, classifier : mapping
        Options of a `Recipe`.
    layers, critic : {"perceptron", "convolutional"}
        Architecture of the generator and of its critic.
    adversarial : float
        Weight of the critic in the loss.
    starts : float or None
        Searches start at the latents of the thickest training digits, this share of them; None: at random.
    anchors : float or None
        Anchors are drawn from the thickest training digits, this share of them; None: the anchors of
        the last training step.
    thickest : int
        Largest thickness of the training images of generator and forward models.
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
        """Return the cache key of a model."""
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
        Mean and standard deviation of the thickness.
    """

    x: Tensor
    y: Tensor
    mean: float
    std: float


def thickness(x: Any) -> Any:
    """Return the number of pixels, along the last axis, that are brighter than the threshold."""
    return (x > THRESHOLD).sum(-1)


def digits_up_to(thickest: float, images: np.ndarray) -> Digits:
    """Return the images, of shape (n, 28, 28) in bytes, with at most this thickness."""
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
    """Return the digits of at most this thickness among the first n training images of MNIST."""
    return digits_up_to(thickest, _pictures(n)[0])


def held_out_digits(size: Size) -> Digits:
    """Return the test digits of the training range of thickness, standardised as the training digits."""
    images, _ = load_images("mnist-test")
    of_training = training_digits(size.images, size.thickest)
    digits = digits_up_to(size.thickest, np.asarray(images[: size.images]))
    y = (digits.mean + digits.std * digits.y - of_training.mean) / of_training.std
    return Digits(digits.x, y, of_training.mean, of_training.std)


def generator(seed: int, size: Size) -> Generator:
    """Return the generator of all methods, trained unless it is in the cache."""
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
    """Return latents of training digits as starts of all methods; None for random starts."""
    from deltauq.inverse import latents_of

    if size.starts is None:
        return None
    digits = training_digits(size.images, size.thickest)
    drawn = _among_thickest(digits, size.starts, size.restarts, seed)
    return latents_of(g, digits.x[drawn], digits.y[drawn])


def _among_thickest(digits: Digits, share: float, n: int, seed: int) -> Tensor:
    """Return the indices of n digits, drawn from the thickest ones, this share of all."""
    import torch

    thickest = digits.y[:, 0].argsort(descending=True)[: max(int(share * len(digits.y)), n)]
    return thickest[torch.randperm(len(thickest), generator=torch.Generator().manual_seed(seed))[:n]]


def classifier(seed: int, size: Size) -> nn.Module:
    """Return a small convolutional classifier for digits of any thickness."""
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
    """Return the trained forward model of a method; all have the same architecture."""
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
    # For values, the anchored layer starts as that of a plain network; the paper pairs a batch with its
    # reverse.
    options: dict[str, Any] = {"init": "pretrained", "train_anchors": "reverse"}
    if method == "delta-labelled":
        options = {"target": "difference"}
    net: Anchored = _trained(lambda: Anchored(network(), N_ANCHORS, **options), seed, size)
    if size.anchors is not None:
        digits = training_digits(size.images, size.thickest)
        # Other digits than the starts of the searches.
        rows = _among_thickest(digits, size.anchors, N_ANCHORS, seed + 1000)
        device = next(net.parameters()).device
        net.set_anchors(digits.x[rows].to(device), digits.y[rows].to(device))
    return net


def recipe(options: Mapping[str, Any], seed: int) -> Recipe:
    """Return a recipe with these options."""
    from deltauq.nn.training import Recipe

    return Recipe(**options, batch_size=128, seed=seed)


def network() -> nn.Module:
    """Return an untrained network, the architecture of all forward models."""
    from deltauq.nn import MLP

    return MLP(784, 1, hidden=(512, 512, 512, 512))


def convolutional_layers() -> nn.Module:
    """Return convolutional layers of a generator; it makes no isolated pixels."""
    from torch import nn

    return nn.Sequential(
        *(nn.Linear(1 + N_LATENT, 512), nn.LeakyReLU(0.2)),
        *(nn.Linear(512, 128 * 7 * 7), nn.LeakyReLU(0.2), nn.Unflatten(1, (128, 7, 7))),
        *(nn.ConvTranspose2d(128, 64, 4, 2, 1), nn.LeakyReLU(0.2)),
        *(nn.ConvTranspose2d(64, 1, 4, 2, 1), nn.Flatten()),
    )


def _critic() -> nn.Module:
    """Return a convolutional critic of digits and their thickness."""
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
            score: Tensor = self.layers(torch.cat([pixels, y[:, :, None, None].expand_as(pixels)], dim=1))
            return score

    return Critic()


def _trained(make: Callable[[], nn.Module], seed: int, size: Size) -> Any:
    """Return a new network, trained to predict the thickness."""
    import torch

    from deltauq.nn.training import fit

    digits = training_digits(size.images, size.thickest)
    torch.manual_seed(seed)
    net = make()
    fit(net, digits.x, digits.y, recipe(size.forward, seed))
    return net


def _cached(net: Any, train: Callable[[], None], name: str, configuration: dict[str, Any]) -> Any:
    """Return a network with its trained weights, on a GPU if there is one."""
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
