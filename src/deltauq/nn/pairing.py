"""Which rows of a training batch are the anchors of which."""

from __future__ import annotations

import torch
from torch import Tensor

from deltauq.core import AnchorPrior, BalancedPrior, get_prior


def derangement(n: int, n_sources: int, device: torch.device, copies: int = 1) -> tuple[Tensor, ...]:
    """Pair each of n rows with `n_sources` others: those 1, 2, ... steps further in a random cycle.

    Return one int tensor of shape (n,) for each anchor of a tuple.
    """
    # Sorting random keys, unlike `randperm`, can be captured in a CUDA graph.
    order = torch.rand(n, device=device).argsort()
    return tuple(
        torch.empty_like(order).scatter(0, order, order.roll(step)) for step in range(1, n_sources + 1)
    )


def reversal(n: int, n_sources: int, device: torch.device, copies: int = 1) -> tuple[Tensor, ...]:
    """Pair the batch with itself in reverse order, as in the paper; further anchors are the rows next to it.

    Every copy of a batch is paired within itself and continues where the one before it stopped, so that
    copies of a row get different anchors. One or two rows of each copy may be their own anchors.
    """
    n_rows = n // copies
    rows = torch.arange(n_rows - 1, -1, -1, device=device)
    return tuple(
        torch.cat([copy * n_rows + rows.roll(copy * n_sources + step) for copy in range(copies)])
        for step in range(n_sources)
    )


PAIRINGS = {"derangement": derangement, "reverse": reversal}


def get_train_anchors(train_anchors: str | AnchorPrior | Tensor) -> str | AnchorPrior:
    """Return the name of a pairing, or a prior."""
    if isinstance(train_anchors, str) and train_anchors in PAIRINGS:
        return train_anchors
    try:
        prior = get_prior(train_anchors)
    except ValueError as error:
        raise ValueError(f"train_anchors must be one of {sorted(PAIRINGS)}, or a prior: {error}") from None
    if isinstance(prior, BalancedPrior):
        raise ValueError(
            "train_anchors='balanced' needs labels, which a network is not given in training: "
            "balance the batches, or give prior='balanced' to set_anchors."
        )
    return prior
