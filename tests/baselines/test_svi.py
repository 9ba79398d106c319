"""Variational inference, against closed forms on linear models."""

import pytest
import torch
from torch import nn
from torch.distributions import Normal, kl_divergence

from deltauq.baselines import SVI
from deltauq.baselines.svi import VariationalLayer, VariationalNetwork, make_variational
from deltauq.nn import MLP, ResNet20
from deltauq.nn.training import Recipe


def spread(layer):
    """Give the weights of a variational layer deviations of their own."""
    with torch.no_grad():
        for log_std in layer.log_std.values():
            log_std.uniform_(-2, 0)
    return layer


def stds(layer):
    return {name: log_std.exp().detach() for name, log_std in layer.log_std.items()}


def test_training_outputs_have_moments_of_the_weights():
    layer = spread(VariationalLayer(nn.Linear(5, 3), 0.1))
    x = torch.randn(1, 5)
    outputs = layer(x.expand(40_000, 5)).detach()
    var = x.square() @ stds(layer)["weight"].square().T + stds(layer)["bias"].square()
    mean = layer.layer(x).detach()
    torch.testing.assert_close(
        outputs.mean(0, keepdim=True), mean, rtol=0, atol=4 * float(var.max()) ** 0.5 / 200
    )
    torch.testing.assert_close(outputs.var(0, keepdim=True), var, rtol=0.05, atol=0)


def test_convolution_outputs_have_moments_of_the_weights():
    layer = spread(VariationalLayer(nn.Conv2d(2, 3, 3, stride=2, padding=1, padding_mode="reflect"), 0.1))
    x = torch.randn(1, 2, 5, 5)
    outputs = layer(x.expand(20_000, 2, 5, 5)).detach()
    draws = []
    for k in range(4000):
        layer.draw(torch.Generator().manual_seed(k))
        draws.append(layer(x).detach())
    drawn = torch.cat(draws)
    torch.testing.assert_close(outputs.mean(0), drawn.mean(0), rtol=0, atol=0.15)
    torch.testing.assert_close(outputs.std(0), drawn.std(0), rtol=0.08, atol=0)


def test_prediction_has_the_closed_form_of_a_linear_model(wave):
    x, y = wave
    model = SVI(lambda: nn.Linear(2, 1), n_samples=10_000).fit(x, y, Recipe(epochs=1))
    layer = spread(model.network_.module)
    posterior = model.posterior(x)
    var = x.square() @ stds(layer)["weight"].square().T + stds(layer)["bias"].square()
    mean = layer.layer(x).detach()
    torch.testing.assert_close(posterior.mean, mean, rtol=0, atol=4 * float(var.max()) ** 0.5 / 100)
    torch.testing.assert_close(posterior.var, var, rtol=0.06, atol=0)


def test_mean_field_posterior_of_linear_regression():
    n, noise, prior = 200, 0.5, 0.7
    x = torch.randn(n, 3) @ torch.tensor([[1.0, 0.5, 0.0], [0.0, 1.0, 0.3], [0.0, 0.0, 1.0]])
    y = x @ torch.tensor([[1.0], [-0.5], [0.2]]) + 0.3 + noise * torch.randn(n, 1)
    design = torch.cat([x, torch.ones(n, 1)], 1)
    precision = design.T @ design / noise**2 + torch.eye(4) / prior**2
    mean = torch.linalg.solve(precision, design.T @ y / noise**2)[:, 0]
    # The best factorised normal has the mean of the posterior, and the variances of its conditionals.
    std = precision.diag() ** -0.5
    recipe = Recipe(epochs=700, batch_size=n, lr=0.05, schedule="cosine", weight_decay=9.0)
    layer = SVI(lambda: nn.Linear(3, 1), prior, noise=noise).fit(x, y, recipe).network_.module
    means = torch.cat([layer.layer.weight[0], layer.layer.bias]).detach()
    torch.testing.assert_close(means, mean, rtol=0, atol=0.01)
    torch.testing.assert_close(
        torch.cat([stds(layer)["weight"][0], stds(layer)["bias"]]), std, rtol=0.1, atol=0
    )


def test_noise_is_learned_by_default():
    x = torch.randn(500, 2)
    y = x.sum(1, keepdim=True) + 0.2 * torch.randn(500, 1)
    recipe = Recipe(epochs=150, batch_size=100, lr=0.05, schedule="cosine")
    model = SVI(lambda: nn.Linear(2, 1)).fit(x, y, recipe)
    assert abs(model.network_.noise.item() - 0.2) < 0.02


def test_outputs_may_be_scalars(wave):
    x, y = wave
    recipe = Recipe(epochs=3, batch_size=20)
    flat = SVI(lambda: nn.Sequential(nn.Linear(2, 1), nn.Flatten(0))).fit(x, y[:, 0], recipe)
    column = SVI(lambda: nn.Sequential(nn.Linear(2, 1), nn.Identity())).fit(x, y, recipe)
    torch.testing.assert_close(flat.posterior(x).mean, column.posterior(x).mean[:, 0])
    assert flat.posterior(x).var.shape == (len(x),)


class Tied(nn.Module):
    """Uses one layer under two names, and under a third inside a container."""

    def __init__(self):
        super().__init__()
        self.first = nn.Linear(2, 2)
        self.second, self.inside = self.first, nn.Sequential(self.first, nn.Linear(2, 1))

    def forward(self, x):
        return self.inside(self.second(self.first(x)))


def test_shared_layer_becomes_one_variational_layer():
    net = make_variational(Tied(), 0.1)
    assert net.first is net.second is net.inside[0]
    network = VariationalNetwork(net, 1.0, None)
    assert len(network.layers) == 2
    expected = sum(divergence_by_torch(layer, 1.0) for layer in (net.first, net.inside[1]))
    torch.testing.assert_close(network.divergence(), expected)


def divergence_by_torch(layer, prior_std):
    return sum(
        kl_divergence(Normal(mean, stds(layer)[name]), Normal(0.0, prior_std)).sum()
        for name, mean in layer.layer.named_parameters()
    )


@pytest.mark.parametrize("memory_format", [torch.contiguous_format, torch.channels_last])
def test_divergence_equals_torch(memory_format):
    net = make_variational(
        nn.Sequential(nn.Conv2d(3, 4, (3, 2)), nn.Flatten(), nn.Linear(8, 3, bias=False)), 0.1
    )
    for layer in (net[0], net[2]):
        spread(layer)
    network = VariationalNetwork(net, 0.8, None)
    network.to(memory_format=memory_format)
    expected = sum(divergence_by_torch(layer, 0.8) for layer in network.layers)
    torch.testing.assert_close(network.divergence(), expected)
    # Means and deviations may be kept in different orders.
    net[0].layer.weight.data = net[0].layer.weight.data.contiguous()
    torch.testing.assert_close(network.divergence(), expected)


def test_converted_network_starts_at_the_original_function():
    net = ResNet20().eval()
    x = torch.randn(2, 3, 8, 8)
    with torch.no_grad():
        before = net(x)
        after = make_variational(net, 0.05).eval()(x)
    torch.testing.assert_close(after, before, rtol=0, atol=0)
    kinds = {type(layer) for layer in net.modules() if isinstance(layer, VariationalLayer)}
    assert kinds and sum(isinstance(layer, VariationalLayer) for layer in net.modules()) == 20


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_zero_inputs_and_low_precision_have_finite_gradients(dtype):
    layer = VariationalLayer(nn.Conv2d(1, 4, 3, padding=1, bias=False), 0.05)
    with torch.autocast("cpu", dtype, enabled=dtype != torch.float32):
        layer(torch.zeros(2, 1, 6, 6)).sum().backward()
    assert all(parameter.grad.isfinite().all() for parameter in layer.parameters())


def test_entropy_of_classes_away_from_data(blobs):
    x, y = blobs
    recipe = Recipe(epochs=60, batch_size=50, lr=2e-2)
    model = SVI(lambda: MLP(2, 3, (16,)), n_samples=50).fit(x, y, recipe)
    posterior = model.posterior(x, "softmax")
    assert (posterior.mean.argmax(1) == y).float().mean() > 0.95
    torch.testing.assert_close(posterior.link_mean.sum(1), torch.ones(len(x)))
    assert model.posterior(10 * x).var.mean() > 4 * posterior.var.mean()
    assert all(layer.drawn is None for layer in model.network_.layers)


def test_invalid_input_raises(wave):
    with pytest.raises(ValueError, match="prior_std must be positive, got 0"):
        SVI(lambda: MLP(2), 0.0)
    with pytest.raises(ValueError, match="ReLU has no Linear or Conv2d layers"):
        SVI(nn.ReLU).fit(*wave, Recipe(epochs=1))
