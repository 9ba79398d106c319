"""Anchors of a network: rows of the batch in training, and stored inputs in evaluation."""

from __future__ import annotations

import warnings
from operator import index
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from deltauq.core import AnchorPrior, Anchors, Target, get_prior
from deltauq.core.encoding import as_float


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


def get_train_anchors(train_anchors: str | AnchorPrior | Anchors | Tensor) -> str | AnchorPrior:
    """Return the name of a pairing, or a prior."""
    if isinstance(train_anchors, str) and train_anchors in PAIRINGS:
        return train_anchors
    try:
        return get_prior(train_anchors)
    except ValueError as error:
        raise ValueError(f"train_anchors must be one of {sorted(PAIRINGS)}, or a prior: {error}") from None


def draw(
    prior: AnchorPrior, rows: Anchors, n: int, rng: np.random.Generator, labels: Any = None
) -> tuple[Tensor, Tensor | None]:
    """Return n anchors, of the device and precision of the rows, and their targets if the rows have some."""
    drawn = prior.draw(rows, n, rng, labels=labels)
    if rows.y is None:
        return torch.as_tensor(drawn.X).to(rows.X), None
    if drawn.y is None:
        raise ValueError(f'{prior} drew anchors without targets, which target="difference" needs.')
    return torch.as_tensor(drawn.X).to(rows.X), torch.as_tensor(drawn.y).to(rows.y)


class AnchorStore(nn.Module):
    """A module that stores `n_anchors` inputs as anchors in its state_dict, on the device of `like`.

    With them, it stores their targets if `target` needs those.
    """

    anchors: Tensor
    anchor_targets: Tensor

    def __init__(self, n_anchors: int, target: Target, like: Tensor) -> None:
        super().__init__()
        self.target = target
        self.n_anchors = index(n_anchors)
        if n_anchors < 1:
            raise ValueError(f"n_anchors must be at least 1, got {n_anchors}.")
        for name in ("anchors", "anchor_targets"):
            self.register_buffer(name, torch.empty(0, device=like.device, dtype=like.dtype))
        self.anchors_are_set = False
        """Whether the anchors were set by `set_anchors`, so that training does not replace them."""
        self._warned = False

    def set_anchors(
        self,
        x: Tensor | None,
        y: Tensor | None = None,
        *,
        n_anchors: int | None = None,
        prior: str | AnchorPrior = "data",
        labels: Any = None,
        random_state: int = 0,
    ) -> None:
        """Store anchors. Training does not replace them.

        Parameters
        ----------
        x : tensor of shape (n, ...) or None
            Inputs to draw anchors from. None removes the stored ones, and training stores its last inputs.
        y : tensor of shape (n, ...), optional
            Targets of the inputs. Needed with ``target="difference"``, and ignored otherwise.
        n_anchors : int, optional
            Number of anchors; by default K, or all inputs where there are fewer.
        prior : str or AnchorPrior, default="data"
            Distribution of anchors; "data" draws rows of `x`.
        labels : array of shape (n,), optional
            Classes of the inputs, for ``prior="balanced"``.
        random_state : int, default=0
            Random seed.
        """
        if x is None:
            self.anchors, self.anchor_targets = self.anchors.new_empty(0), self.anchor_targets.new_empty(0)
            self.anchors_are_set = False
            return
        self._check_rows(x, "anchors")
        if self.target.needs_labels:
            y = self._checked_targets(
                y, len(x), "labelled anchors need their targets: call set_anchors(x, y)."
            )
        if n_anchors is None:
            n_anchors = min(self.n_anchors, x.shape[0])
        if n_anchors < 1:
            raise ValueError(f"n_anchors must be at least 1, got {n_anchors}.")
        rows = Anchors(x.detach(), y if self.target.needs_labels else None)
        rng = np.random.default_rng(random_state)
        anchors, targets = draw(get_prior(prior), rows, n_anchors, rng, labels)
        self.anchors, self.anchors_are_set = _copy(anchors), True
        if targets is not None:
            self.anchor_targets = _copy(targets)

    def get_extra_state(self) -> Tensor:
        """Return, for the state_dict, whether the anchors were set."""
        return torch.tensor(self.anchors_are_set)

    def set_extra_state(self, state: Tensor) -> None:
        """Load whether the anchors were set."""
        self.anchors_are_set = bool(state)

    def _load_from_state_dict(self, state_dict: Any, prefix: str, *args: Any) -> None:
        # Stored anchors may have any number and shape.
        for name in ("anchors", "anchor_targets"):
            stored, own = state_dict.get(f"{prefix}{name}"), getattr(self, name)
            if stored is not None and (stored.shape, stored.dtype) != (own.shape, own.dtype):
                setattr(self, name, _copy(torch.empty_like(stored, device=own.device)))
        # States of plain modules, and of averages over them, do not have it.
        state_dict.setdefault(f"{prefix}_extra_state", torch.tensor(False))
        if not self.target.needs_labels:
            # Nor do states of versions without labelled anchors have targets of anchors.
            state_dict.setdefault(f"{prefix}anchor_targets", self.anchor_targets)
        super()._load_from_state_dict(state_dict, prefix, *args)

    @torch.no_grad()
    def _store_last(self, x: Tensor, y: Tensor | None) -> None:
        """Store the last inputs as anchors, and their targets, in place; repeated while there are too few."""
        if self.anchors_are_set:
            return
        n, k = x.shape[0], self.n_anchors
        rows = {"anchors": x} if y is None else {"anchors": x, "anchor_targets": y}
        fits = all(
            (getattr(self, name).shape, getattr(self, name).dtype) == ((k, *new.shape[1:]), new.dtype)
            for name, new in rows.items()
        )
        # Both or neither is replaced, so that every anchor keeps its own target.
        for name, new in rows.items():
            stored = getattr(self, name)
            if fits:
                stored.copy_(new[-k:] if n >= k else torch.cat([stored[n:], new]))
            else:
                setattr(self, name, _copy(new.detach()[torch.arange(k, device=new.device) % n]))

    def _stored(self, x: Tensor) -> tuple[Tensor, Tensor | None]:
        """Return the stored anchors, checked against the inputs, and their targets if they are needed.

        Where there are none, one of zeros, unless it would need a target.
        """
        if self.anchors.numel() == 0:
            if self.target.needs_labels:
                raise ValueError("there are no anchors yet: train the network or call set_anchors(x, y).")
            if not self._warned:
                warnings.warn(
                    "the network has no anchors yet and takes one of zeros: train it or call set_anchors.",
                    stacklevel=3,
                )
                self._warned = True
            return torch.zeros_like(x[:1]), None
        if self.anchors.shape[1:] != x.shape[1:]:
            raise ValueError(
                f"anchors have shape {tuple(self.anchors.shape[1:])} each, "
                f"but the inputs have {tuple(x.shape[1:])}."
            )
        anchors = self.anchors.to(x.dtype)
        if not self.target.needs_labels:
            return anchors, None
        if self.anchor_targets.shape[:1] != anchors.shape[:1]:
            raise ValueError(
                f"{anchors.shape[0]} anchors are stored, with targets of shape "
                f"{tuple(self.anchor_targets.shape)}: call set_anchors(x, y)."
            )
        return anchors, self.anchor_targets

    def _checked_targets(self, y: Any, n: int, missing: str) -> Tensor:
        """Return the targets of n rows as floats; `missing` is the error if there are none."""
        if y is None:
            raise ValueError(missing)
        if not isinstance(y, Tensor) or y.shape[:1] != (n,):
            kind = f"shape {tuple(y.shape)}" if isinstance(y, Tensor) else type(y).__name__
            raise ValueError(f"y must be a tensor with one target for each of {n} inputs, got {kind}.")
        floats: Tensor = as_float(y.detach())
        return floats.to(self.anchors.device)

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
