"""Training data that stays on one device, prepared an epoch at a time.

What happens in an epoch (order, augmentation, anchors, masks) follows from the seed and the number of the
epoch alone: a run that is resumed, and a run on several devices, see the same epochs as any other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from deltauq.nn.training.recipe import Recipe

BORDER = 4


@dataclass(frozen=True)
class Batch:
    """What one step sees.

    Attributes
    ----------
    x : tensor of shape (n, ...)
    y : tensor of shape (n, ...)
    anchors : int tensor of shape (e, n), tensor of shape (e, n, ...) or None
        For each of the e anchors in a tuple, the row of the batch that every row takes it from, or the
        anchors themselves; None for a network that is not anchored, or finds its anchors by itself.
    masked : bool tensor of shape (), or (n,)
        Whether the anchors are hidden in this step, all of them or row by row.
    """

    x: Tensor
    y: Tensor
    anchors: Tensor | None
    masked: Tensor


Objective = Callable[[nn.Module, Batch], Tensor]
"""Gives the loss of a network on a batch, a scalar tensor."""


@dataclass(frozen=True)
class Order:
    """What chance decides about one epoch, on the CPU: a block of equal batches, and a smaller last one.

    Attributes
    ----------
    rows : list of int tensors of shape (steps, B)
    sources : list of int tensors of shape (steps, e, B)
    masked : list of bool tensors of shape (steps,), or (steps, B)
    """

    rows: list[Tensor]
    sources: list[Tensor]
    masked: list[Tensor]


def draw_order(
    n: int,
    batch_size: int,
    epoch: int,
    seed: int,
    *,
    n_sources: int,
    reverse: bool,
    mask: float,
    mask_rows: bool = False,
    drop_last: bool,
) -> Order:
    """Draw the order of an epoch.

    Rows are shuffled and cut into batches. Anchors are other rows of the batch: a random cycle through all of
    them, followed 1, 2, ... steps; rows being in random order already, the cycle is a shift. Or the batch in
    reverse order, as in the paper, and what lies 1, 2, ... steps from it.

    Parameters
    ----------
    n, batch_size, epoch, seed : int
    n_sources : int
        Anchors in a tuple.
    reverse : bool
    mask : float
    mask_rows : bool, default=False
        Hide the anchors of single rows instead of those of whole batches.
    drop_last : bool
        Leave out an incomplete last batch, unless it is the only one. One too small to hold the anchors of
        its rows is always left out: its rows would meet themselves.

    Returns
    -------
    order : Order
    """
    generator = torch.Generator().manual_seed(derive_seed(seed, epoch))
    shuffled = torch.randperm(n, generator=generator)
    size = min(batch_size, n)
    whole = n // size * size
    blocks = [shuffled[:whole].view(-1, size)]
    if n - whole > n_sources and not drop_last:
        blocks.append(shuffled[whole:].view(1, -1))
    sources, masked = [], []
    for block in blocks:
        steps, width = block.shape
        here = torch.arange(width)
        first, here = (0, here.flip(0)) if reverse else (1, here)
        shifts = [here.roll(k) for k in range(first, first + n_sources)]
        sources.append(torch.stack(shifts or [here]).expand(steps, -1, width))
        masked.append(torch.rand((steps, width) if mask_rows else (steps,), generator=generator) < mask)
    return Order(blocks, sources, masked)


class Epochs:
    """Inputs and targets on one device, given out in batches.

    Parameters
    ----------
    x : tensor of shape (n, ...)
        Float, or uint8 images of shape (n, channels, height, width), which are divided by 255.
    y : tensor of shape (n, ...)
    recipe : Recipe
    n_sources : int, default=1
        Anchors in a tuple; 0 for none.
    reverse : bool, default=False
        Pair a batch with itself in reverse order.
    mask_rows : bool, default=False
        Hide the anchors of single rows instead of those of whole batches.
    normalise : (mean, std), optional
        Of the channels of images in [0, 1].
    """

    def __init__(
        self,
        x: Tensor,
        y: Tensor,
        recipe: Recipe,
        *,
        n_sources: int = 1,
        reverse: bool = False,
        mask_rows: bool = False,
        normalise: tuple[Tensor, Tensor] | None = None,
    ) -> None:
        if len(x) != len(y) or len(x) == 0:
            raise ValueError(f"x and y must have equally many rows, at least one, got {len(x)} and {len(y)}.")
        if recipe.augment and x.ndim != 4:
            raise ValueError(f"augmentation needs images of shape (n, channels, h, w), got {tuple(x.shape)}.")
        size = min(recipe.batch_size, len(x))
        if size <= n_sources:
            raise ValueError(
                f"batches of {size} row(s) are too small for {n_sources} other row(s) to be anchors."
            )
        self.x, self.y, self.recipe = x, y, recipe
        self.n_sources, self.reverse, self.mask_rows = n_sources, reverse, mask_rows
        self.normalise = normalise

    def steps(self, *, drop_last: bool) -> int:
        """Return the number of batches in an epoch."""
        whole, left = divmod(len(self.x), min(self.recipe.batch_size, len(self.x)))
        return whole + (left > self.n_sources and not drop_last)

    def batches(self, epoch: int, *, drop_last: bool) -> Iterator[Batch]:
        """Yield the batches of an epoch.

        Parameters
        ----------
        epoch : int
        drop_last : bool
        """
        recipe, device = self.recipe, self.x.device
        order = draw_order(
            len(self.x),
            recipe.batch_size,
            epoch,
            recipe.seed,
            n_sources=self.n_sources,
            reverse=self.reverse,
            mask=recipe.mask,
            mask_rows=self.mask_rows,
            drop_last=drop_last,
        )
        rows = torch.cat([block.reshape(-1) for block in order.rows]).to(device)
        x, y = self._inputs(rows, epoch), self.y[rows]
        start = 0
        for block, sources, masked in zip(order.rows, order.sources, order.masked, strict=True):
            sources, masked = sources.to(device), masked.to(device)
            for step in range(len(block)):
                end = start + block.shape[1]
                anchors = sources[step] if self.n_sources else None
                yield Batch(x[start:end], y[start:end], anchors, masked[step])
                start = end

    def inputs(self, n: int | None = None) -> Tensor:
        """Return all inputs or the first n, not augmented, as the network is to see them."""
        return as_inputs(self.x[:n], self.normalise, channels_last=self.recipe.channels_last)

    def _inputs(self, rows: Tensor, epoch: int) -> Tensor:
        """Return the inputs of an epoch, in its order, as the network is to see them."""
        if self.recipe.augment:
            generator = torch.Generator(self.x.device).manual_seed(derive_seed(self.recipe.seed, epoch) + 1)
            x = crop_and_flip(self.x, rows, generator)
        else:
            x = self.x[rows]
        return as_inputs(x, self.normalise, channels_last=self.recipe.channels_last)


def as_inputs(x: Tensor, normalise: tuple[Tensor, Tensor] | None, *, channels_last: bool) -> Tensor:
    """Return inputs as floats: bytes in [0, 1], then normalised by channel where asked.

    Parameters
    ----------
    x : tensor of shape (n, ...)
    normalise : (mean, std), tensors of shape (channels,), or None
    channels_last : bool
        Store images by pixel.

    Returns
    -------
    x : float tensor of the same shape
    """
    if x.dtype == torch.uint8:
        x = x.float().div_(255)
    if normalise is not None:
        mean, std = (value.to(x).view(-1, *[1] * (x.ndim - 2)) for value in normalise)
        x = (x - mean) / std
    if channels_last and x.ndim == 4:
        x = x.contiguous(memory_format=torch.channels_last)
    return x


def crop_and_flip(x: Tensor, rows: Tensor, generator: torch.Generator) -> Tensor:
    """Return images shifted by up to 4 pixels over a black border, half of them mirrored.

    Parameters
    ----------
    x : tensor of shape (n, channels, height, width)
    rows : int tensor of shape (m,)
    generator : torch.Generator, on x's device

    Returns
    -------
    images : tensor of shape (m, channels, height, width), stored by pixel
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
