"""MC dropout, against all masks there are."""

from itertools import product

import pytest
import torch
from torch import nn

from deltauq.baselines import MCDropout
from deltauq.baselines.mc_dropout import SharedDropout, add_dropout
from deltauq.nn import MLP, ResNet20
from deltauq.nn.training import Recipe

RECIPE = Recipe(epochs=3, batch_size=32, lr=1e-2)


def dropouts(net):
    return [name for name, layer in net.named_modules() if isinstance(layer, SharedDropout)]


def of_network(net, rate, n_samples):
    model = MCDropout(lambda: net, rate, n_samples)
    model.network_ = add_dropout(net, rate)
    return model


def test_moments_of_a_linear_model_have_a_closed_form():
    linear = nn.Linear(5, 2)
    model = of_network(nn.Sequential(nn.Dropout(), linear), 0.3, 20_000)
    x = torch.randn(4, 5)
    posterior = model.posterior(x)
    # Each product w·x is kept with probability 0.7 and then divided by 0.7, on its own.
    mean, var = linear(x).detach(), 0.3 / 0.7 * x.square() @ linear.weight.detach().square().T
    torch.testing.assert_close(posterior.mean, mean, rtol=0, atol=4 * float(var.max() / 20_000) ** 0.5)
    torch.testing.assert_close(posterior.var, var, rtol=0.06, atol=0)


def test_masks_are_equally_frequent():
    net = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 1))
    x = torch.randn(1, 3)
    hidden = net[:2](x)
    masks = torch.tensor(list(product([0.0, 2.0], repeat=4)))
    expected = net[2](hidden * masks).detach()
    posterior = of_network(net, 0.5, 10_000).posterior(x)
    spread = float(expected.std())
    assert abs(float(posterior.mean - expected.mean())) < 4 * spread / 100
    torch.testing.assert_close(posterior.var[0, 0], expected.var(correction=0), rtol=0.06, atol=0)


def test_training_drops_whole_features_of_single_rows():
    drop = SharedDropout(0.25)
    out = drop(torch.ones(2000, 3, 2, 2))
    assert torch.equal(out, out[:, :, :1, :1].expand_as(out))
    kept = out[:, :, 0, 0]
    torch.testing.assert_close(kept.unique(), torch.tensor([0.0, 4 / 3]))
    torch.testing.assert_close((kept == 0).float().mean(0), torch.full((3,), 0.25), rtol=0, atol=0.04)
    assert len(kept.unique(dim=0)) == 8
    assert drop.eval()(out) is out


def test_dropout_follows_every_activation_of_a_perceptron():
    net = add_dropout(MLP(3, 1, (8, 8)), 0.1)
    assert dropouts(net) == ["layers.1.1", "layers.3.1"]


def test_dropout_follows_every_block_of_a_residual_network():
    net = add_dropout(ResNet20(), 0.1)
    assert len(dropouts(net)) == 9
    plain = ResNet20().eval()
    x = torch.randn(2, 3, 8, 8)
    with torch.no_grad():
        before = plain(x)
        torch.testing.assert_close(add_dropout(plain, 0.1).eval()(x), before)


def test_existing_dropout_layers_are_replaced():
    net = add_dropout(MLP(3, 1, (8, 8), dropout=0.5), 0.1)
    assert dropouts(net) == ["layers.2", "layers.5"]
    assert not any(isinstance(layer, nn.Dropout) for layer in net.modules())


def test_shared_activation_is_followed_by_dropout_twice():
    relu = nn.ReLU()
    net = add_dropout(nn.Sequential(nn.Linear(2, 4), relu, nn.Linear(4, 6), relu, nn.Linear(6, 1)), 0.5)
    assert dropouts(net) == ["1.1", "3.1"]


def test_only_dropout_is_random_in_prediction(blobs):
    x, y = blobs

    def make():
        return nn.Sequential(nn.Linear(2, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 3))

    model = MCDropout(make, 0.2, 5).fit(x, y, RECIPE)
    before = {name: value.clone() for name, value in model.network_.state_dict().items()}
    model.posterior(x)
    for name, value in model.network_.state_dict().items():
        torch.testing.assert_close(value, before[name], rtol=0, atol=0)


class Transformer(nn.Module):
    """An encoder over the features, whose fast path in evaluation calls no dropout layer."""

    def __init__(self):
        super().__init__()
        layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
        self.lift, self.head = nn.Linear(1, 8), nn.Linear(8, 1)
        self.encoder = nn.TransformerEncoder(layer, 1)

    def forward(self, x):
        return self.head(self.encoder(self.lift(x[:, :, None])).mean(1))


def test_transformers_have_a_variance(wave):
    x, y = wave
    model = MCDropout(Transformer, 0.3, 5).fit(x, y, RECIPE)
    before = torch.backends.mha.get_fastpath_enabled()
    assert (model.posterior(x).var > 0).all()
    assert torch.backends.mha.get_fastpath_enabled() == before


class Unused(nn.Module):
    """Has a dropout layer and does not call it."""

    def __init__(self):
        super().__init__()
        self.linear, self.drop = nn.Linear(2, 1), nn.Dropout(0.5)

    def forward(self, x):
        return self.linear(x)


def test_dropout_that_is_never_called_raises(wave):
    model = MCDropout(Unused).fit(*wave, RECIPE)
    with pytest.raises(ValueError, match="no dropout layer of Unused was called"):
        model.posterior(wave[0])


def test_masks_depend_on_the_seed(wave):
    x, y = wave
    model = MCDropout(lambda: MLP(2, 1, (16,)), 0.3, 4).fit(x, y, RECIPE)
    first = model.posterior(x)
    torch.rand(3)
    torch.testing.assert_close(model.posterior(x).var, first.var, rtol=0, atol=0)
    model.seed = 1
    assert not torch.allclose(model.posterior(x).var, first.var)


def test_invalid_input_raises():
    with pytest.raises(ValueError, match="rate must lie between 0 and 1, got 1"):
        MCDropout(lambda: MLP(2), 1.0)
    with pytest.raises(ValueError, match="n_samples must be at least 2, got 1"):
        MCDropout(lambda: MLP(2), 0.1, 1)
    with pytest.raises(ValueError, match="Linear has no activation layers"):
        add_dropout(nn.Linear(2, 1), 0.1)
