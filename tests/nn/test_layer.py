"""Anchored layers: their tuples, and the map of all pairs of inputs and anchors."""

from dataclasses import replace

import pytest
import torch
from torch import nn

from deltauq.core import get_encoding
from deltauq.nn.layer import TupleAnchors
from deltauq.nn.wrapping import anchor_layer

ENCODINGS = ["difference", "full", "identity", "two-anchor"]
LAYERS = {
    "linear": (lambda: nn.Linear(4, 6), (4,)),
    "linear without bias, on tokens": (lambda: nn.Linear(4, 6, bias=False), (3, 4)),
    "conv1d, dilated": (lambda: nn.Conv1d(4, 6, 3, dilation=2, padding="same"), (4, 9)),
    "conv2d, strided and padded": (lambda: nn.Conv2d(4, 6, 3, stride=2, padding=1), (4, 7, 6)),
    "conv2d, in groups": (lambda: nn.Conv2d(4, 6, 3, groups=2), (4, 5, 5)),
    "conv2d, depthwise, circular": (
        lambda: nn.Conv2d(4, 4, 3, padding=1, groups=4, padding_mode="circular"),
        (4, 5, 5),
    ),
    "conv3d": (lambda: nn.Conv3d(4, 2, 2), (4, 3, 3, 3)),
}


def anchored(kind, encoding, init="random"):
    make, shape = LAYERS[kind]
    layer = make().double()
    wrapped, name = anchor_layer(layer, get_encoding(encoding), init=init)
    assert name == ""
    return layer, wrapped, shape


def call(layer, x, anchors):
    with layer.use_anchors(anchors):
        return layer(x)


@pytest.mark.parametrize("encoding", ENCODINGS)
@pytest.mark.parametrize("kind", LAYERS)
def test_factorised_map_equals_the_map_of_every_tuple(kind, encoding):
    _, wrapped, shape = anchored(kind, encoding)
    x, anchors = torch.randn(5, *shape).double(), torch.randn(3, *shape).double()
    contribution = wrapped.contribution(tuple(get_encoding(encoding).tuples(anchors)))
    once = call(wrapped, x, contribution)
    repeated = call(wrapped, torch.cat([x] * 3), replace(contribution, repeated=True))
    # The oracle: tuples by the core's own encoding, anchor by anchor.
    core, blocks = get_encoding(encoding), get_encoding(encoding).tuples(anchors)
    expected = torch.cat(
        [
            wrapped.map_tuples(core.encode(x, *(block[k] for block in blocks), axis=wrapped.axis))
            for k in range(3)
        ]
    )
    torch.testing.assert_close(once, expected, rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(repeated, expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("encoding", ["difference", "full", "identity"])
@pytest.mark.parametrize("kind", LAYERS)
def test_variants_are_the_tuples_and_the_swapped_ones_each_also_masked(kind, encoding):
    _, wrapped, shape = anchored(kind, encoding)
    x, anchors = 9.0 + torch.randn(5, *shape).double(), 9.0 + torch.randn(3, *shape).double()
    contribution = wrapped.contribution((anchors,), masked_too=True, swapped_too=True)
    assert contribution.n_variants == 4 and len(contribution) == 3
    outputs = call(wrapped, x, contribution).unflatten(0, (4, 3, 5))
    for k in range(3):
        anchor = anchors[k].expand_as(x)
        for masked in (0, 1):
            for swapped, (row, other) in enumerate([(x, anchor), (anchor, x)]):
                expected = wrapped.map_tuples(wrapped.tuples(row, (other,), torch.tensor(bool(masked))))
                actual = outputs[2 * swapped + masked, k]
                torch.testing.assert_close(actual, expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("kind", [kind for kind in LAYERS if "group" not in kind and "depth" not in kind])
def test_wide_map_is_the_plain_layer_on_wider_input(kind):
    layer, wrapped, shape = anchored(kind, "difference")
    config = {"in_features" if isinstance(layer, nn.Linear) else "in_channels": 8}
    wider = LAYERS[kind][0]().double()
    for name, value in config.items():
        setattr(wider, name, value)
    wider.weight, wider.bias = wrapped.wide.weight, wrapped.wide.bias
    x, r = torch.randn(5, *shape).double(), torch.randn(5, *shape).double()
    expected = wider(torch.cat([r, x - r], dim=wrapped.axis))
    torch.testing.assert_close(call(wrapped, x, TupleAnchors((r,))), expected)


@pytest.mark.parametrize("encoding", ENCODINGS)
@pytest.mark.parametrize("kind", LAYERS)
def test_pretrained_layer_computes_what_it_computed(kind, encoding):
    layer, wrapped, shape = anchored(kind, encoding, "pretrained")
    x, anchors = torch.randn(4, *shape).double(), torch.randn(2, 4, *shape).double()
    given = TupleAnchors(tuple(anchors[: wrapped.encoding.anchors_per_tuple]))
    torch.testing.assert_close(call(wrapped, x, given), layer(x))


def test_new_weights_are_drawn_for_the_wider_fan_in():
    torch.manual_seed(0)
    _, wrapped, _ = anchored("conv2d, strided and padded", "difference")
    bound = (8 * 9) ** -0.5  # what nn.Conv2d draws from, uniformly
    assert 0.9 * bound < wrapped.weight.abs().max() <= bound


@pytest.mark.parametrize("encoding", ENCODINGS)
@pytest.mark.parametrize(
    ("layer", "shape"),
    [
        (nn.Linear(4, 3), (4,)),
        (nn.Linear(4, 3), (5, 4)),
        (nn.Sequential(nn.BatchNorm2d(4), nn.Conv2d(4, 3, 3)), (4, 6, 6)),
        (nn.Sequential(nn.GroupNorm(2, 4), nn.Flatten()), (4, 6)),
        (nn.Sequential(nn.LayerNorm(4), nn.GELU()), (5, 4)),
        (nn.TransformerEncoderLayer(4, 2, 8, batch_first=True, dropout=0.0), (5, 4)),
    ],
)
def test_projection_begins_as_the_identity(layer, shape, encoding):
    network = nn.Sequential(nn.Identity(), layer)
    _, name = anchor_layer(network, get_encoding(encoding), at="1")
    x = torch.randn(6, *shape)
    expected = layer.train()(x)
    rows = TupleAnchors((torch.tensor([3, 4, 5, 0, 1, 2]),) * get_encoding(encoding).anchors_per_tuple)
    with network.get_submodule(name).use_anchors(rows):
        torch.testing.assert_close(network(x), expected, rtol=1e-4, atol=1e-5)


def test_masked_anchors_are_zero_but_still_subtracted():
    _, wrapped, shape = anchored("linear", "difference")
    x, r = torch.randn(5, *shape).double(), torch.randn(5, *shape).double()
    tuples = wrapped.tuples(x, (r,), torch.tensor(True))
    torch.testing.assert_close(tuples, torch.cat([torch.zeros_like(r), x - r], dim=1))
    torch.testing.assert_close(wrapped.tuples(x, (r,), torch.tensor(False)), torch.cat([r, x - r], dim=1))


@pytest.mark.parametrize("layer", ["linear", "conv2d, strided and padded"])
def test_rows_may_be_masked_one_by_one(layer):
    _, wrapped, shape = anchored(layer, "two-anchor")
    x, *anchors = (torch.randn(5, *shape).double() for _ in range(3))
    mask = torch.tensor([True, False, False, True, False])
    tuples = wrapped.tuples(x, tuple(anchors), mask)
    for k in range(5):
        alone = wrapped.tuples(x[k : k + 1], tuple(r[k : k + 1] for r in anchors), mask[k])
        torch.testing.assert_close(tuples[k : k + 1], alone)
