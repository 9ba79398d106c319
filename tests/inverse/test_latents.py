"""Latents of known inputs: closed forms, the cube, what goes wrong."""

import numpy as np
import pytest
import torch

from deltauq.inverse import Generator, latents_of
from deltauq.inverse.generator import uniform


def linear(seed=0):
    """Return a generator whose inputs are linear in y and z, and its matrix."""
    a = torch.from_numpy(np.linalg.qr(np.random.default_rng(seed).normal(size=(8, 3)))[0]).float()
    return (lambda y, z: y + z @ a.T), a


def test_latents_are_those_of_least_squares():
    g, a = linear()
    torch.manual_seed(0)
    y, z = torch.randn(20, 1), 0.8 * uniform(20, 3, 0)
    off = 0.1 * torch.randn(20, 8)
    x = g(y, z) + off
    expected = torch.linalg.lstsq(a, (x - y).T).solution.T
    found = latents_of(g, x, y[:, 0], n_latent=3, n_steps=500)
    torch.testing.assert_close(found, expected, atol=1e-3, rtol=0.0)


def test_latents_stay_in_the_cube():
    g, _ = linear()
    y = torch.zeros(2, 1)
    far = torch.tensor([[5.0, 0.0, -5.0], [0.5, 9.0, 0.0]])
    found = latents_of(g, g(y, far), y, n_latent=3, n_steps=500)
    torch.testing.assert_close(found, far.clamp(-1.0, 1.0), atol=1e-3, rtol=0.0)


def test_a_generator_makes_again_what_it_has_made_and_is_left_as_it_was():
    torch.manual_seed(0)
    g = Generator((4, 4), 3, (32,), output="sigmoid").train()
    y = torch.randn(10, 1)
    x = g.sample(y)
    found = latents_of(g, x, y)
    with torch.no_grad():
        before, after = (g(y, z) - x for z in (torch.zeros(10, 3), found))
    assert after.square().mean() < 1e-3 * before.square().mean()
    assert g.training and all(weight.grad is None for weight in g.parameters())
    assert not found.requires_grad


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"x": torch.zeros(0, 8), "y": torch.zeros(0)}, "got 0 for 0"),
        ({"y": torch.zeros(4)}, "got 4 for 5"),
        ({"x": torch.zeros(5, 7)}, r"g makes inputs of shape \(5, 8\), but x has \(5, 7\)"),
        ({"x": torch.full((5, 8), torch.nan)}, "no latents were found"),
        ({"n_latent": None}, "give n_latent"),
        ({"n_latent": 0}, "n_latent must be an integer of at least 1, got 0"),
        ({"n_steps": 0}, "n_steps must be an integer of at least 1, got 0"),
        ({"lr": -1.0}, "lr must be positive, got -1.0"),
    ],
)
def test_bad_input(change, complaint):
    words = {"x": torch.zeros(5, 8), "y": torch.zeros(5), "n_latent": 3, **change}
    with pytest.raises(ValueError, match=complaint):
        latents_of(linear()[0], **words)
