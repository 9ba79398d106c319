"""Baselines as surrogates, compared with `deltauq.baselines`."""

from functools import partial

import pytest
import torch

pytest.importorskip("botorch")

from torch import nn

from deltauq.baselines import DeepEnsemble, DEUPNetwork
from deltauq.bo import AnchoredSurrogate, DEUPSurrogate, DropoutSurrogate, EnsembleSurrogate, fit_together
from deltauq.bo.anchored import PAPER_SETTINGS
from deltauq.nn import MLP
from deltauq.nn.training import Recipe

SHORT = {"network": partial(MLP, hidden=(16, 16)), "recipe": Recipe(epochs=40, lr=1e-2)}
SURROGATES = {
    "dropout": partial(DropoutSurrogate, n_samples=8, posterior="gaussian", **SHORT),
    "ensemble": partial(EnsembleSurrogate, posterior="gaussian", **SHORT),
    "deup": partial(DEUPSurrogate, **SHORT),
}


@pytest.mark.parametrize("name", SURROGATES)
def test_moments_equal_baseline(bowl, name):
    (x, y), model = bowl, SURROGATES[name](*bowl).fit()
    if name == "deup":
        baseline = DEUPNetwork(SHORT["network"])
        baseline.network_, baseline.error_network_, baseline.scale_ = model.net, model.error_net, model.scale
    else:
        baseline = model.baseline if name == "dropout" else DeepEnsemble.from_members(model.nets)
    points = torch.rand(7, 1, 2, dtype=torch.float64)
    expected = baseline.posterior(((points - x.mean(0)) / x.std(0)).squeeze(1))
    posterior = model.posterior(points)
    torch.testing.assert_close(posterior.mean.squeeze(1), expected.mean * y.std() + y.mean())
    torch.testing.assert_close(posterior.variance.squeeze(1), expected.var * y.var())


@pytest.mark.parametrize("make", [EnsembleSurrogate, DEUPSurrogate])
def test_training_equals_baseline(bowl, make):
    x, y = bowl
    model = make(x, y, input_transform=None, outcome_transform=None, **SHORT).fit()

    def network():
        return SHORT["network"](2, 1).double()

    baseline = {EnsembleSurrogate: DeepEnsemble(network, 3), DEUPSurrogate: DEUPNetwork(network)}[make]
    expected = baseline.fit(x, y, SHORT["recipe"]).posterior(x)
    posterior = model.posterior(x[:, None])
    torch.testing.assert_close(posterior.mean.squeeze(1), expected.mean, rtol=1e-5, atol=1e-6)
    factor = 3 / 2 if make is EnsembleSurrogate else 1  # BoTorch divides by M - 1
    torch.testing.assert_close(posterior.variance.squeeze(1), factor * expected.var, rtol=1e-4, atol=1e-6)


def test_networks_with_batch_norm_are_trained_one_by_one(bowl):
    def network(d, m):
        return nn.Sequential(nn.Linear(d, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, m))

    model = EnsembleSurrogate(*bowl, network=network, recipe=Recipe(epochs=2)).fit()
    assert model.posterior(bowl[0]).mean.isfinite().all()


def test_dropout_fit_together_is_repeatable(bowl):
    x, y = bowl

    def trained():
        models = [
            DropoutSurrogate(x, c * y, network=SHORT["network"], recipe=Recipe(epochs=300, lr=1e-2, seed=c))
            for c in (1, 2)
        ]
        fit_together(models)
        return models

    first, again = trained(), trained()
    for c, one, other in zip((1, 2), first, again, strict=True):
        assert torch.equal(one.posterior(x).mean, other.posterior(x).mean)
        assert (one.posterior(x).mean - c * y).square().mean() < 0.3 * (c * y).var()


def test_paper_parameters(bowl):
    assert DropoutSurrogate(*bowl).baseline.rate == 0.3
    assert EnsembleSurrogate(*bowl).n_members == 3
    assert DEUPSurrogate(bowl[0][:3], bowl[1][:3]).n_folds == 3
    anchored = AnchoredSurrogate(*bowl, **PAPER_SETTINGS).network(2, 1)
    assert anchored.n_anchors == 30 and not anchored.target.needs_labels
    network = anchored.module
    assert network.config["hidden"] == [128, 128, 128] and network.config["activation"] == "relu"
