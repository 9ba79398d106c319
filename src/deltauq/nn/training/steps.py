"""Steps of gradient descent: run one by one, or recorded once and replayed on a GPU."""

from __future__ import annotations

from typing import Any

import torch
from lightning_fabric import Fabric
from torch import Tensor, nn

from deltauq.nn.training.loader import Batch, Objective

WARMUP_STEPS = 3


class Step:
    """One step of gradient descent; returns the loss before it."""

    def __init__(self, fabric: Fabric, net: Any, optimizer: Any, objective: Objective) -> None:
        self.fabric, self.net, self.optimizer, self.objective = fabric, net, optimizer, objective

    def __call__(self, batch: Batch) -> Tensor:
        """Run one step on a batch and return its loss."""
        self.optimizer.zero_grad(set_to_none=True)
        loss = self.objective(self.net, batch)
        self.fabric.backward(loss)
        self.optimizer.step()
        return loss.detach()


class AnchorMonitor:
    """Notices whether an anchored network is ever called in training without anchors.

    It then draws some itself, which a replayed step could not repeat.

    Parameters
    ----------
    module : Module
        The network, or its wrapper.
    """

    def __init__(self, module: nn.Module) -> None:
        self.drawn = False
        module.register_forward_pre_hook(self._see, with_kwargs=True)

    def _see(self, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self.drawn = self.drawn or (module.training and kwargs.get("anchors") is None)


class GraphedStep:
    """A step that is recorded as a CUDA graph after a few plain steps, and replayed from then on."""

    def __init__(self, step: Step, monitor: AnchorMonitor | None) -> None:
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
            self._record(batch)
        for static, new in zip(_tensors(self.batch), _tensors(batch), strict=True):
            static.copy_(new)
        assert self.graph is not None
        self.graph.replay()
        return self.loss

    def _record(self, batch: Batch) -> None:
        anchors = None if batch.anchors is None else batch.anchors.clone()
        self.batch = Batch(batch.x.clone(), batch.y.clone(), anchors, batch.masked.clone())
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.loss = self.step(self.batch)


def _tensors(batch: Batch) -> list[Tensor]:
    tensors = [batch.x, batch.y, batch.masked]
    return tensors if batch.anchors is None else [*tensors, batch.anchors]
