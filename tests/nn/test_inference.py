"""The posterior: equal to evaluating every pair, whatever the batch, the block or the mode."""

import copy
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch
from torch import nn

from deltauq.core import get_encoding
from deltauq.nn import MLP, Anchored, ResNet20
from deltauq.nn.inference import make_plan
from deltauq.nn.inputs import Inputs
from deltauq.nn.layer import AnchorContribution
from tests.nn.helpers import TARGETS, pair_by_pair, random_targets, value_network


class Residual(nn.Module):
    """Carries the input past its first layer, so that a batch cannot be multiplied there."""

    def __init__(self):
        super().__init__()
        self.inner = nn.Sequential(nn.Linear(5, 16), nn.Tanh(), nn.Linear(16, 5))

    def forward(self, x):
        return x + self.inner(x)


class FixedRows(nn.Module):
    """Reads the number of rows off its input, and mixes up rows that come in other numbers."""

    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Linear(5, 12), nn.Linear(12, 2)

    def forward(self, x):
        n = x.shape[0]
        return self.last(self.first(x).relu().view(n, -1, 12).mean(1))


BOTH = {"mask": 0.5, "mask_rows": True, "average_masked": True}

NETWORKS = {
    "perceptron": (lambda: MLP(5, 2, (16, 16), activation="relu", n_frequencies=0), (5,), {}),
    "Fourier features": (lambda: MLP(5, 2, (16,), n_frequencies=8, dropout=0.2), (5,), {}),
    "two anchors": (lambda: MLP(5, 3, (9,), activation="tanh"), (5,), {"encoding": "two-anchor"}),
    "identity": (lambda: MLP(5, 3, (9,), activation="tanh"), (5,), {"encoding": "identity"}),
    "full": (lambda: MLP(5, 3, (9,), activation="tanh"), (5,), {"encoding": "full"}),
    "full, masked too": (lambda: MLP(5, 1, (9,), n_frequencies=8), (5,), {"encoding": "full", **BOTH}),
    "batch norm first": (
        lambda: nn.Sequential(nn.BatchNorm1d(5), nn.Linear(5, 9), nn.BatchNorm1d(9), nn.Linear(9, 1)),
        (5,),
        {},
    ),
    "perceptron, masked too": (lambda: MLP(5, 2, (16,), n_frequencies=8), (5,), BOTH),
    "two anchors, masked too": (lambda: MLP(5, 3, (9,)), (5,), {"encoding": "two-anchor", **BOTH}),
    "residual, masked too": (Residual, (5,), BOTH),
    "ResNet-20 at a stage, masked too": (ResNet20, (3, 8, 8), {"at": "stages.2", **BOTH}),
    "residual": (Residual, (5,), {}),
    "fixed rows": (FixedRows, (5,), {}),
    "ResNet-20": (ResNet20, (3, 8, 8), {}),
    "ResNet-20 at a stage": (ResNet20, (3, 8, 8), {"at": "stages.2"}),
    "ResNet-20 inside a block": (ResNet20, (3, 8, 8), {"at": "stages.1.1.conv2"}),
    "head alone": (ResNet20, (3, 8, 8), {"at": "head"}),
    "tokens": (
        lambda: nn.Sequential(nn.Linear(5, 8), nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)),
        (4, 5),
        {},
    ),
    "hidden convolution": (
        lambda: nn.Sequential(nn.Flatten(), nn.Linear(12, 6), nn.Unflatten(1, (2, 3)), nn.Conv1d(2, 4, 2)),
        (3, 4),
        {"at": "3"},
    ),
}


CASES = [
    (name, target)
    for target in TARGETS
    for name, (_, _, options) in NETWORKS.items()
    if target == "value" or options.get("encoding") != "two-anchor"
]


@pytest.fixture(params=CASES, ids=", ".join, name="trained")
def _trained(request):
    """An anchored network after a few training steps, in float64, and the shape of its inputs."""
    name, target = request.param
    make, shape, options = NETWORKS[name]
    net = Anchored(make().double(), n_anchors=5, target=target, **options)
    optimizer = torch.optim.SGD(net.parameters(), 0.05)
    for _ in range(3):
        optimizer.zero_grad()
        x = torch.randn(16, *shape).double()
        net(x, random_targets(net, x)).square().mean().backward()
        optimizer.step()
    return net, shape


def test_posterior_equals_every_pair(trained):
    net, shape = trained
    x = torch.randn(7, *shape).double()
    samples = pair_by_pair(net, x)
    posterior = net.posterior(x, link="sigmoid", keep_samples=True)
    torch.testing.assert_close(posterior.samples, samples, rtol=1e-9, atol=1e-9)
    # NumPy's moments, not ours.
    raw, linked = samples.numpy(), 1.0 / (1.0 + np.exp(-samples.numpy()))
    np.testing.assert_allclose(posterior.mean, raw.mean(0), rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(posterior.var, raw.var(0), rtol=1e-7, atol=1e-14)
    np.testing.assert_allclose(posterior.link_mean, linked.mean(0), rtol=1e-9)
    np.testing.assert_allclose(posterior.link_var, linked.var(0), rtol=1e-7, atol=1e-14)
    torch.testing.assert_close(net.eval()(x), posterior.mean)


def test_a_row_depends_on_itself_and_the_anchors_alone(trained):
    net, shape = trained
    x = torch.randn(9, *shape).double()
    whole = net.posterior(x)
    order = torch.randperm(9)
    shuffled = net.posterior(x[order])
    for name in ("mean", "var"):
        full = getattr(whole, name)
        torch.testing.assert_close(getattr(shuffled, name), full[order], rtol=1e-12, atol=1e-14)
        for budget in (1, 2000, 20_000):
            chunked = getattr(net.posterior(x, memory_budget=budget), name)
            torch.testing.assert_close(chunked, full, rtol=1e-12, atol=1e-14)
        alone = torch.cat([getattr(net.posterior(x[k : k + 1]), name) for k in range(9)])
        torch.testing.assert_close(alone, full, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("target", TARGETS)
def test_float32_rows_agree_to_a_millionth(conv_net, target):
    net = Anchored(conv_net, n_anchors=5, target=target)
    net(torch.randn(20, 3, 8, 8), torch.randn(20, 4))
    x = torch.randn(40, 3, 8, 8)
    whole = net.posterior(x)
    scale = whole.mean.abs().max()
    order = torch.randperm(40)
    others = {
        "fewer pairs at a time": (x, slice(None), {"memory_budget": 100_000}),
        "another order": (x[order], order, {}),
        "another batch": (x[7:12], slice(7, 12), {}),
        "alone": (x[3:4], slice(3, 4), {}),
    }
    for rows, place, options in others.values():
        actual = net.posterior(rows, **options)
        assert (whole.mean[place] - actual.mean).abs().max() < 1e-6 * scale
        assert (whole.std[place] - actual.std).abs().max() < 1e-6 * scale


@pytest.mark.parametrize("target", TARGETS)
def test_only_networks_that_need_it_repeat_their_inputs(target):
    repeated = set()
    for name in (name for name, form in CASES if form == target):
        make, shape, options = NETWORKS[name]
        net, x = Anchored(make(), n_anchors=3, target=target, **options), torch.randn(8, *shape)
        net.set_anchors(x, random_targets(net, x))
        net.posterior(x[:4])
        if next(iter(net._plans.values())).repeated:
            repeated.add(name)
    assert repeated == {"residual", "residual, masked too", "fixed rows", "ResNet-20 inside a block"}


def test_out_of_memory_is_raised():
    def run(inputs, contribution):
        if not contribution.repeated:
            raise torch.OutOfMemoryError
        return torch.zeros(4, 3)

    contribution = AnchorContribution(torch.zeros(2, 3), torch.zeros(1, 3), torch.zeros(1, 3, 3))
    with pytest.raises(torch.OutOfMemoryError):
        make_plan(run, nn.Linear(3, 3), Inputs(torch.zeros(2, 3)), contribution)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("first", [(1, 3), (2, 1)], ids=["one input", "one anchor"])
@pytest.mark.parametrize("make", [Residual, FixedRows])
def test_the_plan_of_one_input_is_not_used_for_several(make, first, target):
    net = Anchored(make(), n_anchors=3, target=target).eval()
    n, k = first
    y = random_targets(net, torch.randn(3, 5))
    net.set_anchors(torch.randn(k, 5), y[:k])
    net(torch.randn(n, 5))
    net.set_anchors(torch.randn(3, 5), y)
    x = torch.randn(4, 5)
    torch.testing.assert_close(net(x), pair_by_pair(net, x).mean(0))


@pytest.mark.parametrize("encoding", ["difference", "full", "identity", "two-anchor"])
def test_linear_network_has_its_closed_form(encoding):
    """σ² of W[R; X - R] + b is the variance over anchors of what the anchors alone contribute."""
    net = Anchored(nn.Linear(5, 2).double(), n_anchors=30, encoding=encoding)
    x, anchors = torch.randn(6, 5).double(), torch.randn(30, 5).double()
    net.set_anchors(anchors)
    posterior = net.posterior(x)
    weights = net.anchored_layer.wide.weight.detach().split(5, dim=1)
    ks, kappas = weights[: net.encoding.anchors_per_tuple], weights[net.encoding.anchors_per_tuple :]
    # The anchor is subtracted from the last input of a tuple.
    subtracted = 0.0 if encoding == "identity" else kappas[-1]
    blocks = get_encoding(encoding).tuples(net.anchors)
    parts = sum(block @ (k - subtracted).T for block, k in zip(blocks, ks, strict=True))
    torch.testing.assert_close(posterior.var, parts.var(0, correction=0).expand(6, 2))
    torch.testing.assert_close(
        posterior.mean, x @ sum(kappas).T + parts.mean(0) + net.anchored_layer.wide.bias.detach()
    )


@pytest.mark.parametrize("encoding", ["difference", "full", "identity"])
def test_linear_network_of_labelled_anchors_has_its_closed_form(encoding):
    """(g(R, X - R) - g(X, R - X)) / 2 = w(X - R), so that σ² is the variance over anchors of y_R - w R."""
    net = Anchored(nn.Linear(5, 2).double(), n_anchors=30, target="difference", encoding=encoding)
    x, anchors, targets = torch.randn(6, 5).double(), torch.randn(30, 5).double(), torch.randn(30, 2).double()
    net.set_anchors(anchors, targets)
    posterior = net.posterior(x)
    on_anchor, *others = net.anchored_layer.wide.weight.detach().split(5, dim=1)
    w = {
        "difference": lambda delta: delta - on_anchor / 2,
        "full": lambda own, delta: delta + (own - on_anchor) / 2,
        "identity": lambda own: (own - on_anchor) / 2,
    }[encoding](*others)
    rest = targets - anchors @ w.T
    torch.testing.assert_close(posterior.mean, x @ w.T + rest.mean(0))
    torch.testing.assert_close(posterior.var, rest.var(0, correction=0).expand(6, 2))


@pytest.mark.parametrize(("target", "n_variants"), [("value", 1), ("difference", 2)])
def test_first_layers_run_once_per_input_and_once_per_anchor(target, n_variants):
    net = Anchored(ResNet20(), n_anchors=6, at="stages.2", target=target)
    net(torch.randn(8, 3, 8, 8), torch.randn(8, 10))
    x = torch.randn(10, 3, 8, 8)
    net.posterior(x)  # the first one also tries out how to run the network
    rows = {"stem": 0, "head": 0}
    net.module.conv1.register_forward_pre_hook(lambda _, args: rows.update(stem=rows["stem"] + len(args[0])))
    net.module.head.register_forward_pre_hook(lambda _, args: rows.update(head=rows["head"] + len(args[0])))
    for budget in (None, 1_000_000):
        rows.update(stem=0, head=0)
        net.posterior(x, memory_budget=budget)
        assert rows == {"stem": 10 + 6, "head": 60 * n_variants}


@pytest.mark.parametrize("average_masked", [False, True])
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("make", [lambda: MLP(5, 5, (64, 64)), Residual], ids=["once", "repeated"])
def test_blocks_stay_within_the_budget_however_many_anchors(make, target, average_masked):
    net = Anchored(make(), n_anchors=10, target=target, mask=0.5, average_masked=average_masked)
    largest = 0

    def watch(layer, args, output):
        nonlocal largest
        largest = max(largest, (args[0].numel() + output.numel()) * 4)

    for layer in net.module.modules():
        layer.register_forward_hook(watch)
    x, budget = torch.randn(40, 5), 50_000
    for k in (2, 10, 1000):
        net.set_anchors(torch.randn(k, 5), torch.randn(k, 5), n_anchors=k)
        net.posterior(x[:20])
        largest = 0
        net.posterior(x, memory_budget=budget)
        assert largest <= budget
        assert largest > budget / 8 or k == 2


@pytest.mark.parametrize("target", TARGETS)
def test_every_layer_keeps_its_mode(conv_net, images, target):
    net = Anchored(conv_net, n_anchors=4, target=target)
    net(images, torch.randn(12, 4))
    net.module.norm.eval()
    before = copy.deepcopy(net.state_dict())
    in_training = net.posterior(images)
    assert net.training and net.module.drop.training and not net.module.norm.training
    assert all(torch.equal(value, before[name]) for name, value in net.state_dict().items())
    torch.testing.assert_close(net.eval().posterior(images).var, in_training.var, rtol=0, atol=0)


@pytest.mark.parametrize("target", TARGETS)
def test_gradients_flow_to_inputs_that_require_them(mlp, target):
    net = Anchored(mlp.double(), n_anchors=4, target=target)
    net.set_anchors(torch.randn(4, 5).double(), torch.randn(4, 2).double())
    x = torch.randn(3, 5).double()
    assert not net.posterior(x).mean.requires_grad
    expected = net.posterior(x, link="softmax", keep_samples=True)
    x.requires_grad_()
    with_graph = net.posterior(x, link="softmax", keep_samples=True)
    for name in ("mean", "var", "link_mean", "link_var", "samples"):
        torch.testing.assert_close(getattr(with_graph, name).detach(), getattr(expected, name))
    assert torch.autograd.gradcheck(lambda x: net.posterior(x).mean, x)
    assert torch.autograd.gradcheck(lambda x: net.posterior(x, memory_budget=1).var, x)
    with torch.no_grad():
        assert not net.posterior(x).mean.requires_grad


@pytest.mark.parametrize("target", TARGETS)
def test_moments_of_lower_precision(conv_net, images, target):
    net = Anchored(conv_net, n_anchors=4, target=target)
    net(images, torch.randn(12, 4))
    low = net.posterior(images, link="softmax", autocast=torch.bfloat16)
    exact = net.posterior(images, link="softmax")
    assert not next(iter(net._plans.values())).repeated
    assert low.mean.dtype == torch.float32
    torch.testing.assert_close(low.mean, exact.mean, rtol=0.1, atol=0.05)
    assert not torch.equal(low.mean, exact.mean)


@pytest.mark.parametrize("target", TARGETS)
def test_inputs_may_be_bytes_where_the_network_scales_them(target):
    class Scaled(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(4, 2)

        def forward(self, x):
            return self.layer(x.float() / 255)

    net = Anchored(Scaled(), n_anchors=3, target=target)
    x = torch.randint(0, 256, (8, 4), dtype=torch.uint8)
    net(x, torch.randn(8, 2))
    assert net.anchors.dtype == torch.uint8
    torch.testing.assert_close(net.posterior(x, keep_samples=True).samples, pair_by_pair(net, x))


@pytest.mark.parametrize("offset", [1e3, 1e5])
@pytest.mark.parametrize("options", [{}, {"encoding": "identity"}, {"at": "layers.0"}])
@pytest.mark.parametrize("target", TARGETS)
def test_inputs_far_from_zero_lose_no_precision(offset, options, target):
    net = Anchored(MLP(5, 2, (16, 16)), n_anchors=6, target=target, **options)
    net.set_anchors(offset + torch.randn(6, 5), torch.randn(6, 2))
    if "at" not in options and "encoding" not in options:
        # The anchors' own block is where the offset remains, whichever way it is computed.
        with torch.no_grad():
            net.anchored_layer.wide.weight[:, :5] /= offset
    x = offset + torch.randn(7, 5)
    actual = net.posterior(x, keep_samples=True).samples
    exact = pair_by_pair(copy.deepcopy(net).double(), x.double())
    plain = pair_by_pair(net, x)
    # Outputs of the module: labelled anchors subtract two of them.
    scale = pair_by_pair(value_network(net), x).abs().max()
    assert (actual - plain).abs().max() < 1e-5 * scale
    assert (actual - exact).abs().max() < 1e-5 * scale
    if not options:
        spread = exact.std(0, correction=0)
        assert (actual.std(0, correction=0) - spread).abs().max() < 1e-4 * spread.max()


def test_half_precision_does_not_overflow_in_the_sum():
    net = Anchored(nn.Linear(5, 1), n_anchors=100)
    with torch.no_grad():
        net.anchored_layer.wide.weight.zero_()
        net.anchored_layer.wide.bias.fill_(6e4)
    net.half().set_anchors(torch.randn(100, 5).half())
    out = net.eval()(torch.randn(4, 5).half())
    assert out.dtype == torch.float16
    torch.testing.assert_close(out, torch.full((4, 1), 6e4, dtype=torch.float16))


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_a_nan_in_one_row_does_not_change_the_others(bad, target):
    net = Anchored(MLP(5, 2, (16,)), n_anchors=4, target=target)
    net(torch.randn(20, 5), torch.randn(20, 2))
    x = torch.randn(6, 5)
    spoilt = x.clone()
    spoilt[0, 0] = bad
    first = net.posterior(spoilt).mean
    assert first[0].isnan().all()
    torch.testing.assert_close(first[1:], net.posterior(x).mean[1:])
    net.set_anchors(torch.full((4, 5), bad), torch.randn(4, 2))
    assert net.posterior(x).mean.isnan().all()


def test_softmax_is_over_classes_alone():
    net = Anchored(nn.Conv2d(3, 4, 1), n_anchors=3)
    net.set_anchors(torch.randn(3, 3, 5, 5))
    x = torch.randn(2, 3, 5, 5)
    for inputs in (x, x.clone().requires_grad_()):
        with pytest.raises(ValueError, match=r"takes outputs of shape \(n, classes\), got \(2, 4, 5, 5\)"):
            net.posterior(inputs, link="softmax")
    assert net.posterior(x, link="sigmoid").link_mean.shape == (2, 4, 5, 5)


@pytest.mark.parametrize("target", TARGETS)
def test_no_layer_sees_more_anchors_than_the_budget_allows(target):
    network = nn.Sequential(nn.Linear(8, 64), nn.ReLU(), nn.Linear(64, 1))
    net = Anchored(network, at="2", n_anchors=500, target=target)
    net.set_anchors(torch.randn(500, 8), torch.randn(500, 1))
    x = torch.randn(3, 8)
    expected = net.posterior(x)
    rows = []
    net.module[0].register_forward_pre_hook(lambda _, args: rows.append(len(args[0])))
    actual = net.posterior(x, memory_budget=20_000)
    assert max(rows) <= 20_000 / (64 * 4)
    assert sum(n for n in rows if n > 1) >= 500
    torch.testing.assert_close(actual.var, expected.var)
    net.eval()
    torch.testing.assert_close(net(x), expected.mean)


@pytest.mark.parametrize("target", TARGETS)
def test_threads_may_share_a_network(target):
    net = Anchored(MLP(5, 2, (16, 16)), n_anchors=4, target=target).eval()
    net.set_anchors(torch.randn(4, 5), torch.randn(4, 2))
    batches = [torch.randn(int(n), 5) for n in torch.randint(2, 40, (60,))]
    fresh = copy.deepcopy(net)
    expected = [net.posterior(x).var for x in batches]
    # The first passes, which are watched, are among those that several threads make at once.
    with ThreadPoolExecutor(8) as pool:
        actual = list(pool.map(lambda x: fresh.posterior(x).var, batches * 5))
    for one, other in zip(actual, expected * 5, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("target", TARGETS)
def test_average_masked_after_training(target):
    x = torch.randn(6, 5)
    net = Anchored(MLP(5, 2, (16,)), mask=0.5, target=target).eval()
    net.set_anchors(torch.randn(10, 5), torch.randn(10, 2))
    unmasked = net.posterior(x)
    net.average_masked = True
    averaged = net.posterior(x)
    assert (averaged.mean - unmasked.mean).abs().min() > 1e-4
    torch.testing.assert_close(net(x), averaged.mean)
    net.mask = 0.0
    for call in (net, net.posterior):
        with pytest.raises(ValueError, match=r"this network has no mask: if .*, as in net.mask = 0.25"):
            call(x)
    net.average_masked = False
    assert torch.equal(net.posterior(x).mean, unmasked.mean)


@pytest.mark.parametrize("target", TARGETS)
def test_masked_half_precision_outputs_are_averaged_in_float32(target):
    net = Anchored(MLP(5, 2, (16,)), mask=0.5, average_masked=True, target=target).eval()
    net.set_anchors(torch.randn(10, 5), torch.randn(10, 2))
    x = torch.randn(200, 5)
    samples = net.posterior(x, keep_samples=True, autocast=torch.bfloat16).samples
    assert samples.dtype == torch.float32
    # The mean of two bfloat16 numbers is one for few of them.
    assert (samples.bfloat16().float() != samples).float().mean() > 0.2


def test_classes_are_averaged_to_votes():
    class Vote(nn.Module):
        def forward(self, x):
            return nn.functional.one_hot(x.argmax(1), 3)

    net, x = Anchored(nn.Sequential(nn.Linear(5, 3), Vote()), n_anchors=4), torch.randn(6, 5)
    net.set_anchors(torch.randn(4, 5))
    votes = net.eval()(x)
    assert torch.equal(votes.sum(1), torch.ones(6)) and torch.equal(votes * 4, (votes * 4).round())
    torch.testing.assert_close(net.posterior(x).mean, votes)
