"""Steps of gradient descent that are recorded once and replayed on a GPU."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from deltauq.nn.training.loader import Batch

WARMUP_STEPS = 3


class AnchorMonitor:
    """Notices whether an anchored network, or its wrapper, is ever called in training without anchors.

    It then draws some itself, which a replayed step could not repeat.
    """

    def __init__(self, module: nn.Module) -> None:
        self.drawn = False
        module.register_forward_pre_hook(self._see, with_kwargs=True)

    def _see(self, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self.drawn = self.drawn or (module.training and kwargs.get("anchors") is None)


class GraphedStep:
    """A step that is recorded as a CUDA graph after a few plain steps, and replayed from then on."""

    def __init__(self, step: Callable[[Batch], Tensor], monitor: AnchorMonitor | None) -> None:
        self.step, self.monitor = step, monitor
        self.n_steps = 0
        self.graph: torch.cuda.CUDAGraph | None = None
        self.stream = torch.cuda.Stream()

    def __call__(self, batch: Batch) -> Tensor:
        """Run one step on a batch and return its loss."""
        if self.n_steps < WARMUP_STEPS:
            # Allocations and lazy initialisation have to be over before anything is recorded.
            self.n_steps += 1
            self.stream.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(self.stream):
                loss = self.step(batch)
            torch.cuda.current_stream().wait_stream(self.stream)
            return loss
        if self.monitor is not None and self.monitor.drawn:
            return self.step(batch)
        if self.graph is None:
            anchors = None if batch.anchors is None else batch.anchors.clone()
            self.batch = replace(
                batch, x=batch.x.clone(), y=batch.y.clone(), anchors=anchors, masked=batch.masked.clone()
            )
            self.graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(self.graph):
                self.loss = self.step(self.batch)
        for static, new in zip(_tensors(self.batch), _tensors(batch), strict=True):
            static.copy_(new)
        self.graph.replay()
        return self.loss


def _tensors(batch: Batch) -> list[Tensor]:
    tensors = [batch.x, batch.y, batch.masked]
    return tensors if batch.anchors is None else [*tensors, batch.anchors]
