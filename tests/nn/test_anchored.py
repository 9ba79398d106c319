"""Training of anchored networks: the anchors of an input, and the options."""

import copy

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from deltauq.core import AnchorPrior, Anchors, SetPrior, get_encoding
from deltauq.nn import Anchored
from tests.nn.helpers import TARGETS, labelled, pair_by_pair, training_tuples


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


@pytest.mark.parametrize("target", TARGETS)
def test_same_seed_same_training(mlp, target):
    def train():
        torch.manual_seed(3)
        net = Anchored(copy.deepcopy(mlp), mask=0.2, target=target)
        optimizer = torch.optim.SGD(net.parameters(), 0.1)
        x = torch.randn(32, 5)
        for _ in range(5):
            optimizer.zero_grad()
            F.mse_loss(net(x, x[:, :2]), x[:, :2]).backward()
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


# -- labelled anchors ----------------------------------------------------------------------------------------

ONE_ANCHOR = ["difference", "full", "identity"]


@pytest.mark.parametrize("encoding", ONE_ANCHOR)
@pytest.mark.parametrize(
    "y",
    [torch.randn(8), torch.randn(8, 1), torch.randn(8, 3), torch.randint(200, 255, (8,), dtype=torch.uint8)],
    ids=["vector", "column", "several", "bytes"],
)
def test_labelled_training_is_the_formula(encoding, y):
    n_out = y[0].numel()
    network = nn.Sequential(nn.Linear(5, 16), nn.Tanh(), nn.Linear(16, n_out))
    net = Anchored(network, n_anchors=3, target="difference", encoding=encoding, train_anchors="reverse")
    x = torch.randn(8, 5)
    outputs = net(x, y)

    wide, last = net.anchored_layer.wide, network[2]
    anchors, anchor_targets = x.flip(0), y.flip(0).float().reshape(8, n_out)
    g, swapped = (
        F.linear(
            F.linear(get_encoding(encoding).encode(row, anchor), wide.weight, wide.bias).tanh(),
            last.weight,
            last.bias,
        )
        for row, anchor in ((x, anchors), (anchors, x))
    )
    torch.testing.assert_close(outputs, anchor_targets + 0.5 * (g - swapped))
    F.mse_loss(outputs, torch.randn(8, n_out)).backward()
    assert net.anchored_layer.wide.weight.grad.abs().min() > 0
    assert torch.equal(net.anchors, x[:3]) and torch.equal(net.anchor_targets, y[:3].float())


@pytest.mark.parametrize("encoding", ONE_ANCHOR)
def test_labelled_prediction_at_an_anchor_is_its_target(conv_net, images, encoding):
    net = Anchored(conv_net, n_anchors=1, target="difference", encoding=encoding, mask=0.5)
    y = 100.0 + torch.randn(12, 4)
    own = torch.arange(12)[None]
    for masked in (torch.tensor(False), torch.arange(12) % 2 == 0):
        # Dropout draws other units for either direction.
        outputs = net.eval()(images, y, anchors=own, masked=masked)
        torch.testing.assert_close(outputs, y, rtol=1e-6, atol=0)
    for k in range(3):
        net.set_anchors(images[k : k + 1], y[k : k + 1])
        torch.testing.assert_close(net(images[k : k + 1]), y[k : k + 1], rtol=1e-6, atol=0)


def test_labelled_correction_changes_sign_with_the_exchange(conv_net, images):
    net = Anchored(conv_net.eval(), target="difference")
    y, rows = torch.randn(12, 4), torch.arange(12).roll(1)
    forward = net(images, y, anchors=rows[None]) - y[rows]
    backward = net(images[rows], y[rows], anchors=rows.argsort()[None]) - y
    torch.testing.assert_close(backward, -forward)
    assert forward.abs().min() > 1e-4


def test_labelled_anchors_may_be_passed_with_their_targets(mlp):
    net = Anchored(mlp, target="difference")
    x, y, rows = torch.randn(6, 5), torch.randn(6, 2), torch.tensor([[5, 4, 3, 2, 1, 0]])
    expected = labelled(net, x, x.flip(0), y.flip(0))
    torch.testing.assert_close(net(x, y, anchors=rows), expected)
    torch.testing.assert_close(net(x, anchors=x[rows], anchor_targets=y[rows]), expected)
    # Given targets are those of the anchors, whatever y is.
    torch.testing.assert_close(net(x, y, anchors=rows, anchor_targets=y[rows] + 1.0), expected + 1.0)
    assert net.anchors.numel() == 0


@pytest.mark.parametrize("output", ["(n,)", "(n, 1)"])
@pytest.mark.parametrize("column", [False, True])
def test_labelled_evaluation_is_the_mean_over_stored_anchors(output, column):
    network = nn.Sequential(nn.Linear(5, 9), nn.ReLU(), nn.Linear(9, 1), nn.Flatten(int(output == "(n, 1)")))
    net = Anchored(network, n_anchors=4, target="difference")
    x, y = torch.randn(7, 5), torch.randn(7, 1) if column else torch.randn(7)
    net(x, y)
    assert torch.equal(net.anchor_targets, y[:4])
    expected = pair_by_pair(net, x)
    torch.testing.assert_close(net.eval()(x), expected.mean(0))
    torch.testing.assert_close(net(x, y), expected.mean(0))  # y is ignored
    torch.testing.assert_close(net.posterior(x).var, expected.var(0, correction=0))


def test_labelled_batch_of_one_is_paired_with_stored_anchors(mlp):
    net, x, y = Anchored(mlp, n_anchors=3, target="difference"), torch.randn(8, 5), torch.randn(8, 2)
    torch.testing.assert_close(net(x[:1], y[:1]), y[:1])  # nothing stored yet: itself
    net.set_anchors(x[4:5], y[4:5])
    torch.testing.assert_close(net(x[:1], y[:1]), labelled(net, x[:1], x[4:5], y[4:5]))
    net.train_anchors = "reverse"
    torch.testing.assert_close(net(x[:2], y[:2]), labelled(net, x[:2], x[[1, 0]], y[[1, 0]]))


@pytest.mark.parametrize("dtype", [torch.float64, torch.int64])
def test_labelled_training_anchors_of_a_prior(mlp, dtype):
    given, own = torch.full((3, 5), 2.0, dtype=torch.float64), torch.full((3, 2), 7).to(dtype)
    net = Anchored(mlp, target="difference", train_anchors=Anchors(given, own))
    x, y = torch.randn(6, 5), torch.randn(6, 2)
    expected = labelled(net, x, torch.full((6, 5), 2.0), torch.full((6, 2), 7.0))
    torch.testing.assert_close(net(x, y), expected)
    net.train_anchors = SetPrior(Anchors(x[:1], y[:1]))
    torch.testing.assert_close(net(x, y), labelled(net, x, x[:1].expand(6, 5), y[:1].expand(6, 2)))


@pytest.mark.parametrize("mask_rows", [False, True])
def test_labelled_anchors_are_masked_in_both_directions(mlp, mask_rows):
    net = Anchored(mlp, target="difference", mask=0.5, mask_rows=mask_rows, train_anchors="reverse")
    x, y, seen = torch.randn(8, 5), torch.randn(8, 2), set()
    for _ in range(20):
        outputs = net(x, y)
        seen |= set(net.masked.flatten().tolist())
        expected = labelled(net, x, x.flip(0), y.flip(0), masked=net.masked)
        torch.testing.assert_close(outputs, expected)
    assert seen == {False, True}


def test_labelled_training_with_batch_norm_learns_from_both_directions(conv_net, images):
    twin = copy.deepcopy(conv_net).train()
    net = Anchored(conv_net, target="difference", train_anchors="reverse", init="pretrained")
    net(images, torch.randn(12, 4))
    # A pretrained layer does not depend on the anchor: the norm sees the rows, and the rows as anchors.
    twin(torch.cat([images, images.flip(0)]))
    torch.testing.assert_close(net.module.norm.running_var, twin.norm.running_var)


def test_targets_keep_their_precision_under_autocast(mlp):
    x, y = torch.randn(6, 5), 1000.0 + torch.randn(6, 2)
    net = Anchored(mlp, n_anchors=3, target="difference")
    own = torch.arange(6)[None]
    with torch.autocast("cpu", torch.bfloat16):
        torch.testing.assert_close(net(x, y, anchors=own), y)
        net(x, y)
        low = net.eval()(x)
    assert (low - net(x)).abs().max() < 0.1
    assert (net.posterior(x, autocast=torch.bfloat16).mean - net(x)).abs().max() < 0.1


def test_half_precision_of_labelled_networks(mlp):
    net = Anchored(mlp.to(torch.bfloat16), n_anchors=3, target="difference")
    x, y = torch.randn(6, 5).bfloat16(), torch.randn(6, 2).bfloat16()
    outputs = net(x, y)
    assert outputs.dtype == torch.bfloat16
    F.mse_loss(outputs, y).backward()
    assert net.eval()(x).dtype == torch.bfloat16 and net.posterior(x).mean.dtype == torch.float32


def test_labelled_training_learns_what_it_predicts(mlp):
    x = torch.randn(256, 5)
    y = torch.stack([x[:, 0] * x[:, 1], x[:, 2].sin()], dim=1) + 50.0
    net = Anchored(mlp, n_anchors=20, target="difference")
    optimizer = torch.optim.Adam(net.parameters(), 1e-2)
    for _ in range(300):
        optimizer.zero_grad()
        F.mse_loss(net(x, y), y).backward()
        optimizer.step()
    net.set_anchors(x, y)
    assert F.mse_loss(net.eval()(x), y) < 0.2 * y.var(0).mean()


class Unlabelled(AnchorPrior):
    """A prior that forgets the targets."""

    def draw(self, rows, n, rng, *, labels=None, weights=None):
        return Anchors(rows.X[:1].expand(n, *rows.X.shape[1:]))


def test_a_prior_without_targets_raises(mlp):
    x, y = torch.randn(6, 5), torch.randn(6, 2)
    net = Anchored(mlp, n_anchors=3, target="difference", train_anchors=Unlabelled())
    net.set_anchors(x, y)
    before = net.anchors.clone()
    for call in (lambda: net(x, y), lambda: net.set_anchors(x, y, prior=Unlabelled())):
        with pytest.raises(ValueError, match=r"Unlabelled\(\) drew anchors without targets"):
            call()
    assert torch.equal(net.anchors, before)
    for prior in ("normal", SetPrior(x)):
        with pytest.raises(ValueError, match=r"targets.*use target='value'"):
            net.set_anchors(x, y, prior=prior)


def test_labelled_averages_of_weights(mlp):
    net, x, y = Anchored(mlp, n_anchors=4, target="difference"), torch.randn(8, 5), torch.randn(8, 2)
    net(x, y)
    average = torch.optim.swa_utils.AveragedModel(net)
    for _ in range(3):
        net(x.roll(1, 0), y.roll(1, 0))
        average.update_parameters(net)
    torch.testing.assert_close(average.module.posterior(x).mean, net.posterior(x).mean)
