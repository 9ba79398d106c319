"""All surrogates in BoTorch code."""

from functools import partial

import numpy as np
import pytest
import torch

pytest.importorskip("botorch")

from botorch.acquisition import (
    LogExpectedImprovement,
    qLogExpectedImprovement,
    qLogNoisyExpectedImprovement,
    qUpperConfidenceBound,
)
from botorch.acquisition.objective import ScalarizedPosteriorTransform
from botorch.optim import optimize_acqf
from scipy.stats import norm
from sklearn.ensemble import RandomForestRegressor

from deltauq import AnchoredRegressor
from deltauq.bo import (
    AnchoredSurrogate,
    DEUPSurrogate,
    DropoutSurrogate,
    EnsembleSurrogate,
    GPSurrogate,
    SklearnSurrogate,
    fit_together,
)
from deltauq.nn import MLP
from deltauq.nn.training import Recipe

SHORT = {"network": partial(MLP, hidden=(16, 16)), "recipe": Recipe(epochs=40, lr=1e-2)}
FOREST = AnchoredRegressor(RandomForestRegressor(3, random_state=0), n_anchors=10, random_state=0)

ENSEMBLES = {
    "anchored": partial(AnchoredSurrogate, **SHORT),
    "dropout": partial(DropoutSurrogate, n_samples=8, **SHORT),
    "ensemble": partial(EnsembleSurrogate, **SHORT),
    "sklearn": partial(SklearnSurrogate, regressor=FOREST),
}
SURROGATES = {
    **ENSEMBLES,
    **{f"{name}-gaussian": partial(make, posterior="gaussian") for name, make in ENSEMBLES.items()},
    "deup": partial(DEUPSurrogate, **SHORT),
    "gp": GPSurrogate,
}
NETWORKS = sorted(set(SURROGATES) - {"gp", "sklearn", "sklearn-gaussian"})


@pytest.fixture(scope="module")
def fitted(bowl):
    return {name: make(*bowl).fit() for name, make in SURROGATES.items()}


@pytest.mark.filterwarnings(
    "ignore:A not p.d.:linear_operator.utils.warnings.NumericalWarning"
)  # the GP's own
@pytest.mark.parametrize("name", SURROGATES)
@pytest.mark.parametrize("acquisition", ["LogEI", "qLogEI", "qLogNEI", "qUCB"])
def test_optimize_acqf(fitted, bowl, square, name, acquisition):
    (x, y), model = bowl, fitted[name]
    function = {
        "LogEI": lambda: LogExpectedImprovement(model, best_f=y.max()),
        "qLogEI": lambda: qLogExpectedImprovement(model, best_f=y.max()),
        "qLogNEI": lambda: qLogNoisyExpectedImprovement(model, X_baseline=x),
        "qUCB": lambda: qUpperConfidenceBound(model, beta=0.2),
    }[acquisition]()
    q = 1 if acquisition == "LogEI" else 2
    options = {"maxiter": 5, "with_grad": "sklearn" not in name}
    points, value = optimize_acqf(function, square, q=q, num_restarts=2, raw_samples=16, options=options)
    assert points.shape == (q, 2) and points.dtype == torch.float64
    assert value.isfinite() and (points >= 0).all() and (points <= 1).all()
    torch.testing.assert_close(function(points).squeeze(), value)


@pytest.mark.parametrize("name", SURROGATES)
def test_shapes(fitted, name):
    model = fitted[name]
    assert (model.num_outputs, model.batch_shape) == (1, torch.Size([]))
    for shape in [(1, 2), (3, 2), (4, 1, 2), (2, 4, 3, 2)]:
        posterior = model.posterior(torch.rand(*shape, dtype=torch.float64))
        assert posterior.mean.shape == posterior.variance.shape == (*shape[:-1], 1)
        assert (posterior.variance >= 0).all() and posterior.mean.dtype == torch.float64


@pytest.mark.parametrize("name", [name for name in SURROGATES if "-gaussian" in name or name == "deup"])
def test_log_ei_equals_closed_form(fitted, bowl, name):
    model, best = fitted[name], bowl[1].max()  # a float would become a float32 in BoTorch
    points = torch.rand(20, 1, 2, dtype=torch.float64)
    posterior = model.posterior(points)
    mean, std = posterior.mean.numpy().ravel(), posterior.variance.sqrt().numpy().ravel()
    z = (mean - best.item()) / std
    near = z > -5  # further out the formula, not BoTorch, loses its digits
    expected = std * (norm.pdf(z) + z * norm.cdf(z))
    actual = LogExpectedImprovement(model, best_f=best)(points).exp().numpy()
    np.testing.assert_allclose(actual[near], expected[near], rtol=1e-6)


@pytest.mark.parametrize("name", ["anchored", "sklearn"])
def test_expected_improvement_over_anchors_is_exact(fitted, bowl, name):
    model, best = fitted[name], bowl[1].median()
    points = torch.rand(6, 2, 2, dtype=torch.float64)
    values = model.posterior(points).values.squeeze(-1)
    exact = (values - best).clamp_min(0).amax(-1).mean(-1)
    smooth = qLogExpectedImprovement(model, best_f=best, tau_max=1e-6, tau_relu=1e-8)(points).exp()
    torch.testing.assert_close(smooth, exact, rtol=1e-3, atol=1e-6)


@pytest.mark.parametrize("name", NETWORKS)
def test_gradients(fitted, name):
    points = torch.rand(2, 1, 2, dtype=torch.float64, requires_grad=True)

    def moments(x):
        posterior = fitted[name].posterior(x)
        return posterior.mean, posterior.variance

    assert torch.autograd.gradcheck(moments, points)


@pytest.mark.parametrize("name", sorted(set(SURROGATES) - {"gp"}))
def test_two_outputs(bowl, name):
    x, y = bowl
    both = torch.cat([y, x.sum(-1, keepdim=True)], -1)
    model = SURROGATES[name](x, both).fit()
    points = torch.rand(3, 1, 2, dtype=torch.float64)
    posterior = model.posterior(points)
    assert posterior.mean.shape == (3, 1, 2)
    one = model.posterior(points, output_indices=[1])
    torch.testing.assert_close(one.mean, posterior.mean[..., 1:])
    torch.testing.assert_close(one.variance, posterior.variance[..., 1:], rtol=1e-5, atol=1e-6)
    if name in ENSEMBLES:
        return  # BoTorch adds up the outputs of Gaussians only
    weights = torch.tensor([2.0, -1.0], dtype=torch.float64)
    total = model.posterior(points, posterior_transform=ScalarizedPosteriorTransform(weights))
    torch.testing.assert_close(total.mean[..., 0], posterior.mean @ weights)


@pytest.mark.parametrize("name", ["ensemble", "deup", "sklearn"])
def test_fit_together_equals_fit_one_by_one(bowl, name):
    x, y = bowl

    def members():
        recipe = {} if name == "sklearn" else {"recipe": Recipe(epochs=20, lr=1e-2)}
        actual = [SURROGATES[name](x[k:], (k + 1) * y[k:], **recipe) for k in (0, 0)]
        if name != "sklearn":
            actual[1].recipe = Recipe(epochs=20, lr=1e-2, seed=7)
        return actual

    together = members()
    fit_together(together)
    points = torch.rand(5, 1, 2, dtype=torch.float64)
    for one, other in zip(members(), together, strict=True):
        alone, ours = one.fit().posterior(points), other.posterior(points)
        torch.testing.assert_close(ours.mean, alone.mean, rtol=1e-6, atol=1e-8)
        torch.testing.assert_close(ours.variance, alone.variance, rtol=1e-5, atol=1e-8)


@pytest.mark.parametrize("name", [*NETWORKS, "sklearn"])
def test_reseed(bowl, name):
    points = torch.rand(20, 1, 2, dtype=torch.float64)

    def mean(*seeds):
        model = SURROGATES[name](*bowl)
        for seed in seeds:
            model.reseed(seed)
        return model.fit().posterior(points).mean

    assert torch.equal(mean(1), mean(1))
    assert not torch.equal(mean(1), mean(2)) and not torch.equal(mean(1), mean())


def test_fit_together_requires_one_class(bowl):
    with pytest.raises(ValueError, match="differ in data and seed alone"):
        fit_together([SURROGATES["ensemble"](*bowl), SURROGATES["deup"](*bowl)])


@pytest.mark.parametrize("name", NETWORKS)
def test_network_instance_raises(bowl, name):
    with pytest.raises(TypeError, match="network must be a function"):
        SURROGATES[name](*bowl, network=MLP(2))
