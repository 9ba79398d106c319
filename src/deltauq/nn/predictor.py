"""`AnchorPredictor`: an anchored network and its anchors as one plain function of the input."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from deltauq.core.posterior import LINKS
from deltauq.nn.anchored import Anchored
from deltauq.nn.inference import evaluation_mode, under_anchors
from deltauq.nn.inputs import Inputs
from deltauq.nn.layer import AnchorContribution


class AnchorPredictor(nn.Module):
    """Mean and standard deviation over the stored anchors, in one pass that can be traced.

    ``torch.export.export`` takes it in place of the network, and ONNX files are made of it. What the anchors
    contribute is computed once, here. All pairs of inputs and anchors are in memory at once.

    Parameters
    ----------
    net : Anchored
        A network of one input with at least two anchors. It is set to evaluation mode.
    link : {"sigmoid", "softmax"}, optional
        Return mean and variance of ``link(output)`` instead.
    """

    value: Tensor
    shift: Tensor
    weights: Tensor
    anchors: Tensor | None
    targets: Tensor | None

    def __init__(self, net: Anchored, link: str | None = None) -> None:
        super().__init__()
        self.net, self.link = net.eval(), link
        example = net.anchors[:2]
        # Raises an error for fewer than two anchors, and checks which layer is anchored.
        net.posterior(example, link=link)
        with torch.no_grad(), evaluation_mode(net):
            contribution = net.anchor_contribution(Inputs(example))
        self._repeated = contribution.repeated
        for name in ("value", "shift", "weights", "anchors", "targets"):
            self.register_buffer(name, getattr(contribution, name))

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return mean and standard deviation.

        Parameters
        ----------
        x : tensor of shape (n, ...)
            Inputs.

        Returns
        -------
        mean, std : tensors of shape (n, ...)
        """
        contribution = AnchorContribution(
            self.value, self.shift, self.weights, self.anchors, self.targets, self._repeated
        )
        outputs = under_anchors(self.net.outputs_under(Inputs(x), contribution), contribution)
        if self.link is not None:
            outputs = LINKS[self.link](outputs)
        mean = outputs.mean(0)
        return mean, (outputs - mean).square().mean(0).sqrt()
