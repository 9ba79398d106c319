"""Temperature scaling of a network, against scipy's optimum."""

import pytest
import torch
from scipy.optimize import minimize_scalar
from torch import nn
from torch.nn.functional import cross_entropy

from deltauq.baselines import TemperatureNetwork
from deltauq.nn import MLP
from deltauq.nn.training import Recipe, derive_seed


def noisy_classes(n):
    """Two classes, of which a line tells apart nine tenths."""
    x = torch.randn(n, 2)
    flipped = torch.rand(n) < 0.1
    return x, ((x[:, 0] > 0) ^ flipped).long()


def test_temperature_maximises_likelihood_of_held_out_rows():
    x, y = noisy_classes(400)
    model = TemperatureNetwork(lambda: MLP(2, 2, (64, 64)), 0.25)
    model.fit(x, y, Recipe(epochs=60, batch_size=50, lr=1e-2, seed=3))
    # An overfitted network is too sure of itself.
    assert model.scaler_.temperature_ > 1.2
    rows = torch.randperm(400, generator=torch.Generator().manual_seed(derive_seed(3, -2)))[:100]
    logits = model.network_(x[rows]).detach().double()
    best = minimize_scalar(lambda t: float(cross_entropy(logits / t, y[rows])), (0.5, 5.0), (0.1, 50.0))
    assert model.scaler_.temperature_ == pytest.approx(best.x, rel=1e-4)
    posterior = model.posterior(x, "softmax")
    torch.testing.assert_close(posterior.mean, model.network_(x).detach() / best.x, rtol=1e-4, atol=1e-5)
    assert not posterior.var.any()


def test_invalid_input_raises():
    x, y = noisy_classes(4)
    with pytest.raises(ValueError, match="temperature scaling is for classification"):
        TemperatureNetwork(nn.Identity).fit(x, x, Recipe())
    with pytest.raises(ValueError, match="held_out must lie between 0 and 1, got 1"):
        TemperatureNetwork(nn.Identity, 1.0)
    with pytest.raises(ValueError, match="leaves none of 4 rows"):
        TemperatureNetwork(nn.Identity, 0.99).fit(x, y, Recipe())
