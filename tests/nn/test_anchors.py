"""Pairings within a batch, and stored anchors."""

import copy

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn
from torch.nn import functional as F

from deltauq.nn import Anchored, anchored_loss
from deltauq.nn.anchors import derangement, reversal
from tests.nn.helpers import TARGETS


def test_training_stores_its_last_inputs(mlp):
    net, x = Anchored(mlp, n_anchors=4), torch.arange(100.0).reshape(20, 5)
    assert net.anchors.numel() == 0
    net(x[:3])
    assert torch.equal(net.anchors, x[[0, 1, 2, 0]])
    net(x[3:6])
    assert torch.equal(net.anchors, x[[0, 3, 4, 5]])
    net(x[6:16])
    assert torch.equal(net.anchors, x[12:16])
    net.set_anchors(x[:4])
    net(x[16:])
    assert sorted(net.anchors.tolist()) == x[:4].tolist()
    net.set_anchors(None)
    net(x[16:])
    assert torch.equal(net.anchors, x[16:])


@pytest.mark.parametrize("n_rows", [3, 9])
def test_stored_anchors_keep_their_own_targets(mlp, n_rows):
    """Also where the shape of the inputs or the dtype of the targets changes from batch to batch."""
    pool = nn.Sequential(nn.Conv1d(1, 4, 3), nn.AdaptiveAvgPool1d(1), nn.Flatten())
    net = Anchored(pool, n_anchors=5, target="difference")
    for length, dtype in [(6, None), (6, None), (8, None), (8, torch.float64), (6, torch.float64), (6, None)]:
        x = torch.randn(n_rows, 1, length)
        net(x, (x.mean((1, 2))[:, None] + torch.arange(4)).to(dtype))
        expected = net.anchors.mean((1, 2))[:, None] + torch.arange(4)
        torch.testing.assert_close(net.anchor_targets.float(), expected)
        assert len(net.anchors) == 5


@pytest.mark.parametrize("prior", ["data", "balanced", "kmeans"])
def test_set_anchors_with_their_targets(mlp, prior):
    net, x = Anchored(mlp, n_anchors=4, target="difference"), torch.randn(20, 5)
    y = x @ torch.randn(5, 2)
    net.set_anchors(x, y, prior=prior, labels=[0, 1] * 10)
    # Centres of clusters have the mean target, and the target is linear.
    torch.testing.assert_close(net.anchor_targets, net.anchors @ torch.linalg.lstsq(x, y).solution)
    net.set_anchors(x, y.requires_grad_(), n_anchors=7)
    assert net.anchor_targets.shape == (7, 2) and not net.anchor_targets.requires_grad
    before = net.anchor_targets
    net(x, y)
    assert net.anchor_targets is before
    net.set_anchors(None)
    assert net.anchors.numel() == net.anchor_targets.numel() == 0
    net(x, y)
    assert torch.equal(net.anchor_targets, y[:4])


def test_targets_are_not_stored_for_the_value(mlp):
    net, x, y = Anchored(mlp, n_anchors=4), torch.randn(9, 5), torch.randn(9, 2)
    torch.manual_seed(1)
    plain = net(x)
    torch.manual_seed(1)
    assert torch.equal(net(x, y), plain)
    net.set_anchors(x, y)
    assert net.anchor_targets.numel() == 0


def test_set_anchors_of_many_and_few_inputs(mlp):
    net, x = Anchored(mlp, n_anchors=4), torch.randn(20, 5)
    net.set_anchors(x)
    assert len({tuple(a) for a in net.anchors.tolist()} & {tuple(a) for a in x.tolist()}) == 4
    drawn = net.anchors
    net.set_anchors(x)
    assert torch.equal(net.anchors, drawn)
    net.set_anchors(x, random_state=1)
    assert not torch.equal(net.anchors, drawn)
    net.set_anchors(x[:3])
    assert len(net.anchors) == 3
    net.set_anchors(x, n_anchors=20)
    assert len(net.anchors) == 20
    labels = [0] * 18 + [1] * 2
    net.set_anchors(x, n_anchors=4, prior="balanced", labels=labels)
    assert sum(a in x[18:].tolist() for a in net.anchors.tolist()) == 2


def test_without_anchors_zeros_are_used_with_one_warning(mlp):
    net, x = Anchored(mlp).eval(), torch.randn(7, 5)
    with pytest.warns(UserWarning, match="no anchors yet"):
        outputs = net(x)
    assert torch.equal(outputs, net(x))
    torch.testing.assert_close(outputs, net(x, anchors=torch.zeros_like(x)[None]))


@pytest.mark.parametrize("target", TARGETS)
def test_copies_of_a_batch_are_stored_once(mlp, target):
    net = Anchored(mlp, n_anchors=12, target=target)
    batches, targets = torch.randn(3, 4, 5), torch.randn(3, 4, 2)
    for x, y in zip(batches, targets, strict=True):
        anchored_loss(net, F.mse_loss, x, y, anchors_per_step=6)
    assert torch.equal(net.anchors, batches.flatten(0, 1))
    if target == "difference":
        assert torch.equal(net.anchor_targets, targets.flatten(0, 1))


@pytest.mark.parametrize("target", TARGETS)
def test_training_with_anchors_of_inference_mode(mlp, target):
    x, y = torch.randn(8, 5), torch.randn(8, 2)
    for store in ("set", "remember", "load"):
        net = Anchored(copy.deepcopy(mlp), n_anchors=4, target=target)
        state = {**net.state_dict(), "anchors": torch.randn(4, 5), "anchor_targets": torch.randn(4, 2)}
        with torch.inference_mode():
            if store == "set":
                net.set_anchors(x, y)
            elif store == "remember":
                net(x, y)
            else:
                net.load_state_dict(state)
        assert not net.anchors.is_inference() and not net.anchor_targets.is_inference()
        net.eval()(x).sum().backward()
        net.train()(x[:1], y[:1]).sum().backward()
        assert net.anchored_layer.wide.weight.grad is not None


@given(st.integers(2, 50), st.integers(1, 3), st.integers(0, 1000))
def test_derangement_is_a_permutation_without_fixed_points(n, per_tuple, seed):
    torch.manual_seed(seed)
    sources = derangement(n, per_tuple, torch.device("cpu"))
    for rows in sources:
        assert sorted(rows.tolist()) == list(range(n))
    if n > per_tuple:
        together = torch.stack([torch.arange(n), *sources])
        assert all(len(set(column.tolist())) == per_tuple + 1 for column in together.T)


def test_reversal_reverses_the_batch():
    x = torch.randn(6, 2)
    assert torch.equal(x[reversal(6, 1, x.device)[0]], x.flip(0))


@given(st.integers(2, 12), st.integers(1, 5), st.integers(1, 2))
def test_reversal_gives_copies_of_a_row_different_anchors(n, copies, per_tuple):
    sources = reversal(n * copies, per_tuple, torch.device("cpu"), copies)
    anchors = torch.cat([rows.reshape(copies, n) % n for rows in sources])
    for column in anchors.T.tolist():
        assert len(set(column)) == min(n, copies * per_tuple)
    for rows in sources:
        own = rows.reshape(copies, n) // n
        assert torch.equal(own, torch.arange(copies)[:, None].expand(copies, n))


def test_balanced_anchors_are_no_training_anchors(mlp):
    with pytest.raises(ValueError, match="balanced anchors need labels"):
        Anchored(mlp, train_anchors="balanced")(torch.randn(4, 5))
