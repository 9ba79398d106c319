"""DUQ: how far the features of an input are from the centroid of each class."""

from __future__ import annotations

import math
from dataclasses import replace

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from deltauq.baselines.network import (
    MakeNetwork,
    NetworkBaseline,
    Training,
    check_class_labels,
    check_no_criterion,
    outputs_of,
)
from deltauq.core import Posterior, StreamingPosterior
from deltauq.nn.training import Batch, as_inputs
from experiments.double_backward import use_double_backward


class KernelNetwork(nn.Module):
    """A feature extractor, one linear embedding for each class, and kernels around the classes' centroids.

    Parameters
    ----------
    extractor : Module
        Gives features of shape (n, n_features).
    length_scale : float
        Of the kernels; squared distances are averaged over the axes of the embedding.
    batch_size : int
        Of training: the counts start at what a batch of balanced classes holds.
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
        # The deviation of the authors' code, which counts the classes as inputs too: with larger embeddings
        # all kernels begin near zero, and little is learned.
        std = math.sqrt(2.0 / (n_classes * n_features))
        self.embedding = nn.Parameter(std * torch.randn(centroid_size, n_classes, n_features))
        self.register_buffer("counts", torch.full((n_classes,), batch_size / n_classes))
        self.register_buffer("sums", self.counts * 0.05 * torch.randn(centroid_size, n_classes))

    @property
    def centroids(self) -> Tensor:
        """Where the classes are, of shape (centroid_size, n_classes)."""
        return self.sums / self.counts

    def forward(self, x: Tensor, with_slopes: bool = False) -> Tensor | tuple[Tensor, Tensor]:
        """Return the kernels of shape (n, n_classes): 1 at the centroid of a class, 0 far from it.

        Parameters
        ----------
        x : tensor of shape (n, ...)
        with_slopes : bool, default=False
            Also return how steep the sum of the kernels is at every input, of shape (n,): the norm of its
            gradient, which can be differentiated again.
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
        """Move the centroids towards the embeddings of a batch, as it looks in evaluation.

        Classes that are not in the batch stay as they are: their counts would otherwise fade to nothing.

        Parameters
        ----------
        x : tensor of shape (n, ...)
        y : int tensor of shape (n,)
        momentum : float
            Weight of what was known before.
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


class DUQ(NetworkBaseline):
    """Deterministic uncertainty quantification, for classification.

    The network is trained by binary cross-entropy of the kernels, plus a penalty that keeps the slope of
    their sum in x, ‖∂Σ/∂x‖, near 1 from both sides. Centroids are running means, moved towards a batch before
    it is learned from (its authors move them afterwards, by the batch just seen): a step is then one piece,
    which can be replayed as a CUDA graph. Networks are not compiled as a whole: the penalty needs second
    derivatives.

    Parameters
    ----------
    make_network : callable
        Returns a new network whose outputs are features of shape (n, n_features), not logits.
    momentum : float, default=0.999
        Of the centroids.
    penalty : float, default=0.5
        Weight of the mean of (slope - 1)².
    centroid_size : int, optional
        Axes of the embedding; as many as there are features by default.
    n_classes : int, optional
        As many as y names by default.

    Attributes
    ----------
    network_ : KernelNetwork
    """

    network_: KernelNetwork

    def __init__(
        self,
        make_network: MakeNetwork,
        length_scale: float = 0.1,
        momentum: float = 0.999,
        penalty: float = 0.5,
        *,
        centroid_size: int | None = None,
        n_classes: int | None = None,
    ) -> None:
        super().__init__(make_network)
        if not length_scale > 0.0:
            raise ValueError(f"length_scale must be positive, got {length_scale}.")
        if not 0.0 <= momentum < 1.0:
            raise ValueError(f"momentum must lie in [0, 1), got {momentum}.")
        if penalty < 0.0:
            raise ValueError(f"penalty must not be negative, got {penalty}.")
        self.length_scale = length_scale
        self.momentum = momentum
        self.penalty = penalty
        self.centroid_size = centroid_size
        self.n_classes = n_classes

    def posterior(self, x: Tensor, link: str | None = None, batch_size: int | None = None) -> Posterior:
        """Return the kernels of shape (n, n_classes) as mean, and a variance of zero.

        Kernels are scores of the classes already. The sigmoid link gives them unchanged, softmax gives them
        divided by their sum.
        """
        log_kernels = self._log_kernels(x, batch_size)
        kernels = log_kernels.exp()
        none = torch.zeros_like(kernels)
        if link is None:
            return Posterior(kernels, none)
        if link == "sigmoid":
            return Posterior(kernels, none, kernels, none, link=link)
        stream = StreamingPosterior(link)
        stream.update(log_kernels)
        shares = stream.posterior().link_mean
        return Posterior(kernels, none, shares, none, link=link)

    def score(self, x: Tensor, batch_size: int | None = None) -> Tensor:
        """Return how far every input is from all classes, of shape (n,): one minus its largest kernel."""
        largest: Tensor = self._log_kernels(x, batch_size).amax(1)
        return -torch.expm1(largest)

    @torch.no_grad()
    def _log_kernels(self, x: Tensor, batch_size: int | None) -> Tensor:
        self._fitted("network_").eval()
        return outputs_of(self.network_.log_kernels, x, self._device, batch_size)

    def _fit(self, x: Tensor, y: Tensor, training: Training) -> None:
        check_no_criterion(training, "DUQ")
        check_class_labels(y, "DUQ")
        net = self._new_kernels(x, y, training)
        low = training.recipe.precision == "bf16-mixed"

        def objective(trained: nn.Module, batch: Batch) -> Tensor:
            with torch.autocast(batch.x.device.type, torch.bfloat16, enabled=low):
                net.update_centroids(batch.x, batch.y, self.momentum)
            if not self.penalty:
                return kernel_loss(trained(batch.x), batch.y)
            kernels, slopes = trained(batch.x, with_slopes=True)
            return kernel_loss(kernels, batch.y) + self.penalty * (slopes - 1.0).square().mean()

        plain = replace(training, recipe=replace(training.recipe, compile=False))
        plain.run(net, x, y, objective)
        self.network_ = net

    def _new_kernels(self, x: Tensor, y: Tensor, training: Training) -> KernelNetwork:
        """Return the network before training."""
        seed = training.recipe.seed
        extractor = use_double_backward(self.new_network(seed), training.recipe.compile).eval()
        with torch.no_grad():
            features = extractor(as_inputs(x[:1], training.normalise, channels_last=False))
        if features.ndim != 2:
            raise ValueError(f"DUQ needs features of shape (n, n_features), got {tuple(features.shape)}.")
        n_features = features.shape[1]
        n_classes = self.n_classes or int(y.max()) + 1
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed + 1)
            return KernelNetwork(
                extractor,
                n_features,
                n_classes,
                self.centroid_size or n_features,
                self.length_scale,
                training.recipe.batch_size,
            )


def kernel_loss(kernels: Tensor, y: Tensor) -> Tensor:
    """Return the binary cross-entropy of kernels of shape (n, n_classes), each on its own."""
    return F.binary_cross_entropy(kernels, F.one_hot(y, kernels.shape[1]).to(kernels))
