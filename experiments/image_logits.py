"""Logits of trained networks, stored in the cache for every image set and choice of anchors.

With the files of logits neither the network nor a GPU is needed.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from copy import deepcopy
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from experiments.cache import shared_arrays
from experiments.image_configs import TRAINING_IMAGES, AnchorSetting, TrainingRun
from experiments.image_data import LabelledImages, image_source, load_image_set
from experiments.image_networks import as_tensor, trained, training_images

if TYPE_CHECKING:
    from torch import Tensor, nn

    from deltauq.baselines import VariationalNetwork
    from deltauq.nn import Anchored

N_MASKS = 10
"""Passes of MC dropout, and of variational networks."""
KMEANS_ROWS = 5_000
"""Training images that are clustered."""
ROWS_AT_ONCE = 2_000
REPEATS = 3


def logits(run: TrainingRun, images: str, anchors: AnchorSetting = TRAINING_IMAGES) -> np.ndarray:
    """Return the logits of a set of images, from the cache if it has them; otherwise train and predict.

    Parameters
    ----------
    images : str
        See `load_image_set`.
    anchors : AnchorSetting
        For anchored networks.

    Returns
    -------
    logits : float64 array of shape (K, n, 10), stored as float16
        For K anchors or masks; K = 1 for a plain network. Logarithms of kernels for DUQ.
    """
    configuration = {**run.configuration(), "images": images, "source": image_source(images)}
    if run.kind.anchored:
        configuration["anchors"] = anchors.configuration()

    def make() -> dict[str, np.ndarray]:
        print(f"  {run}: {images}", flush=True)
        return {"logits": predict(trained(run), run, load_image_set(images, run.profile), anchors)}

    name = f"{run}-{images.replace('/', '-')}"
    return shared_arrays(name, configuration, make)["logits"].astype(np.float64)


def predict(
    net: nn.Module, run: TrainingRun, image_set: LabelledImages, anchors: AnchorSetting
) -> np.ndarray:
    """Return logits of shape (K, n, 10), float16.

    They are computed in float32: rounding in bfloat16 would add to the spread over anchors.
    """
    return predictor(net, run, anchors, len(image_set.images))(image_set.images)


Predictor = Callable[[np.ndarray], np.ndarray]
"""Computes logits of shape (K, n, 10), float16, for images of shape (n, 32, 32, 3)."""


def predictor(net: nn.Module, run: TrainingRun, anchors: AnchorSetting, n: int) -> Predictor:
    """Return a predictor for many sets of n images: anchors, masks and weights are drawn once."""
    import torch

    device = next(net.parameters()).device
    functions = list(_functions(net, run, anchors, n))

    def predict_images(images: np.ndarray) -> np.ndarray:
        batches = []
        with torch.no_grad():
            for rows in torch.arange(len(images)).split(ROWS_AT_ONCE):
                x = as_tensor(images[rows.numpy()], run.kind, device)
                outputs = torch.cat([function(x, rows) for function in functions])
                batches.append(outputs.float().clamp(-6e4, 6e4).cpu().numpy().astype(np.float16))
        return np.concatenate(batches, axis=1)

    return predict_images


Function = Callable[["Tensor", "Tensor"], "Tensor"]
"""Computes outputs of shape (k, n, 10) for inputs of shape (n, 3, 32, 32) and their indices in the set."""


def _functions(net: nn.Module, run: TrainingRun, anchors: AnchorSetting, n: int) -> Iterator[Function]:
    """Yield functions that together compute the K outputs of a network."""
    from deltauq.baselines import VariationalNetwork
    from deltauq.nn import Anchored
    from experiments.duq import KernelNetwork

    if isinstance(net, Anchored) and anchors.prior == "paired":
        if anchors.average_masked:
            raise ValueError("average_masked needs anchors that all images share, not prior='paired'.")
        yield from _under_own_anchors(net, run, anchors, n)
    elif isinstance(net, Anchored):
        _set_anchors(net, run, anchors)
        yield partial(_under_stored_anchors, net)
    elif isinstance(net, KernelNetwork):
        yield lambda x, rows: net.log_kernels(x)[None]
    elif isinstance(net, VariationalNetwork):
        yield from (_with_drawn_weights(net, k) for k in range(N_MASKS))
    elif run.kind.dropout:
        yield from (partial(_under_mask, net, k) for k in range(N_MASKS))
    else:
        yield lambda x, rows: net(x)[None]


def _set_anchors(net: Anchored, run: TrainingRun, anchors: AnchorSetting) -> None:
    """Store these anchors in a network."""
    net.set_anchors(anchor_inputs(run, anchors).to(net.anchors.device), n_anchors=anchors.number)
    net.average_masked = anchors.average_masked


def _under_stored_anchors(net: Anchored, x: Tensor, rows: Tensor) -> Tensor:
    """Return the outputs under all stored anchors."""
    samples: Tensor | None = net.posterior(x, keep_samples=True).samples
    assert samples is not None
    return samples


def _under_own_anchors(
    net: nn.Module, run: TrainingRun, anchors: AnchorSetting, n: int
) -> Iterator[Function]:
    """Yield functions whose anchors are other training images for every input."""
    import torch

    train_images = training_images(run).images
    drawn = np.random.default_rng(run.seed).integers(len(train_images), size=(anchors.number, n))

    def function(rows_of_anchor: np.ndarray, x: Tensor, rows: Tensor) -> Tensor:
        under = as_tensor(train_images[rows_of_anchor[rows.numpy()]], run.kind, x.device)
        outputs: Tensor = net(
            x, anchors=under[None], masked=torch.zeros((), dtype=torch.bool, device=x.device)
        )
        return outputs[None]

    yield from (partial(function, rows_of_anchor) for rows_of_anchor in drawn)


def _under_mask(net: nn.Module, k: int, x: Tensor, rows: Tensor) -> Tensor:
    """Return the outputs under the k-th mask of dropout, the same for all inputs."""
    import torch

    from deltauq.baselines import SharedDropout

    layers = [layer for layer in net.modules() if isinstance(layer, SharedDropout)]
    generator = torch.Generator().manual_seed(k)
    for layer in layers:
        layer.generator = generator
    outputs: Tensor = net(x)
    for layer in layers:
        layer.generator = None
    return outputs[None]


def _with_drawn_weights(net: VariationalNetwork, k: int) -> Function:
    """Return a copy of a network whose weights are the k-th drawn, the same for all inputs."""
    import torch

    drawn = deepcopy(net)
    generator = torch.Generator().manual_seed(k)
    with torch.no_grad():
        for layer in drawn.layers:
            layer.draw(generator)
    return lambda x, rows: drawn(x)[None]


def anchor_inputs(run: TrainingRun, anchors: AnchorSetting) -> Tensor:
    """Return normalised anchors, of shape (K, 3, 32, 32).

    Priors of training images, corrupted or not, have the same images.
    """
    import torch

    from deltauq.core import Anchors, BalancedPrior, DataPrior, KMeansPrior, NormalPrior

    rng, number = np.random.default_rng(run.seed), anchors.number
    image_set = training_images(run)
    prior, _, severity = anchors.prior.partition("-")
    if prior == "normal":
        noise = NormalPrior(standard=True).draw(Anchors(np.empty((1, 3, 32, 32))), number, rng)
        return torch.from_numpy(noise.X).float()
    if prior == "kmeans":
        rows = Anchors(image_set.images[:KMEANS_ROWS].astype(np.float32) / 255)
        return as_tensor(KMeansPrior().draw(rows, number, rng).X.astype(np.float32), run.kind, "cpu")
    if prior == "balanced":
        drawn = BalancedPrior().draw(Anchors(image_set.images), number, rng, labels=image_set.labels)
        return as_tensor(drawn.X, run.kind, "cpu")
    if prior == "svhn":
        drawn = DataPrior().draw(Anchors(load_image_set("svhn", run.profile).images), number, rng)
        return as_tensor(drawn.X, run.kind, "cpu")
    images = DataPrior().draw(Anchors(image_set.images), number, rng).X
    if prior == "impulse":
        from experiments.data.corruptions import corrupt

        images = corrupt(images, "impulse_noise", int(severity), seed=run.seed)
    elif prior != "data":
        raise ValueError(f"there is no prior {anchors.prior!r} of anchors for images.")
    return as_tensor(images, run.kind, "cpu")


def seconds_per_image(run: TrainingRun, images: str, n_anchors: int) -> float:
    """Return the shortest time of a few predictions, per image, as in deployment.

    Inputs are on the device, in bfloat16 on a GPU. An anchored network computes mean and variance over its
    anchors, any other network makes one pass.

    Parameters
    ----------
    n_anchors : int
        For an anchored network; with one anchor there is a mean only.
    """
    import torch

    from deltauq.nn import Anchored

    net = trained(run)
    device = next(net.parameters()).device
    x = as_tensor(load_image_set(images, run.profile).images, run.kind, device)
    on_gpu = device.type == "cuda"
    call: Callable[[Tensor], Any] = net
    if isinstance(net, Anchored):
        _set_anchors(net, run, AnchorSetting(number=n_anchors))
        call = net.posterior if n_anchors > 1 else net
    times = []
    with torch.no_grad(), torch.autocast(device.type, torch.bfloat16, enabled=on_gpu):
        for _ in range(1 + REPEATS):
            started = time.perf_counter()
            for rows in x.split(ROWS_AT_ONCE):
                call(rows)
            if on_gpu:
                torch.cuda.synchronize()
            times.append(time.perf_counter() - started)
    return min(times[1:]) / len(x)
