"""Temperature scaling: a plain network whose logits are divided by a number fitted on held-out rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch
from torch import Tensor

from deltauq.baselines.network import (
    MakeNetwork,
    SampledBaseline,
    Training,
    outputs_of,
    shuffled_rows,
)
from deltauq.calibration import TemperatureScaler
from deltauq.nn.training import as_inputs


class TemperatureNetwork(SampledBaseline):
    """A classifier with a fitted temperature and a variance of zero.

    Parameters
    ----------
    make_network : callable
        Returns a new network.
    held_out : float, default=0.1
        Fraction of the training rows that the temperature is fitted on, instead of the network.

    Attributes
    ----------
    network_ : Module
    scaler_ : TemperatureScaler
    """

    def __init__(self, make_network: MakeNetwork, held_out: float = 0.1) -> None:
        super().__init__(make_network)
        if not 0.0 < held_out < 1.0:
            raise ValueError(f"held_out must lie between 0 and 1, got {held_out}.")
        self.held_out = held_out

    def _fit(self, x: Tensor, y: Tensor, training: Training) -> None:
        if y.is_floating_point() or y.ndim != 1:
            raise ValueError("temperature scaling is for classification: y must be integers of shape (n,).")
        n_held_out = max(1, round(self.held_out * len(x)))
        if n_held_out >= len(x):
            raise ValueError(f"held_out={self.held_out} leaves none of {len(x)} rows to train on.")
        seed = training.recipe.seed
        shuffled = shuffled_rows(len(x), seed)
        held_out, training_rows = shuffled[:n_held_out], shuffled[n_held_out:]
        net = self.new_network(seed)
        training.run(net, x[training_rows], y[training_rows])
        self.network_ = net.eval()
        inputs = as_inputs(x[held_out], training.normalize, channels_last=False)
        with torch.no_grad():
            self.scaler_ = TemperatureScaler().fit(outputs_of(net, inputs, self._device), y[held_out])

    def functions(self) -> Iterator[Callable[[Tensor], Tensor]]:
        """Yield the scaled network."""
        net = self._fitted().eval()
        yield lambda x: self.scaler_.transform(net(x))
