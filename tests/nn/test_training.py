"""What happens in train(): which anchors an input meets, which are kept, what the options do."""

import copy
import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn
from torch.nn import functional as F

from deltauq.core import SetPrior
from deltauq.nn import Anchored, anchored_loss, log_squared_error
from deltauq.nn.pairing import derangement, reversal


def tuples_seen(net, x):
    """Return the tuples the stem saw in one training pass."""
    seen = []
    layer = net.anchored_layer
    original = layer.map_tuples
    layer.map_tuples = lambda tuples: (seen.append(tuples.detach()), original(tuples))[1]
    net.train()(x)
    del layer.map_tuples
    return seen[-1]


@given(st.integers(2, 50), st.integers(1, 3), st.integers(0, 1000))
def test_derangement_is_a_permutation_without_fixed_points(n, n_sources, seed):
    torch.manual_seed(seed)
    sources = derangement(n, n_sources, torch.device("cpu"))
    for rows in sources:
        assert sorted(rows.tolist()) == list(range(n))
    if n > n_sources:
        together = torch.stack([torch.arange(n), *sources])
        assert all(len(set(column.tolist())) == n_sources + 1 for column in together.T)


def test_reversal_is_the_papers():
    x = torch.randn(6, 2)
    assert torch.equal(x[reversal(6, 1, x.device)[0]], x.flip(0))


def test_anchors_are_other_rows_of_the_batch_and_new_each_time(mlp):
    net, x = Anchored(mlp), torch.randn(20, 5)
    first, second = tuples_seen(net, x), tuples_seen(net, x)
    anchors, deltas = first.split(5, dim=1)
    assert sorted(anchors.tolist()) == sorted(x.tolist())
    assert (deltas.abs().sum(1) > 0).all()
    torch.testing.assert_close(anchors + deltas, x)
    assert not torch.equal(first, second)


def test_reverse_and_priors_as_training_anchors(mlp):
    x = torch.randn(20, 5)
    anchors = tuples_seen(Anchored(copy.deepcopy(mlp), train_anchors="reverse"), x)[:, :5]
    assert torch.equal(anchors, x.flip(0))
    grid = torch.full((3, 5), 7.0)
    for given_anchors in (grid, SetPrior(grid)):
        anchors = tuples_seen(Anchored(copy.deepcopy(mlp), train_anchors=given_anchors), x)[:, :5]
        assert (anchors == 7.0).all()
    normal = tuples_seen(Anchored(copy.deepcopy(mlp), train_anchors="normal"), 5.0 + x)[:, :5]
    assert not set(normal.flatten().tolist()) & set((5.0 + x).flatten().tolist())
    assert 4.0 < normal.mean() < 6.0


def test_reservoir_keeps_the_last_inputs_until_anchors_are_set(mlp):
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


def test_set_anchors_draws_from_more_and_takes_all_of_fewer(mlp):
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
    net.set_anchors(x, 20)
    assert len(net.anchors) == 20
    labels = [0] * 18 + [1] * 2
    net.set_anchors(x, 4, prior="balanced", labels=labels)
    assert sum(a in x[18:].tolist() for a in net.anchors.tolist()) == 2


def test_evaluation_is_the_mean_over_stored_anchors(mlp):
    net, x = Anchored(mlp, n_anchors=4), torch.randn(7, 5)
    net(x)
    net.eval()
    passes = []
    for k in range(4):
        passes.append(net(x, anchors=net.anchors[k].expand_as(x)[None]))
    torch.testing.assert_close(net(x), torch.stack(passes).mean(0))


def test_before_any_anchor_there_is_one_of_zeros_and_one_warning(mlp):
    net, x = Anchored(mlp).eval(), torch.randn(7, 5)
    with pytest.warns(UserWarning, match="no anchors yet"):
        outputs = net(x)
    assert torch.equal(outputs, net(x))
    torch.testing.assert_close(outputs, net(x, anchors=torch.zeros_like(x)[None]))


def test_a_batch_of_one_meets_stored_anchors(mlp):
    net, x = Anchored(mlp, n_anchors=3), torch.randn(8, 5)
    tuples = tuples_seen(net, x[:1])
    assert torch.equal(tuples[:, :5], x[:1])  # nothing stored yet: itself
    net.set_anchors(x[4:7])
    tuples = tuples_seen(net, x[:1])
    assert tuples[0, :5].tolist() in x[4:7].tolist()
    F.mse_loss(net(x[:1]), torch.zeros(1, 2)).backward()


def test_callers_may_pair_inputs_themselves(mlp):
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


def test_masking_takes_whole_batches_at_its_rate(mlp):
    net, x = Anchored(mlp, mask=0.25), torch.randn(16, 5)
    hidden = []
    for _ in range(400):
        zeros = tuples_seen(net, x)[:, :5] == 0
        assert zeros.all() or not zeros.any()
        assert bool(net.masked) == bool(zeros.all())
        hidden.append(bool(net.masked))
    assert 0.18 < sum(hidden) / 400 < 0.32
    net.eval()
    assert torch.equal(net(x), net(x))


def test_masking_takes_single_rows_at_its_rate(mlp):
    net, x = Anchored(mlp, mask=0.25, mask_rows=True), torch.randn(16, 5)
    hidden = []
    for _ in range(100):
        zeros = tuples_seen(net, x)[:, :5] == 0
        assert torch.equal(zeros, net.masked[:, None].expand(16, 5))
        hidden.append(net.masked)
    share = torch.stack(hidden).float().mean(0)
    assert 0.2 < float(share.mean()) < 0.3 and 0.05 < float(share.min()) < float(share.max()) < 0.45


def test_same_seed_same_training(mlp):
    def train():
        torch.manual_seed(3)
        net = Anchored(copy.deepcopy(mlp), mask=0.2)
        optimiser = torch.optim.SGD(net.parameters(), 0.1)
        x = torch.randn(32, 5)
        for _ in range(5):
            optimiser.zero_grad()
            F.mse_loss(net(x), x[:, :2]).backward()
            optimiser.step()
        return net.posterior(x).var

    assert torch.equal(train(), train())


def test_loss_without_options_is_the_criterion(mlp):
    net, x, y = Anchored(mlp), torch.randn(16, 5), torch.randn(16, 2)
    torch.manual_seed(1)
    plain = F.mse_loss(net(x), y)
    torch.manual_seed(1)
    assert torch.equal(anchored_loss(net, F.mse_loss, x, y), plain)


def test_loss_with_several_anchors_asks_for_consistency(mlp):
    net, x, y = Anchored(mlp), torch.randn(16, 5), torch.randn(16, 2)
    torch.manual_seed(1)
    outputs = net(torch.cat([x] * 3))
    spread = outputs.reshape(3, 16, 2).var(0, unbiased=False).mean()
    expected = F.mse_loss(outputs, torch.cat([y] * 3)) + 0.7 * spread
    torch.manual_seed(1)
    loss = anchored_loss(net, F.mse_loss, x, y, n_anchors=3, consistency=0.7)
    torch.testing.assert_close(loss, expected)


@pytest.mark.parametrize("step", [1, -1, 3])
def test_copies_of_a_batch_meet_rows_further_away(mlp, step):
    net, x, y = Anchored(mlp), torch.randn(16, 5), torch.randn(16, 2)
    here = torch.arange(16)
    outputs = torch.cat([net(x, anchors=here.roll(k * step)[None]) for k in (1, 2, 3)])
    spread = outputs.reshape(3, 16, 2).var(0, unbiased=False).mean()
    expected = F.mse_loss(outputs, torch.cat([y] * 3)) + 0.7 * spread
    words = {"n_anchors": 3, "consistency": 0.7, "anchors": here.roll(step)[None]}
    torch.testing.assert_close(anchored_loss(net, F.mse_loss, x, y, **words), expected)
    # Nothing is drawn: the same again.
    assert torch.equal(*(anchored_loss(net, F.mse_loss, x, y, **words) for _ in range(2)))


def test_uniform_target_for_masked_batches(mlp):
    net, x, y = Anchored(mlp, mask=0.5), torch.randn(16, 5), torch.randint(2, (16,))
    for seed in range(6):
        torch.manual_seed(seed)
        outputs = net(x)
        uniform = F.cross_entropy(outputs, torch.full_like(outputs, 0.5))
        expected = uniform if net.masked else F.cross_entropy(outputs, y)
        torch.manual_seed(seed)
        loss = anchored_loss(nn.Sequential(net), F.cross_entropy, x, y, masked_target="uniform")
        torch.testing.assert_close(loss, expected)


def test_consistency_training_narrows_the_spread(mlp):
    x = torch.randn(64, 5)
    y = x[:, :2] * x[:, 2:4]

    def spread_after(consistency):
        torch.manual_seed(0)
        net = Anchored(copy.deepcopy(mlp))
        optimiser = torch.optim.Adam(net.parameters(), 1e-2)
        for _ in range(100):
            optimiser.zero_grad()
            anchored_loss(net, F.mse_loss, x, y, n_anchors=4, consistency=consistency).backward()
            optimiser.step()
        return float(net.posterior(torch.randn(50, 5)).var.mean())

    assert spread_after(5.0) < 0.5 * spread_after(0.0)


@given(st.integers(2, 12), st.integers(1, 5), st.integers(1, 2))
def test_reversal_gives_copies_of_a_row_different_anchors(n, copies, n_sources):
    sources = reversal(n * copies, n_sources, torch.device("cpu"), copies)
    met = torch.cat([rows.reshape(copies, n) % n for rows in sources])
    for anchors in met.T.tolist():
        assert len(set(anchors)) == min(n, copies * n_sources)
    for rows in sources:
        own = rows.reshape(copies, n) // n
        assert torch.equal(own, torch.arange(copies)[:, None].expand(copies, n))


@pytest.mark.parametrize("how", ["reverse", "derangement"])
def test_several_anchors_a_step_are_several(mlp, how):
    net, x, y = Anchored(mlp, train_anchors=how), torch.randn(16, 5), torch.randn(16, 2)
    seen = []

    def criterion(outputs, targets):
        seen.append(outputs.detach())
        return F.mse_loss(outputs, targets)

    anchored_loss(net, criterion, x, y, n_anchors=4)
    assert seen[0].reshape(4, 16, 2).var(0).min() > 0
    # What follows is a plain batch again, the paper's.
    net.train_anchors = "reverse"
    assert torch.equal(tuples_seen(net, x)[:, :5], x.flip(0))


def test_copies_of_a_batch_are_remembered_once(mlp):
    net = Anchored(mlp, n_anchors=12)
    batches = torch.randn(3, 4, 5)
    for x in batches:
        anchored_loss(net, F.mse_loss, x, torch.randn(4, 2), n_anchors=6)
    assert torch.equal(net.anchors, batches.flatten(0, 1))


def test_a_single_row_with_several_anchors_a_step_meets_stored_ones(mlp):
    net = Anchored(mlp, n_anchors=4)
    net.set_anchors(torch.full((4, 5), 3.0))
    with net.repeated_batches(3):
        assert (tuples_seen(net, torch.randn(1, 5).expand(3, 5))[:, :5] == 3.0).all()


def test_normalisations_learn_from_inputs_alone():
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


def test_anchors_stored_in_inference_mode_can_be_trained_with(mlp):
    x = torch.randn(8, 5)
    for store in ("set", "remember", "load"):
        net = Anchored(copy.deepcopy(mlp), n_anchors=4)
        state = {**net.state_dict(), "anchors": torch.randn(4, 5)}
        with torch.inference_mode():
            if store == "set":
                net.set_anchors(x)
            elif store == "remember":
                net(x)
            else:
                net.load_state_dict(state)
        assert not net.anchors.is_inference()
        net.eval()(x).sum().backward()
        net.train()(x[:1]).sum().backward()
        assert net.anchored_layer.wide.weight.grad is not None


def test_priors_are_moved_and_cast_to_the_inputs(mlp):
    net = Anchored(mlp, train_anchors=SetPrior(torch.full((3, 5), 2.0, dtype=torch.float64)))
    assert (tuples_seen(net, torch.randn(6, 5))[:, :5] == 2.0).all()
    net.set_anchors(torch.randn(6, 5), 3, prior=SetPrior(torch.ones(3, 5, dtype=torch.float64)))
    assert net.anchors.dtype == torch.float32


def test_balanced_anchors_are_no_training_anchors(mlp):
    with pytest.raises(ValueError, match="train_anchors='balanced' needs labels"):
        Anchored(mlp, train_anchors="balanced")


def test_given_anchors_may_be_tokens():
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


def test_an_average_over_the_weights_is_built_after_the_first_batch(mlp):
    net, x = Anchored(mlp, n_anchors=4, mask=0.5), torch.randn(8, 5)
    net(x)
    average = torch.optim.swa_utils.AveragedModel(net, use_buffers=True)
    for _ in range(3):
        net(x)
        average.update_parameters(net)
    torch.testing.assert_close(average.module.posterior(x).var, net.posterior(x).var)


def test_the_log_loss_is_the_likelihood_with_the_best_noise():
    outputs, targets = torch.randn(2, 50, 3).unbind()
    best = torch.distributions.Normal(outputs, (outputs - targets).square().mean().sqrt())
    surprise = -best.log_prob(targets).mean() - 0.5 * math.log(2 * math.pi) - 0.5
    torch.testing.assert_close(log_squared_error(outputs, targets), surprise)
    assert torch.isfinite(log_squared_error(targets, targets))
    with pytest.raises(ValueError, match=r"targets of shape \(50,\) do not fit"):
        log_squared_error(outputs, targets[:, 0])
