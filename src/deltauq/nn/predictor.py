"""`AnchorPredictor`: an anchored network and its anchors as one plain function of the input."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from deltauq.core.posterior import LINKS
from deltauq.nn._inference import evaluating, under_anchors
from deltauq.nn._inputs import Inputs, check_one_input
from deltauq.nn._pairing import AnchorShare
from deltauq.nn.anchored import Anchored


class AnchorPredictor(nn.Module):
    """Mean and standard deviation over the stored anchors, in one pass without choices: fit to be traced.

    This is what ``torch.export.export`` takes in place of the network, and what ONNX files are made of.
    What the anchors contribute is computed once, here. All pairs of inputs and anchors are in memory at once.

    Parameters
    ----------
    net : Anchored
        Of one input, and with at least two anchors; it is switched to evaluation.
    link : {"sigmoid", "softmax"}, optional
        Return the moments behind this link instead.
    """

    part: Tensor
    shift: Tensor

    def __init__(self, net: Anchored, link: str | None = None) -> None:
        super().__init__()
        if link is not None and link not in LINKS:
            raise ValueError(f"link must be one of {sorted(LINKS)}, got {link!r}.")
        check_one_input(net, "an exported file")
        self.net, self.link = net.eval(), link
        example = net.anchors[:2]
        # Refuses what has no anchors or only one, and sees whether the right layer is anchored.
        net.posterior(example, link=link)
        with torch.no_grad(), evaluating(net):
            (share,) = net._shares(Inputs(example), net.anchors)(len(net.anchors))
            self._repeated = net._plan(Inputs(example), net.anchors).repeated
        self._n_readings = share.n_readings
        self.register_buffer("part", share.part)
        self.register_buffer("shift", share.shift)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return mean and standard deviation.

        Parameters
        ----------
        x : tensor of shape (n, ...)

        Returns
        -------
        mean, std : tensors of shape (n, ...)
        """
        share = AnchorShare(self.part, self.shift, self._n_readings)
        outputs = under_anchors(self.net._run(Inputs(x), share, self._repeated), share)
        if self.link is not None:
            outputs = LINKS[self.link](outputs)
        mean = outputs.mean(0)
        return mean, (outputs - mean).square().mean(0).sqrt()
