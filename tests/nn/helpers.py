"""What several tests of anchored networks use."""

import copy

import torch

from deltauq.core import ValueTarget
from deltauq.nn.inputs import Inputs

TARGETS = ["value", "difference"]


def training_tuples(net, x):
    """Return the tuples the stem saw in one training pass."""
    tuples = []
    layer = net.anchored_layer
    original = layer.map_tuples
    layer.map_tuples = lambda t: (tuples.append(t.detach()), original(t))[1]
    net.train()(x)
    del layer.map_tuples
    return tuples[-1]


def value_network(net):
    """Return a view of the same layers whose outputs are those of the module: g(R, X - R)."""
    net = copy.copy(net)
    net.target = ValueTarget()
    return net


def labelled(net, x, anchors, anchor_targets, *args, **kwargs):
    """Return y_R + (g(R, X - R) - g(X, R - X)) / 2, a row and its anchor at a time."""
    g = value_network(net)
    correction = 0.5 * (
        g(x, None, *args, anchors=anchors[None], **kwargs)
        - g(anchors, None, *args, anchors=x[None], **kwargs)
    )
    return anchor_targets.reshape(correction.shape) + correction


def pair_by_pair(net, x, *args, **kwargs):
    """Return every output, of shape (K, n, ...), one input, one anchor and one mask at a time."""
    net = copy.deepcopy(net).eval()
    masks = [torch.tensor(masked) for masked in ((False, True) if net.average_masked else (False,))]
    blocks = net.encoding.tuples(net.anchors)

    def output(one, k, masked):
        anchors = torch.stack([block[k][None] for block in blocks])
        if net.target.needs_labels:
            own = net.anchor_targets[k : k + 1]
            return labelled(net, one.x, anchors[0], own, *one.args, masked=masked, **one.kwargs)
        return net(one.x, None, *one.args, anchors=anchors, masked=masked, **one.kwargs)

    rows = Inputs(x, args, kwargs).split(1)
    outputs = [
        torch.cat([torch.stack([output(one, k, masked) for masked in masks]).mean(0) for one in rows])
        for k in range(len(net.anchors))
    ]
    return torch.stack(outputs).detach()


def random_targets(net, x, *args, **kwargs):
    """Return targets in the shape of the outputs for x."""
    g = value_network(copy.deepcopy(net)).eval()
    with torch.no_grad():
        outputs = g(x, None, *args, anchors=torch.stack([x] * g.encoding.anchors_per_tuple), **kwargs)
    return torch.randn_like(outputs)
