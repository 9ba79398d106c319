"""Training of anchored networks: the anchors of an input, and the options."""

import copy

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from deltauq.core import SetPrior
from deltauq.nn import Anchored
from tests.nn.helpers import training_tuples


def test_batch_anchors_are_other_rows_each_time(mlp):
    net, x = Anchored(mlp), torch.randn(20, 5)
    first, second = training_tuples(net, x), training_tuples(net, x)
    anchors, deltas = first.split(5, dim=1)
    assert sorted(anchors.tolist()) == sorted(x.tolist())
    assert (deltas.abs().sum(1) > 0).all()
    torch.testing.assert_close(anchors + deltas, x)
    assert not torch.equal(first, second)


def test_reverse_and_priors_as_training_anchors(mlp):
    x = torch.randn(20, 5)
    anchors = training_tuples(Anchored(copy.deepcopy(mlp), train_anchors="reverse"), x)[:, :5]
    assert torch.equal(anchors, x.flip(0))
    grid = torch.full((3, 5), 7.0)
    for given_anchors in (grid, SetPrior(grid)):
        anchors = training_tuples(Anchored(copy.deepcopy(mlp), train_anchors=given_anchors), x)[:, :5]
        assert (anchors == 7.0).all()
    normal = training_tuples(Anchored(copy.deepcopy(mlp), train_anchors="normal"), 5.0 + x)[:, :5]
    assert not set(normal.flatten().tolist()) & set((5.0 + x).flatten().tolist())
    assert 4.0 < normal.mean() < 6.0


def test_evaluation_is_the_mean_over_stored_anchors(mlp):
    net, x = Anchored(mlp, n_anchors=4), torch.randn(7, 5)
    net(x)
    net.eval()
    passes = []
    for k in range(4):
        passes.append(net(x, anchors=net.anchors[k].expand_as(x)[None]))
    torch.testing.assert_close(net(x), torch.stack(passes).mean(0))


def test_a_batch_of_one_is_paired_with_stored_anchors(mlp):
    net, x = Anchored(mlp, n_anchors=3), torch.randn(8, 5)
    tuples = training_tuples(net, x[:1])
    assert torch.equal(tuples[:, :5], x[:1])  # nothing stored yet: itself
    net.set_anchors(x[4:7])
    tuples = training_tuples(net, x[:1])
    assert tuples[0, :5].tolist() in x[4:7].tolist()
    F.mse_loss(net(x[:1]), torch.zeros(1, 2)).backward()


def test_anchors_may_be_passed_as_rows_or_inputs(mlp):
    net, x = Anchored(mlp, n_anchors=4), torch.randn(6, 5)
    rows = torch.tensor([[5, 4, 3, 2, 1, 0]])
    by_rows, by_values = net(x, anchors=rows), net(x, anchors=x[rows])
    torch.testing.assert_close(by_rows, by_values)
    assert net.anchors.numel() == 0
    tuples = torch.cat([torch.zeros_like(x), x - x.flip(0)], dim=1)
    expected = net.module[2](net.module[1](net.anchored_layer.map_tuples(tuples)))
    torch.testing.assert_close(net.eval()(x, anchors=rows, masked=torch.tensor(True)), expected)
    with pytest.raises(ValueError, match=r"Difference\(\) takes 1 anchor"):
        net(x, anchors=rows.expand(2, 6))


def test_whole_batches_are_masked_at_the_given_rate(mlp):
    net, x = Anchored(mlp, mask=0.25), torch.randn(16, 5)
    masked = []
    for _ in range(400):
        zeros = training_tuples(net, x)[:, :5] == 0
        assert zeros.all() or not zeros.any()
        assert bool(net.masked) == bool(zeros.all())
        masked.append(bool(net.masked))
    assert 0.18 < sum(masked) / 400 < 0.32
    net.eval()
    assert torch.equal(net(x), net(x))


def test_single_rows_are_masked_at_the_given_rate(mlp):
    net, x = Anchored(mlp, mask=0.25, mask_rows=True), torch.randn(16, 5)
    masked = []
    for _ in range(100):
        zeros = training_tuples(net, x)[:, :5] == 0
        assert torch.equal(zeros, net.masked[:, None].expand(16, 5))
        masked.append(net.masked)
    share = torch.stack(masked).float().mean(0)
    assert 0.2 < float(share.mean()) < 0.3 and 0.05 < float(share.min()) < float(share.max()) < 0.45


def test_same_seed_same_training(mlp):
    def train():
        torch.manual_seed(3)
        net = Anchored(copy.deepcopy(mlp), mask=0.2)
        optimizer = torch.optim.SGD(net.parameters(), 0.1)
        x = torch.randn(32, 5)
        for _ in range(5):
            optimizer.zero_grad()
            F.mse_loss(net(x), x[:, :2]).backward()
            optimizer.step()
        return net.posterior(x).var

    assert torch.equal(train(), train())


def test_batch_of_equal_rows_uses_stored_anchors(mlp):
    net = Anchored(mlp, n_anchors=4)
    net.set_anchors(torch.full((4, 5), 3.0))
    with net.repeated_batches(3):
        assert (training_tuples(net, torch.randn(1, 5).expand(3, 5))[:, :5] == 3.0).all()


def test_norms_learn_from_inputs_alone():
    network = nn.Sequential(nn.BatchNorm1d(5), nn.Linear(5, 2))
    plain = copy.deepcopy(network)
    net = Anchored(network, train_anchors=SetPrior(torch.full((3, 5), 100.0)))
    x = torch.randn(20, 5)
    net(x)
    plain[0](x)
    for name, expected in plain[0].state_dict().items():
        torch.testing.assert_close(network[0].state_dict()[name], expected)
    assert network[0].training
    net(x, anchors=torch.full((1, 20, 5), 100.0))
    plain[0](x)
    torch.testing.assert_close(network[0].running_mean, plain[0].running_mean)


def test_priors_are_moved_and_cast_to_the_inputs(mlp):
    net = Anchored(mlp, train_anchors=SetPrior(torch.full((3, 5), 2.0, dtype=torch.float64)))
    assert (training_tuples(net, torch.randn(6, 5))[:, :5] == 2.0).all()
    net.set_anchors(torch.randn(6, 5), n_anchors=3, prior=SetPrior(torch.ones(3, 5, dtype=torch.float64)))
    assert net.anchors.dtype == torch.float32


def test_passed_anchors_may_be_tokens():
    network = nn.Sequential(nn.Embedding(50, 8), nn.Flatten(), nn.Linear(24, 2))
    net = Anchored(network, at="2", n_anchors=4)
    with torch.no_grad():
        net.anchored_layer.wide.weight[:, :24] *= 2.0
    tokens, rows = torch.randint(50, (6, 3)), torch.tensor([[5, 4, 3, 2, 1, 0]])
    torch.testing.assert_close(net(tokens, anchors=rows), net(tokens, anchors=tokens[rows]))
    for given_anchors in (rows[:, :4], rows.float(), rows.bool()):
        with pytest.raises(
            ValueError, match=r"anchors must be rows of the batch, integers of shape \(e, 6\)"
        ):
            net(tokens, anchors=given_anchors)


def test_weight_averaging_after_the_first_batch(mlp):
    net, x = Anchored(mlp, n_anchors=4, mask=0.5), torch.randn(8, 5)
    net(x)
    average = torch.optim.swa_utils.AveragedModel(net, use_buffers=True)
    for _ in range(3):
        net(x)
        average.update_parameters(net)
    torch.testing.assert_close(average.module.posterior(x).var, net.posterior(x).var)
