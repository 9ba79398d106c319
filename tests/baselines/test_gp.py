"""The Gaussian process, against scikit-learn's with the same kernel."""

import numpy as np
import pytest
import torch

pytest.importorskip("botorch")

from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, WhiteKernel

from deltauq.baselines import GaussianProcess
from deltauq.nn.training import Recipe


def twin(x, y, model):
    """Return what scikit-learn's process of the same kernel predicts: mean, variance, and the noise in it."""
    gp = model.model_
    low, width = x.amin(0), x.amax(0) - x.amin(0)
    center, unit = y.mean().item(), y.std().item()
    constant, noise = gp.mean_module.constant.item(), gp.likelihood.noise.item()
    kernel = RBF(gp.covar_module.lengthscale.detach().numpy()[0]) + WhiteKernel(noise)
    theirs = GaussianProcessRegressor(kernel, alpha=0.0, optimizer=None)
    theirs.fit(((x - low) / width).numpy(), ((y - center) / unit - constant).numpy()[:, 0])

    def predict(rows):
        mean, std = theirs.predict(((rows - low) / width).numpy(), return_std=True)
        return (mean + constant) * unit + center, (std * unit) ** 2, noise * unit**2

    return predict


def test_mean_and_variance_equal_scikit_learn(wave):
    x, y = (tensor.double() for tensor in wave)
    model = GaussianProcess().fit(x, y, Recipe())
    order = model.rows_
    rows = 2 * torch.randn(40, 2).double()
    mean, var, noise = twin(x[order], y[order], model)(rows)
    ours = model.posterior(rows, batch_size=7)
    np.testing.assert_allclose(ours.mean[:, 0], mean, rtol=0, atol=1e-5)
    # Theirs has the noise of an observation in it.
    np.testing.assert_allclose(ours.var[:, 0], var - noise, rtol=1e-4, atol=1e-6)
    model.observation_noise = True
    np.testing.assert_allclose(model.posterior(rows).var[:, 0], var, rtol=1e-4)


def test_a_sine_is_learned_with_its_noise(wave):
    x, y = wave
    model = GaussianProcess(observation_noise=True).fit(x, y, Recipe())
    grid = torch.linspace(-1.5, 1.5, 50)[:, None] * torch.tensor([[1.0, 0.0]])
    posterior = model.posterior(grid)
    torch.testing.assert_close(posterior.mean, (2 * grid[:, :1]).sin().double(), rtol=0, atol=0.15)
    assert 0.08 < float(posterior.std.mean()) < 0.16
    assert posterior.mean.dtype == torch.float64


def test_subsample_depends_on_the_seed():
    x = torch.randn(60, 1)
    y = torch.cat([x.sin(), x.cos()], 1)
    first, second, other = (GaussianProcess(40).fit(x, y, Recipe(seed=seed)) for seed in (0, 0, 1))
    assert first.rows_.shape == (40,) and len(first.rows_.unique()) == 40
    assert torch.equal(first.rows_, second.rows_) and not torch.equal(first.rows_, other.rows_)
    posterior = first.posterior(x)
    torch.testing.assert_close(posterior.mean, y.double(), rtol=0, atol=0.05)
    torch.testing.assert_close(first.posterior(x, batch_size=1).var, posterior.var, rtol=1e-6, atol=1e-12)


def test_invalid_input_raises(wave):
    x, y = wave
    with pytest.raises(ValueError, match="max_rows must be at least 2, got 1"):
        GaussianProcess(1)
    with pytest.raises(ValueError, match="is for regression"):
        GaussianProcess().fit(x, torch.arange(96), Recipe())
    with pytest.raises(ValueError, match=r"got \(96, 2\) and \(96,\)"):
        GaussianProcess().fit(x, y[:, 0], Recipe())
    with pytest.raises(ValueError, match="not fitted yet"):
        GaussianProcess().posterior(x)
