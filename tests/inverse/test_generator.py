"""The generator: what it makes follows the target, and its latents matter."""

import numpy as np
import pytest
import torch

from deltauq.inverse import Generator, fit_generator
from deltauq.inverse.generator import uniform
from deltauq.nn.recipe import Recipe


def test_shape_and_range():
    g = Generator((4, 3), 5, (8,), output="sigmoid")
    x = g(torch.randn(6, 1), uniform(6, 5, 0))
    assert x.shape == (6, 4, 3) and x.min() > 0.0 and x.max() < 1.0
    assert sum(layer.out_features for layer in Generator((784,)).layers[::2]) == 128 + 256 + 512 + 1024 + 784


def test_latents_are_uniform_on_the_cube():
    z = uniform(4000, 3, 1)
    assert z.min() >= -1.0 and z.max() <= 1.0
    np.testing.assert_allclose(z.var(0), 1.0 / 3.0, atol=0.02)
    assert torch.equal(z, uniform(4000, 3, 1)) and not torch.equal(z, uniform(4000, 3, 2))


@pytest.fixture(scope="module")
def line():
    """Pairs whose mean is y and whose difference is anything in [-1, 1]."""
    torch.manual_seed(0)
    y = torch.randn(2000, 1)
    half = torch.rand(2000, 1) - 0.5
    return torch.cat([y + half, y - half], dim=1), y


@pytest.mark.parametrize("adversarial", [0.0, 0.1])
def test_what_is_made_follows_the_target_and_varies_as_the_data_do(adversarial, line):
    x, y = line
    torch.manual_seed(0)
    g = Generator((2,), 2, (32, 32))
    history = fit_generator(
        g, x, y, Recipe(epochs=25, batch_size=100, lr=1e-2), adversarial=adversarial, hidden=(32, 32)
    )
    assert len(history.losses) == 25 and not g.training
    targets = torch.linspace(-1.5, 1.5, 500)[:, None]
    made = g.sample(targets, seed=1)
    assert (made.mean(1) - targets[:, 0]).abs().mean() < 0.15
    spread = float((made[:, 0] - made[:, 1]).std())
    assert 0.4 < spread < 0.75, "that of the data is 2 / √12 = 0.577"


def test_training_repeats_itself_and_leaves_the_random_state(line):
    x, y = line
    made = []
    for _ in range(2):
        torch.manual_seed(5)
        g = Generator((2,), 2, (8,))
        state = torch.random.get_rng_state()
        fit_generator(g, x[:200], y[:200, 0], Recipe(epochs=2, seed=3))
        assert torch.equal(torch.random.get_rng_state(), state)
        made.append(g.sample(y[:10]))
    assert torch.equal(*made)


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"x": torch.zeros(0, 2), "y": torch.zeros(0, 1)}, "the training range holds no inputs"),
        ({"x": torch.zeros(5, 3)}, r"makes inputs of shape \(2,\), but x has \(3,\)"),
        ({"y": torch.zeros(4, 1)}, r"one number for each of 5 inputs, got \(4, 1\)"),
        ({"y": torch.full((5, 1), torch.nan)}, "x and y must be finite"),
        ({"x": torch.full((5, 2), torch.inf)}, "x and y must be finite"),
        ({"x": torch.full((5, 2), 1.5)}, r"makes inputs in \[0, 1\], but x is not"),
        ({"adversarial": -1.0}, "adversarial must not be negative, got -1.0"),
    ],
)
def test_bad_data(change, complaint):
    words = {"x": torch.zeros(5, 2), "y": torch.zeros(5, 1), "recipe": Recipe(epochs=1), **change}
    with pytest.raises(ValueError, match=complaint):
        fit_generator(Generator((2,), 2, (8,), output="sigmoid"), **words)


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        ({"shape": ()}, "shape must be that of one input"),
        ({"n_latent": 0}, "n_latent must be at least 1, got 0"),
        ({"output": "tanh"}, r"output must be one of \['linear', 'sigmoid'\], got 'tanh'"),
    ],
)
def test_bad_words(words, complaint):
    with pytest.raises(ValueError, match=complaint):
        Generator(**{"shape": (2,), **words})
