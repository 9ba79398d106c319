"""Training data that stays on one device, prepared an epoch at a time.

The seed and the number of an epoch alone determine its order, augmentation, anchors and masks: a run that is
resumed, and a run on several devices, see the same epochs as any other.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple, Self

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from deltauq.nn.anchored import Anchored
from deltauq.nn.anchors import PAIRINGS
from deltauq.nn.training.recipe import Recipe

BORDER = 4


@dataclass(frozen=True)
class Batch:
    """The data of one step."""

    x: Tensor
    y: Tensor
    anchors: Tensor | None
    """The e anchors of each row's tuple, as rows of the batch, of shape (e, n), or as inputs; None for a
    network that is not anchored, or draws its anchors itself."""
    masked: Tensor
    """Whether the anchors are masked in this step, all of them or row by row."""
    anchor_targets: Tensor | None = None
    """The targets of anchors that are inputs, of shape (e, n, ...), for a network with
    ``target="difference"``."""
    labelled: bool = False
    """Whether the network takes y as well, as in ``net(x, y)``: one with ``target="difference"``."""


Objective = Callable[[nn.Module, Batch], Tensor]
"""Returns the loss of a network on a batch, a scalar tensor."""


@dataclass(frozen=True)
class BatchPairing:
    """How the rows of a batch get their anchors."""

    anchors_per_tuple: int = 0
    """Anchors in a tuple, which are other rows of the batch; 0 for none."""
    reverse: bool = False
    """Whether a batch is paired with itself in reverse order."""
    mask_rows: bool = False
    """Whether anchors of single rows are masked instead of those of whole batches."""
    labelled: bool = False
    """Whether the network takes the targets of the rows as well."""

    @classmethod
    def from_network(cls, net: nn.Module) -> Self:
        """Return the pairing of a network; none if it is not anchored, or draws its anchors from a prior."""
        if not isinstance(net, Anchored):
            return cls()
        labelled = net.target.needs_labels
        if net.train_anchors not in PAIRINGS:
            return cls(labelled=labelled)
        reverse = net.train_anchors == "reverse"
        return cls(net.encoding.anchors_per_tuple, reverse, net.mask_rows, labelled)


class OrderBlock(NamedTuple):
    """Steps of equal batch size: rows of shape (steps, B), anchors (steps, e, B), masks (steps,[ B])."""

    rows: Tensor
    sources: Tensor
    masked: Tensor


def draw_order(
    n: int, recipe: Recipe, epoch: int, pairing: BatchPairing, *, drop_last: bool
) -> list[OrderBlock]:
    """Draw the batches of an epoch, their anchors and masks, on the CPU.

    Rows are shuffled and cut into batches. Their anchors are the rows 1, 2, ... steps further in the batch,
    which is in random order already; or the batch in reverse order, as in the paper, and the rows 1, 2, ...
    steps from there.

    The complete batches are one block. An incomplete last one is the other, unless `drop_last`, or if it is
    too small to contain the anchors of its rows.
    """
    generator = torch.Generator().manual_seed(derive_seed(recipe.seed, epoch))
    shuffled = torch.randperm(n, generator=generator)
    per_tuple, size = pairing.anchors_per_tuple, min(recipe.batch_size, n)
    if size <= per_tuple:
        raise ValueError(
            f"batches of {size} row(s) are too small for {per_tuple} other row(s) to be anchors."
        )
    whole = n // size * size
    rows = [shuffled[:whole].view(-1, size)]
    if n - whole > per_tuple and not drop_last:
        rows.append(shuffled[whole:].view(1, -1))
    blocks = []
    for block in rows:
        steps, width = block.shape
        positions, first = torch.arange(width), 1
        if pairing.reverse:
            positions, first = positions.flip(0), 0
        sources = [positions.roll(first + k) for k in range(max(1, per_tuple))]
        shape = (steps, width) if pairing.mask_rows else (steps,)
        masked = torch.rand(shape, generator=generator) < recipe.mask
        blocks.append(OrderBlock(block, torch.stack(sources).expand(steps, -1, width), masked))
    return blocks


class Epochs:
    """Inputs and targets on one device, in batches; see `fit` for the parameters."""

    def __init__(
        self,
        x: Tensor,
        y: Tensor,
        recipe: Recipe,
        pairing: BatchPairing,
        normalize: tuple[Tensor, Tensor] | None = None,
    ) -> None:
        if recipe.augment and x.ndim != 4:
            raise ValueError(f"augmentation needs images of shape (n, channels, h, w), got {tuple(x.shape)}.")
        self.x, self.y, self.recipe, self.pairing, self.normalize = x, y, recipe, pairing, normalize

    def batches(self, epoch: int, *, drop_last: bool) -> list[Batch]:
        """Return the batches of an epoch; see `draw_order` for `drop_last`."""
        device = self.x.device
        order = draw_order(len(self.x), self.recipe, epoch, self.pairing, drop_last=drop_last)
        rows = torch.cat([block.rows.reshape(-1) for block in order]).to(device)
        if self.recipe.augment:
            generator = torch.Generator(device).manual_seed(derive_seed(self.recipe.seed, epoch) + 1)
            x = self._inputs(crop_and_flip(self.x, rows, generator))
        else:
            x = self._inputs(self.x[rows])
        sizes = [block.rows.shape[1] for block in order for _ in block.rows]
        paired = self.pairing.anchors_per_tuple > 0
        sources = [step if paired else None for block in order for step in block.sources.to(device)]
        masked = [step for block in order for step in block.masked.to(device)]
        parts = zip(x.split(sizes), self.y[rows].split(sizes), sources, masked, strict=True)
        return [Batch(*part, labelled=self.pairing.labelled) for part in parts]

    def inputs(self, n: int | None = None) -> Tensor:
        """Return all inputs or the first n, as the network takes them, but not augmented."""
        return self._inputs(self.x[:n])

    def _inputs(self, x: Tensor) -> Tensor:
        return as_inputs(x, self.normalize, channels_last=self.recipe.channels_last)


def as_inputs(x: Tensor, normalize: tuple[Tensor, Tensor] | None, *, channels_last: bool) -> Tensor:
    """Return inputs as floats: bytes divided by 255, then standardised by mean and std of each channel.

    `channels_last` stores images in that memory format.
    """
    if x.dtype == torch.uint8:
        x = x.float().div_(255)
    if normalize is not None:
        mean, std = (value.to(x).view(-1, *[1] * (x.ndim - 2)) for value in normalize)
        x = (x - mean) / std
    if channels_last and x.ndim == 4:
        x = x.contiguous(memory_format=torch.channels_last)
    return x


def crop_and_flip(x: Tensor, rows: Tensor, generator: torch.Generator) -> Tensor:
    """Return these rows of images shifted by up to 4 pixels over a black border, half of them mirrored.

    Images have shape (n, channels, height, width); the returned ones are stored channels-last.
    """
    height, width = x.shape[2:]
    m, device = len(rows), x.device
    top, left = (torch.randint(2 * BORDER + 1, (m, 1), generator=generator, device=device) for _ in range(2))
    flip = torch.randint(2, (m, 1), generator=generator, device=device, dtype=torch.bool)
    across = torch.arange(width, device=device)
    down = top + torch.arange(height, device=device)
    across = left + torch.where(flip, width - 1 - across, across)
    padded = F.pad(x, (BORDER, BORDER, BORDER, BORDER))
    by_pixel = padded[rows[:, None, None], :, down[:, :, None], across[:, None, :]]
    return by_pixel.permute(0, 3, 1, 2)


def derive_seed(seed: int, epoch: int) -> int:
    """Return a seed for one epoch of one run."""
    return (seed * 1_000_003 + epoch * 7_919 + 17) % (2**62)
