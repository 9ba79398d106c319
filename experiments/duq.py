"""DUQ: distances of the features of an input from the centroids of the classes."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from deltauq.nn.training import Batch, Recipe, fit
from experiments.double_backward import use_double_backward


class KernelNetwork(nn.Module):
    """A feature extractor, one linear embedding for each class, and kernels around the classes' centroids.

    Parameters
    ----------
    extractor : Module
        Returns features of shape (n, n_features).
    length_scale : float
        Length scale of the kernels; squared distances are averaged over the axes of the embedding.
    batch_size : int
        Batch size of training; the initial counts are those of a batch of balanced classes.
    """

    counts: Tensor
    sums: Tensor

    def __init__(
        self,
        extractor: nn.Module,
        n_features: int,
        n_classes: int,
        centroid_size: int,
        length_scale: float,
        batch_size: int,
    ) -> None:
        super().__init__()
        self.extractor = extractor
        self.length_scale = length_scale
        # As in the authors' code, the classes count as inputs. With a larger deviation all kernels start
        # near zero, and the network learns little.
        std = math.sqrt(2.0 / (n_classes * n_features))
        self.embedding = nn.Parameter(std * torch.randn(centroid_size, n_classes, n_features))
        self.register_buffer("counts", torch.full((n_classes,), batch_size / n_classes))
        self.register_buffer("sums", self.counts * 0.05 * torch.randn(centroid_size, n_classes))

    @property
    def centroids(self) -> Tensor:
        """The centroids of the classes, of shape (centroid_size, n_classes)."""
        return self.sums / self.counts

    def forward(self, x: Tensor, with_slopes: bool = False) -> Tensor | tuple[Tensor, Tensor]:
        """Return the kernels of shape (n, n_classes): 1 at the centroid of a class, 0 far from it.

        Parameters
        ----------
        x : tensor of shape (n, ...)
        with_slopes : bool, default=False
            Also return the norm of the gradient of the sum of the kernels at every input, of shape (n,). It
            can be differentiated again.
        """
        if not with_slopes:
            return self.log_kernels(x).exp()
        x = x.detach().requires_grad_()
        kernels = self.log_kernels(x).exp()
        (gradient,) = torch.autograd.grad(kernels.sum(), x, create_graph=True)
        return kernels, gradient.flatten(1).norm(dim=1)

    def log_kernels(self, x: Tensor) -> Tensor:
        """Return the logarithms of the kernels, of shape (n, n_classes)."""
        embedded = self.embed(x)
        # Differences of nearly equal numbers need more digits than bfloat16 has.
        with torch.autocast(x.device.type, enabled=False):
            squares = (embedded - self.centroids).square().mean(1)
            return -squares / (2.0 * self.length_scale**2)

    def embed(self, x: Tensor) -> Tensor:
        """Return the embeddings for each class, of shape (n, centroid_size, n_classes)."""
        features = self.extractor(x)
        with torch.autocast(x.device.type, enabled=False):
            return torch.einsum("nf,scf->nsc", features.to(self.embedding.dtype), self.embedding)

    @torch.no_grad()
    def update_centroids(self, x: Tensor, y: Tensor, momentum: float) -> None:
        """Move the centroids towards the embeddings of a batch, computed in evaluation mode.

        Classes that are not in the batch keep their centroids; otherwise their counts would go to zero.
        """
        was_training = self.training
        self.eval()
        member = F.one_hot(y, len(self.counts)).to(self.counts)
        embedded = self.embed(x)
        with torch.autocast(x.device.type, enabled=False):
            sums = torch.einsum("nsc,nc->sc", embedded, member)
        counts = member.sum(0)
        rate = (1.0 - momentum) * (counts > 0).to(counts)
        self.counts.lerp_(counts, rate)
        self.sums.lerp_(sums, rate.expand_as(sums))
        self.train(was_training)


def train_duq(
    make_extractor: Callable[[], tuple[nn.Module, int]],
    n_classes: int,
    x: Tensor,
    y: Tensor,
    recipe: Recipe,
    *,
    length_scale: float = 0.1,
    momentum: float = 0.999,
    penalty: float = 0.5,
    **options: Any,
) -> KernelNetwork:
    """Train a network of deterministic uncertainty quantification, for classification.

    The loss is the binary cross-entropy of the kernels, plus a penalty that keeps the slope of their sum in x
    near 1 from both sides. Centroids are running means, updated by a batch before the step on it; the authors
    update them afterwards. A step is then a single piece, which can be replayed as a CUDA graph. The network
    is not compiled as a whole, because the penalty needs second derivatives.

    Parameters
    ----------
    make_extractor : callable
        Returns a new network whose outputs are features of shape (n, n_features), and n_features.
    momentum : float, default=0.999
        Momentum of the centroids.
    penalty : float, default=0.5
        Weight of the mean of (slope - 1)².
    **options
        Options of `deltauq.nn.training.fit`.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(recipe.seed)
        extractor, n_features = make_extractor()
        extractor = use_double_backward(extractor, recipe.compile)
        torch.manual_seed(recipe.seed + 1)
        net = KernelNetwork(extractor, n_features, n_classes, n_features, length_scale, recipe.batch_size)
    low = recipe.precision == "bf16-mixed"

    def objective(trained: nn.Module, batch: Batch) -> Tensor:
        with torch.autocast(batch.x.device.type, torch.bfloat16, enabled=low):
            net.update_centroids(batch.x, batch.y, momentum)
        if not penalty:
            return kernel_loss(trained(batch.x), batch.y)
        kernels, slopes = trained(batch.x, with_slopes=True)
        return kernel_loss(kernels, batch.y) + penalty * (slopes - 1.0).square().mean()

    fit(net, x, y, replace(recipe, compile=False), objective, **options)
    return net


def kernel_loss(kernels: Tensor, y: Tensor) -> Tensor:
    """Return the binary cross-entropy of kernels of shape (n, n_classes), each on its own."""
    return F.binary_cross_entropy(kernels, F.one_hot(y, kernels.shape[1]).to(kernels))
