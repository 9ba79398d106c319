"""`AnchoredSurrogate` and `SklearnSurrogate`: shapes, moments, gradients, transforms, seeds."""

import subprocess
import sys
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import torch

pytest.importorskip("botorch")

from botorch.acquisition import LogExpectedImprovement, qUpperConfidenceBound
from botorch.exceptions.errors import UnsupportedError
from botorch.models.ensemble import EnsembleModel
from botorch.models.transforms import Log, Normalize, Standardize
from botorch.optim import optimize_acqf, optimize_acqf_discrete
from sklearn.ensemble import RandomForestRegressor
from sklearn.exceptions import NotFittedError
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF
from sklearn.linear_model import LinearRegression
from sklearn.multioutput import MultiOutputRegressor

from deltauq import AnchoredRegressor
from deltauq.bo import DEFAULT_RECIPE, AnchoredSurrogate, AnchorPosterior, SklearnSurrogate, fit_together
from deltauq.nn import MLP, Anchored
from deltauq.nn.training import Recipe
from deltauq.utils.install import install_command

SMALL = partial(MLP, hidden=(16, 16), activation="tanh")
FOREST = AnchoredRegressor(RandomForestRegressor(3, random_state=0), n_anchors=10, random_state=0)
QUICK = Recipe(epochs=40, lr=1e-2)
make = partial(AnchoredSurrogate, network=SMALL, recipe=QUICK, n_anchors=30)


def of_values(d, m):
    """Return a network that predicts values under random anchors, which the surrogate uses as it is."""
    return Anchored(SMALL(d, m), 4)


@pytest.fixture(scope="module")
def model(bowl):
    return make(*bowl).fit()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("m", [1, 3])
@pytest.mark.parametrize("kind", ["ensemble", "gaussian"])
def test_shapes(bowl, dtype, m, kind):
    x, y = (t.to(dtype) for t in bowl)
    model = make(x, y * torch.arange(1, m + 1), n_anchors=6, posterior=kind).fit()
    assert isinstance(model, EnsembleModel)
    assert (model.num_outputs, model.batch_shape) == (m, torch.Size([]))
    for batch in [(), (4,), (2, 3)]:
        for q in (1, 3):
            points = torch.rand(*batch, q, 2, dtype=dtype)
            assert model(model.transform_inputs(points)).shape == (*batch, 6, q, m)
            posterior = model.posterior(points)
            assert posterior.mean.shape == posterior.variance.shape == (*batch, q, m)
            assert posterior.mean.dtype == dtype
            assert posterior.rsample(torch.Size([5])).shape == (5, *batch, q, m)


def test_ensemble_values_are_outputs_per_anchor(bowl, model):
    x, y = bowl
    points = torch.rand(3, 2, 2, dtype=torch.float64)
    inputs = (points - x.mean(0)) / x.std(0)
    values = model.posterior(points).values
    assert values.shape == (3, 10, 2, 1)
    for k, (anchor, target) in enumerate(zip(model.net.anchors, model.net.anchor_targets, strict=True)):
        under = {"anchors": anchor.expand(1, 6, 2), "anchor_targets": target.expand(1, 6, 1)}
        outputs = model.net(inputs.view(6, 2), **under).view(3, 2, 1)
        torch.testing.assert_close(values[:, k], outputs * y.std() + y.mean())


def test_moments_equal_network_posterior(bowl, model):
    x, y = bowl
    points = torch.rand(8, 1, 2, dtype=torch.float64)
    ours = model.net.posterior(((points - x.mean(0)) / x.std(0)).squeeze(1))
    mean, var = ours.mean * y.std() + y.mean(), ours.var * y.var()
    ensemble = model.posterior(points)
    gaussian = make(*bowl, posterior="gaussian").fit().posterior(points)
    for posterior, factor in ((ensemble, 10 / 9), (gaussian, 1.0)):
        torch.testing.assert_close(posterior.mean.squeeze(1), mean)
        torch.testing.assert_close(posterior.variance.squeeze(1), factor * var)


def test_prediction_does_not_depend_on_batch(model):
    points = torch.rand(20, 4, 2, dtype=torch.float64)
    values = model.posterior(points).values
    torch.testing.assert_close(
        model.posterior(points[7, 2:3]).values, values[7, :, 2:3], rtol=1e-12, atol=1e-12
    )


def test_gradients(bowl):
    for kind in ("ensemble", "gaussian"):
        model = make(*bowl, posterior=kind).fit()
        points = torch.rand(2, 1, 2, dtype=torch.float64, requires_grad=True)

        def moments(x, model=model):
            posterior = model.posterior(x)
            return posterior.mean, posterior.variance

        assert torch.autograd.gradcheck(moments, points)
    assert not any(p.requires_grad for p in model.parameters())
    assert not model.posterior(points.detach()).mean.requires_grad


def test_fits_training_points(bowl):
    x, y = bowl
    model = make(x, y, recipe=Recipe(epochs=300, lr=1e-2)).fit()
    mean = model.posterior(x).mean
    assert (mean - y).square().mean() < 0.02 * y.var()


def test_transforms_are_fitted_and_undone(bowl):
    x, y = bowl
    y = y - y.min() + 1
    bounds = torch.tensor([[0.0, 0.0], [1.0, 1.0]], dtype=torch.float64)
    scaled = make(x, y, input_transform=Normalize(2, bounds=bounds), outcome_transform=Log()).fit()
    raw = make(x, y.log(), input_transform=None, outcome_transform=None).fit()
    points = torch.rand(5, 1, 2, dtype=torch.float64)
    torch.testing.assert_close(scaled.posterior(points).values, raw.posterior(points).values.exp())


def test_predictions_do_not_depend_on_units(bowl):
    x, y = bowl
    points = torch.rand(5, 1, 2, dtype=torch.float64)
    here = make(x, y).fit().posterior(points).mean
    there = make(100 * x - 3, 1000 * y + 7).fit().posterior(100 * points - 3).mean
    torch.testing.assert_close(there, 1000 * here + 7, rtol=1e-8, atol=1e-6)


def test_training_data_stay_untransformed(bowl, model):
    for mode in (model.eval, model.train, model.eval):
        assert torch.equal(mode().train_inputs[0], bowl[0])
    standardize = Standardize(1)
    make(*bowl, outcome_transform=standardize).fit()
    torch.testing.assert_close(standardize.means.item(), bowl[1].mean().item())


def test_seeds(bowl):
    points = torch.rand(5, 1, 2, dtype=torch.float64)
    state = torch.get_rng_state()
    values = [make(*bowl, recipe=Recipe(epochs=5, seed=s)).fit().posterior(points).values for s in (0, 0, 1)]
    assert torch.equal(torch.get_rng_state(), state)
    assert torch.equal(values[0], values[1])
    assert not torch.allclose(values[0], values[2])
    model = make(*bowl).fit()
    assert torch.equal(model.posterior(points).values, model.fit().posterior(points).values)


def test_anchors_are_evaluated_points_the_best_among_them(bowl):
    x, y = bowl
    for n_anchors, k, n_best in ((6, 6, 2), (50, 10, 3)):  # no anchor counts twice
        model = make(x, y, n_anchors=n_anchors, input_transform=None, outcome_transform=None).fit()
        distances = torch.cdist(model.net.anchors, x)
        rows = distances.argmin(1)
        assert distances.amin(1).max() == 0 and len(set(rows.tolist())) == k
        assert torch.equal(model.net.anchor_targets, y[rows])
        assert set(y[:, 0].topk(n_best).indices.tolist()) <= set(rows.tolist())


def test_every_anchor_predicts_its_own_outcome(bowl):
    x, y = bowl
    model = AnchoredSurrogate(x, y, n_anchors=4, recipe=Recipe(epochs=1), input_transform=None).fit()
    values = model.posterior(model.net.anchors[:, None]).values.squeeze()
    outcomes = model.net.anchor_targets.squeeze(1) * y.std() + y.mean()
    torch.testing.assert_close(values.diagonal(), outcomes)


def test_anchored_network_is_used_as_it_is(bowl):
    x, y = bowl
    model = make(x, y, network=of_values, recipe=Recipe(epochs=300, lr=1e-2)).fit()
    assert not model.net.target.needs_labels and len(model.net.anchors) == 4
    assert (model.posterior(x).mean - y).square().mean() < 0.1 * y.var()


@pytest.mark.parametrize("network", [None, SMALL, of_values], ids=["default", "given", "values"])
def test_fit_together_equals_fit_one_by_one(bowl, network):
    x, y = bowl

    def members():
        quick = Recipe(epochs=20, lr=1e-2)
        return [
            make(x + k, y * (k + 1), network=network, recipe=replace(quick, seed=k), n_anchors=5)
            for k in range(3)
        ]

    together = members()
    fit_together(together)
    for k, (one, other) in enumerate(zip(members(), together, strict=True)):
        points = torch.rand(4, 1, 2, dtype=torch.float64) + k
        torch.testing.assert_close(other.posterior(points).values, one.fit().posterior(points).values)


def test_anchors_disagree_away_from_evaluated_points(bowl):
    x, y = bowl
    model = AnchoredSurrogate(x, y, recipe=replace(DEFAULT_RECIPE, epochs=600)).fit()
    away, here = (model.posterior(p).variance.mean() for p in (3 * torch.rand_like(x) + 1, x))
    assert away > 10 * here


def test_training_pairs_every_point_with_every_anchor(bowl, monkeypatch):
    calls = []
    forward = Anchored.forward

    def recording(self, x, **anchors):
        calls.append((x.shape, anchors["anchors"].shape))
        return forward(self, x, **anchors)

    monkeypatch.setattr(Anchored, "forward", recording)
    make(*bowl, recipe=Recipe(epochs=2, batch_size=4), n_anchors=3).fit()
    # Batches of four points with three anchors each: 30 pairs in 12 + 12 + 6.
    assert [x[0] for x, _ in calls] == [12, 12, 6] * 2
    assert {anchors[1:] for _, anchors in calls} == {(12, 2), (6, 2)}


def test_fit_together_requires_equal_options(bowl):
    x, y = bowl
    with pytest.raises(ValueError, match="differ in data and seed alone"):
        fit_together([make(x, y), make(x[:5], y[:5])])
    with pytest.raises(ValueError, match="no surrogate"):
        fit_together([])


def test_output_indices(bowl):
    x, y = bowl
    model = make(x, torch.cat([y, -y, 2 * y], -1)).fit()
    points = torch.rand(4, 2, 2, dtype=torch.float64)
    posterior = model.posterior(points, output_indices=[2, 0], observation_noise=True)
    assert isinstance(posterior, AnchorPosterior)
    torch.testing.assert_close(posterior.values, model.posterior(points).values[..., [2, 0]])


def test_invalid_input(bowl):
    x, y = bowl
    with pytest.raises(NotImplementedError, match="condition_on_observations"):
        make(x, y).condition_on_observations(x, y)
    with pytest.raises(NotFittedError, match="not fitted yet: call fit first"):
        make(x, y).posterior(x)
    with pytest.raises(ValueError, match=r"points must have shape \(..., q, 2\), got \(3, 1\)"):
        make(x, y).fit().posterior(torch.zeros(3, 1, dtype=torch.float64))
    with pytest.raises(ValueError, match="at least two points, got 1"):
        make(x[:1], y[:1])
    with pytest.raises(ValueError, match=r"\(10, 2\) and \(10,\)"):
        make(x, y[:, 0])
    with pytest.raises(ValueError, match=r"torch\.float64 on cpu and torch\.float32 on cpu"):
        make(x, y.float())
    with pytest.raises(ValueError, match="train_Y contains values that are not finite"):
        make(x, y / 0)
    with pytest.raises(TypeError, match="must be tensors, got ndarray"):
        make(x.numpy(), y.numpy())
    with pytest.raises(TypeError, match=r"network must be a function .* got MLP"):
        AnchoredSurrogate(x, y, network=MLP(2))
    for options, message in [
        ({"n_anchors": 1}, "n_anchors must be at least 2, got 1"),
        ({"posterior": "student"}, "posterior must be .*, got 'student'"),
        ({"input_transform": "whiten"}, "input_transform must be .* got 'whiten'"),
        ({"outcome_transform": "rank"}, "outcome_transform must be .* got 'rank'"),
    ]:
        with pytest.raises(ValueError, match=message):
            make(x, y, **options)


def test_duplicate_points(bowl):
    x, y = (torch.cat([t, t]) for t in bowl)
    assert make(x, y).fit().posterior(x).mean.isfinite().all()


def test_import_error_without_botorch_names_extra():
    program = "import sys; sys.modules['botorch'] = None\nimport deltauq.bo"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (
        done.stderr.strip().splitlines()[-1].endswith(f"deltauq.bo needs BoTorch: {install_command('bo')}.")
    )


class TestSklearn:
    @pytest.mark.parametrize("m", [1, 2])
    @pytest.mark.parametrize(
        "options", [{}, {"center": "estimator"}, {"calibrate": 3.0}, {"calibrate": "cv"}], ids=str
    )
    def test_moments_equal_regressor(self, bowl, m, options):
        x, y = bowl
        y = torch.cat([y, -2 * y + x[:, :1]], -1)[:, :m]
        regressor = AnchoredRegressor(
            RandomForestRegressor(5, random_state=0), n_anchors=10, random_state=0, **options
        )
        model = SklearnSurrogate(
            x, y, regressor=regressor, posterior="gaussian", input_transform=None, outcome_transform=None
        ).fit()
        points = torch.rand(6, 1, 2, dtype=torch.float64)
        target = y.numpy()[:, 0] if m == 1 else y.numpy()
        mean, std = regressor.fit(x.numpy(), target).predict(points.squeeze(1).numpy(), return_std=True)
        ours = model.posterior(points)
        np.testing.assert_allclose(ours.mean.squeeze(1).numpy().reshape(mean.shape), mean, rtol=1e-9)
        np.testing.assert_allclose(ours.variance.sqrt().squeeze(1).numpy().reshape(std.shape), std, rtol=1e-5)

    def test_linear_base_has_constant_variance(self, bowl):
        model = SklearnSurrogate(*bowl, regressor=AnchoredRegressor(LinearRegression(), random_state=0)).fit()
        variance = model.posterior(torch.rand(9, 1, 2, dtype=torch.float64)).variance
        torch.testing.assert_close(variance, variance[:1].expand_as(variance))

    def test_smooth_base_is_optimised_without_gradients(self, bowl, square):
        x, y = bowl
        base = AnchoredRegressor(
            GaussianProcessRegressor(RBF(2.0), alpha=1e-6, optimizer=None), n_anchors=10, random_state=0
        )
        model = SklearnSurrogate(x, y, regressor=base, posterior="gaussian").fit()
        actual, _ = optimize_acqf(
            qUpperConfidenceBound(model, beta=0.0),
            square,
            q=1,
            num_restarts=2,
            raw_samples=32,
            options={"with_grad": False, "maxiter": 20},
        )
        best = torch.tensor([[0.3, 0.6]], dtype=torch.float64)
        assert (actual - best).norm() < 0.25

    def test_trees_with_optimize_acqf_discrete(self, bowl):
        model = SklearnSurrogate(*bowl, regressor=FOREST, posterior="gaussian").fit()
        choices = torch.rand(50, 2, dtype=torch.float64)
        function = LogExpectedImprovement(model, best_f=bowl[1].max())
        point, value = optimize_acqf_discrete(function, q=1, choices=choices)
        assert value.item() == function(choices[:, None]).max().item()
        assert (choices == point).all(-1).any()

    def test_invalid_input(self, bowl):
        points = torch.rand(1, 1, 2, dtype=torch.float64, requires_grad=True)
        with pytest.raises(UnsupportedError, match="no gradients: give optimize_acqf options="):
            SklearnSurrogate(*bowl, regressor=FOREST).fit().posterior(points)
        with pytest.raises(TypeError, match="must be an AnchoredRegressor, got LinearRegression"):
            SklearnSurrogate(*bowl, regressor=LinearRegression())

    def test_two_outputs_with_single_output_base(self, bowl):
        x, y = bowl
        base = AnchoredRegressor(MultiOutputRegressor(GaussianProcessRegressor()), random_state=0)
        model = SklearnSurrogate(x, torch.cat([y, -y], -1), regressor=base).fit()
        assert model.posterior(x).mean.shape == (10, 2)
