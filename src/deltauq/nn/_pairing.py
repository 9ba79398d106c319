"""What an anchored layer does with the tensor that enters it: which anchors it meets, and how often."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NoReturn, Protocol

import torch
from torch import Tensor

from deltauq.core import AnchorPrior, BalancedPrior, get_prior

if TYPE_CHECKING:
    from deltauq.nn._site import Site


class Pairing(Protocol):
    """Turns the tensor that enters an anchored layer into the layer's anchored map of it."""

    def __call__(self, site: Site, x: Tensor) -> Tensor:
        """Return the map of the tuples that x, of shape (n, ...), becomes."""


@dataclass(frozen=True, eq=False)
class WithinBatch:
    """Anchors are other rows of the same batch.

    Attributes
    ----------
    sources : tuple of int tensors of shape (n,)
        For each anchor of a tuple, the row that every row takes it from.
    masked : bool tensor of shape () or (n,), optional
        Whether the anchors are hidden from the layer: [0, X - R].
    """

    sources: tuple[Tensor, ...]
    masked: Tensor | None = None

    def __call__(self, site: Site, x: Tensor) -> Tensor:
        """Map each row together with the rows it was paired with."""
        return site.wide(site.encode(x, tuple(x[rows] for rows in self.sources), self.masked))


@dataclass(frozen=True, eq=False)
class WithGiven:
    """Anchors are given, a row of each for every row of the batch, as they enter the layer.

    Attributes
    ----------
    anchors : tuple of tensors of shape (n, ...)
    masked : bool tensor of shape () or (n,), optional
    """

    anchors: tuple[Tensor, ...]
    masked: Tensor | None = None

    def __call__(self, site: Site, x: Tensor) -> Tensor:
        """Map each row together with its own anchors."""
        return site.wide(site.encode(x, self.anchors, self.masked))


@dataclass(frozen=True, eq=False)
class AnchorShare:
    """What k anchors contribute to the map of an anchored layer, whatever the input.

    Attributes
    ----------
    part : tensor of shape (n_readings * k, ...)
        W_R R + W_Δ(S - R), bias included; behind the k with anchors shown those with anchors hidden,
        W_Δ(S - R), if they are read so, too.
    shift : tensor of shape (1, ...)
        S, near the anchors: inputs far from zero would otherwise lose their digits in W_Δ X - W_Δ R.
    n_readings : int
        How many rows of `part` an anchor has.
    """

    part: Tensor
    shift: Tensor
    n_readings: int = 1

    def __len__(self) -> int:
        return self.part.shape[0] // self.n_readings


@dataclass(frozen=True, eq=False)
class WithEvery:
    """Every row meets every anchor, by W[R; X - R] = {W_R R + W_Δ(S - R)} + W_Δ(X - S), for any shift S.

    Attributes
    ----------
    share : AnchorShare
        What the anchors contribute to the map.
    repeated : bool
        Whether x comes as many times over as `share.part` has rows; otherwise its part is computed once.
    """

    share: AnchorShare
    repeated: bool

    def __call__(self, site: Site, x: Tensor) -> Tensor:
        """Return the map of shape (n_readings * k * n, ...), reading by reading, anchor by anchor."""
        input_part = site.narrow(x - self.share.shift)
        if self.repeated:
            input_part = input_part.unflatten(0, (self.share.part.shape[0], -1))
        return (input_part + self.share.part[:, None]).flatten(0, 1)


class Reached(Exception):
    """The layer was reached; carries the tensor that entered it."""

    def __init__(self, tensor: Tensor) -> None:
        super().__init__()
        self.tensor = tensor


class StopHere:
    """Ends the pass at the layer, for those who want to know what enters it."""

    def __call__(self, site: Site, x: Tensor) -> NoReturn:
        """Raise `Reached`."""
        raise Reached(x)


def derangement(n: int, n_sources: int, device: torch.device, copies: int = 1) -> tuple[Tensor, ...]:
    """Pair every row with other rows: a random cycle through all of them, followed 1, 2, ... steps.

    Sorting random keys, unlike `randperm`, can be captured in a CUDA graph.

    Parameters
    ----------
    n : int
    n_sources : int
        Anchors in a tuple; below n, so that no row meets itself.
    device : torch.device
    copies : int, default=1
        How many times over the batch comes; a random order pairs them differently anyway.

    Returns
    -------
    sources : tuple of `n_sources` int tensors of shape (n,)
    """
    order = torch.rand(n, device=device).argsort()
    return tuple(
        torch.empty_like(order).scatter(0, order, order.roll(step)) for step in range(1, n_sources + 1)
    )


def reversal(n: int, n_sources: int, device: torch.device, copies: int = 1) -> tuple[Tensor, ...]:
    """Pair every row with the one in its place from the end, the paper's choice; then with those next to it.

    Every copy of a batch is paired within itself and goes on where the one before it stopped, so that copies
    of a row meet different anchors. A row or two of each copy may meet themselves, as the middle one of an
    odd batch does.
    """
    n_rows = n // copies
    rows = torch.arange(n_rows - 1, -1, -1, device=device)
    return tuple(
        torch.cat([copy * n_rows + rows.roll(copy * n_sources + step) for copy in range(copies)])
        for step in range(n_sources)
    )


IN_BATCH = {"derangement": derangement, "reverse": reversal}
"""Pairings within a batch, by name."""


def get_train_anchors(train_anchors: str | AnchorPrior | Tensor) -> str | AnchorPrior:
    """Return the name of a pairing within the batch, or a prior."""
    if isinstance(train_anchors, str) and train_anchors in IN_BATCH:
        return train_anchors
    try:
        prior = get_prior(train_anchors)
    except ValueError as error:
        raise ValueError(f"train_anchors must be one of {sorted(IN_BATCH)}, or a prior: {error}") from None
    if isinstance(prior, BalancedPrior):
        raise ValueError(
            "train_anchors='balanced' needs labels, which a network is not given in training: "
            "balance the batches, or give prior='balanced' to set_anchors."
        )
    return prior
