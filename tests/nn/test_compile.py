"""Under torch.compile everything is as it is without."""

import copy

import pytest
import torch
from torch.nn import functional as F

from deltauq.nn import Anchored, ResNet20
from tests.nn.helpers import TARGETS

pytestmark = [
    pytest.mark.filterwarnings("ignore:.*:UserWarning:torch._dynamo"),
    # The compiler looks at gradients of what a graph break passes on.
    pytest.mark.filterwarnings("ignore::DeprecationWarning:torch"),
    pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor that is not a leaf"),
]


@pytest.fixture(autouse=True)
def _fresh_compiler():
    torch.compiler.reset()
    yield
    torch.compiler.reset()


def train(step_net, net, x, y, steps=4):
    optimizer = torch.optim.SGD(net.parameters(), 0.05)
    losses = []
    torch.manual_seed(1)
    for _ in range(steps):
        optimizer.zero_grad()
        loss = F.mse_loss(step_net(x, y), y)
        loss.backward()
        optimizer.step()
        losses.append(float(loss.detach()))
    return losses


LABELLED = {"target": "difference"}
OPTIONS = [
    {},
    {"mask": 0.5},
    {"mask": 0.5, "mask_rows": True},
    {"at": "conv"},
    {"encoding": "two-anchor"},
    LABELLED,
    {"encoding": "full", "mask": 0.5, "mask_rows": True, **LABELLED},
]
CASES = [(backend, options) for backend in ("eager", "aot_eager") for options in OPTIONS]


@pytest.mark.parametrize(
    ("backend", "options"),
    [*CASES, *(pytest.param("inductor", options, marks=pytest.mark.slow) for options in ({}, LABELLED))],
)
def test_training_evaluation_and_posterior_are_equal(conv_net, images, backend, options):
    conv_net.drop.p = 0.0  # inductor draws other random numbers
    y = torch.randn(12, 4)
    nets = [
        Anchored(copy.deepcopy(conv_net), n_anchors=4, train_anchors="reverse", **options) for _ in range(2)
    ]
    nets[1].load_state_dict(nets[0].state_dict())
    compiled = torch.compile(nets[1], backend=backend)
    same_random = backend != "inductor"
    plain, other = (train(c, n, images, y) for c, n in ((nets[0], nets[0]), (compiled, nets[1])))
    if same_random:
        torch.testing.assert_close(torch.tensor(other), torch.tensor(plain))
    torch.testing.assert_close(nets[1].anchors, nets[0].anchors)
    torch.testing.assert_close(nets[1].anchor_targets, nets[0].anchor_targets)
    x = torch.randn(7, 3, 8, 8)
    nets[0].eval()
    compiled.eval()
    if same_random:
        torch.testing.assert_close(compiled(x), nets[0](x), rtol=1e-4, atol=1e-5)
        torch.testing.assert_close(compiled.posterior(x).var, nets[0].posterior(x).var, rtol=1e-3, atol=1e-6)
    torch.testing.assert_close(compiled(x), nets[1](x), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("y", [torch.randn(12, 4), torch.randint(9, (12, 4))], ids=["floats", "integers"])
@pytest.mark.parametrize("options", [{}, LABELLED], ids=TARGETS)
def test_the_training_step_is_one_graph(conv_net, images, options, y):
    net = Anchored(conv_net, n_anchors=4, mask=0.25, **options)
    net(images, y)  # the first pass is watched, outside the graph
    whole = torch.compile(net, backend="eager", fullgraph=True)
    anchors = net.anchors.clone()
    out = whole(images.flip(0), y)
    assert out.shape == (12, 4)
    assert not torch.equal(net.anchors, anchors)


@pytest.mark.parametrize("options", [{}, LABELLED], ids=TARGETS)
def test_first_step_of_given_anchors_is_one_graph(conv_net, images, options):
    net, y = Anchored(conv_net, n_anchors=4, mask=0.25, **options), torch.randn(12, 4)
    before = copy.deepcopy(net.state_dict())
    net.check(images)
    assert all(torch.equal(value, before[name]) for name, value in net.state_dict().items())
    rows = torch.arange(12).flip(0)[None]
    assert torch.compile(net, backend="eager", fullgraph=True)(images, y, anchors=rows).shape == (12, 4)


def test_the_network_inside_may_be_compiled():
    net = Anchored(ResNet20(), n_anchors=3, at="stages.2")
    net(torch.randn(8, 3, 8, 8))
    x = torch.randn(5, 3, 8, 8)
    expected = net.posterior(x)
    net.module.compile(backend="eager")
    actual = net.posterior(x)
    torch.testing.assert_close(actual.mean, expected.mean, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(actual.var, expected.var, rtol=1e-3, atol=1e-6)


class Weighted(torch.nn.Module):
    """Takes weights of its features, if there are any."""

    def __init__(self):
        super().__init__()
        self.stem, self.head = torch.nn.Linear(5, 8), torch.nn.Linear(8, 2)

    def forward(self, x, weights=None):
        h = self.stem(x).relu()
        return {"out": self.head(h if weights is None else h * weights)}


@pytest.mark.parametrize("further", [(), (torch.rand(6, 8),)])
@pytest.mark.parametrize("options", [{}, LABELLED], ids=TARGETS)
def test_additional_inputs_and_a_chosen_output(further, options):
    net = Anchored(Weighted(), n_anchors=3, train_anchors="reverse", output="out", **options)
    x, y = torch.randn(6, 5), torch.randn(6, 2) if options else None
    expected = net(x, y, *further)
    actual = torch.compile(net, backend="eager", fullgraph=True)(x, y, *further)
    torch.testing.assert_close(actual, expected)
    expected = net.eval()(x, None, *further)
    torch.testing.assert_close(torch.compile(net, backend="eager")(x, None, *further), expected)
