"""Many networks at once are the same networks one after the other."""

import copy
from dataclasses import replace

import pytest
import torch
from torch import nn

from deltauq.nn import MLP, Anchored
from deltauq.nn.training import NotStackableError, Recipe, fit, fit_many
from tests.nn.helpers import TARGETS

RECIPE = Recipe(epochs=4, batch_size=16, lr=1e-2, weight_decay=1e-3)


def make_nets(target, n=3, **options):
    """Return networks, anchored if there is a target."""
    nets = []
    for seed in range(n):
        torch.manual_seed(seed)
        net = MLP(3, hidden=(8, 8)).double()
        nets.append(Anchored(net, 5, target=target, **options) if target else net)
    return nets


@pytest.mark.parametrize("optimizer", ["adam", "sgd"])
@pytest.mark.parametrize(
    ("target", "options"),
    [
        (None, {}),
        ("value", {}),
        ("difference", {}),
        ("difference", {"encoding": "full", "train_anchors": "reverse"}),
    ],
)
def test_training_together_equals_one_by_one(target, options, optimizer):
    x = torch.randn(40, 3, dtype=torch.float64)
    y = x[:, :1] * x[:, 1:2]
    recipe = replace(RECIPE, optimizer=optimizer, schedule="linear")
    together = make_nets(target, **options)
    alone = copy.deepcopy(together)
    losses = fit_many(together, x, y, recipe)
    histories = [fit(net, x, y, replace(recipe, seed=k)) for k, net in enumerate(alone)]
    for one, other in zip(together, alone, strict=True):
        for p, q in zip(one.parameters(), other.parameters(), strict=True):
            torch.testing.assert_close(p, q, rtol=1e-9, atol=1e-11)
        if target:
            assert torch.equal(one.anchors, other.anchors)
            assert torch.equal(one.anchor_targets, other.anchor_targets)
    mean = sum(history.losses[-1] for history in histories) / 3
    assert losses[-1] == pytest.approx(mean)


@pytest.mark.parametrize("target", TARGETS)
def test_each_network_may_have_its_own_rows(target):
    x = torch.randn(60, 3, dtype=torch.float64)
    y = x[:, :1] ** 2
    rows = torch.stack([torch.randperm(60)[:40] for _ in range(3)])
    together = make_nets(target)
    alone = copy.deepcopy(together)
    fit_many(together, x, y, RECIPE, rows=rows, seeds=[5, 6, 7])
    for k, net in enumerate(alone):
        fit(net, x[rows[k]], y[rows[k]], replace(RECIPE, seed=5 + k))
        for p, q in zip(together[k].parameters(), net.parameters(), strict=True):
            torch.testing.assert_close(p, q, rtol=1e-9, atol=1e-11)
        assert torch.equal(together[k].anchors, net.anchors)
        assert torch.equal(together[k].anchor_targets, net.anchor_targets)


def test_dropout_differs_between_the_networks():
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(2, 50), nn.Dropout(0.5), nn.Linear(50, 1)).double()
    nets = [copy.deepcopy(net) for _ in range(2)]
    fit_many(nets, torch.randn(30, 2).double(), torch.zeros(30, 1).double(), RECIPE, seeds=[0, 0])
    assert not torch.equal(nets[0][0].weight, nets[1][0].weight)


def test_networks_that_cannot_be_stacked_raise():
    x, y = torch.randn(10, 3), torch.zeros(10, 1)
    with pytest.raises(ValueError, match="batch norm"):
        fit_many([nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Linear(4, 1))], x, y, RECIPE)
    with pytest.raises(ValueError, match="2 networks need as many seeds"):
        fit_many([MLP(3), MLP(3)], x, y, RECIPE, seeds=[1])
    with pytest.raises(ValueError, match="from the batch"):
        fit_many([Anchored(MLP(3), mask=0.5)], x, y, RECIPE)
    with pytest.raises(NotStackableError, match="unmasked"):
        fit_many([Anchored(MLP(3))], x, y, replace(RECIPE, mask=0.5))
    with pytest.raises(NotStackableError, match="from the batch"):
        fit_many([Anchored(MLP(3), train_anchors="data")], x, y, RECIPE)
    with pytest.raises(NotStackableError, match="running statistics"):
        fit_many(
            [nn.Sequential(nn.Linear(3, 1), nn.InstanceNorm1d(1, track_running_stats=True))], x, y, RECIPE
        )
    with pytest.raises(NotStackableError, match="cannot be trained together"):
        fit_many([MLP(3), MLP(3, hidden=(4,))], x, y, RECIPE)
    with pytest.raises(ValueError, match="too small for 1 other row"):
        fit_many([Anchored(MLP(3))], x, y, replace(RECIPE, batch_size=1))
    with pytest.raises(TypeError, match="x must be a tensor"):
        fit_many([MLP(3)], x.numpy(), y, RECIPE)


def test_targets_that_would_be_broadcast_raise():
    with pytest.raises(ValueError, match=r"targets of shape \(10,\) do not fit outputs of shape \(10, 1\)"):
        fit_many([MLP(3), MLP(3)], torch.randn(10, 3), torch.zeros(10), RECIPE)


class Counting(nn.Module):
    """A layer that counts its passes in a buffer."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(3, 1)
        self.register_buffer("passes", torch.zeros(()))

    def forward(self, x):
        self.passes += 1
        return self.linear(x)


def test_buffers_are_copied_back():
    nets = [Counting() for _ in range(2)]
    nets[1].passes += 5
    fit_many(nets, torch.randn(40, 3), torch.zeros(40, 1), RECIPE)
    assert [float(net.passes) for net in nets] == [12.0, 17.0]
