"""Many networks at once are the same networks one after the other."""

import copy
from dataclasses import replace

import pytest
import torch
from torch import nn

from deltauq.nn import MLP, Anchored
from deltauq.nn.engine import fit
from deltauq.nn.recipe import Recipe
from deltauq.nn.vectorised import fit_many

RECIPE = Recipe(epochs=4, batch_size=16, lr=1e-2, weight_decay=1e-3)


def make_nets(anchored, n=3):
    nets = []
    for seed in range(n):
        torch.manual_seed(seed)
        net = MLP(3, hidden=(8, 8)).double()
        nets.append(Anchored(net, 5) if anchored else net)
    return nets


@pytest.mark.parametrize("optimizer", ["adam", "sgd"])
@pytest.mark.parametrize("anchored", [False, True])
def test_together_is_one_after_the_other(anchored, optimizer):
    x = torch.randn(40, 3, dtype=torch.float64)
    y = x[:, :1] * x[:, 1:2]
    recipe = replace(RECIPE, optimizer=optimizer, schedule="linear")
    together = make_nets(anchored)
    alone = copy.deepcopy(together)
    losses = fit_many(together, x, y, recipe)
    histories = [fit(net, x, y, replace(recipe, seed=k)) for k, net in enumerate(alone)]
    for one, other in zip(together, alone, strict=True):
        for p, q in zip(one.parameters(), other.parameters(), strict=True):
            torch.testing.assert_close(p, q, rtol=1e-9, atol=1e-11)
    mean = sum(history.losses[-1] for history in histories) / 3
    assert losses[-1] == pytest.approx(mean)


def test_each_may_have_its_own_rows():
    x = torch.randn(60, 3, dtype=torch.float64)
    y = x[:, :1] ** 2
    rows = torch.stack([torch.randperm(60)[:40] for _ in range(3)])
    together = make_nets(True)
    alone = copy.deepcopy(together)
    fit_many(together, x, y, RECIPE, rows=rows, seeds=[5, 6, 7])
    for k, net in enumerate(alone):
        fit(net, x[rows[k]], y[rows[k]], replace(RECIPE, seed=5 + k))
        for p, q in zip(together[k].parameters(), net.parameters(), strict=True):
            torch.testing.assert_close(p, q, rtol=1e-9, atol=1e-11)
        assert any(torch.equal(row, together[k].anchors[0]) for row in x[rows[k]])


def test_dropout_differs_between_the_networks():
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(2, 50), nn.Dropout(0.5), nn.Linear(50, 1)).double()
    nets = [copy.deepcopy(net) for _ in range(2)]
    fit_many(nets, torch.randn(30, 2).double(), torch.zeros(30, 1).double(), RECIPE, seeds=[0, 0])
    assert not torch.equal(nets[0][0].weight, nets[1][0].weight)


def test_what_cannot_be_stacked_is_refused():
    x, y = torch.randn(10, 3), torch.zeros(10, 1)
    with pytest.raises(ValueError, match="batch norm"):
        fit_many([nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Linear(4, 1))], x, y, RECIPE)
    with pytest.raises(ValueError, match="2 networks need as many seeds"):
        fit_many([MLP(3), MLP(3)], x, y, RECIPE, seeds=[1])
    with pytest.raises(ValueError, match="from the batch"):
        fit_many([Anchored(MLP(3), mask=0.5)], x, y, RECIPE)
