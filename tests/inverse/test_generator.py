"""`Generator`: outputs, latents, invalid parameters."""

import numpy as np
import pytest
import torch

from deltauq.inverse import Generator, fit_generator
from deltauq.inverse.generator import uniform
from deltauq.nn.training import Recipe


def test_shape_and_range():
    g = Generator((4, 3), 5, (8,), output="sigmoid")
    x = g(torch.randn(6, 1), uniform(6, 5, 0))
    assert x.shape == (6, 4, 3) and x.min() > 0.0 and x.max() < 1.0
    assert sum(layer.out_features for layer in Generator((784,)).layers[::2]) == 128 + 256 + 512 + 1024 + 784


def test_custom_layers():
    layers = torch.nn.Sequential(torch.nn.Unflatten(1, (1, 2, 2)), torch.nn.ConvTranspose2d(1, 1, 2, 2))
    g = Generator((4, 4), 3, layers=torch.nn.Sequential(*layers, torch.nn.Flatten()), output="sigmoid")
    x = g.sample(torch.zeros(5, 1))
    assert x.shape == (5, 4, 4) and g(torch.ones(5, 1), uniform(5, 3, 0)).max() < 1.0
    fit_generator(g, x, torch.zeros(5, 1), Recipe(epochs=1), hidden=(8,))
    assert g.sample(torch.zeros(5, 1)).shape == (5, 4, 4)


def test_clipped_output_has_gradients():
    g = Generator((4,), 2, (8,), output="clipped")
    torch.nn.init.zeros_(g.layers[-1].weight)
    g.layers[-1].bias.data = torch.tensor([-9.0, 9.0, 0.0, -3.5])
    x = g(torch.zeros(1, 1), torch.zeros(1, 2))
    torch.testing.assert_close(x, torch.tensor([[0.0, 1.0, 0.5, 0.0]]), atol=1e-7, rtol=0.0)
    x.sum().backward()
    assert (g.layers[-1].bias.grad > 0.0).all()


def test_random_latents_are_uniform():
    z = uniform(4000, 3, 1)
    assert z.min() >= -1.0 and z.max() <= 1.0
    np.testing.assert_allclose(z.var(0), 1.0 / 3.0, atol=0.02)
    assert torch.equal(z, uniform(4000, 3, 1)) and not torch.equal(z, uniform(4000, 3, 2))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"shape": ()}, "shape must be that of one input"),
        ({"n_latent": 0}, "n_latent must be an integer of at least 1, got 0"),
        ({"output": "tanh"}, r"output must be one of \['linear', 'sigmoid', 'clipped'\], got 'tanh'"),
    ],
)
def test_invalid_parameters(options, message):
    with pytest.raises(ValueError, match=message):
        Generator(**{"shape": (2,), **options})
