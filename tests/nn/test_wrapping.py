"""Where a network is anchored: the first layer, hidden layers, pretrained networks."""

import copy

import pytest
import torch
from torch import nn

from deltauq.nn import MLP, Anchored, ResNet18, ResNet20
from deltauq.nn.layer import AnchoredLayer


def test_the_first_layer_is_widened_in_place(conv_net):
    net = Anchored(conv_net)
    assert isinstance(conv_net.stem, AnchoredLayer)
    assert conv_net.stem.weight.shape == (8, 6, 5, 5)
    assert next(name for name, _ in net.named_parameters()) == "module.stem.wide.weight"
    assert any(p is conv_net.stem.weight for p in net.parameters())


def test_flattened_images_are_anchored_by_pixel():
    net = Anchored(nn.Sequential(nn.Flatten(), nn.Linear(12, 3)))
    assert isinstance(net.anchored_layer.wide, nn.Linear)
    assert net(torch.randn(8, 3, 2, 2)).shape == (8, 3)


@pytest.mark.parametrize(
    ("make", "shape"),
    [
        (lambda: MLP(5, 3, (32, 32), activation="relu", n_frequencies=0), (5,)),
        (lambda: MLP(5, 3, (32, 32), n_frequencies=16), (5,)),
        (ResNet18, (3, 16, 16)),
        (ResNet20, (3, 16, 16)),
    ],
)
def test_pretrained_network_begins_as_the_same_function(make, shape):
    plain = make()
    plain(torch.randn(8, *shape))  # so that batch norms have seen something
    anchored = copy.deepcopy(plain)
    net = Anchored(anchored, n_anchors=3, init="pretrained")
    plain.eval()
    x = torch.randn(6, *shape)
    expected = plain(x)
    net.set_anchors(torch.randn(3, *shape))
    posterior = net.posterior(x)
    scale = expected.abs().max()
    assert (posterior.mean - expected).abs().max() < 1e-5 * scale
    assert posterior.std.max() < 1e-5 * scale
    # With batch norm and dropout in training mode, too.
    torch.manual_seed(0)
    expected = plain.train()(x)
    torch.manual_seed(0)
    torch.testing.assert_close(net.train()(x), expected, rtol=1e-4, atol=1e-4)


def test_pretrained_strided_padded_stem(conv_net, images):
    plain = copy.deepcopy(conv_net).eval()
    net = Anchored(conv_net, init="pretrained")
    net.set_anchors(torch.randn(4, 3, 8, 8))
    assert (net.posterior(images).mean - plain(images)).abs().max() < 1e-5 * plain(images).abs().max()


def test_anchored_hidden_layer_begins_as_the_same_function():
    plain = ResNet20()
    plain(torch.randn(8, 3, 8, 8))
    net = Anchored(copy.deepcopy(plain), at="stages.2", n_anchors=3)
    assert isinstance(net.module.stages[2], AnchoredLayer)
    assert net.module.stages[2].wide.weight.shape == (32, 64)
    net.set_anchors(torch.randn(3, 3, 8, 8))
    x = torch.randn(4, 3, 8, 8)
    torch.testing.assert_close(net.posterior(x).mean, plain.eval()(x), rtol=1e-4, atol=1e-5)


def test_head_over_a_frozen_backbone_trains_alone():
    backbone = ResNet20().requires_grad_(False)
    net = Anchored(backbone, at="head", n_anchors=3)
    net.anchored_layer.following.requires_grad_(True)
    trainable = [name for name, p in net.named_parameters() if p.requires_grad]
    assert trainable == [
        f"module.head.{name}" for name in ("wide.weight", "following.weight", "following.bias")
    ]
    net(torch.randn(8, 3, 8, 8)).square().mean().backward()
    assert backbone.conv1.weight.grad is None
    assert net.anchored_layer.wide.weight.grad is not None


def test_embeddings_are_anchored_after_the_embedding():
    network = nn.Sequential(nn.Embedding(50, 8), nn.Flatten(), nn.Linear(24, 2))
    tokens = torch.randint(50, (6, 3))
    with pytest.raises(ValueError, match=r"first reaches '0' \(Embedding\), not the widened layer '2'"):
        Anchored(copy.deepcopy(network))(tokens)
    net = Anchored(network, at="2", n_anchors=4)
    net(tokens)
    assert net.anchors.dtype == torch.int64
    assert net.posterior(tokens).var.max() < 1e-12  # [I, I] reads the input back, up to rounding


class Backwards(nn.Module):
    """Registers its head before its body."""

    def __init__(self):
        super().__init__()
        self.head = nn.Linear(8, 2)
        self.body = nn.Linear(5, 8)

    def forward(self, x):
        return self.head(self.body(x).relu())


def test_a_first_registered_layer_that_is_not_first_raises():
    net = Anchored(Backwards())
    for _ in range(2):  # not only the first time
        with pytest.raises(ValueError, match=r"first reaches 'body' \(Linear\), not .* 'head'.*stem="):
            net(torch.randn(4, 5))
    net = Anchored(Backwards(), stem="body")
    assert net(torch.randn(4, 5)).shape == (4, 2)
    with pytest.raises(ValueError, match="first reaches 'body'"):
        net = Anchored(Backwards()).eval()
        net.set_anchors(torch.randn(3, 5))
        net(torch.randn(4, 5))


class Branches(nn.Module):
    """Two layers take the input."""

    def __init__(self):
        super().__init__()
        self.left, self.right = nn.Linear(5, 2), nn.Linear(5, 2)

    def forward(self, x):
        return self.left(x) + self.right(x)


class Unused(nn.Module):
    """The first layer is never called."""

    def __init__(self):
        super().__init__()
        self.spare, self.used = nn.Linear(5, 2), nn.Linear(5, 2)

    def forward(self, x):
        return self.used(x)


class Twice(nn.Module):
    """The first layer is called twice."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(5, 5)

    def forward(self, x):
        return self.layer(self.layer(x))


class Folded(nn.Module):
    """Folds time into the batch."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(5, 2)

    def forward(self, x):
        return self.layer(x.flatten(0, 1)).unflatten(0, x.shape[:2])


@pytest.mark.parametrize(
    ("network", "shape", "message"),
    [
        (Branches, (5,), r"also enters right, where it would pass without anchors.*layers called: left"),
        (Unused, (5,), r"'spare' was called never in one pass.*layers called: used \(Linear\)"),
        (Twice, (5,), "'layer' was called 2 times in one pass"),
        (Folded, (3, 5), "4 inputs reach the anchored layer as 12 rows"),
    ],
)
def test_layers_that_cannot_be_anchored_raise(network, shape, message):
    with pytest.raises(ValueError, match=message):
        Anchored(network())(torch.randn(4, *shape))


def test_a_layer_that_is_never_called_raises_in_evaluation():
    net = Anchored(Unused()).eval()
    net.set_anchors(torch.randn(3, 5))
    with pytest.raises(ValueError, match="without reaching the anchored layer 'spare'"):
        net(torch.randn(4, 5))


def test_several_consumers_of_a_hidden_tensor():
    with pytest.raises(ValueError, match=r"enters 'stages.1.0.conv1' also enters stages.1.0.shortcut"):
        Anchored(ResNet18(), at="stages.1.0.conv1")(torch.randn(4, 3, 8, 8))


def test_repr_names_the_anchored_layer(conv_net):
    assert "n_anchors=10, encoding=Difference(), stem='stem'" in repr(Anchored(conv_net))
    assert "at='head'" in repr(Anchored(ResNet20(), at="head"))


class Scaled(nn.Module):
    """Has a parameter of its own around the layer that takes the input, and so has the box within."""

    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(()))
        self.box = nn.Sequential(nn.Linear(5, 8), nn.ReLU(), nn.Linear(8, 2))
        self.box.register_parameter("shift", nn.Parameter(torch.zeros(())))

    def forward(self, x):
        return self.scale * self.box(x) + self.box.shift


def test_parameters_around_the_layer_do_not_take_the_input():
    net = Anchored(Scaled(), n_anchors=3)
    assert net.layer_name == "box.0"
    assert net(torch.randn(6, 5)).shape == (6, 2)
    assert net.posterior(torch.randn(4, 5)).var.min() > 0


class ByKeyword(nn.Module):
    """Calls its layers by keyword, with another tensor behind the first."""

    def __init__(self):
        super().__init__()
        self.first = nn.Linear(5, 8)
        self.mixed = Mixed()

    def forward(self, x):
        return self.mixed(hidden=self.first(input=x), weight=torch.ones(()))


class Mixed(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(8, 2)

    def forward(self, hidden, weight):
        return self.layer(hidden) * weight


@pytest.mark.parametrize("options", [{}, {"at": "mixed"}, {"at": "mixed.layer"}])
def test_layers_called_by_keyword(options):
    plain = ByKeyword()
    net = Anchored(copy.deepcopy(plain), n_anchors=3, init="pretrained", **options)
    x = torch.randn(6, 5)
    torch.testing.assert_close(net(x), plain(x))
    torch.testing.assert_close(net.posterior(x).mean, plain(x))


def test_two_consumers_called_by_keyword_raise():
    class Both(nn.Module):
        def __init__(self):
            super().__init__()
            self.left, self.right = nn.Linear(5, 2), nn.Linear(5, 2)

        def forward(self, x):
            return self.left(input=x) + self.right(input=x)

    with pytest.raises(ValueError, match="also enters right"):
        Anchored(Both())(torch.randn(4, 5))


def test_attributes_of_the_replaced_layer_can_be_read():
    network = nn.Sequential(nn.Linear(5, 8), nn.ReLU(), nn.Linear(8, 2))
    net = Anchored(network, at="2", n_anchors=3)
    assert (net.anchored_layer.in_features, net.anchored_layer.out_features) == (8, 2)
    assert net.anchored_layer.wide.weight.shape == (8, 16)
    with pytest.raises(AttributeError, match="no attribute 'kernel_size'"):
        _ = net.anchored_layer.kernel_size
    assert copy.deepcopy(net).anchored_layer.in_features == 8


@pytest.mark.parametrize(
    "at", ["layers.0", "layers.1", "layers.0.self_attn", "layers.0.linear1", "layers.1.norm2"]
)
def test_transformers_do_not_use_their_fast_path(at):
    layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True)
    plain = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False).eval()
    net = Anchored(copy.deepcopy(plain), at=at, n_anchors=3).eval()
    x = torch.randn(5, 4, 8)
    net.set_anchors(torch.randn(3, 4, 8))
    posterior = net.posterior(x)
    torch.testing.assert_close(posterior.mean, plain(x), rtol=1e-4, atol=1e-5)  # it reads the input back
    with torch.no_grad():
        net.anchored_layer.wide.weight[:, :8] *= 1.5
    assert net.posterior(x).var.min() > 1e-9


def test_self_attention_with_an_anchored_projection():
    attention = nn.MultiheadAttention(8, 2, batch_first=True)

    class Attends(nn.Module):
        def __init__(self):
            super().__init__()
            self.attention = attention

        def forward(self, x):
            return self.attention(x, x, value=x, need_weights=False)[0]

    net = Anchored(Attends(), at="attention", n_anchors=3)
    with torch.no_grad():
        net.anchored_layer.wide.weight *= 2.0
    x = torch.randn(4, 5, 8)
    doubled = attention(2 * x, 2 * x, 2 * x, need_weights=False)[0]
    torch.testing.assert_close(net(x), doubled, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    "layer", [nn.LSTM(5, 4), nn.MultiheadAttention(4, 2), nn.TransformerEncoderLayer(4, 2, 8)]
)
def test_sequences_need_inputs_on_their_first_axis(layer):
    with pytest.raises(ValueError, match=r"takes time on its first axis.*batch_first=True"):
        Anchored(nn.Sequential(nn.Identity(), layer), at="1")


def test_a_recurrent_layer_with_inputs_first():
    class Last(nn.Module):
        def __init__(self):
            super().__init__()
            self.lstm = nn.LSTM(5, 4, batch_first=True)

        def forward(self, x):
            return self.lstm(x)[0][:, -1]

    net = Anchored(Last(), at="lstm", n_anchors=3)
    assert net(torch.randn(6, 7, 5)).shape == (6, 4)
    assert net.posterior(torch.randn(2, 7, 5)).var.shape == (2, 4)
