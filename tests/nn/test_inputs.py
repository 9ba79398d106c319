"""Additional inputs are passed through, and follow their rows; of several outputs one is taken."""

import copy
from types import SimpleNamespace

import pytest
import torch
from torch import nn

from deltauq.nn import MLP, Anchored, AnchorPredictor, anchored_loss
from deltauq.nn.inputs import Inputs
from deltauq.nn.training import Recipe, fit, fit_many
from tests.nn.helpers import TARGETS, labelled, pair_by_pair, random_targets
from tests.nn.test_inference import Residual

T = 4
"""Tokens of a sequence."""


class Encoder(nn.Module):
    """A transformer over sequences of 5 features, some of whose tokens are padding."""

    def __init__(self):
        super().__init__()
        self.stem = nn.Linear(5, 8)
        layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True, dropout=0.0)
        self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = nn.Linear(8, 3)

    def forward(self, x, padding=None, *, causal=None):
        h = self.encoder(self.stem(x), mask=causal, src_key_padding_mask=padding)
        if padding is None:
            return self.head(h.mean(1))
        used = (~padding)[..., None]
        return self.head((h * used).sum(1) / used.sum(1))


class Conditioned(nn.Module):
    """Takes a second vector behind its first layer, and the input past it if it is to."""

    def __init__(self):
        super().__init__()
        self.stem, self.condition, self.head = nn.Linear(5, 5), nn.Embedding(7, 5), nn.Linear(5, 2)

    def forward(self, x, c, scale=None, past=False):
        h = self.stem(x).tanh() + self.condition(c)
        h = h if scale is None else h * scale
        return self.head(h + x if past else h)


def padding(n):
    """Return a mask of tokens that are padding, another one for every row."""
    return torch.arange(T) >= torch.arange(n)[:, None] % T + 1


CASES = {
    "padding": (Encoder, (T, 5), {}, lambda n: ((padding(n),), {})),
    "padding by keyword": (Encoder, (T, 5), {}, lambda n: ((), {"padding": padding(n)})),
    "padding, in front of the encoder": (Encoder, (T, 5), {"at": "encoder"}, lambda n: ((padding(n),), {})),
    "causal mask, the same for all rows": (
        Encoder,
        (T, 5),
        {},
        lambda n: ((), {"causal": torch.ones(T, T).triu(1).bool()}),
    ),
    "both masks, averaged over masked anchors": (
        Encoder,
        (T, 5),
        {"mask": 0.5, "average_masked": True},
        lambda n: ((padding(n),), {"causal": torch.ones(T, T).triu(1).bool()}),
    ),
    "condition": (Conditioned, (5,), {}, lambda n: ((torch.arange(n) % 7,), {})),
    "condition, one anchor and the input past the layer": (
        Conditioned,
        (5,),
        {"encoding": "full"},
        lambda n: ((torch.arange(n) % 7, torch.arange(5.0)), {"past": True}),
    ),
    "condition and the input past the layer": (
        Conditioned,
        (5,),
        {"encoding": "two-anchor"},
        lambda n: ((torch.arange(n) % 7, torch.arange(5.0)), {"past": True}),
    ),
}


@pytest.fixture(
    params=[
        (name, target)
        for target in TARGETS
        for name, case in CASES.items()
        if target == "value" or case[2].get("encoding") != "two-anchor"
    ],
    ids=", ".join,
    name="case",
)
def _case(request):
    """A network after a training step, 9 inputs, and further ones for n of them."""
    name, target = request.param
    make, shape, options, further = CASES[name]
    torch.manual_seed(0)
    net = Anchored(make(), n_anchors=5, target=target, **options)
    for parameter in net.anchored_layer.wide.parameters():
        nn.init.normal_(
            parameter, std=0.5
        )  # a projection that begins as the identity does not depend on the anchor
    x, (args, kwargs) = torch.randn(16, *shape), further(16)
    y = random_targets(net, x, *args, **kwargs) if target == "difference" else None
    net(x, y, *args, **kwargs)
    return net.double(), torch.randn(9, *shape).double(), further


def inputs_of(x, further):
    args, kwargs = further(len(x))
    return Inputs(x, tuple(v.double() if v.is_floating_point() else v for v in args), kwargs)


def test_posterior_with_further_inputs_equals_every_pair(case):
    net, x, further = case
    inputs = inputs_of(x, further)
    expected = pair_by_pair(net, x, *inputs.args, **inputs.kwargs)
    assert expected.var(0).min() > 1e-8
    net.eval()
    actual = net.posterior(x, *inputs.args, keep_samples=True, **inputs.kwargs)
    torch.testing.assert_close(actual.samples, expected, rtol=1e-6, atol=1e-8)
    torch.testing.assert_close(actual.mean, expected.mean(0), rtol=1e-6, atol=1e-8)
    torch.testing.assert_close(
        net(x, None, *inputs.args, **inputs.kwargs), expected.mean(0), rtol=1e-6, atol=1e-8
    )
    for budget in (1, 3_000):
        chunked = net.posterior(x, *inputs.args, memory_budget=budget, **inputs.kwargs)
        torch.testing.assert_close(chunked.var, expected.var(0, correction=0), rtol=1e-6, atol=1e-8)


def test_a_row_does_not_depend_on_its_batch(case):
    net, x, further = case
    inputs = inputs_of(x, further)
    whole = net.posterior(x, *inputs.args, **inputs.kwargs)
    for start, stop in ((0, 1), (2, 5), (7, 9)):
        part = inputs.rows(start, stop)
        actual = net.posterior(part.x, *part.args, **part.kwargs)
        torch.testing.assert_close(actual.mean, whole.mean[start:stop], rtol=1e-6, atol=1e-8)
        torch.testing.assert_close(actual.var, whole.var[start:stop], rtol=1e-6, atol=1e-8)


def test_labelled_training_keeps_the_further_inputs_of_the_row():
    net = Anchored(Conditioned(), n_anchors=3, target="difference", train_anchors="reverse")
    x, y, c, scale = torch.randn(6, 5), torch.randn(6, 2), torch.arange(6), torch.rand(5)
    expected = labelled(net, x, x.flip(0), y.flip(0), c, scale, past=True)
    torch.testing.assert_close(net(x, y, c, scale, past=True), expected)
    torch.testing.assert_close(net(x, y, c=c, scale=scale, past=True), expected)
    # A batch of one, with what belongs to its row.
    net.set_anchors(x[1:2], y[1:2])
    expected = labelled(net, x[:1], x[1:2], y[1:2], c[:1], scale)
    torch.testing.assert_close(net(x[:1], y[:1], c[:1], scale), expected)
    torch.testing.assert_close(net.eval()(x[:1], None, c[:1], scale), expected)


def test_only_some_calls_may_have_further_inputs():
    net, x = Anchored(Encoder(), n_anchors=3), torch.randn(6, T, 5)
    net.set_anchors(x)
    without, mask = net.posterior(x).mean, torch.zeros(6, T, dtype=torch.bool)
    torch.testing.assert_close(net.posterior(x, mask).mean, without, rtol=1e-5, atol=1e-5)
    mask[:, -1] = True
    assert (net.posterior(x, mask).mean - without).abs().max() > 1e-3


@pytest.mark.parametrize("train_anchors", ["derangement", "reverse", "normal"])
def test_training_with_a_mask(train_anchors):
    # The target is the number of tokens that are no padding, which depends on the mask alone.
    torch.manual_seed(0)
    x, mask = torch.randn(64, T, 5), padding(64)
    y = (~mask).sum(1, keepdim=True).float().expand(-1, 3)
    net = Anchored(Encoder(), n_anchors=5, train_anchors=train_anchors)
    optimizer = torch.optim.Adam(net.parameters(), 0.01)
    losses = []
    for _ in range(60):
        optimizer.zero_grad()
        loss = anchored_loss(net, nn.functional.mse_loss, x, y, anchors_per_step=2, padding=mask)
        loss.backward()
        optimizer.step()
        losses.append(float(loss.detach()))
    assert losses[-1] < 0.5 * losses[0]
    assert net.anchors.shape == (5, T, 5)


@pytest.mark.parametrize("target", TARGETS)
def test_copies_of_a_batch_have_their_further_inputs(target):
    net = Anchored(Conditioned(), n_anchors=3, target=target)
    x, c, rows = torch.randn(6, 5), torch.arange(6), torch.arange(6).roll(1)[None]
    y = x[:, :2] if target == "difference" else None
    loss = anchored_loss(net, nn.functional.mse_loss, x, x[:, :2], anchors_per_step=2, anchors=rows, c=c)
    outputs = [net(x, y, c, anchors=torch.arange(6).roll(k)[None]) for k in (1, 2)]
    expected = torch.stack([nn.functional.mse_loss(output, x[:, :2]) for output in outputs]).mean()
    torch.testing.assert_close(loss, expected)


class EarlyMask(nn.Module):
    """Uses its second input in front of its first layer, or in the pooling that its head follows."""

    def __init__(self):
        super().__init__()
        self.stem, self.head = nn.Linear(5, 8), nn.Linear(8, 2)

    def forward(self, x, weight, *, early=False):
        x = x * weight if early else x
        return self.head(self.stem(x).relu() * weight)


@pytest.mark.parametrize("weight", [torch.zeros(6, 1), torch.ones(6, 1)])
@pytest.mark.parametrize(("options", "early"), [({}, True), ({"at": "head"}, False)])
def test_inputs_that_change_the_anchored_tensor_raise(weight, options, early):
    net, x = Anchored(EarlyMask(), n_anchors=3, **options), torch.randn(6, 5)
    with pytest.raises(
        ValueError, match=r"additional inputs change what enters the anchored layer.*by stem= or at="
    ):
        net(x, None, weight, early=early)
    net.set_anchors(x)
    with pytest.raises(ValueError, match="stored anchors have none"):
        net.posterior(x, weight, early=early)
    assert Anchored(EarlyMask(), n_anchors=3)(x, None, weight).shape == (6, 2)


class Timed(nn.Module):
    """Takes its second input to a layer of its own, first in registration and in the pass."""

    def __init__(self):
        super().__init__()
        self.time, self.stem, self.head = nn.Linear(1, 8), nn.Linear(5, 8), nn.Linear(8, 2)

    def forward(self, x, t):
        embedded = self.time(t)
        return self.head((self.stem(x) + embedded).relu())


def test_a_layer_of_another_input_is_not_anchored_by_mistake():
    x, t = torch.randn(6, 5), torch.rand(6, 1)
    with pytest.raises(ValueError, match=r"enters the anchored layer 'time'.*by stem= or at="):
        Anchored(Timed(), n_anchors=3)(x, None, t)
    with pytest.raises(ValueError, match=r"first reaches 'time'.*by at="):
        Anchored(Timed(), n_anchors=3, stem="stem")(x, None, t)
    net = Anchored(Timed(), n_anchors=3, at="stem")
    net(x, None, t)
    torch.testing.assert_close(net.posterior(x, t, keep_samples=True).samples, pair_by_pair(net, x, t))


def test_networks_of_two_inputs_raise_where_one_is_given(tmp_path):
    x, y = torch.randn(8, 5), torch.randn(8, 2)
    recipe = Recipe(epochs=1, batch_size=4)
    for net in (Conditioned(), Anchored(Conditioned(), n_anchors=3)):
        with pytest.raises(TypeError, match="missing 1 required positional argument: 'c'"):
            fit(net, x, y, recipe)
        with pytest.raises(TypeError, match="missing 1 required positional argument: 'c'"):
            fit_many([net, copy.deepcopy(net)], x, y, recipe)
    net.set_anchors(x)
    with pytest.raises(TypeError, match="missing 1 required positional argument: 'c'"):
        AnchorPredictor(net)


class Several(nn.Module):
    """Returns its logits and its features, by name or by place."""

    def __init__(self, kind):
        super().__init__()
        self.stem, self.head, self.kind = nn.Linear(5, 8), nn.Linear(8, 2), kind

    def forward(self, x):
        features = self.stem(x).relu()
        outputs = {"logits": self.head(features), "features": features}
        return outputs if self.kind == "dict" else tuple(outputs.values())


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(("kind", "output"), [("dict", "logits"), ("tuple", 0), ("tuple", -2)])
def test_output_selects_one_of_several(kind, output, target):
    net, x = Anchored(Several(kind), n_anchors=3, output=output, target=target), torch.randn(6, 5)
    plain = Anchored(nn.Sequential(nn.Linear(5, 8), nn.ReLU(), nn.Linear(8, 2)), n_anchors=3, target=target)
    y = torch.randn(6, 2)
    plain.module[0].load_state_dict(net.module.stem.state_dict())
    plain.module[2].load_state_dict(net.module.head.state_dict())
    rows = torch.arange(6).roll(1)[None]
    torch.testing.assert_close(net(x, y, anchors=rows), plain(x, y, anchors=rows))
    for each in (net, plain):
        each.set_anchors(x[:3], y[:3])
        each.eval()
    torch.testing.assert_close(net(x), plain(x))
    torch.testing.assert_close(net.posterior(x).var, plain.posterior(x).var)
    assert f"output={output!r}" in repr(net)


def test_training_returns_all_outputs():
    net, x = Anchored(Several("dict"), n_anchors=3), torch.randn(6, 5)
    assert net(x).keys() == {"logits", "features"}
    net.output = "features"
    assert net.eval()(x).shape == (6, 8)


def test_unknown_outputs_raise():
    x = torch.randn(6, 5)
    for kind, output, names in (
        ("dict", "logit", "'logits', 'features'"),
        ("tuple", 2, "0, 1"),
        ("tuple", "a", "0, 1"),
    ):
        with pytest.raises(ValueError, match=f"output={output!r} names no output of the network: {names}"):
            Anchored(Several(kind), output=output)(x)
    with pytest.raises(ValueError, match="the network returns one tensor: leave out output=0"):
        Anchored(MLP(5, 2), output=0)(x)
    net = Anchored(Several("dict"), n_anchors=3)
    net.set_anchors(x)
    with pytest.raises(
        TypeError, match=r"got dict\. Name one of its outputs by output=: 'logits', 'features'"
    ):
        net.posterior(x)


def test_a_file_of_a_network_with_several_inputs_and_outputs(tmp_path):
    class Both(Encoder):
        def forward(self, x, padding):
            return SimpleNamespace(x=1), super().forward(x, padding)

    def make():
        return Anchored(Both(), n_anchors=3, output=1)

    net, x = make(), torch.randn(6, T, 5)
    net(x, None, padding(6))
    net.save(tmp_path / "net.safetensors")
    again = make()
    again.load(tmp_path / "net.safetensors")
    assert torch.equal(again.posterior(x, padding(6)).var, net.posterior(x, padding(6)).var)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("make", [lambda: MLP(5, 2, (16,)), Residual], ids=["once", "repeated"])
@pytest.mark.parametrize("warm", [False, True])
def test_the_predictor_is_what_torch_exports(warm, make, target):
    net, x = Anchored(make(), n_anchors=3, mask=0.5, average_masked=True, target=target), torch.randn(6, 5)
    net.set_anchors(x, random_targets(net, x))
    if warm:
        net.posterior(x)
    with pytest.raises(RuntimeError, match=r"export deltauq.nn.AnchorPredictor\(net\).*export_onnx"):
        torch.export.export(net.eval(), (x,))
    rows = {"x": {0: torch.export.Dim("n")}}
    program = torch.export.export(AnchorPredictor(net), (x.clone(),), dynamic_shapes=rows)
    x = torch.randn(9, 5)
    posterior = net.posterior(x)
    mean, std = program.module()(x)
    torch.testing.assert_close(mean, posterior.mean)
    torch.testing.assert_close(std, posterior.std)


def test_repr_contains_no_anchors():
    secret = torch.full((12, 5), 98765.4321)
    net = Anchored(MLP(5, 2), n_anchors=12, train_anchors=secret)
    net.set_anchors(secret)
    for printed in (net, net.anchored_layer, net.train_anchors, AnchorPredictor(net)):
        assert "98765" not in repr(printed)


class Shared(nn.Module):
    """Adds a row-wise input, and the sum of a tensor that all rows share."""

    def __init__(self, *, positional=False):
        super().__init__()
        self.stem, self.head, self.positional = nn.Linear(5, 8), nn.Linear(8, 2), positional

    def forward(self, x, shared, c=None):
        x = x + shared if self.positional else x
        h = self.head(self.stem(x).relu())
        h = h if c is None else h + c
        return h if self.positional else h + shared.sum()


def test_shared_inputs_do_not_depend_on_rows_and_budget():
    torch.manual_seed(0)
    net = Anchored(Shared(), n_anchors=5).double()
    net.set_anchors(torch.randn(5, 5).double())
    x, c = torch.randn(60, 5).double(), torch.randn(60, 2).double()
    generator = torch.Generator().manual_seed(0)
    for _ in range(60):
        n, m, pairs = (int(torch.randint(1, most, (), generator=generator)) for most in (60, 12, 60))
        if m == n and n > 1:
            continue
        shared, budget = torch.rand(m, 3).double(), 128 * pairs
        expected = net.posterior(x, torch.zeros(())).mean[:n] + c[:n] + shared.sum()
        actual = net.posterior(x[:n], shared, c[:n], memory_budget=budget)
        torch.testing.assert_close(actual.mean, expected)
        torch.testing.assert_close(net.eval()(x[:n], None, shared, c=c[:n]), expected)


def test_shared_inputs_do_not_depend_on_blocks():
    net = Anchored(Shared(), n_anchors=20)
    net.set_anchors(torch.randn(20, 5))
    x, table = torch.randn(40, 5), torch.ones(7)
    budget = 7 * 20 * net._plan(Inputs(x, (table,)), net.anchors, None).row_bytes
    whole = net.posterior(x, table, memory_budget=budget).mean
    torch.testing.assert_close(whole[-5:], net.posterior(x[-5:], table).mean)
    torch.testing.assert_close(whole[:7], net.posterior(x[:8], table).mean[:7])


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("average_masked", [False, True])
def test_a_positional_tensor_in_front_of_the_layer(average_masked, target):
    torch.manual_seed(0)
    network = Shared(positional=True)
    net = Anchored(network, n_anchors=4, average_masked=average_masked, mask=0.5, target=target)
    x, positional = torch.randn(20, 3, 5), torch.randn(1, 3, 5)
    y = torch.randn(20, 3, 2) if target == "difference" else None
    net(x, y, positional)
    whole = net.posterior(x, positional)
    for n in (1, 2, 3):
        actual = net.posterior(x[:n], positional)
        torch.testing.assert_close(actual.mean, whole.mean[:n])
        torch.testing.assert_close(actual.var, whole.var[:n])
    net.set_anchors(None)
    y = y if y is None else y[:1]
    assert net.train()(x[:1], y, positional).shape == (1, 3, 2)


def test_shared_inputs_of_the_length_of_the_copies_raise():
    net, x = Anchored(Shared(), n_anchors=3), torch.randn(3, 5)
    with pytest.raises(ValueError, match=r"shared.*first dimension 6.*buffer"):
        anchored_loss(net, nn.functional.mse_loss, x, x[:, :2], anchors_per_step=2, shared=torch.ones(6))


def test_few_rows_are_enough_to_check_further_inputs():
    class Backbone(nn.Sequential):
        rows = 0

        def forward(self, x):
            self.rows = max(self.rows, len(x))
            return super().forward(x)

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.backbone, self.head = Backbone(nn.Linear(5, 8)), nn.Linear(8, 2)

        def forward(self, x, c):
            return self.head(self.backbone(x)) + c

    net = Anchored(Net(), n_anchors=3, at="head")
    net.set_anchors(torch.randn(3, 5))
    net.posterior(torch.randn(200, 5), torch.randn(200, 2), memory_budget=1)
    assert net.module.backbone.rows <= 16


def test_another_output_has_its_own_plan():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.stem, self.head = nn.Linear(5, 5), nn.Linear(5, 2)

        def forward(self, x):
            h = self.stem(x)
            past = (h.view(len(x), -1, 5) + x[:, None]).flatten(0, 1)
            return {"through": self.head(h), "past": self.head(past)}

    torch.manual_seed(0)
    net, x = Anchored(Net(), n_anchors=3, output="through"), torch.randn(6, 5)
    net.set_anchors(x)
    net.posterior(x)
    net.output = "past"
    fresh = copy.deepcopy(net)
    fresh._plans.clear()
    torch.testing.assert_close(net.posterior(x).mean, fresh.posterior(x).mean)


def test_an_output_that_is_no_tensor():
    class Nested(nn.Module):
        def __init__(self):
            super().__init__()
            self.stem = nn.Linear(5, 2)

        def forward(self, x):
            return {"a": {"b": self.stem(x)}}

    with pytest.raises(TypeError, match="output='a' must name a tensor, got dict"):
        Anchored(Nested(), output="a")(torch.randn(6, 5))
    with pytest.raises(TypeError, match=r"output must be a str or an int, got 1\.5"):
        Anchored(Several("tuple"), output=1.5)
    for net in (Several("dict"), Anchored(Several("dict"), n_anchors=3)):
        with pytest.raises(TypeError, match=r"got dict\. Name one of its outputs by output=: 'logits'"):
            fit(net, torch.randn(8, 5), torch.randn(8, 2), Recipe(epochs=1, batch_size=4))


def test_inputs_named_like_keywords_raise():
    class Detector(nn.Linear):
        def forward(self, x, anchors=None):
            return super().forward(x)

    with pytest.raises(ValueError, match=r"'anchors' is a keyword of Anchored.*rename"):
        Anchored(Detector(5, 2))
    net = Anchored(MLP(5, 2), n_anchors=3)
    net.set_anchors(torch.randn(3, 5))
    with pytest.raises(TypeError, match="link='softmax'"):
        net.posterior(torch.randn(6, 5), "softmax")
