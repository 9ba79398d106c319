"""Training of a generator: targets, spread, critic, seeds, invalid data."""

import pytest
import torch

from deltauq.inverse import Generator, fit_generator
from deltauq.nn.training import Recipe


@pytest.fixture(scope="module")
def line():
    """Pairs whose mean is y and whose difference is anything in [-1, 1]."""
    torch.manual_seed(0)
    y = torch.randn(2000, 1)
    half = torch.rand(2000, 1) - 0.5
    return torch.cat([y + half, y - half], dim=1), y


@pytest.mark.parametrize("adversarial", [0.0, 0.1])
def test_generated_inputs_follow_target_and_spread_of_data(adversarial, line):
    x, y = line
    torch.manual_seed(0)
    g = Generator((2,), 2, (32, 32))
    history = fit_generator(
        g, x, y, Recipe(epochs=25, batch_size=100, lr=1e-2), adversarial=adversarial, hidden=(32, 32)
    )
    assert len(history.losses) == 25 and not g.training
    targets = torch.linspace(-1.5, 1.5, 500)[:, None]
    generated = g.sample(targets, seed=1)
    assert (generated.mean(1) - targets[:, 0]).abs().mean() < 0.15
    spread = float((generated[:, 0] - generated[:, 1]).std())
    assert 0.4 < spread < 0.75  # that of the data is 2 / √12 = 0.577


def test_custom_critic_is_trained(line):
    class Critic(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = torch.nn.Linear(3, 1)
            self.shapes = set()

        def forward(self, x, y):
            self.shapes.add((tuple(x.shape[1:]), tuple(y.shape[1:])))
            return self.layer(torch.cat([x.flatten(1), y], dim=1))

    x, y = line
    critic = Critic()
    before = critic.layer.weight.detach().clone()
    options = {"recipe": Recipe(epochs=1), "hidden": (8,), "critic": critic}
    fit_generator(Generator((2, 1), 2, (8,)), x[:200, :, None], y[:200], **options)
    assert critic.shapes == {((2, 1), (1,))} and not torch.equal(critic.layer.weight, before)


def test_training_is_repeatable(line):
    x, y = line
    generated = []
    for _ in range(2):
        torch.manual_seed(5)
        g = Generator((2,), 2, (8,))
        state = torch.random.get_rng_state()
        fit_generator(g, x[:200], y[:200, 0], Recipe(epochs=2, seed=3))
        assert torch.equal(torch.random.get_rng_state(), state)
        generated.append(g.sample(y[:10]))
    assert torch.equal(*generated)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"x": torch.zeros(0, 2), "y": torch.zeros(0, 1)}, "no inputs to train on"),
        ({"x": torch.zeros(5, 3)}, r"returns inputs of shape \(2,\), but x has \(3,\)"),
        ({"y": torch.zeros(4, 1)}, r"one number for each of 5 inputs, got \(4, 1\)"),
        ({"y": torch.full((5, 1), torch.nan)}, "x and y must be finite"),
        ({"x": torch.full((5, 2), torch.inf)}, "x and y must be finite"),
        ({"x": torch.full((5, 2), 1.5)}, r"returns inputs in \[0, 1\], but x is not"),
        ({"adversarial": -1.0}, "adversarial must not be negative, got -1.0"),
    ],
)
def test_invalid_data(change, message):
    options = {"x": torch.zeros(5, 2), "y": torch.zeros(5, 1), "recipe": Recipe(epochs=1), **change}
    with pytest.raises(ValueError, match=message):
        fit_generator(Generator((2,), 2, (8,), output="sigmoid"), **options)
