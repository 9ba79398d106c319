"""Anchors of a network: rows of the batch in training, and stored inputs in evaluation."""

from __future__ import annotations

import warnings
from operator import index
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from deltauq.core import AnchorPrior, get_prior


def derangement(n: int, per_tuple: int, device: torch.device, copies: int = 1) -> tuple[Tensor, ...]:
    """Pair each of n rows with `per_tuple` others: those 1, 2, ... steps further in a random cycle.

    Return one int tensor of shape (n,) for each anchor of a tuple.
    """
    # Sorting random keys, unlike `randperm`, can be captured in a CUDA graph.
    order = torch.rand(n, device=device).argsort()
    return tuple(
        torch.empty_like(order).scatter(0, order, order.roll(step)) for step in range(1, per_tuple + 1)
    )


def reversal(n: int, per_tuple: int, device: torch.device, copies: int = 1) -> tuple[Tensor, ...]:
    """Pair the batch with itself in reverse order, as in the paper; other anchors are the rows next to it.

    Every copy of a batch is paired within itself and continues where the one before it stopped, so that
    copies of a row get different anchors. One or two rows of each copy may be their own anchors.
    """
    n_rows = n // copies
    rows = torch.arange(n_rows - 1, -1, -1, device=device)
    return tuple(
        torch.cat([copy * n_rows + rows.roll(copy * per_tuple + step) for copy in range(copies)])
        for step in range(per_tuple)
    )


PAIRINGS = {"derangement": derangement, "reverse": reversal}


def get_train_anchors(train_anchors: str | AnchorPrior | Tensor) -> str | AnchorPrior:
    """Return the name of a pairing, or a prior."""
    if isinstance(train_anchors, str) and train_anchors in PAIRINGS:
        return train_anchors
    try:
        return get_prior(train_anchors)
    except ValueError as error:
        raise ValueError(f"train_anchors must be one of {sorted(PAIRINGS)}, or a prior: {error}") from None


class AnchorStore(nn.Module):
    """A module that stores `n_anchors` inputs as anchors in its state_dict, on the device of `like`."""

    anchors: Tensor

    def __init__(self, n_anchors: int, like: Tensor) -> None:
        super().__init__()
        self.n_anchors = index(n_anchors)
        if n_anchors < 1:
            raise ValueError(f"n_anchors must be at least 1, got {n_anchors}.")
        self.register_buffer("anchors", torch.empty(0, device=like.device, dtype=like.dtype))
        self.anchors_are_set = False
        """Whether the anchors were set by `set_anchors`, so that training does not replace them."""
        self._warned = False

    def set_anchors(
        self,
        inputs: Tensor | None,
        n_anchors: int | None = None,
        *,
        prior: str | AnchorPrior = "data",
        labels: Any = None,
        random_state: int = 0,
    ) -> None:
        """Store anchors. Training does not replace them.

        Parameters
        ----------
        inputs : tensor of shape (n, ...) or None
            Inputs to draw anchors from. None removes the stored ones, and training stores its last inputs.
        n_anchors : int, optional
            Number of anchors; by default K, or all inputs where there are fewer.
        prior : str or AnchorPrior, default="data"
            Distribution of anchors; "data" draws rows of `inputs`.
        labels : array of shape (n,), optional
            Classes of the inputs, for ``prior="balanced"``.
        random_state : int, default=0
            Random seed.
        """
        if inputs is None:
            self.anchors, self.anchors_are_set = self.anchors.new_empty(0), False
            return
        self._check_rows(inputs, "anchors")
        if n_anchors is None:
            n_anchors = min(self.n_anchors, inputs.shape[0])
        if n_anchors < 1:
            raise ValueError(f"n_anchors must be at least 1, got {n_anchors}.")
        rng = np.random.default_rng(random_state)
        anchors = get_prior(prior).draw(inputs.detach(), n_anchors, rng, labels=labels)
        self.anchors, self.anchors_are_set = _copy(torch.as_tensor(anchors).to(inputs)), True

    def get_extra_state(self) -> Tensor:
        """Return, for the state_dict, whether the anchors were set."""
        return torch.tensor(self.anchors_are_set)

    def set_extra_state(self, state: Tensor) -> None:
        """Load whether the anchors were set."""
        self.anchors_are_set = bool(state)

    def _load_from_state_dict(self, state_dict: Any, prefix: str, *args: Any) -> None:
        # Stored anchors may have any number and shape.
        stored = state_dict.get(f"{prefix}anchors")
        if stored is not None and (stored.shape, stored.dtype) != (self.anchors.shape, self.anchors.dtype):
            self.anchors = _copy(torch.empty_like(stored, device=self.anchors.device))
        # States of plain modules, and of averages over them, do not have it.
        state_dict.setdefault(f"{prefix}_extra_state", torch.tensor(False))
        super()._load_from_state_dict(state_dict, prefix, *args)

    @torch.no_grad()
    def _store_last(self, x: Tensor) -> None:
        """Store the last inputs as anchors, in place; repeated while there are too few."""
        if self.anchors_are_set:
            return
        n, k = x.shape[0], self.n_anchors
        if self.anchors.shape != (k, *x.shape[1:]) or self.anchors.dtype != x.dtype:
            self.anchors = _copy(x.detach()[torch.arange(k, device=x.device) % n])
        elif n >= k:
            self.anchors.copy_(x[-k:])
        else:
            self.anchors.copy_(torch.cat([self.anchors[n:], x]))

    def _stored(self, x: Tensor) -> Tensor:
        """Return the stored anchors, checked against the inputs; one of zeros where there are none."""
        if self.anchors.numel() == 0:
            if not self._warned:
                warnings.warn(
                    "the network has no anchors yet and takes one of zeros: train it or call set_anchors.",
                    stacklevel=3,
                )
                self._warned = True
            return torch.zeros_like(x[:1])
        if self.anchors.shape[1:] != x.shape[1:]:
            raise ValueError(
                f"anchors have shape {tuple(self.anchors.shape[1:])} each, "
                f"but the inputs have {tuple(x.shape[1:])}."
            )
        return self.anchors.to(x.dtype)

    def _check_rows(self, x: Tensor, name: str) -> None:
        """Raise an error unless x is a batch on this module's device."""
        if not isinstance(x, Tensor):
            raise TypeError(f"{name} must be a tensor, got {type(x).__name__}.")
        if x.ndim < 2 or x.shape[0] == 0:
            raise ValueError(
                f"{name} must have at least one row and one additional axis, got shape {tuple(x.shape)}."
            )
        if x.device != self.anchors.device:
            raise ValueError(
                f"the {name} are on {x.device}, but the network is on {self.anchors.device}: "
                "move one to the other."
            )


def _copy(anchors: Tensor) -> Tensor:
    """Return a copy that is not an inference tensor: those cannot be trained with."""
    with torch.inference_mode(False):
        return anchors.clone()
