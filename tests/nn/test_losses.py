"""Losses of anchored networks."""

import copy
import math

import pytest
import torch
from torch.nn import functional as F

from deltauq.nn import Anchored, anchored_loss, log_squared_error
from tests.nn.helpers import TARGETS, training_tuples, value_network


@pytest.mark.parametrize("target", TARGETS)
def test_loss_without_options_is_the_criterion(mlp, target):
    net, x, y = Anchored(mlp, target=target), torch.randn(16, 5), torch.randn(16, 2)
    torch.manual_seed(1)
    plain = F.mse_loss(net(x, y), y)
    torch.manual_seed(1)
    assert torch.equal(anchored_loss(net, F.mse_loss, x, y), plain)


@pytest.mark.parametrize("target", TARGETS)
def test_loss_with_several_anchors_adds_the_variance(mlp, target):
    net, x, y = Anchored(mlp, target=target), torch.randn(16, 5), torch.randn(16, 2)
    torch.manual_seed(1)
    outputs = net(torch.cat([x] * 3), torch.cat([y] * 3))
    spread = outputs.reshape(3, 16, 2).var(0, unbiased=False).mean()
    expected = F.mse_loss(outputs, torch.cat([y] * 3)) + 0.7 * spread
    torch.manual_seed(1)
    loss = anchored_loss(net, F.mse_loss, x, y, anchors_per_step=3, consistency=0.7)
    torch.testing.assert_close(loss, expected)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("step", [1, -1, 3])
def test_copies_of_a_batch_are_paired_with_rows_further_away(mlp, step, target):
    net, x, y = Anchored(mlp, target=target), torch.randn(16, 5), torch.randn(16, 2)
    here = torch.arange(16)
    outputs = torch.cat([net(x, y, anchors=here.roll(k * step)[None]) for k in (1, 2, 3)])
    spread = outputs.reshape(3, 16, 2).var(0, unbiased=False).mean()
    expected = F.mse_loss(outputs, torch.cat([y] * 3)) + 0.7 * spread
    options = {"anchors_per_step": 3, "consistency": 0.7, "anchors": here.roll(step)[None]}
    torch.testing.assert_close(anchored_loss(net, F.mse_loss, x, y, **options), expected)
    # Nothing is drawn: the same again.
    assert torch.equal(*(anchored_loss(net, F.mse_loss, x, y, **options) for _ in range(2)))


def test_consistency_training_narrows_the_spread(mlp):
    x = torch.randn(64, 5)
    y = x[:, :2] * x[:, 2:4]

    def spread_after(consistency):
        torch.manual_seed(0)
        net = Anchored(copy.deepcopy(mlp))
        optimizer = torch.optim.Adam(net.parameters(), 1e-2)
        for _ in range(100):
            optimizer.zero_grad()
            anchored_loss(net, F.mse_loss, x, y, anchors_per_step=4, consistency=consistency).backward()
            optimizer.step()
        return float(net.posterior(torch.randn(50, 5)).var.mean())

    assert spread_after(5.0) < 0.5 * spread_after(0.0)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("how", ["reverse", "derangement"])
def test_copies_of_a_batch_get_different_anchors(mlp, how, target):
    net, x, y = Anchored(mlp, train_anchors=how, target=target), torch.randn(16, 5), torch.randn(16, 2)
    seen = []

    def criterion(outputs, targets):
        seen.append(outputs.detach())
        return F.mse_loss(outputs, targets)

    anchored_loss(net, criterion, x, y, anchors_per_step=4)
    assert seen[0].reshape(4, 16, 2).var(0).min() > 0
    # What follows is a plain batch again, the paper's.
    net = value_network(net)
    net.train_anchors = "reverse"
    assert torch.equal(training_tuples(net, x)[:, :5], x.flip(0))


def test_log_squared_error_is_a_likelihood():
    outputs, targets = torch.randn(2, 50, 3).unbind()
    best = torch.distributions.Normal(outputs, (outputs - targets).square().mean().sqrt())
    surprise = -best.log_prob(targets).mean() - 0.5 * math.log(2 * math.pi) - 0.5
    torch.testing.assert_close(log_squared_error(outputs, targets), surprise)
    assert torch.isfinite(log_squared_error(targets, targets))
    with pytest.raises(ValueError, match=r"targets of shape \(50,\) do not fit"):
        log_squared_error(outputs, targets[:, 0])
